"""Monitors of a run that must go on: no standstill under load (L6), no buffer above its cap (L7)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import moments
from unisono.properties.monitors.monitor import Handler, Monitor
from unisono.properties.monitors.servers import Servers, all_kinds
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS, exempt_services
from unisono.properties.violation import moment
from unisono.trace.schema import DeliverRow, FaultRow, GaugeRow, MembershipRow, ViewRow

_L7_EXEMPT = exempt_services("L7")


class Turn(Struct, frozen=True, order=True):
    """A row that can begin or end a stretch of time in which progress is due; `step` counts a fault up or down."""

    time: int
    process: str
    incarnation: int
    position: int
    kind: str
    group: str = ""
    step: int = 0
    members: tuple[str, ...] = ()


class Presence:
    """Who is there and whether there is load, as the turns of a run are taken in order of time."""

    def __init__(self, servers: Servers) -> None:
        self.members = servers.joined if servers.sessions else servers.started
        self.servers = servers.names
        self.serving: set[str] = set()
        self.load = 0
        self.names: set[str] = set()
        self.crashed: set[str] = set()
        self.left: set[str] = set()
        self.groups: dict[str, set[str]] = {}
        self.faults: dict[str, int] = {}

    def take(self, turn: Turn) -> None:
        name = turn.process
        match turn.kind:
            case "load":
                self.load = max(0, self.load + turn.step)
            case "fault":
                for member in turn.members:
                    self.faults[member] = max(0, self.faults.get(member, 0) + turn.step)
            case "START":
                if name in self.members:
                    self.names.add(name)
                elif name in self.servers:
                    self.serving.add(name)
                self.crashed.discard(name)
            case "CRASH":
                self.crashed.add(name)
                self.groups.pop(name, None)
            case "JOIN":
                self.groups.setdefault(name, set()).add(turn.group)
                self.left.discard(name)
            case "LEAVE":
                groups = self.groups.get(name, set())
                groups.discard(turn.group)
                if not groups:
                    self.left.add(name)

    def due(self) -> bool:
        """Whether there must be progress now."""
        if not self.load:
            return False
        away = self.crashed | self.left | {name for name, count in self.faults.items() if count}
        present = len(self.names - away)
        return present >= 2 and 2 * present > len(self.names) and all_kinds(self.serving, self.serving - away)


class NoDeadlock(Monitor):
    """L6. Keeps the turns of the run, and of the times of progress only those that can bound a standstill."""

    property_id: ClassVar[str] = "L6"

    turns: list[Turn] = field(default_factory=list)
    progress: list[int] = field(default_factory=list)
    last: int | None = None
    servers: Servers = field(default_factory=Servers)

    def handlers(self) -> dict[str, Handler]:
        membership = dict.fromkeys(("START", "JOIN", "LEAVE", "CRASH", "END"), self.on_membership)
        return {"DELIVER": self.on_deliver, "VIEW": self.on_view, "FAULT": self.on_fault, **membership}

    def on_deliver(self, row: DeliverRow) -> None:
        time = row.truth
        if time is None:
            time = row.at
        if row.source == row.process:
            if self.last is None or time > self.last:
                self.last = time
            return
        progress = self.progress
        if len(progress) > 1 and time >= progress[-1] and time - progress[-2] <= STALL_LIMIT_NANOSECONDS:
            progress[-1] = time
        else:
            moments.note(self.progress, time)

    def on_view(self, row: ViewRow) -> None:
        moments.note(self.progress, moment(row))

    def on_membership(self, row: MembershipRow) -> None:
        if row.kind == "START":
            self.servers.on_start(row)
        elif row.kind == "JOIN":
            self.servers.on_join(row)
        self._turn(Turn(moment(row), row.process, row.incarnation, row.position, row.kind, row.group))

    def on_fault(self, row: FaultRow) -> None:
        kind = "load" if row.fault == "load" else "end" if row.fault == "heal" else "fault"
        step = 1 if row.edge == "begin" else -1
        self._turn(
            Turn(moment(row), row.process, row.incarnation, row.position, kind, "", step, tuple(row.members)),
        )

    def _turn(self, turn: Turn) -> None:
        self.turns.append(turn)
        if self.last is None or turn.time > self.last:
            self.last = turn.time

    def conclude(self) -> None:
        for begin, end in self._stretches():
            inside = self.progress[bisect_right(self.progress, begin) : bisect_left(self.progress, end)]
            since = begin
            for time in (*inside, end):
                if time - since > STALL_LIMIT_NANOSECONDS:
                    seconds = (time - since) / 1e9
                    text = f"Under load nothing was delivered or installed for {seconds:.3f} s from {since} on."
                    self.report("", "", 0, 0, None, text)
                since = time

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """The maximal stretches of time in which progress is due."""
        turns = sorted(self.turns)
        presence = Presence(self.servers)
        begin: int | None = None
        for index, turn in enumerate(turns):
            presence.take(turn)
            if index + 1 < len(turns) and turns[index + 1].time == turn.time:
                continue
            due = presence.due()
            if due and begin is None:
                begin = turn.time
            elif not due and begin is not None:
                yield begin, turn.time
                begin = None
        if begin is not None:
            ends = [begin, *self.progress[-1:]]
            if self.last is not None:
                ends.append(self.last)
            yield begin, max(ends)


class BoundedResources(Monitor):
    """L7. Keeps nothing."""

    property_id: ClassVar[str] = "L7"

    def handlers(self) -> dict[str, Handler]:
        return {"GAUGE": self.on_gauge}

    def on_gauge(self, row: GaugeRow) -> None:
        if row.cap is not None and row.value > row.cap and row.service not in _L7_EXEMPT:
            text = f"{row.name} reached {row.value}, above its cap of {row.cap}."
            self.report(row.group, row.process, row.incarnation, row.position, None, text)
