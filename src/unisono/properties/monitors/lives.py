"""Monitors of lives: their own order (W1), where they begin and end (W2), and that who is named has rows (W3)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.monitor import EVERY, Handler, Member, Monitor, Source
from unisono.properties.violation import moment, process_name
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    GaugeRow,
    MembershipRow,
    ProxyRow,
    RepairRow,
    SendRow,
    StatisticRow,
    ViewRow,
)

RowPlace = tuple[str, str, int, int]
"""Group, name, incarnation and position."""

Place = tuple[int, int, int, str]
"""Position, `at`, global time or -1, and host: rows of one position are as the least of them."""

Clock = tuple[str, bool]
"""The host, and whether there is a global time."""


def place_of(row: AnyRow) -> Place:
    return (row.position, row.at, -1 if row.truth is None else row.truth, row.host)


class Walk(Struct):
    """Where one life is: its last rows, of which the last one is not judged yet, and what was reported of them."""

    last: Place
    before: Place | None = None
    earlier: Place | None = None
    reported: set[int] = set()
    clocks: dict[Clock, tuple[int, Place]] = {}


class OwnOrder(Monitor):
    """W1. Keeps the last three rows of each life, and how many it has of each clock."""

    property_id: ClassVar[str] = "W1"

    lives: dict[Source, Walk] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {EVERY: self.on_row}

    def on_row(self, row: AnyRow) -> None:
        life = (row.process, row.incarnation)
        place = place_of(row)
        walk = self.lives.get(life)
        if walk is None:
            walk = self.lives[life] = Walk(place)
            if row.position != 0:
                self._report(life, walk, row.position, "it does not begin with position 0")
        elif row.position > walk.last[0]:
            self._judge(life, walk)
            if row.position != walk.last[0] + 1:
                self._report(life, walk, row.position, f"position {row.position} comes after {walk.last[0]}")
            walk.earlier, walk.before, walk.last = walk.before, walk.last, place
        else:
            self._report(life, walk, row.position, "another row has that position")
            walk.last = min(walk.last, place)
        clock = (row.host, row.truth is not None)
        known = walk.clocks.get(clock)
        walk.clocks[clock] = (1, place) if known is None else (known[0] + 1, min(known[1], place))

    def _judge(self, life: Source, walk: Walk) -> None:
        """Hold the last row against the one before; where times go back one of both is wrong."""
        if walk.before is None:
            return
        if walk.before[3] == walk.last[3] and walk.before[1] > walk.last[1]:
            fits = walk.earlier is not None and walk.earlier[3] == walk.last[3] and walk.earlier[1] <= walk.last[1]
            self._report(life, walk, (walk.before if fits else walk.last)[0], "its clock goes back")
        if walk.before[2] > walk.last[2] >= 0:
            fits = walk.earlier is not None and 0 <= walk.earlier[2] <= walk.last[2]
            self._report(life, walk, (walk.before if fits else walk.last)[0], "the global time goes back")

    def _report(self, life: Source, walk: Walk, position: int, text: str) -> None:
        """A row may be wrong in several ways; it is one violation."""
        if position not in walk.reported:
            walk.reported.add(position)
            self.report("", *life, position, None, f"{process_name(*life)}, row {position}: {text}.")

    def conclude(self) -> None:
        for life, walk in self.lives.items():
            self._judge(life, walk)
            ranked = sorted(walk.clocks.values(), key=lambda clock: (-clock[0], clock[1]))
            for _, first in ranked[1:]:
                self._report(life, walk, first[0], "it has another clock")
        self.lives.clear()


class Span(Struct):
    """One life: its first and last moment, where it was over, and whether it has rows of its own making at all."""

    first: tuple[int, int, Clock]
    last: tuple[int, int, Clock]
    kind: str
    over: int | None = None
    real: bool = False


class Stay(Struct):
    """What moved a member last, and what had before; `left` is of JOIN and LEAVE alone."""

    position: int = -1
    moved: str | None = None
    was: str | None = None
    joined: bool | None = None
    had: bool | None = None


class Lives(Monitor):
    """W2. Keeps where each life begins and ends, and whether each member is in its group."""

    property_id: ClassVar[str] = "W2"

    spans: dict[Source, Span] = field(default_factory=dict)
    stays: dict[Member, Stay] = field(default_factory=dict)
    reported: set[RowPlace] = field(default_factory=set)

    def handlers(self) -> dict[str, Handler]:
        return {EVERY: self.on_row}

    def on_row(self, row: AnyRow) -> None:
        life = (row.process, row.incarnation)
        here = (row.position, moment(row), ("" if row.truth is not None else row.host, row.truth is not None))
        span = self.spans.get(life)
        if span is None:
            span = self.spans[life] = Span(here, here, row.kind)
        elif row.position > span.last[0] or here > span.last:
            span.last = here
        if row.position == span.first[0]:
            span.first = min(span.first, here)
        if not span.real and not isinstance(row, FaultRow):
            span.real = True
            if span.kind != "START":
                self._tell("", life, span.first[0], f"its first row is {span.kind}")
        if row.kind == "START" and row.position != span.first[0]:
            self._tell("", life, row.position, "it began before")
        if span.over is not None and row.position > span.over and span.real:
            self._tell("", life, row.position, f"{row.kind} after its end")
        if span.over is None and row.kind in ("END", "CRASH"):
            span.over = row.position
        if row.group and not isinstance(row, StatisticRow | GaugeRow | FaultRow):
            self._follow(row)

    def _follow(self, row: AnyRow) -> None:
        member = (row.group, row.process, row.incarnation)
        stay = self.stays.get(member)
        if stay is None:
            stay = self.stays[member] = Stay()
        now = row.position > stay.position
        moved, joined = (stay.moved, stay.joined) if now else (stay.was, stay.had)
        if row.kind == "JOIN":
            if moved == "JOIN":
                self._tell(row.group, member[1:], row.position, "it joins again")
        elif not joined:
            why = "before it joined" if joined is None else "after it left"
            self._tell(row.group, member[1:], row.position, f"{row.kind} {why}")
        if row.kind in ("JOIN", "LEAVE", "EXCLUDED"):
            stay.position, stay.was, stay.had, stay.moved = row.position, moved, joined, row.kind
            stay.joined = joined if row.kind == "EXCLUDED" else row.kind == "JOIN"

    def _tell(self, group: str, life: Source, position: int, text: str) -> None:
        place = (group, *life, position)
        if place not in self.reported:
            self.reported.add(place)
            self.report(group, *life, position, None, f"{process_name(*life)}, row {position}: {text}.")

    def conclude(self) -> None:
        by_name: dict[str, list[tuple[Source, Span]]] = {}
        for life, span in self.spans.items():
            if span.real:
                by_name.setdefault(life[0], []).append((life, span))
        for lives in by_name.values():
            lives.sort(key=lambda item: (item[1].first[1], item[0]))
            for index, (life, span) in enumerate(lives):
                before = [one for _, one in lives[:index] if one.first[2] == one.last[2] == span.first[2]]
                if any(span.first[1] < one.last[1] for one in before):
                    self._tell("", life, span.first[0], "it began while another life of it went on")
        self.spans.clear()


class NamedHaveRows(Monitor):
    """W3. Keeps which lives wrote something, and the rows that name another one, until it has."""

    property_id: ClassVar[str] = "W3"

    lives: set[Source] = field(default_factory=set)
    named: dict[Source, set[RowPlace]] = field(default_factory=dict)
    asked: set[tuple[str, str]] = field(default_factory=set)
    carried: dict[tuple[str, str], set[RowPlace]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {EVERY: self.on_row}

    def on_row(self, row: AnyRow) -> None:
        life = (row.process, row.incarnation)
        if life not in self.lives:
            self.lives.add(life)
            self.named.pop(life, None)
        if isinstance(row, DeliverRow):
            return
        if isinstance(row, ViewRow):
            for start in row.start:
                self._name(row, start.source, start.incarnation)
        elif isinstance(row, MembershipRow):
            self._name(row, row.peer, row.peer_incarnation)
            for one in row.members or ():
                self._name(row, one.process, one.incarnation)
        elif isinstance(row, RepairRow):
            self._name(row, row.source, row.source_incarnation)
        elif isinstance(row, ProxyRow):
            self._name(row, row.by, row.by_incarnation)
            if row.kind == "ASKED":
                origin = (row.group, process_name(*life))
                self.asked.add(origin)
                self.carried.pop(origin, None)
        elif isinstance(row, SendRow) and row.origin is not None and (row.group, row.origin) not in self.asked:
            self.carried.setdefault((row.group, row.origin), set()).add(_row_place(row))

    def _name(self, row: AnyRow, name: str | None, incarnation: int | None) -> None:
        if name is not None and incarnation is not None and (name, incarnation) not in self.lives:
            self.named.setdefault((name, incarnation), set()).add(_row_place(row))

    def conclude(self) -> None:
        wrong: dict[RowPlace, str] = {}
        for life, places in self.named.items():
            wrong.update(dict.fromkeys(places, f"there is no row of {process_name(*life)}"))
        for (_, origin), places in self.carried.items():
            wrong.update(dict.fromkeys(places, f"{origin} asked for nothing"))
        for place, text in sorted(wrong.items()):
            self.report(*place, None, f"{process_name(*place[1:3])}, row {place[3]}: {text}.")
        self.named.clear()
        self.carried.clear()


def _row_place(row: AnyRow) -> RowPlace:
    return (row.group, row.process, row.incarnation, row.position)
