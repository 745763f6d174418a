"""Monitors of the end after the last fault: the right members (L1) and all messages (L5)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.agreed import FRESH, NOT_AGREED, members_of
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source, Stream
from unisono.properties.promises import PRECISION_NANOSECONDS, SETTLING_NANOSECONDS
from unisono.properties.violation import message_name, moment, process_name
from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, GaugeRow, MembershipRow, SendRow, ViewRow

Clock = str | None
"""What times compare with: None for the global time, else the host."""

Time = tuple[int, Clock]


def _time(row: AnyRow) -> Time:
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


class Seat(Struct):
    """One process in one group: since when, as what, and its last agreed view there."""

    service: str | None = None
    joined: int | None = None
    role: str | None = None
    left: Time | None = None
    stretch: int | None = None
    entered: int | None = None
    view: str | None = None
    members: list[Source] = field(default_factory=list)
    sent: int | None = None


class Settled(Monitor):
    """What both have in common: ends, heals and faults."""

    ends: dict[Source, End] = field(default_factory=dict)
    healed: dict[Clock, int] = field(default_factory=dict)
    away: dict[str, int] = field(default_factory=dict)
    begun: dict[str, dict[Clock, int]] = field(default_factory=dict)
    crashed: dict[Source, list[Time]] = field(default_factory=dict)

    def common_handlers(self) -> dict[str, Handler]:
        return {"END": self.on_end, "FAULT": self.on_fault, "CRASH": self.on_crash}

    def on_end(self, row: MembershipRow) -> None:
        self.ends[row.process, row.incarnation] = End(row.position, *_time(row))

    def on_crash(self, row: MembershipRow) -> None:
        self.crashed.setdefault((row.process, row.incarnation), []).append(_time(row))

    def on_fault(self, row: FaultRow) -> None:
        time, clock = _time(row)
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


class MembershipPrecision(Settled):
    """L1. Keeps the last view of each member."""

    property_id: ClassVar[str] = "L1"

    seats: dict[Member, Seat] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "JOIN": self.on_join,
            "LEAVE": self.on_leave,
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
        seat.joined, seat.role, seat.left = moment(row), row.role, None
        seat.stretch = seat.entered = seat.view = seat.sent = None
        seat.members = []

    def on_leave(self, row: MembershipRow) -> None:
        self._seat(row).left = _time(row)

    def on_view(self, row: ViewRow) -> None:
        seat = self._seat(row)
        if row.service not in NOT_AGREED:
            if seat.stretch != row.stretch:
                seat.stretch, seat.entered = row.stretch, moment(row)
            seat.view, seat.members = row.view, members_of(row)

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
        groups: dict[str, list[Source]] = {}
        for group, name, incarnation in self.seats:
            if group:
                groups.setdefault(group, []).append((name, incarnation))
        for group, lives in groups.items():
            judged = sorted(life for life in lives if self._is_judged(self.seats[group, *life], life))
            demanded = {life: self._demanded(group, lives, self.ends[life]) for life in judged}
            judged = [life for life in judged if demanded[life]]
            for life in judged:
                self._judge(group, demanded[life], judged[0], life)

    def _demanded(self, group: str, lives: list[Source], end: End) -> list[Source]:
        return [life for life in lives if self._is_demanded(self.seats[group, *life], life, end)]

    def _judge(self, group: str, demanded: list[Source], first: Source, life: Source) -> None:
        seat, end = self.seats[group, *life], self.ends[life]
        members = set(seat.members)
        missing = [one for one in demanded if one not in members]
        wrong = [one for one in members if self._is_forbidden(group, one, end)]
        other = self.ends[first]
        near = other.clock == end.clock and abs(other.time - end.time) <= SETTLING_NANOSECONDS // 2
        differs = near and self.seats[group, *first].view != seat.view
        if missing or wrong or differs:
            words = [f"without {process_name(*one)}" for one in sorted(missing)]
            words += [f"with {process_name(*one)}" for one in sorted(wrong)]
            words += [f"not that of {process_name(*first)}"] if differs else []
            text = f"The last view of {life[0]} is {seat.view}: {', '.join(words)}."
            self.report(group, *life, end.position, None, text)

    def _is_judged(self, seat: Seat, life: Source) -> bool:
        end = self.ends.get(life)
        if end is None or seat.joined is None or seat.left is not None or seat.service in NOT_AGREED:
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
        if seat.sent is not None and seat.sent <= end.due:
            return True
        settled = seat.entered is not None and seat.entered <= end.due
        return settled and seat.role == "sender" and seat.service not in NOT_AGREED

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


class Kept(Struct, frozen=True):
    """A message sent in the view that its sender still has."""

    time: int
    clock: Clock
    agreed: str
    stretch: int


class Entered(Struct, frozen=True):
    """A view as a member of it has it: in which stretch, and where its sources start."""

    stretch: int
    starts: dict[Source, int]


class Attendant(Struct):
    """One process in one group: how it is there, its views, and what it sent since the last one.

    `lowest` is the lowest stretch of what is kept.
    """

    service: str | None = None
    left: bool = False
    stretch: int | None = None
    views: dict[str, Entered] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    kept: dict[int, Kept] = field(default_factory=dict)
    lowest: int | None = None

    def forget(self) -> None:
        self.kept.clear()
        self.lowest = None


class Termination(Settled):
    """L5. Keeps what each sender sent in its current view, the start points of views, and deliveries as runs."""

    property_id: ClassVar[str] = "L5"

    attendants: dict[Member, Attendant] = field(default_factory=dict)
    delivered: dict[Stream, list[int]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "JOIN": self.on_join,
            "LEAVE": self.on_leave,
            **dict.fromkeys(FRESH, self.on_fresh),
            "VIEW": self.on_view,
            "SEND": self.on_send,
            "DELIVER": self.on_deliver,
            "GAUGE": self.on_gauge,
            **self.common_handlers(),
        }

    def _of(self, row: AnyRow, tells: bool = True) -> Attendant:
        member = (row.group, row.process, row.incarnation)
        found = self.attendants.get(member)
        if found is None:
            found = self.attendants[member] = Attendant()
        if tells:
            if row.service is not None:
                found.service = row.service
            if found.stretch is None or row.stretch > found.stretch:
                found.stretch = row.stretch
            if found.lowest is not None and row.stretch > found.lowest:
                found.kept = {number: one for number, one in found.kept.items() if one.stretch >= row.stretch}
                found.lowest = min((one.stretch for one in found.kept.values()), default=None)
        return found

    def on_join(self, row: MembershipRow) -> None:
        self._of(row).left = False

    def on_leave(self, row: MembershipRow) -> None:
        attendant = self._of(row, tells=False)
        attendant.left = True
        attendant.forget()

    def on_fresh(self, row: MembershipRow) -> None:
        self._of(row, tells=False).forget()

    def on_view(self, row: ViewRow) -> None:
        attendant = self._of(row)
        attendant.forget()
        if row.service not in NOT_AGREED and row.view is not None:
            starts = {(start.source, start.incarnation): start.number for start in row.start}
            attendant.views[row.view] = Entered(row.stretch, starts)

    def on_send(self, row: SendRow) -> None:
        attendant = self._of(row)
        first = intervals.add(attendant.numbers, row.number)
        if first and row.service not in NOT_AGREED and row.agreed is not None:
            attendant.kept[row.number] = Kept(*_time(row), row.agreed, row.stretch)
            lowest = attendant.lowest
            attendant.lowest = row.stretch if lowest is None else min(row.stretch, lowest)

    def on_deliver(self, row: DeliverRow) -> None:
        self._of(row)
        stream = (row.group, row.process, row.incarnation, row.source, row.source_incarnation)
        runs = self.delivered.get(stream)
        if runs is None:
            self.delivered[stream] = [row.number, row.number + 1]
        elif runs[-1] == row.number:
            runs[-1] = row.number + 1
        else:
            intervals.add(runs, row.number)

    def on_gauge(self, row: GaugeRow) -> None:
        self._of(row)

    def conclude(self) -> None:
        groups: dict[str, list[Source]] = {}
        for group, name, incarnation in self.attendants:
            if group:
                groups.setdefault(group, []).append((name, incarnation))
        for group, lives in groups.items():
            waiting = [
                life
                for life in lives
                if life in self.ends and life not in self.crashed and self.attendants[group, *life].kept
            ]
            for life in lives:
                for source in waiting:
                    if source != life and not self.is_away(source[0]) and not self.is_away(life[0]):
                        self._judge(group, life, source)

    def _judge(self, group: str, life: Source, source: Source) -> None:
        attendant, end = self.attendants[group, *life], self.ends.get(life)
        if end is None or attendant.left or attendant.service in NOT_AGREED or not self.is_settled(end):
            return
        runs = self.delivered.get((group, *life, *source), [])
        missing = []
        for number, kept in self.attendants[group, *source].kept.items():
            view = attendant.views.get(kept.agreed)
            if kept.clock != end.clock or kept.time > end.due or view is None:
                continue
            if view.stretch != attendant.stretch or life not in view.starts:
                continue
            if number >= view.starts.get(source, number + 1) and not intervals.holds(runs, number):
                missing.append(number)
        if missing:
            message = message_name(*source, min(missing))
            text = f"{message} was never delivered to {life[0]}, though both stayed in its view."
            self.report(group, *life, end.position, message, text)
