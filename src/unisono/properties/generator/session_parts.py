"""The parts of a sampled run of sessions: clients, their seats in groups, views with their streams, and the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, MembershipRow, RepairRow, SendRow, body_hash
from unisono.trace.schema import Member as TraceMember

if TYPE_CHECKING:
    from random import Random

SECOND = 1_000_000_000


class Message(Struct, frozen=True, eq=False):
    """One message as its sender sent it."""

    sequence: int
    number: int
    timestamp: int
    size: int
    body: int

    @property
    def columns(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class Life(Struct, eq=False):
    """One life of a client or a server."""

    name: str
    incarnation: int
    offset: int
    structured: bool = False
    alive: bool = True
    position: int = 0
    seats: list[Seat] = field(default_factory=list)

    @property
    def member(self) -> TraceMember:
        return TraceMember(self.name, self.incarnation)


class View(Struct, eq=False):
    """A view, and what each member that installed it sent in it."""

    words: str
    round: int
    leader: Life
    digest: int
    members: list[Seat]
    streams: dict[Seat, list[Message]] = field(default_factory=dict)


class Seat(Struct, eq=False):
    """One life in one group.

    `got` counts what it delivered of each member's stream in its view; `hoped` are messages for the view to come.
    """

    life: Life
    group: str
    service: str
    stretch: int = 1
    inside: bool = True
    view: View | None = None
    coming: View | None = None
    blocked: bool = False
    number: int = 0
    sequence: int = 0
    index: int = 0
    got: dict[Seat, int] = field(default_factory=dict)
    hoped: list[Message] = field(default_factory=list)
    stay: list[Message] = field(default_factory=list)
    """What a weak session sent in this stay."""

    @property
    def active(self) -> bool:
        return self.life.alive and self.inside

    def lacks(self, source: Seat) -> list[Message]:
        """What this one has not delivered of a member's stream in its view."""
        stream = [] if self.view is None else self.view.streams.get(source, [])
        return stream[self.got.get(source, 0) :]


class SessionRows:
    """The rows of the run so far, and how each kind of them is written."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rows: list[AnyRow] = []
        self.truth = random.randrange(SECOND)
        self.outside = Life("", 0, 0)

    def advance(self, longest: int = SECOND // 20) -> None:
        self.truth += self.random.randrange(longest)

    def write(self, family: Any, kind: str, life: Life, **columns: Any) -> None:
        """Append one row of a life, now."""
        self.truth += self.random.randint(1, 1000)
        row = family(
            kind=kind,
            run="sampled",
            process=life.name,
            incarnation=life.incarnation,
            position=life.position,
            at=self.truth + life.offset,
            host=life.name,
            truth=self.truth,
            **columns,
        )
        life.position += 1
        self.rows.append(row)

    def note(self, family: Any, kind: str, seat: Seat, **columns: Any) -> None:
        """Append one row of a client in a group."""
        view = None if seat.view is None else seat.view.words
        place = {"group": seat.group, "view": view, "service": seat.service, "stretch": seat.stretch}
        self.write(family, kind, seat.life, **place, **columns)

    def fault(self, fault: str, edge: str, *members: str) -> None:
        self.write(FaultRow, "FAULT", self.outside, fault=fault, edge=edge, members=list(members))

    def send(self, seat: Seat, coming: View | None = None) -> Message:
        """A client sends in its view, or for the view to come."""
        seat.number += 1
        if coming is not None and not seat.hoped:
            seat.sequence = 0
        seat.sequence += self.random.choice((1, 1, 1, 2, 3))
        message = Message(
            seat.sequence, seat.number, self.truth, self.random.randrange(2000), body_hash(self.random.randbytes(4))
        )
        agreed = seat.view if coming is None else coming
        self.note(SendRow, "SEND", seat, agreed=None if agreed is None else agreed.words, **message.columns)
        return message

    def deliver(self, seat: Seat, source: Seat, message: Message) -> None:
        whose = {"source": source.life.name, "source_incarnation": source.life.incarnation}
        self.note(DeliverRow, "DELIVER", seat, index=seat.index, **whose, **message.columns)
        seat.index += 1

    def deliver_up_to(self, seat: Seat, source: Seat, count: int) -> None:
        """A client delivers a member's stream in its view up to its `count`-th message."""
        assert seat.view is not None, "who delivers has a view"
        while seat.got.get(source, 0) < count:
            message = seat.view.streams[source][seat.got.get(source, 0)]
            seat.got[source] = seat.got.get(source, 0) + 1
            self.deliver(seat, source, message)

    def repair(self, kind: str, seat: Seat, source: Seat, last: int, **columns: Any) -> None:
        whose = {"source": source.life.name, "source_incarnation": source.life.incarnation}
        self.note(RepairRow, kind, seat, first=1, last=last, **whose, **columns)

    def give_back(self, seat: Seat) -> None:
        """What was sent for a view that does not come is returned."""
        for message in seat.hoped:
            told = {"number": message.number, "sequence": message.sequence}
            self.note(MembershipRow, "RETURNED", seat, reason=self.random.choice(("return", "resend", "drop")), **told)
        seat.hoped.clear()
