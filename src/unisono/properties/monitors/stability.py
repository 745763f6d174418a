"""The monitor of stability (L4): at the end, what a living source sent has been released, unless a receiver is away."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.monitors.session_end import SessionEnd
from unisono.properties.monitors.settled import End, time_of
from unisono.properties.promises import SESSIONS, SETTLING_NANOSECONDS, STALL_LIMIT_NANOSECONDS
from unisono.properties.violation import message_name, moment
from unisono.trace.schema import FaultRow, MembershipRow, RepairRow, SendRow, ViewRow


class Standing(Struct):
    """One member: what it sent and released since it joined, whom it counts, whom it follows."""

    joined: bool = False
    left: End | None = None
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    released: int = 0
    counts: dict[Source, bool] = field(default_factory=dict)
    follows: frozenset[Source] | None = None


class Stability(Monitor):
    """L4. Keeps of each source what it has not released."""

    property_id: ClassVar[str] = "L4"

    members: dict[Member, Standing] = field(default_factory=dict)
    ends: dict[Source, End] = field(default_factory=dict)
    heals: dict[str, int] = field(default_factory=dict)
    away: dict[str, int] = field(default_factory=dict)
    sessions: SessionEnd = field(default_factory=SessionEnd)

    def handlers(self) -> dict[str, Handler]:
        return {
            "EXCLUDED": self.on_change,
            "START_CHANGE": self.on_change,
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

    def on_change(self, row: MembershipRow) -> None:
        if row.service in SESSIONS and row.kind == "EXCLUDED":
            self.sessions.on_excluded(row)
        elif row.service in SESSIONS:
            self.sessions.on_start_change(row)

    def on_send(self, row: SendRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_send(row)
            return
        member = self._member(row.group, row.process, row.incarnation)
        if row.sequence > member.released:
            member.sent.append((row.sequence, row.number, moment(row)))

    def on_release(self, row: RepairRow) -> None:
        if (row.source, row.source_incarnation) != (row.process, row.incarnation):
            return
        if row.service in SESSIONS:
            self.sessions.on_release(row)
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
        if row.service in SESSIONS:
            self.sessions.on_view(row)
            return
        sources = frozenset((start.source, start.incarnation) for start in row.start)
        self._member(row.group, row.process, row.incarnation).follows = sources

    def on_join(self, row: MembershipRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_join(row)
            return
        member = self._member(row.group, row.process, row.incarnation)
        member.joined = True
        member.left = None
        member.sent.clear()
        member.counts.clear()
        member.released = 0

    def on_leave(self, row: MembershipRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_leave(row)
            return
        self._member(row.group, row.process, row.incarnation).left = End(row.position, *time_of(row))

    def on_end(self, row: MembershipRow) -> None:
        self.ends[row.process, row.incarnation] = End(row.position, *time_of(row))

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
        for key, member in self.members.items():
            end = self.ends.get(key[1:])
            if end is None or not member.joined or member.left is not None or not self._is_judged(key[1], end):
                continue
            due = end.time - SETTLING_NANOSECONDS
            missing = [number for sequence, number, time in member.sent if sequence > member.released and time <= due]
            counted = [peer for peer, counts in member.counts.items() if counts]
            if not any(self._holds_back(key[0], key[1:], end, peer) for peer in counted):
                self._report(key, end, missing)
        for key in self.sessions.members:
            end = self.ends.get(key[1:])
            if end is not None and self._is_judged(key[1], end) and self._all_have_it(key, end):
                self._report(key, end, self.sessions.unreleased(key, end.time - SETTLING_NANOSECONDS))

    def _report(self, key: Member, end: End, missing: list[int]) -> None:
        if missing:
            message = message_name(*key[1:], min(missing))
            text = f"{message} was not released, nor {len(missing) - 1} more that it sent."
            self.report(*key, end.position, message, text)

    def _is_judged(self, name: str, end: End) -> bool:
        """Whether nothing disturbed a source for long enough before its end."""
        healed = self.heals.get("" if end.clock is None else f"on {end.clock}")
        due = end.time - SETTLING_NANOSECONDS
        return self.away.get(name, 0) <= 0 and healed is not None and healed <= due

    def _all_have_it(self, key: Member, end: End) -> bool:
        """Whether all members of the last view of a session are in it at its end, too."""
        last = self.sessions.members[key].last
        if last is None:
            return False
        for peer in self.sessions.companions(key):
            theirs = self.ends.get(peer)
            if theirs is None or theirs.clock != end.clock or self.away.get(peer[0], 0) > 0:
                return False
            if theirs.time < end.time - SETTLING_NANOSECONDS // 2:
                return False
            if not self.sessions.has_settled_in((key[0], *peer), last.view, end.time - SETTLING_NANOSECONDS):
                return False
        return True

    def _holds_back(self, group: str, source: Source, end: End, peer: Source) -> bool:
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
