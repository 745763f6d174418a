"""The monitor of progress of each (L9): no connected member stands still while another one sends."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.agreed import FRESH
from unisono.properties.monitors.moments import any_within, note
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS, exempt_services
from unisono.properties.violation import message_name, moment
from unisono.trace.schema import DeliverRow, FaultRow, GaugeRow, MembershipRow, SendRow, ViewRow

_EXEMPT = exempt_services("L9")


class Turn(Struct, frozen=True):
    """A VIEW, or a row after which a member has none."""

    position: int
    time: int
    clock: str | None
    sources: frozenset[Source] | None


class Listener(Struct):
    """One member: its turns, when it joined and left and told of another service, and when something came to it."""

    turns: list[Turn] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    progress: list[int] = field(default_factory=list)


class Sent(Struct, frozen=True, order=True):
    """A message as it was sent."""

    time: int
    source: str
    incarnation: int
    number: int
    clock: str | None


class ProgressOfEach(Monitor):
    """L9. Keeps the moments of all sends, and of what came to whom only those that can bound a standstill."""

    property_id: ClassVar[str] = "L9"

    listeners: dict[Member, Listener] = field(default_factory=dict)
    sent: dict[Member, list[tuple[int, int, str | None]]] = field(default_factory=dict)
    stops: dict[Source, list[tuple[int, str | None]]] = field(default_factory=dict)
    faults: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "SEND": self.on_send,
            "DELIVER": self.on_deliver,
            "VIEW": self.on_view,
            "FAULT": self.on_fault,
            "GAUGE": self.on_gauge,
            **dict.fromkeys(("JOIN", "LEAVE", *FRESH), self.on_turn),
            **dict.fromkeys(("CRASH", "END"), self.on_stop),
        }

    def on_send(self, row: SendRow) -> None:
        clock = row.host if row.truth is None else None
        self.sent.setdefault((row.group, row.process, row.incarnation), []).append((moment(row), row.number, clock))

    def on_deliver(self, row: DeliverRow) -> None:
        if row.source != row.process:
            note(self._listener(row).progress, moment(row))

    def on_view(self, row: ViewRow) -> None:
        held = row.service not in _EXEMPT
        sources = frozenset((start.source, start.incarnation) for start in row.start) if held else None
        self._turn(row, sources)
        note(self._listener(row).progress, moment(row))

    def on_turn(self, row: MembershipRow) -> None:
        self._turn(row, None)
        if row.kind in ("JOIN", "LEAVE"):
            self._listener(row).moves.append(moment(row))

    def on_gauge(self, row: GaugeRow) -> None:
        if row.service in _EXEMPT:
            self._turn(row, None)
            self._listener(row).changes.append(moment(row))

    def on_stop(self, row: MembershipRow) -> None:
        clock = row.host if row.truth is None else None
        self.stops.setdefault((row.process, row.incarnation), []).append((moment(row), clock))

    def on_fault(self, row: FaultRow) -> None:
        if row.fault not in ("load", "heal"):
            for name in set(row.members):
                self.faults.setdefault(name, []).append((moment(row), 1 if row.edge == "begin" else -1))

    def _listener(self, row: DeliverRow | ViewRow | MembershipRow | GaugeRow) -> Listener:
        key = (row.group, row.process, row.incarnation)
        listener = self.listeners.get(key)
        if listener is None:
            listener = self.listeners[key] = Listener()
        return listener

    def _turn(self, row: ViewRow | MembershipRow | GaugeRow, sources: frozenset[Source] | None) -> None:
        clock = row.host if row.truth is None else None
        self._listener(row).turns.append(Turn(row.position, moment(row), clock, sources))

    def conclude(self) -> None:
        for sends in self.sent.values():
            sends.sort()
        for changes in self.faults.values():
            changes.sort()
        for key, listener in self.listeners.items():
            found: dict[int, list[Sent]] = {}
            for source in sorted({one for turn in listener.turns for one in turn.sources or ()}):
                if source[0] != key[1]:
                    self._look(key, listener, source, found)
            for position in sorted(found):
                first = min(found[position])
                message = message_name(first.source, first.incarnation, first.number)
                text = f"{message} was sent, and for long neither it nor anything else came, nor another view."
                self.report(*key, position, message, text)

    def _look(self, key: Member, listener: Listener, source: Source, found: dict[int, list[Sent]]) -> None:
        """What a source sent while a member of its group stood still, by the view that the member was in."""
        sends = self.sent.get((key[0], *source), [])
        for begin, end in _gaps(listener.progress):
            low = 0 if begin is None else bisect_right(sends, (begin, 1 << 64))
            high = len(sends) if end is None else bisect_left(sends, (end - STALL_LIMIT_NANOSECONDS,))
            for time, number, clock in sends[low:high]:
                view = _turn_at(listener.turns, time, clock)
                if view is None or view.sources is None or source not in view.sources:
                    continue
                moves = [*listener.moves, *listener.changes, *self._moves_of((key[0], *source))]
                if any(0 <= one - time <= STALL_LIMIT_NANOSECONDS for one in moves) or any_within(
                    listener.progress, time
                ):
                    continue
                connected = not self._is_away(key[1], time) and not self._is_away(source[0], time)
                if connected and all(self._stays(life, time, clock) for life in (key[1:], source)):
                    found.setdefault(view.position, []).append(Sent(time, *source, number, clock))

    def _moves_of(self, member: Member) -> list[int]:
        listener = self.listeners.get(member)
        return [] if listener is None else listener.moves

    def _stays(self, life: Source, time: int, clock: str | None) -> bool:
        stops = [one for one, its_clock in self.stops.get(life, ()) if its_clock == clock]
        return (
            bool(stops)
            and max(stops) > time + STALL_LIMIT_NANOSECONDS
            and not any(0 <= one - time <= STALL_LIMIT_NANOSECONDS for one in stops)
        )

    def _is_away(self, name: str, time: int) -> bool:
        changes = self.faults.get(name, [])
        begin = bisect_left(changes, (time, -2))
        soon = begin < len(changes) and changes[begin][0] <= time + STALL_LIMIT_NANOSECONDS
        return soon or sum(step for _, step in changes[:begin]) > 0


def _gaps(moments: list[int]) -> list[tuple[int | None, int | None]]:
    """The times without progress that are longer than the limit, and those before the first and after the last."""
    inner = [(one, other) for one, other in pairwise(moments) if other - one > STALL_LIMIT_NANOSECONDS]
    return [(None, moments[0]), *inner, (moments[-1], None)] if moments else [(None, None)]


def _turn_at(turns: list[Turn], time: int, clock: str | None) -> Turn | None:
    """The last turn that is not later, by the order of rows."""
    before = [turn for turn in turns if turn.clock == clock and turn.time <= time]
    return max(before, key=lambda turn: turn.position, default=None)
