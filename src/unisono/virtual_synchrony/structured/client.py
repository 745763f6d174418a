"""All groups of one client of controllers, and its one link to a controller."""

from __future__ import annotations

from unisono.clock import LamportClock
from unisono.engine import (
    Address,
    BlockOk,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    Deliver,
    Effect,
    EventsTaken,
    Fact,
    FrameReceived,
    Join,
    Leave,
    Randomness,
    Send,
    TimePassed,
)
from unisono.events import ServerChanged
from unisono.identity import ProcessId
from unisono.reliable.agenda import Agenda
from unisono.settings import Settings
from unisono.virtual_synchrony.session.link import Link
from unisono.virtual_synchrony.session.participation import NO_GROUP, stopped_for
from unisono.virtual_synchrony.session.phases import Resumptions
from unisono.virtual_synchrony.structured.charge import ChargeGroup
from unisono.wire.controller_frames import (
    LEFT,
    ClientAlive,
    ControllerAlive,
    Dismissed,
    FromController,
    read_controller_frame,
)
from unisono.wire.server_frames import write_server_frame


class ChargeSessions:
    """One client of controllers: its groups by name."""

    __slots__ = (
        "_agenda",
        "_clock",
        "_entered",
        "_frames",
        "_groups",
        "_last_call",
        "_leaving",
        "_left",
        "_link",
        "_lost",
        "_process",
        "_settings",
        "_welcomed",
    )

    def __init__(
        self,
        process: ProcessId,
        controllers: tuple[Address, ...],
        settings: Settings,
        clock: LamportClock,
        randomness: Randomness,
        first_channel: int,
    ) -> None:
        self._process = process
        self._settings = settings
        self._clock = clock
        self._link = Link(self, process, controllers, settings, randomness, first_channel)
        self._groups: dict[str, ChargeGroup] = {}
        self._left = Resumptions()
        self._entered = 0
        """How often this process has entered any group at any controller."""
        self._leaving: dict[str, int] = {}
        """How often this client left each group and the controller did not answer yet: it speaks of an earlier stay."""
        self._agenda = Agenda()
        self._last_call: int | None = None
        self._frames: list[FromController] = []
        self._lost: list[str] = []
        self._welcomed = False

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def knows(self, number: int) -> bool:
        """No datagrams are for it."""
        return False

    def owns(self, channel: Channel) -> bool:
        return self._link.owns(channel)

    def deadline(self) -> int | None:
        dues = (self._agenda.earliest, self._link.deadline())
        return min((due for due in dues if due is not None), default=None)

    def start(self, now: int) -> list[Effect]:
        self._last_call = now
        return self._link.seek(now)

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        effects = self._note_own_pause(now)
        if isinstance(fact, TimePassed):
            for name in self._agenda.take(now):
                effects += self._settle(name, self._groups[name].handle(fact, now, wall))
            effects += self._link.on_time(now)
        elif isinstance(fact, Join):
            resumption = self._left.take(fact.group)
            group = ChargeGroup(fact.group, self._process, fact.settings, self._clock, resumption, self._next_entry)
            self._groups[fact.group] = group
            effects += self._settle(fact.group, group.handle(fact, now, wall))
        elif isinstance(fact, Leave | Send | EventsTaken | BlockOk):
            effects += self._settle(fact.group, self._groups[fact.group].handle(fact, now, wall))
        elif isinstance(fact, ChannelOpened | ChannelClosed | ChannelFailed | FrameReceived):
            effects += self._link.handle(fact, now)
        return effects + self._pass_on(now, wall)

    def _note_own_pause(self, now: int) -> list[Effect]:
        gap = stopped_for(now, self._last_call, self.deadline(), self._settings)
        self._last_call = now
        if not gap:
            return []
        self._link.forgive(gap)
        return self._link.ask(now)

    def _settle(self, name: str, effects: list[Effect]) -> list[Effect]:
        """What the controller is to be told after a group has done something."""
        group = self._groups[name]
        said, group.said = group.said, []
        for frame in said:
            effects += self._link.say(write_server_frame(frame))
        if group.outside:
            if self._link.attached:
                self._leaving[name] = self._leaving.get(name, 0) + 1
            self._left.keep(name, group.resumption())
            del self._groups[name]
            self._agenda.remove(name)
        else:
            self._agenda.set(name, group.deadline())
        return effects

    def _pass_on(self, now: int, wall: int) -> list[Effect]:
        """Hand what the controller said, or that it is lost, to the groups."""
        effects: list[Effect] = []
        while self._lost or self._frames:
            if self._lost:
                effects.append(Deliver(NO_GROUP, "", 0, (ServerChanged(None, self._lost.pop(0)),)))
                for name in list(self._groups):
                    effects += self._settle(name, self._groups[name].on_lost(now, wall))
            else:
                effects += self._on_controller(self._frames.pop(0), now, wall)
        return effects

    def _on_controller(self, frame: FromController, now: int, wall: int) -> list[Effect]:
        if isinstance(frame, ControllerAlive):
            if self._welcomed:
                return []
            self._welcomed = True
            effects: list[Effect] = [Deliver(NO_GROUP, "", 0, (ServerChanged(str(self._link.place)),))]
            return effects + [effect for group in self._groups.values() for effect in group.on_welcomed(now, wall)]
        if frame.group in self._leaving:
            if isinstance(frame, Dismissed) and frame.reason == LEFT:
                self._leaving[frame.group] -= 1
                if not self._leaving[frame.group]:
                    del self._leaving[frame.group]
            return []
        group = self._groups.get(frame.group)
        if group is None:
            return []
        effects, complaint = group.on_frame(frame, now, wall)
        effects = self._settle(frame.group, effects)
        return effects if complaint is None else effects + self._link.leave(now, complaint)

    def _next_entry(self) -> int:
        self._entered += 1
        return self._entered

    # ── what the link asks ──

    def greeting(self) -> list[bytes]:
        self._welcomed = False
        self._leaving.clear()
        return [write_server_frame(group.greeting()) for group in self._groups.values()]

    def question(self, number: int) -> bytes:
        return write_server_frame(ClientAlive(number))

    def on_lost(self, reason: str) -> None:
        self._frames.clear()
        self._lost.append(reason)

    def on_frame(self, data: bytes, now: int) -> str | None:
        frame = read_controller_frame(data)
        if frame is None:
            return "a bad frame"
        if isinstance(frame, ControllerAlive):
            self._link.settle()
        self._frames.append(frame)
        return None
