"""The people of a sampled trace: lives of processes, their places in groups, and what they sent."""

from __future__ import annotations

from typing import NamedTuple

from unisono.trace.schema import Start


class Message(NamedTuple):
    """An application message as its source knows it."""

    number: int
    sequence: int
    timestamp: int
    size: int
    body: int


class Life:
    """One incarnation of one process, with its place in each of its groups."""

    def __init__(self, name: str, incarnation: int, offset: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.offset = offset
        self.position = 0
        self.alive = True
        self.members: list[Member] = []


class Member:
    """One life in one group, through all of its stretches there.

    `due` maps the sources of its view to the number that comes next, `lowest` every source to the lowest number that
    it has not passed yet.
    """

    def __init__(self, life: Life, group: str, service: str, wants: str) -> None:
        self.life = life
        self.group = group
        self.service = service
        self.wants = wants
        self.left = False
        self.stretch = 1
        self.sent: list[Message] = []
        self.sequence = 0
        self.view: str | None = None
        self.views = 0
        self.index = 0
        self.due: dict[Member, int] = {}
        self.lowest: dict[Member, int] = {}

    @property
    def active(self) -> bool:
        return self.life.alive and not self.left

    @property
    def ordered(self) -> bool:
        return self.service == "RSO"

    def come_back(self, service: str, wants: str) -> None:
        """Another stretch: a new view and new spells, but no identifier twice.

        The farewell took a sequence, and the return leaves one out.
        """
        self.service = service
        self.wants = wants
        self.left = False
        self.stretch += 1
        self.sequence += 2
        self.view = None
        self.index = 0
        self.due = {}

    @property
    def listens_to_itself(self) -> bool:
        return self.wants == "once" or self.wants_source(self)

    def wants_source(self, source: Member) -> bool:
        return self.wants == "all" or source.life.name in self.wants.split(",")

    def start_at(self, number: int) -> Start:
        before = self.sequence if number > len(self.sent) else self.sent[number - 2].sequence if number > 1 else 0
        return Start(self.life.name, self.life.incarnation, before + 1, number)
