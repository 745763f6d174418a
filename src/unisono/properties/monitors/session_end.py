"""What sessions owe at the end of a run: what was sent is delivered (L2) and released (L4).

Both look at the last view of each process and of those who have it too.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.agreed import Members, members_of
from unisono.properties.monitors.monitor import Member, Source, Stream
from unisono.properties.monitors.settled import End, Time, time_of
from unisono.properties.promises import SETTLING_NANOSECONDS, STRONG
from unisono.trace.schema import DeliverRow, MembershipRow, RepairRow, SendRow, ViewRow


class Message(Struct, frozen=True):
    """One message: its number and sequence, the view that it was sent for, and when it was sent."""

    number: int
    sequence: int
    agreed: str | None
    time: Time


class Installed(Struct, frozen=True):
    """A view and when it was installed."""

    view: str | None
    time: Time
    members: Members


class Attendance(Struct):
    """One process in one group: whether it is there, under which service, and its last view since it came."""

    service: str | None = None
    there: bool = False
    view: Installed | None = None
    numbers: list[int] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)
    released: dict[str | None, int] = field(default_factory=dict)
    changing: bool = False

    @property
    def last(self) -> Installed | None:
        return self.view if self.there else None


class SessionEnd(Struct):
    """Keeps what was sent, delivered and released in sessions, and the last views of their members."""

    members: dict[Member, Attendance] = field(default_factory=dict)
    delivered: dict[Stream, list[int]] = field(default_factory=dict)

    def of(self, row: SendRow | ViewRow | MembershipRow | RepairRow) -> Attendance:
        key = (row.group, row.process, row.incarnation)
        found = self.members.get(key)
        if found is None:
            found = self.members[key] = Attendance()
        return found

    def on_join(self, row: MembershipRow) -> None:
        member = self.of(row)
        member.service, member.there, member.changing = row.service, True, False
        member.view = None

    def on_leave(self, row: MembershipRow) -> None:
        self.of(row).there = False

    def on_excluded(self, row: MembershipRow) -> None:
        self.of(row).view = None

    def on_start_change(self, row: MembershipRow) -> None:
        self.of(row).changing = True

    def on_view(self, row: ViewRow) -> None:
        member = self.of(row)
        member.view = Installed(row.view, time_of(row), members_of(row))
        member.changing = False

    def on_send(self, row: SendRow) -> None:
        member = self.of(row)
        if intervals.add(member.numbers, row.number):
            member.sent.append(Message(row.number, row.sequence, row.agreed, time_of(row)))

    def on_deliver(self, row: DeliverRow) -> None:
        stream = (row.group, row.process, row.incarnation, row.source, row.source_incarnation)
        runs = self.delivered.get(stream)
        if runs is None:
            self.delivered[stream] = [row.number, row.number + 1]
        elif runs[-1] == row.number:
            runs[-1] = row.number + 1
        else:
            intervals.add(runs, row.number)

    def on_release(self, row: RepairRow) -> None:
        if (row.source, row.source_incarnation) == (row.process, row.incarnation):
            released = self.of(row).released
            released[row.view] = max(row.last, released.get(row.view, row.last))

    def undelivered(self, ends: dict[Source, End], away: set[str]) -> Iterator[tuple[Member, End, Source, list[int]]]:
        """Who lacks which numbers of which source at its end."""
        speaking = {key for key, member in self.members.items() if member.sent}
        for key, member in self.members.items():
            end, last = ends.get(key[1:]), member.last
            if end is None or last is None or key[1] in away:
                continue
            for source in sorted(life for life in last.members if (key[0], *life) in speaking):
                if source in ends and ends[source].clock == end.clock and source[0] not in away:
                    due = min(end.time, ends[source].time) - SETTLING_NANOSECONDS
                    missing = self._lacking(key, (key[0], *source), due, end)
                    if missing:
                        yield key, end, source, missing

    def _lacking(self, key: Member, source: Member, due: int, end: End) -> list[int]:
        other = self.members.get(source, Attendance())
        last, theirs = self.members[key].last, other.last
        if last is None or theirs is None or last.view != theirs.view or max(last.time[0], theirs.time[0]) > due:
            return []
        runs = self.delivered.get((*key, *source[1:]), [])
        return sorted(
            sent.number
            for sent in other.sent
            if sent.agreed == last.view
            and sent.time[1] == end.clock
            and sent.time[0] <= due
            and not intervals.holds(runs, sent.number)
        )

    def unreleased(self, key: Member, due: int) -> list[int]:
        """The numbers of its last view that a member has not released, but for those sent later."""
        member = self.members[key]
        last = member.last
        if member.service != STRONG or last is None or last.time[0] > due or member.changing:
            return []
        released = member.released.get(last.view, 0)
        return sorted(
            sent.number
            for sent in member.sent
            if sent.agreed == last.view and sent.time[0] <= due and sent.sequence > released
        )

    def companions(self, key: Member) -> list[Source]:
        """The others in the last view of a member."""
        last = self.members[key].last
        return [] if last is None else sorted(last.members - {key[1:]})

    def has_settled_in(self, key: Member, view: str | None, due: int) -> bool:
        """Whether a process has had this view, as its last one, for long enough."""
        last = self.members.get(key, Attendance()).last
        return last is not None and last.view == view and last.time[0] <= due
