"""A state of the whole: three members, what is on its way to each, and what the adversary has used up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.exploration.automaton import Automaton, Sent
from tests.exploration.member import NAMES, PROCESSES, Datagram, Happening, Message
from unisono.intergroup.membership.contract import Phase
from unisono.sealing import NullSeal
from unisono.wire.messages import ControlPacket
from unisono.wire.reading import read_datagram

EVERYBODY = range(len(NAMES))


class Used(NamedTuple):
    """How much of its means the adversary has used."""

    timers: int = 0
    sends: int = 0


class Whole(NamedTuple):
    """Everything that decides what can happen next."""

    members: tuple[int, ...]
    ways: tuple[frozenset[int], ...]
    """The packets on their way to each; the same packet twice is one."""
    crashed: frozenset[int]
    """Who was dead from the start; who dies later simply does nothing more (see `Explorer`)."""
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

    member: int
    argument: int | Happening
    """A packet that is delivered, or what else happens."""


class Bounds(NamedTuple):
    """What the adversary may do, so that the states are finitely many."""

    losses: int = 2
    crashes: int = 1
    timers: int = 3
    sends: int = 0
    repairs: int = 1
    """How many views a member installs."""


def is_over(automaton: Automaton, whole: Whole, bounds: Bounds, base: tuple[int, ...]) -> bool:
    """Whether all have come to their end, or one of them has and begins another repair: that is another story.

    `base` is how many views each member had installed at the start.
    """
    open_ = False
    for index in whole.live:
        face = automaton.faces[whole.members[index]]
        if len(face.transitions) < base[index] + bounds.repairs:
            open_ = True
        elif face.phase is not Phase.SETTLED:
            return True
    return not open_


def choices(automaton: Automaton, whole: Whole, bounds: Bounds, base: tuple[int, ...]) -> Iterator[Choice]:
    """Everything that may happen next."""
    used, live = whole.used, whole.live
    for index in live:
        face = automaton.faces[whole.members[index]]
        for packet in sorted(whole.ways[index]):
            if matters(automaton, whole, index, packet):
                yield Choice(index, packet)
        repairing = face.phase is not Phase.SETTLED
        if used.timers < bounds.timers and (repairing or len(face.transitions) < base[index] + bounds.repairs):
            if face.due is not None:
                yield Choice(index, Happening("passes"))
            if repairing:
                others = [other for other in live if other != index]
                yield Choice(index, Happening("waits", tuple(others)))
                if bounds.crashes and len(others) > 1:
                    for silent in others:
                        yield Choice(index, Happening("waits", tuple(o for o in others if o != silent)))
        for message in recoverable(automaton, whole, index):
            yield Choice(index, Happening("recovers", message))
        if used.sends < bounds.sends and face.may_send:
            yield Choice(index, Happening("sends"))


def matters(automaton: Automaton, whole: Whole, index: int, packet: int) -> bool:
    """Whether a packet would change anything if it came now: where it does not, it may as well stay on its way."""
    state, sent = automaton.after(whole.members[index], arrival(automaton, packet))
    return bool(sent) or state != whole.members[index]


def arrival(automaton: Automaton, number: int) -> Happening:
    packet = automaton.packets[number]
    return Happening("hears" if isinstance(packet, Datagram) else "gets", packet)


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
    index, argument = choice.member, choice.argument
    if isinstance(argument, int):
        ways = tuple(way - {argument} if other == index else way for other, way in enumerate(ways))
        happening = arrival(automaton, argument)
    else:
        happening = argument
        if happening.what in ("passes", "waits"):
            used = used._replace(timers=used.timers + 1)
        elif happening.what == "sends":
            used = used._replace(sends=used.sends + 1)
    state, sent = automaton.after(members[index], happening)
    members = (*members[:index], state, *members[index + 1 :])
    return Whole(members, spread(ways, crashed, index, sent), crashed, used)


def spread(
    ways: tuple[frozenset[int], ...], crashed: frozenset[int], source: int, sent: Sent
) -> tuple[frozenset[int], ...]:
    """Put what a member sent on its way."""
    if not sent:
        return ways
    return tuple(
        way | {packet for to, packet in sent if to in (None, index)}
        if index != source and index not in crashed
        else way
        for index, way in enumerate(ways)
    )


def in_words(automaton: Automaton, choice: Choice) -> str:
    """A choice as a sentence."""
    name, argument = NAMES[choice.member], choice.argument
    if isinstance(argument, int):
        packet = automaton.packets[argument]
        return f"{name} gets from {NAMES[packet.source]}: {describe(packet)}"
    if argument.what == "recovers":
        return f"{name} recovers {NAMES[argument.argument.source]}{argument.argument.sequence}"
    if argument.what == "waits":
        heard = " and ".join(NAMES[other] for other in argument.argument)
        return f"{name} loses patience, while it hears {heard}"
    return f"{name} " + {"passes": "has a timer expire", "sends": "sends a message"}[argument.what]


def describe(packet: Datagram | Message) -> str:
    if isinstance(packet, Message):
        return f"message {NAMES[packet.source]}{packet.sequence}"
    opened = read_datagram(packet.data, NullSeal())
    assert isinstance(opened, ControlPacket)
    text = "; ".join(map(str, opened.messages))
    for process in PROCESSES:
        text = text.replace(str(tuple(process)), process.name).replace(repr(process), process.name)
    return text
