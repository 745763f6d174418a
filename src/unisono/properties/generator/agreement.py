"""Agreed views of a sampled trace: who is in them, where their members start and stop, and what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.properties.generator.population import Key, Member
    from unisono.trace.schema import Start


class Change:
    """A place in the order where somebody becomes a sender, or a receiver, and the view that follows there."""

    def __init__(
        self,
        key: Key,
        start_time: int,
        leader: Member,
        sequence: int,
        member: Member,
        adds: bool,
        members: list[Member],
    ) -> None:
        self.key = key
        self.start_time = start_time
        self.leader = leader
        self.sequence = sequence
        self.word = word(start_time, leader, sequence)
        self.member = member
        self.adds = adds
        self.seat = len(member.sent) + 1
        self.members = members
        self.starts: dict[Member, int] = {}
        self.points: list[Start] = []

    def identifier(self) -> dict[str, object]:
        return identifier(self.start_time, self.leader, self.sequence)


class Passage:
    """A way out of an era: to which view, after how many changes, who came along, and of each source the first number
    that is left out.
    """

    def __init__(self, view: AgreedView, along: list[Member], cut: dict[Member, int], changes: int) -> None:
        self.view = view
        self.along = along
        self.cut = cut
        self.changes = changes
        self.seen = False


class AgreedView:
    """One view of a group's senders, and the changes of who sends that follow until the next one is agreed.

    `ends` has the number that each member which is gone would have sent next in it; `seen` says whether somebody wrote
    that it installed the view.
    """

    def __init__(self, start_time: int, leader: Member, sequence: int, members: list[Member]) -> None:
        self.start_time = start_time
        self.leader = leader
        self.sequence = sequence
        self.word = word(start_time, leader, sequence)
        self.members = members
        self.changes: list[Change] = []
        self.starts = {member: len(member.sent) + 1 for member in members}
        self.points = [member.start_at(len(member.sent) + 1) for member in members]
        self.merged: list[str] = []
        self.primary: bool | None = None
        self.ends: dict[Member, int] = {}
        self.passages: list[Passage] = []
        self.seen = False

    def end_of(self, source: Member) -> int:
        """The first number of a source that is not of this view, as things are now."""
        return self.ends.get(source, len(source.sent) + 1)

    def present(self) -> list[Member]:
        """The members that are active and in this view still."""
        return [member for member in self.everybody() if member.active and member.agreed is self]

    def everybody(self) -> list[Member]:
        """All who were senders at any time."""
        return list(dict.fromkeys([*self.members, *(change.member for change in self.changes if change.adds)]))

    def senders(self) -> list[Member]:
        """The members after all changes."""
        return self.senders_at(len(self.changes))

    def senders_at(self, changes: int) -> list[Member]:
        """The members after so many changes."""
        return self.changes[changes - 1].members if changes else self.members

    def start_time_at(self, changes: int) -> int:
        return self.changes[changes - 1].start_time if changes else self.start_time

    def word_at(self, changes: int) -> str:
        return self.changes[changes - 1].word if changes else self.word

    def identifier_at(self, changes: int) -> dict[str, object]:
        if changes:
            return self.changes[changes - 1].identifier()
        return identifier(self.start_time, self.leader, self.sequence)

    def seat_at(self, source: Member, changes: int) -> int:
        """Where a member after so many changes began in this era, the last time that it did."""
        seats = [change.seat for change in self.changes[:changes] if change.adds and change.member is source]
        return seats[-1] if seats else self.starts[source]

    def is_current(self) -> bool:
        """Whether nobody who lives went on without the others, nor sent elsewhere what comes after its end here."""
        senders = self.senders()
        return all(
            member.agreed is self
            or (member not in senders and member.agreed is None and self.end_of(member) > len(member.sent))
            for member in self.everybody()
            if member.life.alive
        )

    def is_judged(self) -> bool:
        """Whether all members always had agreed views, so that who follows them can be judged."""
        return not any(member.strange for member in self.members)


def word(start_time: int, leader: Member, sequence: int) -> str:
    """The identifier of a view in words."""
    return f"{start_time}/{leader.life.name}~{leader.life.incarnation:x}/{sequence}"


def identifier(start_time: int, leader: Member, sequence: int) -> dict[str, object]:
    """The parts of the identifier of a view."""
    return {
        "start_time": start_time,
        "leader": leader.life.name,
        "leader_incarnation": leader.life.incarnation,
        "leader_sequence": sequence,
    }
