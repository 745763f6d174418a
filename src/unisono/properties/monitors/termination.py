"""The monitor of the termination of delivery (L5): who stays in an era gets what is sent in it."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.agreed import FRESH, UNORDERED_VIEWS, era_of
from unisono.properties.monitors.monitor import Handler, Member, Source, Stream
from unisono.properties.monitors.settled import Clock, Settled, lives_by_group, time_of
from unisono.properties.violation import message_name
from unisono.trace.schema import AnyRow, DeliverRow, GaugeRow, MembershipRow, SendRow, ViewRow


class Kept(Struct, frozen=True):
    """A message sent in the era that its sender still has."""

    time: int
    clock: Clock
    agreed: str
    stretch: int


class Entered(Struct):
    """An era as a process has it: in which stretch, where its sources start, and whether it is a member at last."""

    stretch: int
    starts: dict[Source, int]
    inside: bool


class Attendant(Struct):
    """One process in one group: how it is there, its eras, and what it sent since the last one began.

    `last` is the era of its last view, while the next view may be of the same; `lowest` is the lowest stretch of what
    is kept.
    """

    service: str | None = None
    left: bool = False
    stretch: int | None = None
    eras: dict[str | None, Entered] = field(default_factory=dict)
    last: str | None = None
    numbers: list[int] = field(default_factory=list)
    kept: dict[int, Kept] = field(default_factory=dict)
    lowest: int | None = None

    def forget(self) -> None:
        self.kept.clear()
        self.lowest = None


class Termination(Settled):
    """L5. Keeps what each sender sent in its current era, the start points of eras, and deliveries as runs."""

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
        attendant = self._of(row, tells=False)
        attendant.last = None
        attendant.forget()

    def on_view(self, row: ViewRow) -> None:
        attendant = self._of(row)
        if row.era is None:
            attendant.forget()
        if row.service in UNORDERED_VIEWS:
            return
        starts = {(start.source, start.incarnation): start.number for start in row.start}
        inside = (row.process, row.incarnation) in starts
        era = era_of(row)
        entered = attendant.eras.get(era)
        if entered is not None and row.era is not None and (attendant.last, entered.stretch) == (era, row.stretch):
            entered.inside = inside
            for source, number in starts.items():
                entered.starts.setdefault(source, number)
        else:
            attendant.eras[era] = Entered(row.stretch, starts, inside)
        attendant.last = era

    def on_send(self, row: SendRow) -> None:
        attendant = self._of(row)
        first = intervals.add(attendant.numbers, row.number)
        if first and row.service not in UNORDERED_VIEWS and row.agreed is not None:
            attendant.kept[row.number] = Kept(*time_of(row), row.agreed, row.stretch)
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
        for group, lives in lives_by_group(self.attendants).items():
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
        if end is None or attendant.left or attendant.service in UNORDERED_VIEWS or not self.is_settled(end):
            return
        runs = self.delivered.get((group, *life, *source), [])
        missing = []
        for number, kept in self.attendants[group, *source].kept.items():
            era = attendant.eras.get(kept.agreed)
            if kept.clock != end.clock or kept.time > end.due or era is None:
                continue
            if era.stretch != attendant.stretch or not era.inside:
                continue
            if number >= era.starts.get(source, number + 1) and not intervals.holds(runs, number):
                missing.append(number)
        if missing:
            message = message_name(*source, min(missing))
            text = f"{message} was never delivered to {life[0]}, though both stayed in its view."
            self.report(group, *life, end.position, message, text)
