"""Properties of order: of one source, of causes and effects, and of all messages."""

from __future__ import annotations

from unisono.properties import oracles
from unisono.properties.damages import DAMAGES
from unisono.properties.entries.property import Property
from unisono.properties.monitors.gaps import ReliableCausal, WithoutGaps
from unisono.properties.monitors.keys import Causal, KeyDiscipline
from unisono.properties.monitors.order import Fifo, ReliableFifo
from unisono.properties.monitors.synchrony import WeakTotalOrder
from unisono.properties.monitors.total import TotalOrder

ORDER = (
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
            "under services that promise this, without a JOIN or a fresh start (D5) of the process between them, and "
            "each of the stretch of the one before or the next: it goes on when one reliable service becomes another. "
            "It goes on over a VIEW under agreed views only if the source is in its `transitional` or is the process "
            "itself (without a `transitional` all members are); otherwise that VIEW begins a new spell. Within a spell "
            "the delivered numbers are dense and begin at the start number of its first view; every later view of the "
            "spell gives the next number as its start. Nothing is delivered from a source outside the current view, "
            "which is of the stretch of the DELIVER. Sequences play no part. Views of sessions give no start numbers. "
            "There, nothing is delivered from a source outside the current view either, and: of what a process "
            "delivers of a source in one view of a strong session (VS), or in one spell of a weak one (VS-weak: "
            "consecutive VIEWs of one stretch that contain the source, with no JOIN between them), take what belongs "
            "to one stream: for VS the messages whose first SEND has that view as `agreed` and of which the source has "
            "no RETURNED, for VS-weak those whose first SENDs have one and the same view as `agreed`, whichever it is. "
            "Then it delivers there all of that stream below the highest; for VS-weak, from the lowest that it "
            "delivers there on. So in a weak session there may be gaps between what was sent in one view and in "
            "another. The violation is at the first DELIVER of the source there, with the lowest number left out; "
            "there is one for each stream."
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
            "For a process under reliable timestamp order and each maximal run of consecutive spans (D9) of one "
            "stretch that a source goes on in (each but the first has it in its first VIEW as a member and in "
            "`transitional`, or it is the process itself, or there is no `transitional`; and no fresh start stands "
            "before it): of the numbers from the start of the source in the first VIEW of the run that has it on "
            "that the source sent in one of these eras or views (`agreed` of the first SEND) and the process did not "
            "deliver in them, the lowest has a key above every key that the process delivered in them. If the source "
            "does not go on in the next span of the stretch, or there is none and the process has a CUT after the "
            "last VIEW in the stretch (the era may have ended without a view that its process saw), only numbers up "
            "to the highest that it delivered of the source are asked for. The violation is at the first VIEW of the "
            "run."
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
            "Of all passages (D5) from V' to V in a group the reference is, of those with a whole VIEW of V' (of all, "
            "where there is none), one that delivered the same in the same order as most of them (of orders as "
            "frequent, of any), that with the lowest (process, incarnation, position of the VIEW of V). Every other "
            "process with that passage delivered what both delivered in V', each message where it is first delivered, "
            "in the order of the reference. With equal sets (D5) no two can disagree. The violation is at the VIEW of "
            "V."
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
            "As O4 for each single span: of the numbers from a member's start in it on that the member sent in its era "
            "(`agreed` of the first SEND) and the process did not deliver in it, the lowest has a key above every key "
            "that the process delivered in it; with the same exemptions for a member that does not go on in the next "
            "span of the stretch, and after a CUT in the last one. O6 adds that what is below was delivered before."
        ),
        report="within an era a message of the order was left out",
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
)
