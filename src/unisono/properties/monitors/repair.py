"""Monitors of repair: nobody asks for what was released (D8), and few ask for each loss (L8).

Rows may arrive in any order, so both keep what they need until the end, and judge then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import LEAST_LOSSES, REPAIR_LIMIT, SESSIONS, STRONG, exempt_services
from unisono.properties.violation import moment
from unisono.trace.schema import FaultRow, MembershipRow, RepairRow, SendRow, ViewRow

_D8_EXEMPT = exempt_services("D8")

Clock = str | None
"""What times compare with: None for the global time, else the host."""


def clock_of(row: RepairRow | MembershipRow | SendRow | FaultRow) -> Clock:
    return row.host if row.truth is None else None


class Counting(Struct, frozen=True):
    """From when on a source counts a receiver, from which sequence on; None where it ceases to."""

    time: int
    clock: Clock
    position: int
    sequence: int | None


class Asked(Struct, frozen=True):
    """A request: where it stands, when it was made, and for what."""

    source: Source
    position: int
    time: int
    clock: Clock
    first: int
    last: int


class Released(Struct):
    """What one source released, release by release; `highest` is over all up to each."""

    clock: Clock
    positions: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    highest: list[int] = field(default_factory=list)

    def most(self, position: int, time: int) -> int | None:
        """The highest sequence that was released after the row at this position and before this time."""
        # The rows of one process have growing positions and times, so that those in question are neighbours.
        first, end = bisect_right(self.positions, position), bisect_left(self.times, time)
        if first >= end:
            return None
        if first == 0 or self.highest[end - 1] > self.highest[first - 1]:
            return self.highest[end - 1]
        return max(self.lasts[first:end])


class ReleaseSafety(Monitor):
    """D8. Keeps grants, releases and requests; of the views, only whether the source asked is in the current one."""

    property_id: ClassVar[str] = "D8"

    counted: dict[Member, dict[Source, list[Counting]]] = field(default_factory=dict)
    released: dict[Member, Released] = field(default_factory=dict)
    asked: dict[Member, list[Asked]] = field(default_factory=dict)
    views: dict[Member, tuple[int, frozenset[Source]]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "RTR": self.on_request,
            "GC": self.on_release,
            "GRANT": self.on_grant,
            "SUSPECT": self.on_grant,
            "LEAVE": self.on_leave,
            "VIEW": self.on_view,
        }

    def on_leave(self, row: MembershipRow) -> None:
        """A source that leaves counts nobody any more."""
        for grants in self.counted.get((row.group, row.process, row.incarnation), {}).values():
            grants.append(Counting(moment(row), clock_of(row), row.position, None))

    def on_view(self, row: ViewRow) -> None:
        if row.service in SESSIONS:
            return
        sources = frozenset((start.source, start.incarnation) for start in row.start)
        self.views[row.group, row.process, row.incarnation] = (row.stretch, sources)

    def on_grant(self, row: MembershipRow) -> None:
        if row.peer is None or row.peer_incarnation is None:
            return
        sequence = row.sequence if row.kind == "GRANT" else None
        counting = Counting(moment(row), clock_of(row), row.position, sequence)
        source = self.counted.setdefault((row.group, row.process, row.incarnation), {})
        source.setdefault((row.peer, row.peer_incarnation), []).append(counting)

    def on_release(self, row: RepairRow) -> None:
        if (row.source, row.source_incarnation) != (row.process, row.incarnation):
            return
        released = self.released.setdefault((row.group, row.process, row.incarnation), Released(clock_of(row)))
        released.positions.append(row.position)
        released.times.append(moment(row))
        released.lasts.append(row.last)
        released.highest.append(max(row.last, released.highest[-1]) if released.highest else row.last)

    def on_request(self, row: RepairRow) -> None:
        if row.service in _D8_EXEMPT:
            return
        member = (row.group, row.process, row.incarnation)
        source = (row.source, row.source_incarnation)
        stretch, sources = self.views.get(member, (None, frozenset()))
        if stretch == row.stretch and source not in sources:
            return
        asked = Asked(source, row.position, moment(row), clock_of(row), row.first, row.last)
        self.asked.setdefault(member, []).append(asked)

    def conclude(self) -> None:
        for member, requests in self.asked.items():
            group, process, incarnation = member
            for asked in requests:
                highest = self._released_to(group, (process, incarnation), asked)
                if highest is not None:
                    text = f"It asks for {asked.first} to {asked.last}, but all up to {highest} was released."
                    self.report(group, process, incarnation, asked.position, None, text)
        self.asked.clear()

    def _released_to(self, group: str, receiver: Source, asked: Asked) -> int | None:
        """How far the source had released what this receiver asks for, though it counts; None where all is well."""
        source = (group, *asked.source)
        grants = self.counted.get(source, {}).get(receiver, [])
        earlier = [one for one in grants if one.clock == asked.clock and one.time <= asked.time]
        released = self.released.get(source)
        if not earlier or released is None or released.clock != asked.clock:
            return None
        begin = earlier[-1].sequence
        highest = None if begin is None else released.most(earlier[-1].position, asked.time)
        if begin is None or highest is None or min(asked.last, highest) < max(asked.first, begin):
            return None
        return highest


Range = tuple[int, str, str, int, int, int]
"""A time, the stream, a source with its incarnation, and the sequences first to last."""


class Losses(Struct):
    """What was sent, asked for and repaired in one group, and when; `clocks` are those that it was told by."""

    first: int
    last: int
    asked: list[Range] = field(default_factory=list)
    repaired: list[Range] = field(default_factory=list)
    sends: int = 0
    clocks: set[Clock] = field(default_factory=set)


class RepairEfficiency(Monitor):
    """L8. Keeps the requests and repairs of each group, unless a fault is seen: then nothing any more."""

    property_id: ClassVar[str] = "L8"

    groups: dict[str, Losses] = field(default_factory=dict)
    disturbed: bool = False

    def handlers(self) -> dict[str, Handler]:
        return {"SEND": self.on_send, "RTR": self.on_request, "RTX": self.on_repair, "FAULT": self.on_fault}

    def on_fault(self, row: FaultRow) -> None:
        if row.fault not in ("load", "heal"):
            self.disturbed = True
            self.groups.clear()

    def on_send(self, row: SendRow) -> None:
        if self.disturbed:
            return
        time = moment(row)
        losses = self._of(row, time)
        losses.first = min(losses.first, time) if losses.sends else time
        losses.last = max(losses.last, time) if losses.sends else time
        losses.sends += 1

    def on_request(self, row: RepairRow) -> None:
        if not self.disturbed:
            time = moment(row)
            self._of(row, time).asked.append(_range(row, time))

    def on_repair(self, row: RepairRow) -> None:
        if not self.disturbed:
            time = moment(row)
            self._of(row, time).repaired.append(_range(row, time))

    def _of(self, row: SendRow | RepairRow, time: int) -> Losses:
        losses = self.groups.get(row.group)
        if losses is None:
            losses = self.groups[row.group] = Losses(time, time)
        losses.clocks.add(row.host if row.truth is None else None)
        return losses

    def conclude(self) -> None:
        for group, losses in self.groups.items():
            if losses.sends and len(losses.clocks) == 1:
                self._judge(group, losses)
        self.groups.clear()

    def _judge(self, group: str, losses: Losses) -> None:
        middle = (losses.first + losses.last) // 2
        for word, rows in (("requests", losses.asked), ("repairs", losses.repaired)):
            late = sorted(row[1:] for row in rows if row[0] > middle)
            count, source, until = 0, ("", "", 0), 0
            for stream, name, incarnation, first, last in late:
                if count and source == (stream, name, incarnation) and first <= until:
                    until = max(until, last)
                else:
                    count += 1
                    source, until = (stream, name, incarnation), last
            if count >= LEAST_LOSSES and len(late) > REPAIR_LIMIT * count:
                text = f"There were {len(late)} {word} for {count} ranges in the second half of the run."
                self.report(group, "", 0, 0, None, text)


def _range(row: RepairRow, time: int) -> Range:
    """What was asked for or repaired; strong sessions have a stream for each view."""
    stream = row.view or "" if row.service == STRONG else ""
    return (time, stream, row.source, row.source_incarnation, row.first, row.last)
