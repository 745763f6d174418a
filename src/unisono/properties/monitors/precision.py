"""The monitor of the right members after the last fault (L1)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.agreed import NOT_COMMON, Members, era_of, members_of
from unisono.properties.monitors.monitor import Handler, Member, Source
from unisono.properties.monitors.roles import Told, only_receives, role_at
from unisono.properties.monitors.servers import Servers, all_kinds
from unisono.properties.monitors.settled import End, Settled, Time, lives_by_group, time_of
from unisono.properties.promises import SESSIONS, SETTLING_NANOSECONDS
from unisono.properties.violation import moment, process_name
from unisono.trace.schema import AnyRow, DeliverRow, GaugeRow, MembershipRow, SendRow, ViewRow


class Seat(Struct):
    """One process in one group: since when, as what, and its last agreed view there.

    `told` is what it was at which time, since it joined.
    """

    service: str | None = None
    joined: int | None = None
    role: str | None = None
    left: Time | None = None
    stretch: int | None = None
    entered: int | None = None
    view: str | None = None
    era: str | None = None
    since: int = 0
    members: Members = frozenset()
    told: list[Told] = field(default_factory=list)
    sent: int | None = None


class MembershipPrecision(Settled):
    """L1. Keeps the last view of each member."""

    property_id: ClassVar[str] = "L1"

    seats: dict[Member, Seat] = field(default_factory=dict)
    servers: Servers = field(default_factory=Servers)

    def handlers(self) -> dict[str, Handler]:
        return {
            "START": self.servers.on_start,
            "JOIN": self.on_join,
            "LEAVE": self.on_leave,
            "ROLE": self.on_role,
            "VIEW": self.on_view,
            "SEND": self.on_send,
            "DELIVER": self.on_deliver,
            "GAUGE": self.on_gauge,
            **self.common_handlers(),
        }

    def _seat(self, row: AnyRow) -> Seat:
        member = (row.group, row.process, row.incarnation)
        seat = self.seats.get(member)
        if seat is None:
            seat = self.seats[member] = Seat()
        if row.service is not None and row.kind != "LEAVE":
            seat.service = row.service
        return seat

    def on_join(self, row: MembershipRow) -> None:
        seat = self._seat(row)
        self.servers.on_join(row)
        seat.joined, seat.role, seat.left = moment(row), row.role, None
        seat.stretch = seat.entered = seat.view = seat.era = seat.sent = None
        seat.members, seat.told = frozenset(), []

    def on_leave(self, row: MembershipRow) -> None:
        self._seat(row).left = time_of(row)

    def on_role(self, row: MembershipRow) -> None:
        self._seat(row).told.append((moment(row), row.role))

    def on_view(self, row: ViewRow) -> None:
        seat = self._seat(row)
        if row.service not in NOT_COMMON:
            if seat.stretch != row.stretch:
                seat.stretch, seat.entered = row.stretch, moment(row)
            seat.view, seat.era, seat.members = row.view, era_of(row), members_of(row)
            seat.since = moment(row)
            seat.told.append((moment(row), row.role))

    def on_send(self, row: SendRow) -> None:
        seat = self._seat(row)
        if row.agreed is not None:
            time = moment(row)
            seat.sent = time if seat.sent is None else min(time, seat.sent)

    def on_deliver(self, row: DeliverRow) -> None:
        self._seat(row)

    def on_gauge(self, row: GaugeRow) -> None:
        self._seat(row)

    def conclude(self) -> None:
        living = {name for name, _ in self.ends if not self.is_away(name)}
        served = all_kinds(self.servers.names, living)
        for group, lives in lives_by_group(self.seats).items():
            judged = sorted(life for life in lives if self._is_judged(self.seats[group, *life], life))
            if not served:  # who reaches no server keeps the view that it has
                judged = [life for life in judged if self.seats[group, *life].service not in SESSIONS]
            demanded = {life: self._demanded(group, lives, self.ends[life]) for life in judged}
            judged = [life for life in judged if demanded[life]]
            for life in judged:
                self._judge(group, demanded[life], judged[0], life)

    def _demanded(self, group: str, lives: list[Source], end: End) -> list[Source]:
        return [life for life in lives if self._is_demanded(self.seats[group, *life], life, end)]

    def _judge(self, group: str, demanded: list[Source], first: Source, life: Source) -> None:
        seat, end = self.seats[group, *life], self.ends[life]
        members = seat.members
        missing = [one for one in demanded if one not in members]
        wrong = [one for one in members if self._is_forbidden(group, one, end)]
        other = self.ends[first]
        near = other.clock == end.clock and abs(other.time - end.time) <= SETTLING_NANOSECONDS // 2
        differs = near and self._differ(self.seats[group, *first], seat, end.due)
        if missing or wrong or differs:
            words = [f"without {process_name(*one)}" for one in sorted(missing)]
            words += [f"with {process_name(*one)}" for one in sorted(wrong)]
            words += [f"not that of {process_name(*first)}"] if differs else []
            text = f"The last view of {life[0]} is {seat.view}: {', '.join(words)}."
            self.report(group, *life, end.position, None, text)

    def _differ(self, one: Seat, other: Seat, due: int) -> bool:
        """Whether two last views are not of one era, or are old and not the same."""
        if one.era != other.era:
            return True
        return one.view != other.view and max(one.since, other.since) <= due

    def _is_judged(self, seat: Seat, life: Source) -> bool:
        end = self.ends.get(life)
        if end is None or seat.joined is None or seat.left is not None or seat.service in NOT_COMMON:
            return False
        if not self.is_settled(end) or self.is_away(life[0]):
            return False
        return max(seat.joined, seat.joined if seat.entered is None else seat.entered) <= end.due

    def _is_demanded(self, seat: Seat, life: Source, end: End) -> bool:
        """Whether a process is a sender that must be in the last view of another."""
        mine = self.ends.get(life)
        if mine is None or mine.clock != end.clock or mine.time < end.time - SETTLING_NANOSECONDS // 2:
            return False
        if seat.joined is None or seat.left is not None or seat.joined > end.due or self.is_away(life[0]):
            return False
        if only_receives(seat.told, end.due):
            return False
        if seat.sent is not None and seat.sent <= end.due:
            return True
        settled = seat.entered is not None and seat.entered <= end.due
        return settled and role_at(seat.told, end.due, seat.role) == "sender" and seat.service not in NOT_COMMON

    def _is_forbidden(self, group: str, life: Source, end: End) -> bool:
        """Whether a process was gone for so long that nobody may have it in the last view."""
        seat = self.seats.get((group, *life))
        gone = list(self.crashed.get(life, ()))
        if seat is not None and seat.left is not None:
            gone.append(seat.left)
        if any(clock == end.clock and time <= end.due for time, clock in gone):
            return True
        begun = self.begun.get(life[0], {})
        return self.is_away(life[0]) and all(clock == end.clock and time <= end.due for clock, time in begun.items())
