"""What O2 asks of sessions: of a stream that a process hears of a source nothing is left out.

A stream is what a source sent for one view: a strong session hears it in that view, a weak one in a spell of the
source, where it may come in late. What is in a stream is known at the end alone: a message may be delivered before its
SEND is seen, and returned after a later one is delivered.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.agreed import Members, members_of
from unisono.properties.monitors.monitor import Member, Source
from unisono.properties.promises import STRONG
from unisono.trace.schema import DeliverRow, MembershipRow, SendRow, ViewRow


class Sent(Struct):
    """What one source sent: the numbers of each view that it sent for, and those that it took back."""

    numbers: list[int] = field(default_factory=list)
    views: dict[str | None, list[int]] = field(default_factory=dict)
    returned: set[int] = field(default_factory=set)


class Heard(Struct):
    """The numbers of one source that a process delivered in one view or spell, and where it began."""

    position: int
    runs: list[int] = field(default_factory=list)


class Seat(Struct):
    """One process in one group: its current view, and, of a weak session, where the spell of each source began."""

    stretch: int
    members: Members
    spells: dict[Source, int] = field(default_factory=dict)


class Missing(Struct, frozen=True):
    """The lowest number that a process left out of a stream, and the first delivery of it there."""

    member: Member
    position: int
    source: Source
    number: int


class SessionOrder(Struct):
    """Keeps what was sent in each stream, and what each process delivered of it."""

    sent: dict[Member, Sent] = field(default_factory=dict)
    seats: dict[Member, Seat] = field(default_factory=dict)
    strong: dict[Member, dict[Source, dict[str | None, Heard]]] = field(default_factory=dict)
    weak: dict[Member, dict[Source, dict[int, Heard]]] = field(default_factory=dict)

    def on_send(self, row: SendRow) -> None:
        sent = self._sent(row)
        if intervals.add(sent.numbers, row.number):
            intervals.add(sent.views.setdefault(row.agreed, []), row.number)

    def on_returned(self, row: MembershipRow) -> None:
        if row.number is not None:
            self._sent(row).returned.add(row.number)

    def on_view(self, row: ViewRow) -> None:
        member = (row.group, row.process, row.incarnation)
        seat = self.seats.get(member)
        members = members_of(row)
        if row.service == STRONG:
            self.seats[member] = Seat(row.stretch, members)
            return
        before = seat.spells if seat is not None and seat.stretch == row.stretch else {}
        self.seats[member] = Seat(row.stretch, members, {one: before.get(one, row.position) for one in members})

    def on_join(self, row: MembershipRow) -> None:
        self.seats.pop((row.group, row.process, row.incarnation), None)

    def is_inside(self, row: DeliverRow) -> bool:
        """Whether the source of a delivery is in the current view."""
        seat = self.seats.get((row.group, row.process, row.incarnation))
        source = (row.source, row.source_incarnation)
        return seat is not None and seat.stretch == row.stretch and source in seat.members

    def on_deliver(self, row: DeliverRow) -> None:
        member = (row.group, row.process, row.incarnation)
        source = (row.source, row.source_incarnation)
        heard = None
        if row.service == STRONG:
            views = self.strong.setdefault(member, {}).setdefault(source, {})
            heard = views.get(row.view)
            if heard is None:
                heard = views[row.view] = Heard(row.position)
        elif self.is_inside(row):
            spell = self.seats[member].spells.get(source, -1)
            spells = self.weak.setdefault(member, {}).setdefault(source, {})
            heard = spells.get(spell)
            if heard is None:
                heard = spells[spell] = Heard(row.position)
        if heard is not None:
            intervals.add(heard.runs, row.number)

    def missing(self) -> Iterator[Missing]:
        """What was left out, stream by stream."""
        for member, sources in self.strong.items():
            for source, views in sources.items():
                sent = self.sent.get((member[0], *source), Sent())
                for view, heard in views.items():
                    stream = [one for one in spelled(sent.views.get(view, [])) if one not in sent.returned]
                    yield from _left_out(member, source, heard, stream, begin=0)
        for member, sources_of_weak in self.weak.items():
            for source, spells in sources_of_weak.items():
                sent = self.sent.get((member[0], *source), Sent())
                for heard in [one for one in spells.values() if len(one.runs) > 2]:
                    for runs in sent.views.values():
                        stream = spelled(runs)
                        lowest = min((one for one in stream if intervals.holds(heard.runs, one)), default=0)
                        yield from _left_out(member, source, heard, stream, lowest)

    def _sent(self, row: SendRow | MembershipRow) -> Sent:
        source = (row.group, row.process, row.incarnation)
        sent = self.sent.get(source)
        if sent is None:
            sent = self.sent[source] = Sent()
        return sent


def spelled(runs: list[int]) -> list[int]:
    """The numbers of a set one by one."""
    return [number for first, end in zip(runs[::2], runs[1::2], strict=True) for number in range(first, end)]


def _left_out(member: Member, source: Source, heard: Heard, stream: list[int], begin: int) -> Iterator[Missing]:
    """What is missing of a stream from `begin` on, below the highest that was heard of it."""
    got = [number for number in stream if intervals.holds(heard.runs, number)]
    if len(got) < len(stream):
        missing = [number for number in stream if begin <= number < max(got, default=0)]
        missing = [number for number in missing if not intervals.holds(heard.runs, number)]
        if missing:
            yield Missing(member, heard.position, source, missing[0])
