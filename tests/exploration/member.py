"""One member: the real membership code on streams that are only numbers."""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any, NamedTuple

from tests.exploration.streams import Streams, Transition
from unisono.clock import LamportClock
from unisono.engine import Address, SendDatagram, is_multicast
from unisono.fingerprint import fingerprint
from unisono.identity import ProcessId, ViewId, ViewMark
from unisono.intergroup.context import Context
from unisono.intergroup.membership.contract import Phase
from unisono.intergroup.membership.membership import Membership
from unisono.intergroup.membership.repair import MembershipRepair
from unisono.reliable.step import Place, Step
from unisono.reliable.suspicion import Suspicion
from unisono.sealing import NullKeyAgreement, NullSeal
from unisono.settings import Settings
from unisono.units import MILLISECOND, SECOND
from unisono.wire.messages import ControlPacket, KeepAlive
from unisono.wire.reading import read_datagram

NAMES = "abc"
PROCESSES = tuple(ProcessId(name, 1) for name in NAMES)
WALL = 1_000_000 * SECOND
KEEP_ALIVE = 2 * SECOND
"""Statements are said again after a quarter of it, so that few expiries lead from one timer to the next."""
CHANCE = 1
"""What stands for randomness: nothing here asks for it."""

SEAL = NullSeal()
KEYS = NullKeyAgreement()


class Datagram(NamedTuple):
    """Control messages on their way."""

    source: int
    data: bytes


class Message(NamedTuple):
    """A message of the application, on its way or brought by repair."""

    source: int
    sequence: int
    mark: ViewMark


class Happening(NamedTuple):
    """Something that happens to a member: `what` and its argument."""

    what: str
    argument: Any = None


class Face(NamedTuple):
    """What the explorer needs to know of a member's state."""

    phase: Phase
    view: ViewId
    members: tuple[ProcessId, ...]
    may_send: bool
    wanted: tuple[tuple[int, int], ...]
    """Source and first sequence that lacks, of what is to be recovered."""
    held: frozenset[Message]
    transitions: tuple[Transition, ...]
    due: int | None
    """For how long until the next timer."""


class _Hearing(Suspicion):
    """What is heard at one instant counts once: how many packets that were makes no difference then.

    The timeout is the one of the settings, and not three of these long keep-alives.
    """

    __slots__ = ()

    def hear(self, peer: ProcessId, now: int) -> None:
        link = self._links.get(peer)
        if link is not None and link.heard != now:
            super().hear(peer, now)


class _Following:
    """Stands in for the streams where membership only asks whether one was lost."""

    __slots__ = ("entering", "lost", "ordered", "said", "streams")

    def __init__(self) -> None:
        self.entering = None
        self.lost: list[Any] = []
        self.ordered = None
        self.said: list[Any] = []
        self.streams: dict[ProcessId, Any] = {}

    def part_with_receivers(self, step: Step) -> None:
        """Nobody here has another service."""


class Member:
    """A member with its own time, which stands still between timers."""

    __slots__ = ("_clock", "_context", "_membership", "_now", "_place", "_streams", "index")

    def __init__(self, index: int, primary: int) -> None:
        settings = Settings(
            service="timestamp",
            keep_alive=KEEP_ALIVE,
            suspicion=SECOND,
            merge_delay=20 * MILLISECOND,
            primary=primary,
            clock_drift_limit=3600 * SECOND,
            trace=False,
        )
        self.index = index
        self._clock = LamportClock(settings.clock_drift_limit)
        self._context = Context("g", "", PROCESSES[index], settings, self._clock, CHANCE, SEAL, KEYS)  # type: ignore[arg-type]
        self._streams = Streams(self._context)
        self._membership = Membership(self._context, self._streams, _Following(), self._streams, self._streams, 0)  # type: ignore[arg-type]
        self._membership.suspicion = self._membership.repair._suspicion = _Hearing(settings.suspicion)
        self._place = Place("g", "RTO", 1, False)
        self._now = index  # so that no two views begin at the same instant

    @property
    def settings(self) -> Settings:
        return self._context.settings

    def handle(self, happening: Happening) -> list[tuple[int | None, Datagram | Message]]:
        """Let something happen; returns what is sent, to one member or (None) to all others."""
        argument = happening.argument
        sent: list[tuple[int | None, Datagram | Message]] = []
        if happening.what in ("passes", "waits"):
            self._pass(happening)
        step = Step(self._place, self._now, self._now + WALL)
        if happening.what == "joins":
            self._membership.join(step)
        elif isinstance(argument, Datagram):
            self._on_datagram(step, argument)
        elif happening.what == "gets":
            source = PROCESSES[argument.source]
            self._membership.on_heard(step, source)
            self._membership.on_mark(step, source, Address(source.name), argument.mark)
            self._streams.take(source, argument.sequence, argument.mark)
        elif happening.what == "recovers":
            self._streams.take(PROCESSES[argument.source], argument.sequence, argument.mark)
        elif happening.what == "sends":
            sent.append((None, Message(self.index, *self._streams.send())))
        elif happening.what == "lives":
            self._streams.keep_alive(step)
        for name in self._context.deadlines.expire(step.now):
            self._membership.on_time(step, name)
        self._membership.settle(step)
        due = self._membership.suspicion.next_due(step.now)
        if due is not None:  # exactly, and not when it was due before others were heard: few timers may expire
            self._context.deadlines.set("suspicion", due)
        for effect in step.finish():
            if isinstance(effect, SendDatagram):
                to = None if is_multicast(effect.to) else NAMES.index(effect.to)
                sent.append((to, Datagram(self.index, effect.data)))
        return sent

    def _pass(self, happening: Happening) -> None:
        """Time passes: to the next timer, by so much, or until nobody can be waited for any longer.

        A member that waits hears meanwhile from those who live.
        """
        repair = self._membership.repair
        if happening.what == "passes":
            due = self._context.deadlines.earliest()
            assert due is not None or happening.argument is not None, "a timer is running, or so much time passes"
            self._now = max(self._now, due or 0) if happening.argument is None else self._now + happening.argument
        else:
            self._now = max(self._now, repair._pacing.since + repair._patience)
            for peer in happening.argument:
                self._membership.suspicion.hear(PROCESSES[peer], self._now)

    def _on_datagram(self, step: Step, datagram: Datagram) -> None:
        packet = read_datagram(datagram.data, SEAL)
        assert isinstance(packet, ControlPacket)
        source, address = packet.source, Address(packet.source.name)
        self._membership.on_heard(step, source)
        for message in packet.messages:
            if isinstance(message, KeepAlive):
                if self._context.believes(step, message.timestamp):
                    self._membership.on_mark(step, source, address, message.view)
            else:
                self._membership.on_message(step, source, address, message)  # type: ignore[arg-type]

    def face(self) -> Face:
        repair, streams = self._membership.repair, self._streams
        assert repair.view is not None, "members have joined"
        due = self._context.deadlines.earliest()
        return Face(
            repair.phase,
            repair.view.id,
            repair.view.members,
            not (self._context.held_back or self._context.awaits),
            tuple(
                (NAMES.index(source.name), streams.missing(source))
                for source in sorted(streams.wanted)
                if streams.missing(source) <= streams.wanted[source]
            ),
            frozenset(
                Message(NAMES.index(source.name), sequence, mark)
                for source, log in streams.log.items()
                for sequence, mark in log.items()
            ),
            tuple(streams.transitions),
            None if due is None else max(0, due - self._now),
        )

    def fingerprint(self) -> str:
        """Equal for members that will behave alike from here on, whatever happens, and have the same past views."""
        membership, context = self._membership, self._context
        parts = [getattr(self._streams, name) for name in Streams.__slots__ if name != "_context"]
        shared = ("_context", "_following", "_ground", "_receiver", "_sending", "_suspicion", "phase", "repair")
        parts += [getattr(membership, name) for name in Membership.__slots__ if name not in shared]
        repair = membership.repair
        parts += [getattr(repair, name) for name in MembershipRepair.__slots__ if name not in shared]
        parts += [repair.phase.value, self._clock, context.deadlines, context.held_back, context.awaits, self._now]
        return fingerprint(parts)


class _Freezer(pickle.Pickler):
    """Leaves out what all members share and nobody changes."""

    def persistent_id(self, thing: object) -> object:
        return "settings" if isinstance(thing, Settings) else None


class _Thawer(pickle.Unpickler):
    def __init__(self, frozen: bytes, settings: Settings) -> None:
        super().__init__(BytesIO(frozen))
        self._settings = settings

    def persistent_load(self, name: object) -> Settings:
        return self._settings


def freeze(member: Member) -> bytes:
    buffer = BytesIO()
    _Freezer(buffer, 5).dump(member)
    return buffer.getvalue()


def thaw(frozen: bytes, settings: Settings) -> Member:
    member: Member = _Thawer(frozen, settings).load()
    return member
