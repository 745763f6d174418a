"""A state of the whole: three members, what is on its way to each, and what the adversary has used up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.exploration.automaton import Automaton, Sent
from tests.exploration.member import NAMES, PROCESSES, Datagram, Happening, Message
from unisono.intergroup.membership.repair import Phase
from unisono.wire.reading import read_datagram
from unisono.sealing import NullSeal
from unisono.wire.messages import ControlPacket

EVERYBODY = range(len(NAMES))


class Used(NamedTuple):
    """How much of its means the adversary has used."""

    losses: int = 0
    crashes: int = 0
    timers: int = 0
    sends: int = 0


class Whole(NamedTuple):
    """Everything that decides what can happen next."""

    members: tuple[int, ...]
    ways: tuple[frozenset[int], ...]
    """The packets on their way to each; the same packet twice is one."""
    crashed: frozenset[int]
    used: Used

    @property
    def live(self) -> tuple[int, ...]:
        return tuple(index for index in EVERYBODY if index not in self.crashed)

    @property
    def quiet(self) -> bool:
        """Nothing is on its way to anybody who lives."""
        return not any(self.ways[index] for index in self.live)


class Choice(NamedTuple):
    """One thing that may happen next: to a member, and with what."""

    kind: str
    member: int
    argument: int | Happening | None = None


class Bounds(NamedTuple):
    """What the adversary may do, so that the states are finitely many."""

    losses: int = 2
    crashes: int = 1
    timers: int = 3
    sends: int = 0


def choices(automaton: Automaton, whole: Whole, bounds: Bounds, base: tuple[int, ...]) -> Iterator[Choice]:
    """Everything that may happen next. `base` is how many views each member had installed at the start."""
    used = whole.used
    for index in whole.live:
        face = automaton.faces[whole.members[index]]
        for packet in sorted(whole.ways[index]):
            yield Choice("deliver", index, packet)
            if used.losses < bounds.losses:
                yield Choice("lose", index, packet)
        repairing = face.phase is not Phase.SETTLED
        if used.timers < bounds.timers and (repairing or len(face.transitions) == base[index]):
            if face.due is not None:
                yield Choice("happen", index, Happening("passes"))
            if repairing:
                yield Choice("happen", index, Happening("waits", whole.live))
        for message in recoverable(automaton, whole, index):
            yield Choice("happen", index, Happening("recovers", message))
        if used.sends < bounds.sends and face.may_send:
            yield Choice("happen", index, Happening("sends"))
        if used.crashes < bounds.crashes:
            yield Choice("crash", index)


def recoverable(automaton: Automaton, whole: Whole, index: int) -> list[Message]:
    """What a member that recovers lacks next, and some live member holds."""
    found = []
    for source, sequence in automaton.faces[whole.members[index]].wanted:
        holders = (automaton.faces[whole.members[other]].held for other in whole.live if other != index)
        message = next((one for held in holders for one in held if one[:2] == (source, sequence)), None)
        if message is not None:
            found.append(message)
    return found


def after(automaton: Automaton, whole: Whole, choice: Choice) -> Whole:
    """The state of the whole after a choice."""
    members, ways, crashed, used = whole
    kind, index, argument = choice
    if kind == "crash":
        emptied = tuple(frozenset() if other == index else way for other, way in enumerate(ways))
        return Whole(members, emptied, crashed | {index}, used._replace(crashes=used.crashes + 1))
    if isinstance(argument, int):
        ways = tuple(way - {argument} if other == index else way for other, way in enumerate(ways))
        if kind == "lose":
            return Whole(members, ways, crashed, used._replace(losses=used.losses + 1))
        packet = automaton.packets[argument]
        happening = Happening("hears" if isinstance(packet, Datagram) else "gets", packet)
    else:
        assert argument is not None
        happening = argument
        if happening.what in ("passes", "waits"):
            used = used._replace(timers=used.timers + 1)
        elif happening.what == "sends":
            used = used._replace(sends=used.sends + 1)
    state, sent = automaton.after(members[index], happening)
    members = (*members[:index], state, *members[index + 1 :])
    return Whole(members, spread(ways, crashed, index, sent), crashed, used)


def spread(ways: tuple[frozenset[int], ...], crashed: frozenset[int], source: int, sent: Sent) -> tuple[frozenset[int], ...]:
    """Put what a member sent on its way."""
    if not sent:
        return ways
    return tuple(
        way | {packet for to, packet in sent if to in (None, index)} if index != source and index not in crashed else way
        for index, way in enumerate(ways)
    )


def in_words(automaton: Automaton, whole: Whole, choice: Choice) -> str:
    """A choice as a sentence."""
    kind, index, argument = choice
    name = NAMES[index]
    if kind == "crash":
        return f"{name} crashes"
    if isinstance(argument, int):
        packet = automaton.packets[argument]
        verb = "does not get" if kind == "lose" else "gets"
        return f"{name} {verb} from {NAMES[packet.source]}: {describe(packet)}"
    assert argument is not None
    if argument.what == "recovers":
        return f"{name} recovers {NAMES[argument.argument.source]}{argument.argument.sequence}"
    words = {"passes": "has a timer expire", "waits": "waits until it loses patience", "sends": "sends a message"}
    return f"{name} {words[argument.what]}"


def describe(packet: Datagram | Message) -> str:
    if isinstance(packet, Message):
        return f"message {NAMES[packet.source]}{packet.sequence}"
    opened = read_datagram(packet.data, NullSeal())
    assert isinstance(opened, ControlPacket)
    text = "; ".join(map(str, opened.messages))
    for process in PROCESSES:
        text = text.replace(str(tuple(process)), process.name).replace(repr(process), process.name)
    return text
