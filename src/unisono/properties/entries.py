"""Every property in one place: what it says, its three forms, a counter-example, and its line in a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from unisono.properties import oracles
from unisono.properties.damages import DAMAGES, Damage
from unisono.properties.monitors.delivery import DeliveryIntegrity, InView, NoDuplication
from unisono.properties.monitors.gaps import ReliableCausal, WithoutGaps
from unisono.properties.monitors.keys import Causal, KeyDiscipline
from unisono.properties.monitors.liveness import MulticastLiveness
from unisono.properties.monitors.monitor import Monitor
from unisono.properties.monitors.order import Fifo, ReliableFifo
from unisono.properties.monitors.progress import BoundedResources, NoDeadlock
from unisono.properties.monitors.repair import ReleaseSafety, RepairEfficiency
from unisono.properties.monitors.stability import Stability
from unisono.properties.monitors.total import TotalOrder
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
            "size, body and timestamp (the first such SEND, should there be several). Where both have a global time, "
            "the SEND is not the later one."
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
        id="D8",
        name="release safety",
        statement=(
            "No receiver that counts asks for what was released. A receiver counts at a source from a GRANT on (by "
            "global time, or on one host), for sequences from the one that the GRANT gives, until a SUSPECT or a "
            "LEAVE of the source, and not while the view of its stretch is without the source. An RTR breaks this if "
            "it asks for such a sequence that a GC of the source covers, where the GC comes after the GRANT at the "
            "source and is earlier than the RTR. A request from before the release, of one that was left behind and "
            "does not know it yet, or from before its activation point is no violation, and times that do not compare"
            " are not judged."
        ),
        report="somebody who counts asked for what was released",
        oracle=oracles.release_safety,
        monitor=ReleaseSafety,
        spark="unisono.pipeline.audits.repair:release_safety",
        counter_example=DAMAGES["released_too_early"],
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
            "under services that promise this, without a JOIN of the process between them, and each of the stretch of"
            " the one before or the next: it goes on when one reliable service becomes another. Within a spell the "
            "delivered numbers are dense and begin at the start number of its first view; every later view of the "
            "spell gives the next number as its start. Nothing is delivered from a source outside the current view, "
            "which is of the stretch of the DELIVER. Sequences play no part."
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
            "source, incarnation of the source); of two consecutive DELIVERs of one process, group and stretch under "
            "timestamp order the second has the higher key. Together they give causal order."
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
            "that contain a source: of the numbers from the start in the first of them on that the source sent and "
            "the process did not deliver in them, the lowest has a key above every key that the process delivered in "
            "them. If the next VIEW of the stretch is without the source, only numbers up to the highest that it "
            "delivered of the source are asked for. The violation is at the first VIEW."
        ),
        report="a message was left out though later ones were delivered",
        oracle=oracles.reliable_causal,
        monitor=ReliableCausal,
        spark="unisono.pipeline.audits.gaps:reliable_causal",
        counter_example=DAMAGES["moved_start"],
    ),
    Property(
        id="O6",
        name="total order",
        statement=(
            "Keys grow at each process. What it delivers under timestamp order is in one order for each group, or for"
            " all groups of a domain, where its last JOINs of them name that one in `across`. The order begins anew "
            "when one of these groups has the first VIEW or DELIVER of a new stretch. Within it a DELIVER has a key "
            "above all before it. With equal timestamps everywhere (O8) no disagreement of any number of processes, "
            "in a ring or otherwise, can pass."
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
            "As O4 for each single VIEW: of the numbers from a member's start in it on that the member sent and the "
            "process did not deliver in it, the lowest has a key above every key that the process delivered in it; "
            "with the same exemption for a member that the next VIEW of the stretch is without. O6 adds that what is "
            "below was delivered before."
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
        id="L2",
        name="multicast liveness",
        statement=(
            "For a process that reached END in the group: (1) of every source in its last view that reached END too "
            "it delivered all numbers from the start of the current spell on, except those sent less than 2 s before "
            "its END; (2) every source that reached END in the group and sent something is in its last view, if its "
            "JOIN asked for `all` or for a list with that name, if both JOINs, the first VIEW of the stretch of its "
            "last one and a SEND of the source are at least 2 s older than its END, if the trace has a `heal`, and if"
            " neither name is in a fault that never ended. The service of its last JOIN, VIEW, SEND, DELIVER or GAUGE"
            " there must promise this. Times on clocks that cannot be compared are not judged."
        ),
        report="a living process lacks what a living source sent, or the source itself",
        oracle=oracles.multicast_liveness,
        monitor=MulticastLiveness,
        spark="unisono.pipeline.audits.liveness:multicast_liveness",
        counter_example=DAMAGES["removed_last_delivery"],
    ),
    Property(
        id="L4",
        name="stability",
        statement=(
            "A source that reached END as a member has released everything that it sent since its last JOIN, except "
            "in the last 2 s: the highest `last` of its GCs is not below the sequence of such a SEND. This is judged "
            "where the last `heal` is at least 2 s older than the END, where no fault with its name never ended, and "
            "where each receiver with a GRANT and no SUSPECT after it since then either left 10 s before or more, or "
            "reached its own END at most 1 s earlier, with the source in its last VIEW and in no fault that never "
            "ended. Times that do not compare are not judged."
        ),
        report="a living source did not release what everybody has",
        oracle=oracles.stability,
        monitor=Stability,
        spark="unisono.pipeline.audits.repair:stability",
        counter_example=DAMAGES["never_released"],
    ),
    Property(
        id="L6",
        name="no deadlock",
        statement=(
            "Progress is a VIEW, or a DELIVER from another name. It is due while a `load` is active and at least two,"
            " and more than half, of the names with a START so far are present: not in an active fault, not between "
            "CRASH and START, not between the LEAVE of their last group and a JOIN. While it is due there is never "
            "more than 10 s without it, counted from the beginning and to the end of each such stretch of time; the "
            "trace ends with its last START, JOIN, LEAVE, CRASH, END, VIEW, DELIVER or FAULT."
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
            "between its first and its last SEND. A loss is a range of sequences of one source, where RTRs that share"
            " a sequence are one. With at least 50 losses there are at most 3 RTRs for each on average. The same "
            "holds for the RTXs and the ranges that they repair, which are counted by themselves, since one loss may "
            "be many datagrams. A group whose SENDs, RTRs and RTXs are not all told by one clock is not judged."
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
