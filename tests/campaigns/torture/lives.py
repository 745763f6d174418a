"""What the logs say, put together: each life with its views, and what it delivered in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.campaigns.torture.records import (
    Closed,
    Got,
    Joined,
    Leaving,
    Left,
    Record,
    Sending,
    Sent,
    Told,
    Unsent,
    Viewed,
)

Message = tuple[str, int]
"""Whose, and its number."""

SHUT_OUT = ("Excluded", "DroppedOut", "LeftBehind")
"""Events that tell a member that it could not go on as others did."""
ROLES = ("sends now", "only receives now")
"""Reasons of a view that part nobody from anybody."""


@dataclass
class Stay:
    """The time that a member spends in one view; before its first view there is none."""

    view: Viewed
    got: list[Message] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)

    def keeps(self, before: Stay, other: str) -> bool:
        """Whether this member and another came here together from the stay before."""
        if self.view.previous != before.view.view or before.told_off(other):
            return False
        if self.view.transitional is None:  # a view of its own: only what it says of the other counts
            return other in before.view.members and other in self.view.members
        if self.view.reasons.get(other) in ROLES:
            return True
        if other in before.view.members:
            return other in self.view.transitional
        return other not in self.view.members

    def told_off(self, other: str) -> bool:
        """Whether this member was told that it could not go on, or not with that source."""
        return any(one.event in SHUT_OUT and (one.event != "LeftBehind" or one.about == other) for one in self.told)


@dataclass
class Biography:
    """One life, from its log."""

    key: str
    who: str = ""
    service: str = ""
    role: str = ""
    joined_at: float = 0
    stays: list[Stay] = field(default_factory=list)
    got: list[tuple[int, Got]] = field(default_factory=list)
    """Every delivery, and in which stay it was: -1 before the first view."""
    sending: dict[int, str] = field(default_factory=dict)
    """The hash of each number."""
    accepted: dict[int, int] = field(default_factory=dict)
    """The numbers that were accepted, and during which stay."""
    told: list[Told] = field(default_factory=list)
    leaving_at: float | None = None
    left_at: float | None = None
    closed_at: float | None = None

    @property
    def ordered(self) -> bool:
        """Whether it receives in the one order of all messages."""
        return self.service == "timestamp"

    @property
    def agrees(self) -> bool:
        """Whether its views are agreed with others."""
        return self.service in ("timestamp", "session")

    @property
    def shut_out(self) -> bool:
        """Whether the others went on without it at any time, as far as it was told."""
        if any(one.event in SHUT_OUT for one in self.told):
            return True
        pairs = zip(self.stays, self.stays[1:], strict=False)
        return any(
            (
                later.view.transitional is not None
                and set(before.view.members) & set(later.view.members) - set(later.view.transitional) - {self.who}
            )
            or (
                later.view.members == (self.who,) != before.view.members
                and not all(
                    later.view.reasons.get(one) in (*ROLES, "left") for one in before.view.members if one != self.who
                )
            )
            for before, later in pairs
        )

    def take(self, record: Record) -> None:
        match record:
            case Joined():
                self.who, self.service, self.role, self.joined_at = record.who, record.service, record.role, record.at
            case Viewed():
                self.stays.append(Stay(record))
            case Sending():
                self.sending[record.number] = record.hash
            case Sent():
                self.accepted |= dict.fromkeys(range(record.first, record.last + 1), len(self.stays) - 1)
            case Got():
                self.got.append((len(self.stays) - 1, record))
                if self.stays:
                    self.stays[-1].got.append((record.source, record.number))
            case Told():
                self.told.append(record)
                if self.stays:
                    self.stays[-1].told.append(record)
            case Leaving():
                self.leaving_at = record.at
            case Left():
                self.left_at = record.at
            case Closed():
                self.closed_at = record.at
            case Unsent():
                pass


Biographies = Mapping[str, Biography]


def biographies(logs: Mapping[str, list[Record]]) -> dict[str, Biography]:
    """Of every life that came so far as to join, by its key."""
    lives = {key: Biography(key) for key in logs}
    for key, records in logs.items():
        for record in records:
            lives[key].take(record)
    return {key: life for key, life in lives.items() if life.who}


def by_process(lives: Biographies) -> dict[str, Biography]:
    return {life.who: life for life in lives.values()}


def transitions(life: Biography) -> Iterator[tuple[Stay, Stay]]:
    """Each view and the one that a life went to from it."""
    for before, later in zip(life.stays, life.stays[1:], strict=False):
        if later.view.previous == before.view.view:
            yield before, later
