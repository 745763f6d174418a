"""Agreed views of a sampled trace: who is in them, where their members start and stop, and what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.properties.generator.population import Member


class Passage:
    """A way out of a view: to which one, who came along, and of each source the first number that is left out."""

    def __init__(self, view: AgreedView, along: list[Member], cut: dict[Member, int]) -> None:
        self.view = view
        self.along = along
        self.cut = cut
        self.seen = False


class AgreedView:
    """One view of a group's senders.

    `ends` has the number that each member which is gone would have sent next in it; `seen` says whether somebody wrote
    that it installed the view.
    """

    def __init__(self, start_time: int, leader: Member, sequence: int, members: list[Member]) -> None:
        self.start_time = start_time
        self.leader = leader
        self.sequence = sequence
        self.word = f"{start_time}/{leader.life.name}~{leader.life.incarnation:x}/{sequence}"
        self.members = members
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
        return [member for member in self.members if member.active and member.agreed is self]

    def is_current(self) -> bool:
        """Whether nobody who lives went on without the others."""
        return all(member.agreed is self for member in self.members if member.life.alive)

    def is_judged(self) -> bool:
        """Whether all members always had agreed views, so that who follows them can be judged."""
        return not any(member.strange for member in self.members)
