"""Every property in one place: what it says, its three forms, a counter-example, and its line in a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from unisono.properties import oracles
from unisono.properties.damages import DAMAGES, Damage
from unisono.properties.monitors.delivery import DeliveryIntegrity, InView, NoDuplication
from unisono.properties.monitors.followers import ReceiverChain, TransitionalSet
from unisono.properties.monitors.gaps import ReliableCausal, WithoutGaps
from unisono.properties.monitors.keys import Causal, KeyDiscipline
from unisono.properties.monitors.liveness import MulticastLiveness
from unisono.properties.monitors.monitor import Monitor
from unisono.properties.monitors.order import Fifo, ReliableFifo
from unisono.properties.monitors.own import SelfDelivery, SelfDeliveryLiveness
from unisono.properties.monitors.precision import MembershipPrecision, Termination
from unisono.properties.monitors.progress import BoundedResources, NoDeadlock
from unisono.properties.monitors.repair import ReleaseSafety, RepairEfficiency
from unisono.properties.monitors.sending import SameView, SendingView
from unisono.properties.monitors.stability import Stability
from unisono.properties.monitors.synchrony import AgreedForwardSet, VirtualSynchrony, WeakTotalOrder
from unisono.properties.monitors.total import TotalOrder
from unisono.properties.monitors.views import MonotoneViews, PrimaryComponent, SelfInclusion, ViewIdentity
from unisono.properties.violation import Violation
from unisono.trace.schema import AnyRow


class Property(Struct, frozen=True):
    """A statement over the trace of one run, and the independent forms of its check.

    The Spark form is named as module:function, so that nothing here needs Spark. `report` is what a report says where
    the property does not hold; `counter_example` damages a valid trace so that it does not.
    """

    id: str
    name: str
    statement: str
    report: str
    oracle: Callable[[Sequence[AnyRow]], list[Violation]]
    monitor: type[Monitor]
    spark: str
    counter_example: Damage


_ALL = (
    Property(
        id="D1",
        name="delivery integrity",
        statement=(
            "Every DELIVER has a SEND of the same group, source, incarnation and number, with the same sequence, "
            "size, body and timestamp (the first such SEND, should there be several). Where both have a global "
            "time, the SEND is not the later one."
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
            "Under agreed views (reliable timestamp order) a DELIVER is in the view that its message was sent in: "
            "`view` is the `agreed` of the first SEND of its group, source, incarnation and number, where there is "
            "one."
        ),
        report="a message was delivered in another view than it was sent in",
        oracle=oracles.sending_view,
        monitor=SendingView,
        spark="unisono.pipeline.audits.membership:sending_view",
        counter_example=DAMAGES["delivered_in_the_next_view"],
    ),
    Property(
        id="D4",
        name="same view delivery",
        statement=(
            "All DELIVERs of one message (group, source, incarnation, number) under agreed views have the same "
            "view. The violation is of the message, at no process."
        ),
        report="a message was delivered in different views",
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
            "reference is, of those whose VIEW of V' is whole, the one whose VIEW of V has the lowest (process, "
            "incarnation, position); without a whole one nothing is judged. All others with a whole VIEW of V' "
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
            "The first SEND of a number under agreed views is delivered by its own process, in its stretch, before "
            "the next VIEW of that process, group and stretch under agreed views, unless a LEAVE or a fresh start "
            "(D5) stands between. Without such a VIEW, and under reliable source order where the last JOIN before "
            "it asked for `all` or for a list with the own name, it is delivered in its stretch at all, if the "
            "process has an END at least 2 s after it, and after it no LEAVE, no fresh start, and no JOIN, VIEW, "
            "SEND, DELIVER or GAUGE with a higher stretch in that group. Times that do not compare are not judged. "
            "The violation is at the SEND."
        ),
        report="a sender did not hear its own message in time",
        oracle=oracles.self_delivery,
        monitor=SelfDelivery,
        spark="unisono.pipeline.audits.membership:self_delivery",
        counter_example=DAMAGES["own_message_unheard_before_a_view"],
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
            "Take a passage (D5) of a process p from V' to V, with V as sender and V' whole. Each q in the "
            "`transitional` of that VIEW that installed V as sender too answered for what its last CUTs before its "
            "last such VIEW say: those after its VIEW before that one, under any service, with the `peer` of the "
            "last of them. For each source the highest `last` of all of these counts: p delivered in V' every "
            "message of the source whose first SEND has V' as `agreed` and a sequence up to that. The violation is "
            "at the VIEW of V, one for each source, with the lowest number missing."
        ),
        report="what was answered for was not delivered",
        oracle=oracles.agreed_forward_set,
        monitor=AgreedForwardSet,
        spark="unisono.pipeline.audits.membership:agreed_forward_set",
        counter_example=DAMAGES["cut_message_left_out"],
    ),
    Property(
        id="M1",
        name="self inclusion",
        statement=(
            "A VIEW under agreed views with the role sender has its process among its members, the sources of `start`."
        ),
        report="a sender installed a view without itself",
        oracle=oracles.self_inclusion,
        monitor=SelfInclusion,
        spark="unisono.pipeline.audits.membership:self_inclusion",
        counter_example=DAMAGES["without_itself"],
    ),
    Property(
        id="M2",
        name="monotone views",
        statement=(
            "Of two consecutive VIEWs of one process, group and stretch under agreed views the later one has the "
            "higher identifier: start time, leader, its incarnation and sequence, compared in that order. It may be "
            "the same if a fresh start (D5) stands between them. The violation is at the later one."
        ),
        report="views were installed in another order than that of their identifiers",
        oracle=oracles.monotone_views,
        monitor=MonotoneViews,
        spark="unisono.pipeline.audits.membership:monotone_views",
        counter_example=DAMAGES["lower_view"],
    ),
    Property(
        id="M3",
        name="in a view",
        statement=(
            "Every SEND and DELIVER names a view: the one that the process's last VIEW in that group installed."
        ),
        report="something was sent or delivered outside the installed view",
        oracle=oracles.in_a_view,
        monitor=InView,
        spark="unisono.pipeline.audits.delivery:in_a_view",
        counter_example=DAMAGES["wrong_view"],
    ),
    Property(
        id="M4",
        name="view identity",
        statement=(
            "All VIEWs of a group under agreed views with the same `view` have the same four parts of the "
            "identifier and the same members; and those of them that are whole have the same start (sequences and "
            "numbers), the same `merged` and the same `primary`. The order in lists does not matter. A VIEW is "
            "wrong if it differs from the one with the lowest (process, incarnation, position), or is whole and "
            "differs from the lowest whole one."
        ),
        report="one view is not the same at all who installed it",
        oracle=oracles.view_identity,
        monitor=ViewIdentity,
        spark="unisono.pipeline.audits.membership:view_identity",
        counter_example=DAMAGES["reused_identifier"],
    ),
    Property(
        id="M5",
        name="transitional set",
        statement=(
            "Of whole VIEWs under agreed views: (1) `transitional` is given and has only members of the view that "
            "are also members of the last VIEW before it of the same process, group and stretch whose view is its "
            "`previous`; without such a VIEW only the process itself. (2) For two senders p and q with a VIEW of V "
            "in one group as sender, each with its last whole one: q is in the set of p exactly if both have the "
            "same `previous` (a missing one is like no other), and p is in its own set. (3) The set of a receiver, "
            "in its last whole VIEW of V, is that of every sender with the same `previous`, if it has one. There is "
            "one violation a VIEW, at the VIEW."
        ),
        report="a view is wrong about who came along",
        oracle=oracles.transitional_set,
        monitor=TransitionalSet,
        spark="unisono.pipeline.audits.membership:transitional_set",
        counter_example=DAMAGES["one_too_many_came_along"],
    ),
    Property(
        id="M7",
        name="primary component",
        statement=(
            "Take the views with `primary` of one group under agreed views, each as its VIEW with the lowest "
            "(process, incarnation, position) has it, in the order of their identifiers (M2). Each has a name among "
            "its members that the one before has too, and so with every earlier one of the same start time. The "
            "violation is at that VIEW."
        ),
        report="two primary views have nobody in common",
        oracle=oracles.primary_component,
        monitor=PrimaryComponent,
        spark="unisono.pipeline.audits.membership:primary_component",
        counter_example=DAMAGES["disjoint_primary"],
    ),
    Property(
        id="M9",
        name="receiver chain",
        statement=(
            "A VIEW with the role receiver under agreed views, whose VIEW before it in the stretch has that role "
            "too and without a fresh start (D5) between them, makes a step that some sender of the group made: two "
            "consecutive VIEWs of one stretch, both with the role sender, without a fresh start between them. Any "
            "other VIEW with the role receiver is of a view that has a VIEW with the role sender in the group. "
            "Nothing is asked where a member of the view has, in the group, a JOIN, VIEW, SEND, DELIVER or GAUGE "
            "under a service without agreed views: such senders write no VIEWs of agreed views."
        ),
        report="a receiver installed views that no sender did",
        oracle=oracles.receiver_chain,
        monitor=ReceiverChain,
        spark="unisono.pipeline.audits.membership:receiver_chain",
        counter_example=DAMAGES["skipped_view"],
    ),
    Property(
        id="O1",
        name="FIFO",
        statement=(
            "Of one source (name and incarnation) in one group, a process delivers ever higher numbers: under "
            "reliable services in its whole life, under others that promise this in each stretch."
        ),
        report="messages of one source were delivered out of order",
        oracle=oracles.fifo,
        monitor=Fifo,
        spark="unisono.pipeline.audits.order:fifo",
        counter_example=DAMAGES["swapped_deliveries"],
    ),
    Property(
        id="O2",
        name="reliable FIFO",
        statement=(
            "A spell is a maximal run of consecutive VIEWs of a process in one group that contain the source, all "
            "under services that promise this, without a JOIN or a fresh start (D5) of the process between them, "
            "and each of the stretch of the one before or the next: it goes on when one reliable service becomes "
            "another. It goes on over a VIEW under agreed views only if the source is in its `transitional` or is "
            "the process itself (without a `transitional` all members are); otherwise that VIEW begins a new spell. "
            "Within a spell the delivered numbers are dense and begin at the start number of its first view; every "
            "later view of the spell gives the next number as its start. Nothing is delivered from a source outside "
            "the current view, which is of the stretch of the DELIVER. Sequences play no part."
        ),
        report="a message of a source in the view was left out, or one of a stranger delivered",
        oracle=oracles.reliable_fifo,
        monitor=ReliableFifo,
        spark="unisono.pipeline.audits.order:reliable_fifo",
        counter_example=DAMAGES["removed_delivery"],
    ),
    Property(
        id="O3",
        name="causal order",
        statement=(
            "(a) At a SEND the timestamp is above every timestamp that the process (name and incarnation) sent or "
            "delivered before, in any group; what it delivered does not count after its first MARK `clock-held`, "
            "which says that a timestamp was too far ahead to be followed. (b) The key of a message is (timestamp, "
            "source, incarnation of the source); of two consecutive DELIVERs of one process, group and stretch "
            "under timestamp order the second has the higher key. Together they give causal order."
        ),
        report="a message was sent or delivered before one that it may depend on",
        oracle=oracles.causal,
        monitor=Causal,
        spark="unisono.pipeline.audits.keys:causal",
        counter_example=DAMAGES["sent_below_delivered"],
    ),
    Property(
        id="O4",
        name="reliable causal order",
        statement=(
            "For a process under reliable timestamp order and each maximal run of consecutive VIEWs of one stretch "
            "that a source goes on in (each but the first has it as a member and in `transitional`, or it is the "
            "process itself, or there is no `transitional`; and no fresh start stands before it): of the numbers "
            "from the start in the first of them on that the source sent in one of these views (`agreed` of the "
            "first SEND) and the process did not deliver in them, the lowest has a key above every key that the "
            "process delivered in them. If the source does not go on in the next VIEW of the stretch, only numbers "
            "up to the highest that it delivered of the source are asked for. The violation is at the first VIEW."
        ),
        report="a message was left out though later ones were delivered",
        oracle=oracles.reliable_causal,
        monitor=ReliableCausal,
        spark="unisono.pipeline.audits.gaps:reliable_causal",
        counter_example=DAMAGES["moved_start"],
    ),
    Property(
        id="O5",
        name="weak total order",
        statement=(
            "Of all passages (D5) from V' to V in a group the reference is the one with the lowest (VIEW of V' not "
            "whole, process, incarnation, position of the VIEW of V). Every other process with that passage "
            "delivered what both delivered in V', each message where it is first delivered, in the order of the "
            "reference. With equal sets (D5) no two can disagree. The violation is at the VIEW of V."
        ),
        report="two that went on together delivered in different orders",
        oracle=oracles.weak_total_order,
        monitor=WeakTotalOrder,
        spark="unisono.pipeline.audits.membership:weak_total_order",
        counter_example=DAMAGES["another_order_before_the_view"],
    ),
    Property(
        id="O6",
        name="total order",
        statement=(
            "Keys grow at each process. What it delivers under timestamp order is in one order for each group, or "
            "for all groups of a domain, where its last JOINs of them name that one in `across`. The order begins "
            "anew when one of these groups has the first VIEW or DELIVER of a new stretch. Within it a DELIVER has "
            "a key above all before it. With equal timestamps everywhere (O8) no disagreement of any number of "
            "processes, in a ring or otherwise, can pass."
        ),
        report="a process delivered in another order than that of the keys",
        oracle=oracles.total_order,
        monitor=TotalOrder,
        spark="unisono.pipeline.audits.keys:total_order",
        counter_example=DAMAGES["swapped_keys"],
    ),
    Property(
        id="O7",
        name="total order without gaps",
        statement=(
            "As O4 for each single VIEW: of the numbers from a member's start in it on that the member sent in it "
            "(`agreed` of the first SEND) and the process did not deliver in it, the lowest has a key above every "
            "key that the process delivered in it; with the same exemption for a member that does not go on in the "
            "next VIEW of the stretch. O6 adds that what is below was delivered before."
        ),
        report="within a view a message of the order was left out",
        oracle=oracles.without_gaps,
        monitor=WithoutGaps,
        spark="unisono.pipeline.audits.gaps:without_gaps",
        counter_example=DAMAGES["dropped_lower_key"],
    ),
    Property(
        id="O8",
        name="key discipline",
        statement=(
            "(a) A DELIVER has the timestamp of the first SEND of its message, where there is one. (b) Of two "
            "consecutive SENDs of one process in one group, the higher number has the higher timestamp, and equal "
            "numbers have equal ones. (c) Under timestamp order no DELIVER has a timestamp below the horizon, the "
            "highest that its process delivered before in that group and stretch."
        ),
        report="a timestamp changed, went back, or came below the horizon",
        oracle=oracles.key_discipline,
        monitor=KeyDiscipline,
        spark="unisono.pipeline.audits.keys:key_discipline",
        counter_example=DAMAGES["forged_timestamp"],
    ),
    Property(
        id="L1",
        name="membership precision",
        statement=(
            "A process p with an END is judged in a group where its last JOIN or LEAVE is a JOIN, where the service "
            "of its last JOIN, VIEW, SEND, DELIVER or GAUGE has agreed views, whose last `heal`, that JOIN and the "
            "first VIEW of the stretch of its last VIEW since then (VIEWs here under agreed views only) are at "
            "least 10 s older than its END, and whose name is in no fault that never ended. Its last VIEW since "
            "that JOIN has every sender: who has an END at most 1 s earlier, is in no fault that never ended, whose "
            "last JOIN or LEAVE in the group is a JOIN 10 s before the END of p or more, and who either joined with "
            "the role sender, has a last service with agreed views and is as long in its stretch, or has a SEND "
            "with `agreed` since that JOIN and 10 s before. Where there is no such sender at all, p is not judged: "
            "nobody makes a view any more. It has nobody who crashed, or left for good, 10 s before, or whose name "
            "is in a fault that never ended, where its last begin is as old. And it is the same view as that of the "
            "judged process with the lowest (name, incarnation), if their ENDs are at most 1 s apart. Without a "
            "VIEW it has nobody. Times that do not compare are not judged. There is one violation for each p and "
            "group, at its END."
        ),
        report="long after the last fault a last view is not that of all living senders",
        oracle=oracles.membership_precision,
        monitor=MembershipPrecision,
        spark="unisono.pipeline.audits.membership:membership_precision",
        counter_example=DAMAGES["different_last_view"],
    ),
    Property(
        id="L2",
        name="multicast liveness",
        statement=(
            "For a process that reached END in the group: (1) of every source in its last view that reached END too "
            "it delivered all numbers from the start of the current spell on, except those sent less than 2 s "
            "before its END; (2) every source that reached END in the group and sent something is in its last view, "
            "if its JOIN asked for `all` or for a list with that name, if both JOINs, the first VIEW of the stretch "
            "of its last one and a SEND of the source are at least 2 s older than its END, if the trace has a "
            "`heal`, and if neither name is in a fault that never ended. The service of its last JOIN, VIEW, SEND, "
            "DELIVER or GAUGE there must promise this. Times on clocks that cannot be compared are not judged."
        ),
        report="a living process lacks what a living source sent, or the source itself",
        oracle=oracles.multicast_liveness,
        monitor=MulticastLiveness,
        spark="unisono.pipeline.audits.liveness:multicast_liveness",
        counter_example=DAMAGES["removed_last_delivery"],
    ),
    Property(
        id="L3",
        name="self delivery at the end",
        statement=(
            "What D6 asks for at END alone: of a SEND under reliable source order with its own messages asked for, "
            "or under agreed views with no later VIEW of its stretch under agreed views."
        ),
        report="a living sender never heard its own message",
        oracle=oracles.self_delivery_liveness,
        monitor=SelfDeliveryLiveness,
        spark="unisono.pipeline.audits.membership:self_delivery_liveness",
        counter_example=DAMAGES["own_message_unheard_at_the_end"],
    ),
    Property(
        id="L4",
        name="stability",
        statement=(
            "A source that reached END as a member has released everything that it sent since its last JOIN, except "
            "in the last 2 s: the highest `last` of its GCs is not below the sequence of such a SEND. This is "
            "judged where the last `heal` is at least 2 s older than the END, where no fault with its name never "
            "ended, and where each receiver with a GRANT and no SUSPECT after it since then either left 10 s before "
            "or more, or reached its own END at most 1 s earlier, with the source in its last VIEW and in no fault "
            "that never ended. Times that do not compare are not judged."
        ),
        report="a living source did not release what everybody has",
        oracle=oracles.stability,
        monitor=Stability,
        spark="unisono.pipeline.audits.repair:stability",
        counter_example=DAMAGES["never_released"],
    ),
    Property(
        id="L5",
        name="termination of delivery",
        statement=(
            "Let p send a message (first SEND of its number) under agreed views in V, its `agreed`, and reach END "
            "without a CRASH, and after the SEND in that group without a VIEW under any service, LEAVE, fresh start "
            "(D5) or JOIN, SEND, DELIVER or GAUGE with a higher stretch. Then every q whose last VIEW of V under "
            "agreed views is of its last stretch in the group (the highest of its JOINs, VIEWs, SENDs, DELIVERs and "
            "GAUGEs), has both as members and does not begin after the message has delivered it, if q reached END, "
            "did not leave, has agreed views at last (L1), if the last `heal` and the SEND are at least 10 s older "
            "than the END of q, and neither name is in a fault that never ended. Times that do not compare are not "
            "judged. There is one violation for each q and p, at the END of q, with the lowest number."
        ),
        report="a living member never delivered what was sent in its view",
        oracle=oracles.termination,
        monitor=Termination,
        spark="unisono.pipeline.audits.membership:termination",
        counter_example=DAMAGES["never_delivered_in_the_view"],
    ),
    Property(
        id="L6",
        name="no deadlock",
        statement=(
            "Progress is a VIEW, or a DELIVER from another name. It is due while a `load` is active and at least "
            "two, and more than half, of the names with a START so far are present: not in an active fault, not "
            "between CRASH and START, not between the LEAVE of their last group and a JOIN. While it is due there "
            "is never more than 10 s without it, counted from the beginning and to the end of each such stretch of "
            "time; the trace ends with its last START, JOIN, LEAVE, CRASH, END, VIEW, DELIVER or FAULT."
        ),
        report="under load nothing was delivered or installed for longer than 10 s",
        oracle=oracles.no_deadlock,
        monitor=NoDeadlock,
        spark="unisono.pipeline.audits.progress:no_deadlock",
        counter_example=DAMAGES["silenced"],
    ),
    Property(
        id="L7",
        name="bounded resources",
        statement="A GAUGE with a cap has a value of at most its cap.",
        report="a buffer grew above its cap",
        oracle=oracles.bounded_resources,
        monitor=BoundedResources,
        spark="unisono.pipeline.audits.progress:bounded_resources",
        counter_example=DAMAGES["gauge_above_cap"],
    ),
    Property(
        id="L8",
        name="repair efficiency",
        statement=(
            "In a run without a FAULT other than `load` and `heal`, take the RTRs of a group later than the middle "
            "between its first and its last SEND. A loss is a range of sequences of one source, where RTRs that "
            "share a sequence are one. With at least 50 losses there are at most 3 RTRs for each on average. The "
            "same holds for the RTXs and the ranges that they repair, which are counted by themselves, since one "
            "loss may be many datagrams. A group whose SENDs, RTRs and RTXs are not all told by one clock is not "
            "judged."
        ),
        report="losses were asked for, or repaired, too often",
        oracle=oracles.repair_efficiency,
        monitor=RepairEfficiency,
        spark="unisono.pipeline.audits.repair:repair_efficiency",
        counter_example=DAMAGES["too_many_requests"],
    ),
)

PROPERTIES: dict[str, Property] = {item.id: item for item in _ALL}
"""Every property by its id."""
