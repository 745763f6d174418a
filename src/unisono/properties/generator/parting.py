"""Faults that part the members of a sampled run, wherever one goes on without another that is there."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from unisono.properties.generator.changes import Changing
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS

if TYPE_CHECKING:
    from random import Random

    from unisono.properties.generator.population import Member

PARTITION = "partition"
MOVES = ("JOIN", "LEAVE")
"""The rows, besides views, of how a process comes into its views and out of them, where it says so itself."""

Lives = set[tuple[str, int]]
Sides = list[list[str]]


class Held(Struct):
    """The agreed view that a member has, or had before it failed to follow the others."""

    stretch: int
    role: str
    lives: Lives
    failed: bool = False

    def leads_to(self, stretch: int) -> bool:
        return stretch == self.stretch or (self.failed and stretch == self.stretch + 1)


class Parting(Changing):
    """The faults between those who hear each other no more, and when each went out of its views of its own accord."""

    def __init__(self, random: Random, names: tuple[str, ...], groups: tuple[str, ...]) -> None:
        super().__init__(random, names, groups)
        self.fault_random = copy(random)
        """For faults that part members: they change nothing else in the trace."""
        self.rifts: list[Sides] = []
        """Those that began here, and go on."""
        self.active: list[Sides] = []
        self.ended: list[tuple[int, Sides]] = []
        self.held: dict[Member, Held] = {}
        self.gone_at: dict[tuple[str, str, int], int] = {}
        """When a life in a group said last that it goes out of the views, or that it only receives."""

    def note(self, family: Any, kind: str, member: Member, **columns: Any) -> None:
        if kind == "VIEW":
            lives = {(start.source, start.incarnation) for start in columns["start"]}
            is_held = member.service == "RTO"
            if is_held and columns.get("era") is None:
                self.go_without(member, lives)
            super().note(family, kind, member, **columns)
            self.held.pop(member, None)
            if is_held:
                self.held[member] = Held(member.stretch, columns["role"], lives)
            return
        super().note(family, kind, member, **columns)
        if kind in MOVES:
            self.held.pop(member, None)
        if kind == "SELF_FAIL" and member in self.held:
            self.held[member].failed = True
        if kind in ("LEAVE", "SELF_FAIL") or (kind == "ROLE" and columns["role"] == "receiver"):
            self.gone_at[member.group, member.life.name, member.life.incarnation] = self.truth

    def fault(self, edge: str, name: str, members: list[str], sides: Sides | None = None) -> None:
        """A fault that takes members away parts them from all others."""
        if sides is None and members:
            sides = [side for side in ([one for one in self.names if one not in members], members) if side]
        super().fault(edge, name, members, sides)
        if sides and edge == "begin":
            self.active.append(sides)
        elif sides:
            self.active.remove(sides)
            self.ended.append((self.truth, sides))

    def go_without(self, member: Member, lives: Lives) -> None:
        """A member goes on with these lives: a fault says why it does not hear the others.

        A receiver that leaves more behind than go with it needs one for each of them alone: some may leave at once.
        After a failure to follow, the others need none.
        """
        before = self.held.get(member)
        if before is None or not before.leads_to(member.stretch):
            return
        myself = (member.life.name, member.life.incarnation)
        without = before.lives - lives - {myself}
        missed = [life for life in sorted(without) if self.is_there(member.group, life)]
        alone = before.role == "receiver" and len(missed) > len(before.lives & lives)
        if before.failed and not alone:
            return
        along = set() if alone else {name for name, _ in lives}
        companies = [{member.life.name, name, *along} for name, _ in missed]
        if not all(self.explains(company) for company in companies) or (without and self.fault_random.random() < 0.1):
            self.tear({member.life.name, *(name for name, _ in lives)}, member.life.name)

    def is_there(self, group: str, life: tuple[str, int]) -> bool:
        """A life goes on, and did not go out of the views of a group shortly before."""
        name, incarnation = life
        gone_at = self.gone_at.get((group, name, incarnation))
        current = self.lives[name]
        there = gone_at is None or gone_at < self.truth - STALL_LIMIT_NANOSECONDS
        return current.incarnation == incarnation and current.alive and there

    def explains(self, company: set[str]) -> bool:
        """A fault that goes on, or was there shortly before, keeps these names from hearing each other."""
        self.ended = [(end, sides) for end, sides in self.ended if end >= self.truth - STALL_LIMIT_NANOSECONDS]
        felt = [*self.active, *(sides for _, sides in self.ended)]
        return any(not any(company.issubset(side) for side in sides) for sides in felt)

    def tear(self, near: set[str], name: str) -> None:
        """A fault begins that parts that name from all who are not near, and ends at once or later.

        Now and then the others hear those near it still, or not even each other.
        """
        one = [other for other in self.names if other in near]
        far = [other for other in self.names if other not in near]
        fate = self.fault_random.random()
        if fate < 0.2:
            sides = [one, [other for other in self.names if other != name]]
        elif fate < 0.4:
            sides = [one, *([other] for other in far)]
        else:
            sides = [side for side in (one, far) if side]
        self.fault("begin", PARTITION, [], sides)
        self.rifts.append(sides)
        if self.settled or self.fault_random.random() < 0.5:
            self.mend(self.rifts.pop())

    def mend(self, sides: Sides) -> None:
        self.fault("end", PARTITION, [], sides)

    def mend_some(self) -> None:
        """Now and then a fault that parts members ends."""
        if self.rifts and self.fault_random.random() < 0.1:
            self.mend(self.rifts.pop(self.fault_random.randrange(len(self.rifts))))

    def mend_all(self) -> None:
        while self.rifts:
            self.mend(self.rifts.pop())
