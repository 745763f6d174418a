"""Every property in one place: what it says, its three forms, a counter-example, and its line in a report.

`MonitorSuite` runs all monitors over one run and shows each only the kinds of rows that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self

import msgspec
from msgspec import Struct

from unisono.errors import TraceError
from unisono.properties import oracles
from unisono.properties.damages import DAMAGES, Damage
from unisono.properties.monitors.delivery import DeliveryIntegrity, InView, NoDuplication
from unisono.properties.monitors.liveness import MulticastLiveness
from unisono.properties.monitors.monitor import Handler, Monitor
from unisono.properties.monitors.order import Fifo, ReliableFifo
from unisono.properties.monitors.progress import BoundedResources, NoDeadlock
from unisono.properties.violation import Violation
from unisono.trace.schema import AnyRow

__all__ = [
    "PROPERTIES",
    "Monitor",
    "MonitorSuite",
    "Property",
    "Violation",
    "monitor_violations",
    "oracle_violations",
]


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
        statement="A process (name and incarnation) delivers a number of one source in one group at most once.",
        report="a message was delivered more than once",
        oracle=oracles.no_duplication,
        monitor=NoDuplication,
        spark="unisono.pipeline.audits.delivery:no_duplication",
        counter_example=DAMAGES["late_duplicate"],
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
        statement="Of one source (name and incarnation) in one group, a process delivers ever higher numbers.",
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
            "A spell is a maximal run of consecutive VIEWs of a process in one group that contain the source, without "
            "a JOIN of the process between them. Within "
            "a spell the delivered numbers are dense and begin at the start number of its first view; every later "
            "view of the spell gives the next number as its start. Nothing is delivered from a source outside the "
            "current view. Sequences play no part."
        ),
        report="a message of a source in the view was left out, or one of a stranger delivered",
        oracle=oracles.reliable_fifo,
        monitor=ReliableFifo,
        spark="unisono.pipeline.audits.order:reliable_fifo",
        counter_example=DAMAGES["removed_delivery"],
    ),
    Property(
        id="L2",
        name="multicast liveness",
        statement=(
            "For a process that reached END in the group: (1) of every source in its last view that "
            "reached END too it delivered all numbers from the start of the current spell on, except those sent "
            "less than 2 s before its END; (2) every source that reached END in the group and sent "
            "something is in its last view, if its JOIN asked for `all` or for a list with that name, if both JOINs "
            "and a SEND of the source are at least 2 s older than its END, if the trace has a `heal`, and if neither "
            "name is in a fault that never ended. Times on clocks that cannot be compared are not judged."
        ),
        report="a living process lacks what a living source sent, or the source itself",
        oracle=oracles.multicast_liveness,
        monitor=MulticastLiveness,
        spark="unisono.pipeline.audits.liveness:multicast_liveness",
        counter_example=DAMAGES["removed_last_delivery"],
    ),
    Property(
        id="L6",
        name="no deadlock",
        statement=(
            "Progress is a VIEW, or a DELIVER from another name. It is due while a `load` is active and at least two, "
            "and more than half, of the names with a START so far are present: not in an active fault, not between "
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
)

PROPERTIES: dict[str, Property] = {item.id: item for item in _ALL}
"""Every property by its id."""


class MonitorSuite:
    """Monitors of one run, side by side: all properties, or those whose ids are given."""

    def __init__(self, property_ids: Iterable[str] | None = None) -> None:
        ids = PROPERTIES if property_ids is None else property_ids
        self._take({property_id: PROPERTIES[property_id].monitor() for property_id in ids})

    def _take(self, monitors: dict[str, Monitor]) -> None:
        self.monitors = monitors
        routes: dict[str, list[Handler]] = {}
        for monitor in monitors.values():
            for kind, handler in monitor.handlers().items():
                routes.setdefault(kind, []).append(handler)
        self._routes = {kind: tuple(handlers) for kind, handlers in routes.items()}

    def observe(self, row: AnyRow) -> None:
        """Show the next row to the monitors that read its kind; others cost one lookup."""
        for handle in self._routes.get(row.kind, ()):
            handle(row)

    def finish(self) -> None:
        """Say that the run is over."""
        for monitor in self.monitors.values():
            monitor.finish()

    @property
    def violations(self) -> list[Violation]:
        """What was found so far, property by property, each up to its limit of kept violations."""
        return [violation for monitor in self.monitors.values() for violation in monitor.violations]

    @property
    def counts(self) -> dict[str, int]:
        """How many violations each broken property has, kept or not."""
        return {property_id: monitor.count for property_id, monitor in self.monitors.items() if monitor.count}

    def dump(self) -> bytes:
        """The state of all monitors."""
        return msgspec.msgpack.encode({property_id: monitor.dump() for property_id, monitor in self.monitors.items()})

    @classmethod
    def load(cls, data: bytes) -> Self:
        """The suite that was dumped, to go on with the next row."""
        try:
            stored = msgspec.msgpack.decode(data, type=dict[str, bytes])
        except msgspec.MsgspecError as error:
            raise TraceError(f"this is no stored state of a suite of monitors: {error}") from None
        unknown = [property_id for property_id in stored if property_id not in PROPERTIES]
        if unknown:
            raise TraceError(f"the stored state has properties that are unknown here: {', '.join(unknown)}")
        suite = cls(())
        suite._take({property_id: PROPERTIES[property_id].monitor.load(state) for property_id, state in stored.items()})
        return suite


def oracle_violations(rows: Sequence[AnyRow]) -> list[Violation]:
    """What the naive oracles find in a whole run; for short traces."""
    return [violation for item in PROPERTIES.values() for violation in item.oracle(rows)]


def monitor_violations(rows: Iterable[AnyRow]) -> list[Violation]:
    """What the monitors find in a whole run, each up to its limit."""
    suite = MonitorSuite()
    for row in rows:
        suite.observe(row)
    suite.finish()
    return suite.violations
