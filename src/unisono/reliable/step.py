"""One call of an engine: the time at which it happens and the effects that it leads to, in order."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.engine import Address, Deliver, Effect, Note, Record, SendDatagram
from unisono.events import Event
from unisono.identity import ProcessId
from unisono.trace.schema import AnyRow, GaugeRow, RepairRow, StatisticRow, Value


class Place:
    """Where an engine stands: the columns that all of its trace rows share, and what it sent since it was measured."""

    __slots__ = (
        "datagram_bytes",
        "datagrams",
        "earlier_bytes",
        "earlier_datagrams",
        "group",
        "service",
        "stretch",
        "tracing",
        "tracing_messages",
        "view",
    )

    def __init__(self, group: str, service: str, stretch: int, tracing: bool, messages: bool = True) -> None:
        self.group = group
        self.service = service
        self.stretch = stretch
        self.tracing = tracing
        self.tracing_messages = tracing and messages
        self.view: str | None = None
        self.datagrams = 0
        self.datagram_bytes = 0
        self.earlier_datagrams = 0
        self.earlier_bytes = 0

    def begin_measure(self) -> None:
        """What was sent so far is measured: count anew, beside what was sent before."""
        self.earlier_datagrams += self.datagrams
        self.earlier_bytes += self.datagram_bytes
        self.datagrams = self.datagram_bytes = 0


class Step:
    """Collects effects. Events are gathered so that one effect hands many of them to the application."""

    __slots__ = ("_effects", "_events", "_place", "now", "tracing", "tracing_messages", "wall")

    def __init__(self, place: Place, now: int, wall: int) -> None:
        self.now = now
        self.wall = wall
        self.tracing = place.tracing
        """Whether rows are written: off, what is recorded need not be made."""
        self.tracing_messages = place.tracing_messages
        """Whether rows of single messages are written; asked for every message, so it is no property."""
        self._place = place
        self._effects: list[Effect] = []
        self._events: list[Event] = []

    def effect(self, effect: Effect) -> None:
        self._effects.append(effect)

    def send(self, to: Address, datagram: bytes, scope: int) -> None:
        self._effects.append(SendDatagram(to, datagram, scope))
        self._place.datagrams += 1
        self._place.datagram_bytes += len(datagram)

    def deliver(self, event: Event) -> None:
        self._events.append(event)

    def deliver_all(self, events: Sequence[Event]) -> None:
        self._events.extend(events)

    def note(self, reason: str) -> None:
        self._effects.append(Note(reason))

    def record(self, row: AnyRow) -> None:
        """Write a row after the events so far, so that the trace has the order in which things happened."""
        if not self.tracing:
            return
        self.flush()
        row.group = self._place.group
        row.service = self._place.service or None
        row.stretch = self._place.stretch
        row.view = self._place.view
        self._effects.append(Record(row))

    def mark(self, name: str) -> None:
        """A hard situation was reached (see unisono.marks)."""
        if self.tracing:
            self.record(GaugeRow(kind="MARK", name=name, value=1))

    def statistic(self, kind: str, **values: int | str) -> None:
        """A statistic of a type that is reserved for the protocols (000 6.2.3)."""
        if self.tracing:
            found = [
                Value(name, text=value) if isinstance(value, str) else Value(name, float(value))
                for name, value in values.items()
            ]
            self.record(StatisticRow(kind=kind, values=found))

    def finish(self) -> list[Effect]:
        self.flush()
        return self._effects

    def flush(self) -> None:
        """Hand over the events so far, as of the place where they happened."""
        if self._events:
            place = self._place
            self._effects.append(Deliver(place.group, place.service, place.stretch, tuple(self._events)))
            self._events.clear()


def repair_row(kind: str, source: ProcessId, first: int, last: int, peer: str | None = None) -> RepairRow:
    """A row about sequences of a source: RTR, RTX or GC."""
    return RepairRow(
        kind=kind, source=source.name, source_incarnation=source.incarnation, first=first, last=last, peer=peer
    )
