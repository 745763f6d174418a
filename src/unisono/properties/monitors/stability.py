"""The monitor of stability (L4): at the end, what a living source sent has been released, unless a receiver is away."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import SETTLING_NANOSECONDS, STALL_LIMIT_NANOSECONDS
from unisono.properties.violation import message_name, moment
from unisono.trace.schema import FaultRow, MembershipRow, RepairRow, SendRow, ViewRow


class Time(Struct, frozen=True):
    """A moment, and what it compares with: None for the global time, else the host."""

    time: int
    clock: str | None
    position: int = 0


def _time(row: MembershipRow | FaultRow) -> Time:
    return Time(moment(row), row.host if row.truth is None else None, row.position)


class Standing(Struct):
    """One member: what it sent and released since it joined, whom it counts, whom it follows."""

    joined: bool = False
    left: Time | None = None
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    released: int = 0
    counts: dict[Source, bool] = field(default_factory=dict)
    follows: frozenset[Source] | None = None


class Stability(Monitor):
    """L4. Keeps of each source what it has not released."""

    property_id: ClassVar[str] = "L4"

    members: dict[Member, Standing] = field(default_factory=dict)
    ends: dict[Source, Time] = field(default_factory=dict)
    heals: dict[str, int] = field(default_factory=dict)
    away: dict[str, int] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "SEND": self.on_send,
            "GC": self.on_release,
            "GRANT": self.on_grant,
            "SUSPECT": self.on_grant,
            "VIEW": self.on_view,
            "JOIN": self.on_join,
            "LEAVE": self.on_leave,
            "END": self.on_end,
            "FAULT": self.on_fault,
        }

    def on_send(self, row: SendRow) -> None:
        member = self._member(row.group, row.process, row.incarnation)
        if row.sequence > member.released:
            member.sent.append((row.sequence, row.number, moment(row)))

    def on_release(self, row: RepairRow) -> None:
        if (row.source, row.source_incarnation) != (row.process, row.incarnation):
            return
        member = self._member(row.group, row.process, row.incarnation)
        if row.last > member.released:
            member.released = row.last
            sent = member.sent
            kept = 0
            while kept < len(sent) and sent[kept][0] <= row.last:
                kept += 1
            del sent[:kept]

    def on_grant(self, row: MembershipRow) -> None:
        if row.peer is not None and row.peer_incarnation is not None:
            member = self._member(row.group, row.process, row.incarnation)
            peer = (row.peer, row.peer_incarnation)
            if row.kind == "GRANT" or peer in member.counts:
                member.counts[peer] = row.kind == "GRANT"

    def on_view(self, row: ViewRow) -> None:
        sources = frozenset((start.source, start.incarnation) for start in row.start)
        self._member(row.group, row.process, row.incarnation).follows = sources

    def on_join(self, row: MembershipRow) -> None:
        member = self._member(row.group, row.process, row.incarnation)
        member.joined = True
        member.left = None
        member.sent.clear()
        member.counts.clear()
        member.released = 0

    def on_leave(self, row: MembershipRow) -> None:
        self._member(row.group, row.process, row.incarnation).left = _time(row)

    def on_end(self, row: MembershipRow) -> None:
        self.ends[row.process, row.incarnation] = _time(row)

    def on_fault(self, row: FaultRow) -> None:
        if row.fault == "heal":
            clock = "" if row.truth is not None else f"on {row.host}"
            self.heals[clock] = max(self.heals.get(clock, moment(row)), moment(row))
        elif row.fault != "load":
            step = 1 if row.edge == "begin" else -1
            for name in row.members:
                self.away[name] = self.away.get(name, 0) + step

    def _member(self, group: str, process: str, incarnation: int) -> Standing:
        key = (group, process, incarnation)
        member = self.members.get(key)
        if member is None:
            member = self.members[key] = Standing()
        return member

    def conclude(self) -> None:
        for (group, name, incarnation), member in self.members.items():
            end = self.ends.get((name, incarnation))
            if end is None or not member.joined or member.left is not None or self.away.get(name, 0) > 0:
                continue
            healed = self.heals.get("" if end.clock is None else f"on {end.clock}")
            due = end.time - SETTLING_NANOSECONDS
            if healed is None or healed > due:
                continue
            missing = [number for sequence, number, time in member.sent if sequence > member.released and time <= due]
            source = (name, incarnation)
            counted = [peer for peer, counts in member.counts.items() if counts]
            if missing and not any(self._holds_back(group, source, end, peer) for peer in counted):
                message = message_name(name, incarnation, min(missing))
                text = f"{message} was not released, nor {len(missing) - 1} more that it sent."
                self.report(group, name, incarnation, end.position, message, text)

    def _holds_back(self, group: str, source: Source, end: Time, peer: Source) -> bool:
        """Whether a receiver that counts may be why something is not released."""
        member = self.members.get((group, *peer), Standing())
        if member.left is not None:
            return member.left.clock != end.clock or member.left.time > end.time - STALL_LIMIT_NANOSECONDS
        their_end = self.ends.get(peer)
        if their_end is None or member.follows is None or self.away.get(peer[0], 0) > 0:
            return True
        if their_end.clock != end.clock or their_end.time < end.time - SETTLING_NANOSECONDS // 2:
            return True
        return source not in member.follows
