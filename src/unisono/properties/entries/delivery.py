"""Properties of delivery: each message as it was sent, once, and in the view that it belongs to."""

from __future__ import annotations

from unisono.properties import oracles
from unisono.properties.damages import DAMAGES
from unisono.properties.entries.property import Property
from unisono.properties.monitors.delivery import DeliveryIntegrity, NoDuplication
from unisono.properties.monitors.farewells import LastSends
from unisono.properties.monitors.indications import StableIndication
from unisono.properties.monitors.own import SelfDelivery
from unisono.properties.monitors.repair import ReleaseSafety
from unisono.properties.monitors.sending import SameView, SendingView
from unisono.properties.monitors.synchrony import AgreedForwardSet, VirtualSynchrony

DELIVERY = (
    Property(
        id="D1",
        name="delivery integrity",
        statement=(
            "Every DELIVER has a SEND of the same group, source, incarnation and number, with the same sequence, "
            "size, body, timestamp and origin (the first such SEND, should there be several). Where both have a global "
            "time, or neither and both are on one host, the SEND is not the later one."
        ),
        report="something was delivered that was not sent, or not like that",
        oracle=oracles.delivery_integrity,
        monitor=DeliveryIntegrity,
        spark="unisono.pipeline.audits.delivery:delivery_integrity",
        counter_example=DAMAGES["changed_body"],
    ),
    Property(
        id="D2",
        name="no duplication",
        statement=(
            "A process (name and incarnation) delivers a number of one source in one group at most once under "
            "reliable services (those that promise O2), in its whole life; and at most once in each stretch of a "
            "service that promises this and is not reliable. After a change of service or a return, what came under "
            "the one kind may come again under the other."
        ),
        report="a message was delivered more than once",
        oracle=oracles.no_duplication,
        monitor=NoDuplication,
        spark="unisono.pipeline.audits.delivery:no_duplication",
        counter_example=DAMAGES["late_duplicate"],
    ),
    Property(
        id="D3",
        name="sending view delivery",
        statement=(
            "A view that all agreed on begins an era, and the views that follow it because somebody became a sender "
            "or a receiver belong to that era: the era of a VIEW is its `era`, or its `view` where it has none. The "
            "era of a DELIVER is that of the last VIEW before it of its process and group, if it names the same "
            "view, else its view. Under agreed views (RTO, VS) a DELIVER is in the era that its "
            "message was sent in: the `agreed` of the first SEND of its group, source, incarnation and number, where "
            "there is one."
        ),
        report="a message was delivered in another era than it was sent in",
        oracle=oracles.sending_view,
        monitor=SendingView,
        spark="unisono.pipeline.audits.membership:sending_view",
        counter_example=DAMAGES["delivered_in_the_next_view"],
    ),
    Property(
        id="D4",
        name="same view delivery",
        statement=(
            "All DELIVERs of one message (group, source, incarnation, number) under agreed views are in the same era "
            "(D3). The violation is of the message, at no process."
        ),
        report="a message was delivered in different eras",
        oracle=oracles.same_view,
        monitor=SameView,
        spark="unisono.pipeline.audits.membership:same_view",
        counter_example=DAMAGES["delivered_in_the_next_view"],
    ),
    Property(
        id="D5",
        name="virtual synchrony",
        statement=(
            "A fresh start is a SELF_FAIL or BOOTSTRAP of a process in a group. A passage of a process from V' to V "
            "is two consecutive VIEWs of one stretch under agreed views, without a fresh start between them, where "
            "the second is V and names the first, V', as `previous`. What it delivered in V' are its DELIVERs of "
            "that stretch under that service whose view is V'. Of all passages from V' to V in a group the "
            "reference is one of those whose VIEW of V' is whole: of those that delivered the same set as most of them "
            "did (of sets as frequent, of any), the one whose VIEW of V has the lowest (process, incarnation, "
            "position); without a whole one nothing is judged. All others with a whole VIEW of V' "
            "delivered the same set of messages in V'; one whose VIEW of V' is not whole delivered the same set as "
            "far as both are restricted to the sources of that VIEW and to numbers from its start numbers on. The "
            "violation is at the VIEW of V."
        ),
        report="two that went on together did not deliver the same before",
        oracle=oracles.virtual_synchrony,
        monitor=VirtualSynchrony,
        spark="unisono.pipeline.audits.membership:virtual_synchrony",
        counter_example=DAMAGES["skipped_before_the_view"],
    ),
    Property(
        id="D6",
        name="self delivery",
        statement=(
            "The first SEND of a number under agreed views, if it is not optimistic (D12), is delivered by its own "
            "process, in its stretch, before the next VIEW without an `era` of that process, group and stretch under "
            "agreed views, unless a LEAVE, a fresh start (D5) or, under strong sessions, an EXCLUDED stands between. "
            "Without such a VIEW, and under reliable source order where the last JOIN before it asked for `all` or for "
            "a list with the own name, it is delivered in its stretch at all, if the process has an END at least 2 s "
            "after it, and after it none of these, and no JOIN, VIEW, SEND, DELIVER or GAUGE with a higher stretch in "
            "that group. Times that do not compare are not judged. The violation is at the SEND."
        ),
        report="a sender did not hear its own message in time",
        oracle=oracles.self_delivery,
        monitor=SelfDelivery,
        spark="unisono.pipeline.audits.membership:self_delivery",
        counter_example=DAMAGES["own_message_unheard_before_a_view"],
    ),
    Property(
        id="D7",
        name="stable indication",
        statement=(
            "A GC of a source for itself says that all whom it counts have received what it releases. It says so of a "
            "process q if, of the GRANTs and SUSPECTs of the source for q and the LEAVEs of the source that come "
            "before it there, the last is a GRANT, and of the sequences from `first` to `last` that are not below the "
            "one of this GRANT. (Who has received something may still hold it back, and no row tells of that; "
            "therefore this is about those who are past it.) Let W be a VIEW of q, and V the one before it of the same "
            "group and stretch, with no JOIN and no fresh start (D5) between them, and let the source, another "
            "process, be a member of V. Under agreed views let q be a sender in V, and W have no `era`; otherwise the "
            "source is no member of W. Then q delivered, in that stretch and before W, every number of the source, "
            "from its start number in V on, whose first SEND has a sequence of which a GC that comes after the SEND, "
            "and not later than W, says that q has received it. Under agreed views that holds for what was sent in "
            "the era (D3) of V, if the source has no VIEW without an `era` under agreed views, and no AGREED, between "
            "SEND and GC. Times that do not compare are not judged. The violation is at W, one for each source, with "
            "the lowest number."
        ),
        report="what a source released did not come to one that it counted",
        oracle=oracles.stable_indication,
        monitor=StableIndication,
        spark="unisono.pipeline.audits.indications:stable_indication",
        counter_example=DAMAGES["released_and_never_delivered"],
    ),
    Property(
        id="D8",
        name="release safety",
        statement=(
            "No receiver that counts asks for what was released. A receiver counts at a source from a GRANT on (by "
            "global time, or on one host), for sequences from the one that the GRANT gives, until a SUSPECT or a "
            "LEAVE of the source, and not while the view of its stretch is without the source. An RTR breaks this "
            "if it asks for such a sequence that a GC of the source covers, where the GC comes after the GRANT at "
            "the source and is earlier than the RTR. A request from before the release, of one that was left behind "
            "and does not know it yet, or from before its activation point is no violation, and times that do not "
            "compare are not judged."
        ),
        report="somebody who counts asked for what was released",
        oracle=oracles.release_safety,
        monitor=ReleaseSafety,
        spark="unisono.pipeline.audits.repair:release_safety",
        counter_example=DAMAGES["released_too_early"],
    ),
    Property(
        id="D9",
        name="agreed forward set",
        statement=(
            "A span is a maximal run of consecutive VIEWs of one process, group and stretch under agreed views that "
            "are of one era (D3), where all but the first have an `era`, without a fresh start (D5) between them. Take "
            "a passage (D5) of a process p from V' to V, with V as sender and without an `era`, and V' whole. Each q "
            "in the `transitional` of that VIEW that installed V so too answered for what its last CUTs before its "
            "last such VIEW say: those after its VIEW before that one that has no `era`, under any service, with the "
            "`peer` of the last of them. For each source the highest `last` of all of these counts: p delivered, in "
            "the era of V' and that stretch, every message of the source whose first SEND has that era as `agreed` and "
            "a sequence up to that; an optimistic one (D12) only if its sender has a VIEW of `agreed`. Where the span "
            "of V' does not begin with a whole VIEW, p is asked only for numbers from the start of the source in the "
            "first VIEW of the span that has it on, and for none where no VIEW has it. The violation is at the VIEW of "
            "V, one for each source, with the lowest number missing."
        ),
        report="what was answered for was not delivered",
        oracle=oracles.agreed_forward_set,
        monitor=AgreedForwardSet,
        spark="unisono.pipeline.audits.membership:agreed_forward_set",
        counter_example=DAMAGES["cut_message_left_out"],
    ),
    Property(
        id="D13",
        name="last sends",
        statement=(
            "Let W be a VIEW of a process q, and V the one before it of the same group and stretch, with no JOIN and "
            "no fresh start (D5) between them; let another process p be a member of V and have the reason `left` in W; "
            "and let p have one LEAVE in the group, without a reason. (A LEAVE with a reason says that p could not "
            "wait until the others had everything, and who crashed has none.) Then q delivered, in that stretch and "
            "before W, every number of p, from the start number of p in V on, whose first SEND is before the LEAVE and "
            "not later than W. Where V is an agreed view, that holds for what was sent in the era (D3) of V, if p has "
            "no VIEW without an `era` under agreed views, and no AGREED, between SEND and LEAVE: then it had gone on "
            "without q. Views of sessions give no start numbers, and numbers count from 1. Times that do not compare "
            "are not judged. The violation is at W, one for each p, with the lowest number."
        ),
        report="what somebody sent before it left did not come to one that stayed",
        oracle=oracles.last_sends,
        monitor=LastSends,
        spark="unisono.pipeline.audits.farewells:last_sends",
        counter_example=DAMAGES["last_sends_lost"],
    ),
)
