"""What the monitors of a settled end have in common: when lives ended, and since when nothing disturbs them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import PRECISION_NANOSECONDS
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, FaultRow, MembershipRow

Clock = str | None
"""What times compare with: None for the global time, else the host."""

Time = tuple[int, Clock]


def time_of(row: AnyRow) -> Time:
    return (moment(row), row.host if row.truth is None else None)


class End(Struct, frozen=True):
    """The end of a life that lasted until the run was over."""

    position: int
    time: int
    clock: Clock

    @property
    def due(self) -> int:
        """What happened later than this is not asked for."""
        return self.time - PRECISION_NANOSECONDS


class Settled(Monitor):
    """Keeps ends, crashes, heals and faults."""

    ends: dict[Source, End] = field(default_factory=dict)
    healed: dict[Clock, int] = field(default_factory=dict)
    away: dict[str, int] = field(default_factory=dict)
    begun: dict[str, dict[Clock, int]] = field(default_factory=dict)
    crashed: dict[Source, list[Time]] = field(default_factory=dict)

    def common_handlers(self) -> dict[str, Handler]:
        return {"END": self.on_end, "FAULT": self.on_fault, "CRASH": self.on_crash}

    def on_end(self, row: MembershipRow) -> None:
        self.ends[row.process, row.incarnation] = End(row.position, *time_of(row))

    def on_crash(self, row: MembershipRow) -> None:
        self.crashed.setdefault((row.process, row.incarnation), []).append(time_of(row))

    def on_fault(self, row: FaultRow) -> None:
        time, clock = time_of(row)
        if row.fault == "heal":
            self.healed[clock] = max(time, self.healed.get(clock, time))
        elif row.fault != "load":
            for name in set(row.members):
                self.away[name] = self.away.get(name, 0) + (1 if row.edge == "begin" else -1)
                if row.edge == "begin":
                    begun = self.begun.setdefault(name, {})
                    begun[clock] = max(time, begun.get(clock, time))

    def is_away(self, name: str) -> bool:
        return self.away.get(name, 0) > 0

    def is_settled(self, end: End) -> bool:
        """Whether the last fault, but the lasting ones, ended long enough before."""
        return end.clock in self.healed and self.healed[end.clock] <= end.due


def lives_by_group(members: Iterable[Member]) -> dict[str, list[Source]]:
    """The lives in each group, in the order in which they are given."""
    groups: dict[str, list[Source]] = {}
    for group, name, incarnation in members:
        if group:
            groups.setdefault(group, []).append((name, incarnation))
    return groups
