"""A controller: a client of the membership servers that speaks for clients of its own, in any number of groups."""

from __future__ import annotations

from unisono.clock import LamportClock
from unisono.engine import (
    Address,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Effect,
    Fact,
    FrameReceived,
    Note,
    PacketReceived,
    Randomness,
    Record,
    SendFrame,
    TimePassed,
)
from unisono.identity import ProcessId
from unisono.sealing import Seal
from unisono.settings import Settings
from unisono.trace.schema import GaugeRow
from unisono.virtual_synchrony.reasons import NAME_TAKEN, Reason
from unisono.virtual_synchrony.session.participation import Participation, stopped_for
from unisono.virtual_synchrony.session.server_link import Moved
from unisono.virtual_synchrony.structured.controlled import ControlledGroup, controller_settings
from unisono.wire.controller_frames import (
    LEFT,
    ClientAlive,
    ControllerAlive,
    Dismissed,
    Enter,
    Exit,
    FromCharge,
    read_charge_frame,
)
from unisono.wire.server_frames import NEWER_LIFE, Charges, Departure, Overruled, write_server_frame

CHARGE_LIMIT = 10_000
"""So many clients have a channel to one controller at most."""


class _Client:
    """One client's channel."""

    __slots__ = ("groups", "heard", "process")

    def __init__(self, now: int) -> None:
        self.process: ProcessId | None = None
        self.heard = now
        self.groups: dict[str, None] = {}

    def may_say(self, frame: FromCharge) -> bool:
        """A client enters before it says anything else of a group, and is the same in all of them."""
        if isinstance(frame, Enter):
            return self.process in (None, frame.process)
        return self.process is not None or isinstance(frame, ClientAlive)


class Controller(Participation[ControlledGroup]):
    """All groups of one controller, and its clients."""

    __slots__ = ("_clients", "_group_settings", "_looks_at", "_names", "_waiting")

    def __init__(
        self,
        process: ProcessId,
        realm: str,
        servers: tuple[Address, ...],
        settings: Settings,
        clock: LamportClock,
        randomness: Randomness,
        seal: Seal,
        first_channel: int,
    ) -> None:
        super().__init__(process, realm, servers, settings, clock, randomness, seal, first_channel, self._charges)
        self._group_settings = controller_settings(settings)
        self._clients: dict[Channel, _Client] = {}
        self._waiting: dict[tuple[Channel, str], Enter] = {}
        """Who wants to enter a group that it is about to leave, or that this controller leaves."""
        self._names: dict[str, Channel] = {}
        """The channel of the newest life of each name."""
        self._looks_at: int | None = None

    @property
    def clients(self) -> int:
        """How many clients have a channel to this controller."""
        return len(self._clients)

    def deadline(self) -> int | None:
        dues = (super().deadline(), self._looks_at)
        return min((due for due in dues if due is not None), default=None)

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        effects = self._note_own_pause(now, wall)
        if isinstance(fact, PacketReceived):
            effects += self._handle_in(self._numbers[fact.packet.group], fact, now, wall)
        elif isinstance(fact, TimePassed):
            effects += self._on_due(fact, now, wall) + self._look_for_silent(now, wall)
        elif isinstance(fact, ChannelOpened | ChannelClosed | ChannelFailed | FrameReceived):
            if self._link.owns(fact.channel):
                effects += self._link.handle(fact, now)
            else:
                effects += self._on_channel(fact, now, wall)
        effects += self._pass_on(now, wall)
        return effects + self._let_in(now, wall)

    def _note_own_pause(self, now: int, wall: int) -> list[Effect]:
        """Clients could not be heard either."""
        gap = stopped_for(now, self._last_call, self.deadline(), self._settings)
        for client in self._clients.values():
            client.heard += gap
        return super()._note_own_pause(now, wall)

    # ── clients ──

    def _on_channel(
        self, fact: ChannelOpened | ChannelClosed | ChannelFailed | FrameReceived, now: int, wall: int
    ) -> list[Effect]:
        if isinstance(fact, ChannelOpened):
            if len(self._clients) >= CHARGE_LIMIT:
                return [Note(Reason.TOO_MANY_CHARGES), CloseChannel(fact.channel)]
            self._clients[fact.channel] = _Client(now)
            self._looks_at = self._looks_at or now + self._settings.server_interval
            return []
        client = self._clients.get(fact.channel)
        if client is None:
            return []
        if not isinstance(fact, FrameReceived):
            return self._lose(fact.channel, client, now, wall)
        client.heard = now
        frame = read_charge_frame(fact.data)
        if frame is None or not client.may_say(frame):
            return [Note(Reason.BAD_CHARGE), CloseChannel(fact.channel), *self._lose(fact.channel, client, now, wall)]
        return self._on_frame(fact.channel, client, frame, now, wall)

    def _on_frame(self, channel: Channel, client: _Client, frame: FromCharge, now: int, wall: int) -> list[Effect]:
        if isinstance(frame, ClientAlive):
            return [SendFrame(channel, write_server_frame(ControllerAlive(frame.number)))]
        if isinstance(frame, Enter):
            return self._on_enter(channel, client, frame, now, wall)
        assert client.process is not None, "who has not entered any group says nothing else"
        if isinstance(frame, Exit):
            client.groups.pop(frame.group, None)
            return [
                *self._exit(frame.group, channel, client.process, Departure.LEFT, now, wall),
                _dismissed(channel, frame.group, LEFT),
            ]
        group = self._groups.get(frame.group)
        place = None if group is None else group.attendants.places.get(client.process)
        if group is None or place is None or place.channel != channel:
            return []  # it was dismissed, and did not know it yet
        return self._settle(frame.group, group.on_frame(place, frame, now, wall))

    def _on_enter(self, channel: Channel, client: _Client, enter: Enter, now: int, wall: int) -> list[Effect]:
        """A client wants to be in a group. An older life of its name has to go, or it is an older life itself."""
        client.process = enter.process
        effects: list[Effect] = []
        other = self._names.get(enter.process.name)
        known = None if other is None else self._clients[other].process
        if other is not None and known is not None and other != channel:
            if known > enter.process:
                return [*self._mark("vs-newer-life"), _dismissed(channel, enter.group, NAME_TAKEN, final=True)]
            if known < enter.process:
                effects += self._supersede(other, self._clients[other], now, wall)
        self._names[enter.process.name] = channel
        client.groups[enter.group] = None
        self._waiting[channel, enter.group] = enter
        group = self._groups.get(enter.group)
        return effects + (self._mark("vs-entry-waits") if group is not None and group.counts(enter.process) else [])

    def _supersede(self, channel: Channel, client: _Client, now: int, wall: int) -> list[Effect]:
        """A newer process has the name of a client: it has to go from all of its groups."""
        assert client.process is not None, "it entered"
        effects = self._mark("vs-newer-life")
        groups, client.groups = client.groups, {}
        for name in groups:
            effects += self._exit(name, channel, client.process, Departure.RESTARTED, now, wall)
            effects.append(_dismissed(channel, name, NAME_TAKEN, final=True))
        return effects

    def _let_in(self, now: int, wall: int) -> list[Effect]:
        """Take those in who can enter now."""
        effects: list[Effect] = []
        waiting, self._waiting = self._waiting, {}
        for (channel, name), enter in waiting.items():
            client = self._clients.get(channel)
            if client is None or name not in client.groups:
                continue
            group = self._groups.get(name)
            if group is None:
                effects += self._open(name, now, wall)
                group = self._groups[name]
            earlier = group.attendants.places.get(enter.process)
            if earlier is not None and earlier.entry >= enter.entry:
                continue  # it said so before
            if earlier is not None:
                effects += self._settle(name, group.exit(enter.process, Departure.UNKNOWN, now, wall))
            if not group.may_enter(enter.process):
                self._waiting[channel, name] = enter
                continue
            group.enter(enter, channel)
            effects += self._settle(name, [])
        return effects

    def _exit(
        self, name: str, channel: Channel, process: ProcessId, why: Departure, now: int, wall: int
    ) -> list[Effect]:
        """A client is in a group no longer, unless it is there by another channel."""
        group = self._groups.get(name)
        place = None if group is None else group.attendants.places.get(process)
        if group is None or (place is not None and place.channel != channel):
            return []
        effects = group.exit(process, why, now, wall)
        if not group.attendants.places:
            effects += group.leave(now, wall)
        return self._settle(name, effects)

    def _lose(self, channel: Channel, client: _Client, now: int, wall: int) -> list[Effect]:
        """A client's channel has ended."""
        del self._clients[channel]
        if client.process is None:
            return []
        if self._names.get(client.process.name) == channel:
            del self._names[client.process.name]
        process, why = client.process, Departure.SUSPECTED
        return [effect for name in client.groups for effect in self._exit(name, channel, process, why, now, wall)]

    def _look_for_silent(self, now: int, wall: int) -> list[Effect]:
        if self._looks_at is None or now < self._looks_at:
            return []
        effects: list[Effect] = []
        for channel, client in list(self._clients.items()):
            if now - client.heard >= self._settings.server_timeout:
                effects += [*self._mark("vs-silent-charge"), Note(Reason.SILENT_CHARGE), CloseChannel(channel)]
                effects += self._lose(channel, client, now, wall)
        self._looks_at = now + self._settings.server_interval if self._clients else None
        return effects

    # ── groups ──

    def _open(self, name: str, now: int, wall: int) -> list[Effect]:
        """The first client of a group is there."""
        context = self._context(name, self._group_settings)
        group = ControlledGroup(context, self._left.take(name))
        self._add(name, group)
        return group.join(now, wall) + self._link.join(self._standing(name))

    def _settle(self, name: str, effects: list[Effect]) -> list[Effect]:
        charges = self._groups[name].take_changed_charges()
        if charges is not None:
            effects += self._link.charge(charges)
        return super()._settle(name, effects)

    def _leave(self, name: str, group: ControlledGroup) -> list[Effect]:
        return self._link.leave(name, tuple(group.removed.items()))

    def _charges(self) -> list[Charges]:
        """For whom it speaks, for a server that does not know it."""
        return [group.all_charges() for group in self._groups.values()]

    def _on_overruled(self, news: Overruled, now: int, wall: int) -> list[Effect]:
        """A client has come elsewhere since, or a newer process has its name there."""
        group = self._groups.get(news.group)
        place = None if group is None else group.attendants.places.get(news.process)
        if group is None or place is None or place.entry > news.entry:
            return []
        channel, client = place.channel, self._clients[place.channel]
        if news.reason == NEWER_LIFE:
            return self._supersede(channel, client, now, wall)
        client.groups.pop(news.group)
        gone = self._exit(news.group, channel, news.process, Departure.UNKNOWN, now, wall)
        return [*self._mark("vs-claim-overruled"), *gone, _dismissed(channel, news.group, news.reason)]

    def _on_moved(self, news: Moved, now: int, wall: int) -> list[Effect]:
        moved = news.server is not None and any(group.last_change for group in self._groups.values())
        return (self._mark("vs-controller-moved") if moved else []) + super()._on_moved(news, now, wall)

    def _mark(self, name: str) -> list[Effect]:
        """A hard situation was reached (see unisono.marks)."""
        return [Record(GaugeRow(kind="MARK", name=name, value=1))] if self._settings.trace else []


def _dismissed(channel: Channel, group: str, reason: str, final: bool = False) -> Effect:
    return SendFrame(channel, write_server_frame(Dismissed(group, reason, final)))
