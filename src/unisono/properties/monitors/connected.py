"""Connection: for monitors that judge who was in a view, and there for a time, with no fault that took it away."""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.agreed import FRESH
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS
from unisono.properties.violation import moment
from unisono.trace.schema import DeliverRow, FaultRow, GaugeRow, MembershipRow, ViewRow


class Turn(Struct, frozen=True):
    """A VIEW, or a row after which a member has none."""

    position: int
    time: int
    clock: str | None
    stretch: int
    sources: frozenset[Source] | None


class Listener(Struct):
    """One member: its turns, when it joined and left and told of another service, and when something came to it."""

    turns: list[Turn] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    progress: list[int] = field(default_factory=list)


class Connected(Monitor):
    """Who is in which view when, and connected from then on for as long as the limit."""

    exempt: ClassVar[frozenset[str]]
    """The services that do not promise the property."""

    listeners: dict[Member, Listener] = field(default_factory=dict)
    stops: dict[Source, list[tuple[int, str | None]]] = field(default_factory=dict)
    faults: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "VIEW": self.on_view,
            "FAULT": self.on_fault,
            "GAUGE": self.on_gauge,
            **dict.fromkeys(("JOIN", "LEAVE", *FRESH), self.on_turn),
            **dict.fromkeys(("CRASH", "END"), self.on_stop),
        }

    def on_view(self, row: ViewRow) -> None:
        held = row.service not in self.exempt
        sources = frozenset((start.source, start.incarnation) for start in row.start) if held else None
        self._turn(row, sources)

    def on_turn(self, row: MembershipRow) -> None:
        self._turn(row, None)
        if row.kind in ("JOIN", "LEAVE"):
            self._listener(row).moves.append(moment(row))

    def on_gauge(self, row: GaugeRow) -> None:
        if row.service in self.exempt:
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
        self._listener(row).turns.append(Turn(row.position, moment(row), clock, row.stretch, sources))

    def conclude(self) -> None:
        for changes in self.faults.values():
            changes.sort()

    def is_connected(self, member: Member, source: Source, time: int, clock: str | None) -> bool:
        """Whether both stay, with no fault of either, from a time on for as long as the limit."""
        listener, other = self.listeners[member], self.listeners.get((member[0], *source))
        moves = [*listener.moves, *listener.changes, *(() if other is None else other.moves)]
        if any(0 <= one - time <= STALL_LIMIT_NANOSECONDS for one in moves):
            return False
        if self._is_away(member[1], time) or self._is_away(source[0], time):
            return False
        return all(self._stays(life, time, clock) for life in (member[1:], source))

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


def turn_at(turns: list[Turn], time: int, clock: str | None) -> Turn | None:
    """The last turn that is not later, by the order of rows."""
    before = [turn for turn in turns if turn.clock == clock and turn.time <= time]
    return max(before, key=lambda turn: turn.position, default=None)
