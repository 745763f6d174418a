"""Who takes part in a large trace, and what happens in each of its epochs.

An epoch is one view that all senders agree on. What happens comes round every six epochs: a sender crashes, comes
back and is merged; a receiver becomes a sender and a receiver again; another receiver crashes and comes into the
middle of a view.
"""

from __future__ import annotations

from msgspec import Struct

from unisono.trace.schema import Member, Start

ROUND = 6


class Life(Struct, eq=False):
    """One life of a process in the group, with how far it has come."""

    name: str
    incarnation: int
    role: str
    service: str
    offset: int
    delay: int
    position: int = 0
    number: int = 0
    sequence: int = 0
    timestamp: int = 0
    views: int = 0
    view: str | None = None
    released: int = 0
    due: dict[str, int] = {}
    """By the name of each source in its view: the incarnation of it that it hears."""

    @property
    def itself(self) -> Member:
        return Member(self.name, self.incarnation)

    @property
    def start(self) -> Start:
        """Where what it sends next begins."""
        return Start(self.name, self.incarnation, self.sequence + 1, self.number + 1)


class Cast(Struct):
    """The processes by their part, each by its name."""

    senders: dict[str, Life]
    receivers: dict[str, Life]
    """Mere receivers that follow the agreed views."""
    apart: dict[str, Life]
    """Receivers with views of their own."""

    def listeners(self) -> list[Life]:
        return [*self.senders.values(), *self.receivers.values(), *self.apart.values()]


class Happening(Struct, frozen=True):
    """What is special in one epoch; names are empty where nobody is concerned."""

    crashes: str = ""
    """Of the senders, after six tenths of the messages."""
    comes_back: str = ""
    """A sender that crashed starts again, alone until the next epoch."""
    turns: str = ""
    """A receiver sends from the first third of the order to the second."""
    drops: str = ""
    """Of the receivers, in the middle."""
    enters: str = ""
    """A receiver that crashed comes into the middle of the view."""


def happening(epoch: int, last: int, senders: list[str], receivers: list[str]) -> Happening:
    """What happens in an epoch; nobody is away in the last one."""
    turn, step = divmod(epoch, ROUND)
    sender, other = senders[turn % len(senders)], receivers[-1]
    if step == 1 and epoch + 2 <= last:
        return Happening(crashes=sender)
    if step == 2 and epoch + 1 <= last:
        return Happening(comes_back=sender)
    if step == 3:
        return Happening(turns=receivers[0])
    if step == 4 and epoch + 1 <= last and len(receivers) > 1:
        return Happening(drops=other)
    if step == 5 and len(receivers) > 1:
        return Happening(enters=other)
    return Happening()


def cast_of(processes: int, random_incarnation: int) -> Cast:
    """The first lives: three quarters send, one of the others has views of its own, the rest follow."""
    senders = max(2, processes * 3 // 4)
    names = [f"p{index:02d}" for index in range(processes)]

    def life(index: int, role: str, service: str = "RTO") -> Life:
        offset = (index - processes // 2) * 1_000_003
        return Life(names[index], random_incarnation + index, role, service, offset, 200_000 + 40_000 * index)

    return Cast(
        {names[index]: life(index, "sender") for index in range(senders)},
        {names[index]: life(index, "receiver") for index in range(senders, processes - 1)},
        {names[-1]: life(processes - 1, "receiver", "RSO")},
    )


def again(life: Life) -> Life:
    """The next life of a process that crashed."""
    return Life(life.name, life.incarnation + 1000, life.role, life.service, life.offset, life.delay)
