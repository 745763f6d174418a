"""A membership server: clients and other servers on channels, who is in which group, and rounds that agree on views.

It keeps nothing on disk. Clients that come from another server, or from an earlier life of this one, say what they saw
last, and its rounds begin above that.
"""

from __future__ import annotations

from unisono.engine import (
    Address,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    Effect,
    Fact,
    FrameReceived,
    Randomness,
    Start,
    TimePassed,
)
from unisono.identity import ProcessId, ViewId
from unisono.settings import Settings
from unisono.virtual_synchrony.servers.attendance import Attendance
from unisono.virtual_synchrony.servers.clients import Clients
from unisono.virtual_synchrony.servers.exchange import Exchange
from unisono.virtual_synchrony.servers.outbox import Outbox
from unisono.virtual_synchrony.servers.peers import Peers
from unisono.virtual_synchrony.servers.reception import Reception
from unisono.virtual_synchrony.servers.rounds import Rounds
from unisono.wire.peer_frames import ServerHello, read_peer_frame
from unisono.wire.server_frames import Attach, read_client_frame

STRANGERS_LIMIT = 1024
"""The most channels whose other end has not said who it is."""


class Stranger:
    """A channel whose other end has not said who it is."""

    __slots__ = ("address", "since")

    def __init__(self, address: Address, since: int) -> None:
        self.address = address
        self.since = since


class MembershipServer:
    """One server. `peers` are addresses where others should be; others that call are welcome too."""

    __slots__ = (
        "_attendance",
        "_awaited",
        "_beat_due",
        "_clients",
        "_exchange",
        "_interval",
        "_outbox",
        "_peers",
        "_process",
        "_reception",
        "_rounds",
        "_strangers",
        "_timeout",
        "_to_dial",
    )

    def __init__(
        self,
        process: ProcessId,
        peers: tuple[Address, ...],
        settings: Settings,
        randomness: Randomness,
        first_channel: int = 1,
    ) -> None:
        self._process = process
        self._to_dial = peers
        self._interval = settings.server_interval
        self._timeout = max(settings.server_timeout, 2 * settings.server_interval)
        self._outbox = Outbox()
        self._peers = Peers(process, self._outbox, randomness, self._interval, self._timeout, first_channel)
        self._clients = Clients(self._outbox)
        self._attendance = Attendance(self._outbox, self._clients, settings.failover)
        self._rounds = Rounds(process, self._outbox, self._peers, self._clients)
        self._reception = Reception(process, self._outbox, self._peers, self._clients, self._attendance, self._rounds)
        self._exchange = Exchange(process, self._outbox, self._peers, self._attendance, self._rounds, self._reception)
        self._strangers: dict[Channel, Stranger] = {}
        self._beat_due: int | None = None
        self._awaited: int | None = None
        """When this process wanted to be called, as of its last call."""

    # What others read.

    @property
    def process(self) -> ProcessId:
        return self._process

    @property
    def servers(self) -> tuple[ProcessId, ...]:
        """Those that take part in rounds with this one, itself among them, in order."""
        return self._rounds.servers

    @property
    def groups(self) -> list[str]:
        return sorted(group.name for group in self._attendance)

    @property
    def clients(self) -> list[ProcessId]:
        """Those that have a channel here."""
        return sorted(client.process for client in self._clients)

    def members(self, group: str) -> list[ProcessId]:
        """All that are, as far as this server knows, in a group, in order."""
        known = self._attendance.get(group)
        return [] if known is None else list(known.clients(self._process, self.servers))

    def views(self, group: str) -> list[ViewId]:
        """The views that clients of a group have, as far as this server knows; more than one if some are apart."""
        known = self._attendance.get(group)
        clients = [] if known is None else known.clients(self._process, self.servers).values()
        return sorted({listed.held for listed in clients if listed.attached and listed.held is not None})

    def is_changing(self, group: str) -> bool:
        """Whether a round of the group is under way."""
        known = self._attendance.get(group)
        return known is not None and known.round is not None

    # The engine.

    def handle(self, fact: Fact, now: int) -> list[Effect]:
        """What to do about a fact. One of a channel that is not known here comes to nothing."""
        self._forgive_own_pause(now)
        if isinstance(fact, FrameReceived):
            self._on_frame(fact, now)
        elif isinstance(fact, TimePassed):
            self._on_time(now)
        elif isinstance(fact, ChannelOpened):
            self._on_opened(fact, now)
        elif isinstance(fact, ChannelClosed | ChannelFailed):
            self._on_end(fact.channel, isinstance(fact, ChannelFailed), now)
        elif isinstance(fact, Start):
            self._peers.start(self._to_dial, now)
        self._advance()
        if self._beat_due is None and (self._peers.channels or self._clients or self._strangers):
            self._beat_due = now + self._interval
        due = self.deadline()
        self._awaited = None if due is None else max(due, now)
        return self._outbox.drain()

    def deadline(self) -> int | None:
        dues = (self._beat_due, self._peers.next_due(), self._attendance.next_due())
        return min((due for due in dues if due is not None), default=None)

    def _advance(self) -> None:
        touched = self._attendance.touched
        while touched:
            name = next(iter(touched))
            del touched[name]
            group = self._attendance.get(name)
            if group is not None:
                self._rounds.advance(group)
                self._attendance.forget_empty(group)

    def _forgive_own_pause(self, now: int) -> None:
        """This process was called much later than it wanted: it was stopped, and blames nobody for that time."""
        awaited, self._awaited = self._awaited, None
        if awaited is not None and now - awaited > self._interval:
            gap = now - awaited
            for client in self._clients:
                client.heard += gap
            for stranger in self._strangers.values():
                stranger.since += gap
            self._peers.forgive(gap)
            self._exchange.forgive(gap)
            self._attendance.forgive(gap)

    def _on_time(self, now: int) -> None:
        self._peers.on_time(now)
        self._attendance.expire(now)
        if self._beat_due is None or self._beat_due > now:
            return
        self._beat_due = None
        self._exchange.forget_unreachable(now, self._timeout)
        for channel in [c for c, stranger in self._strangers.items() if now - stranger.since >= self._timeout]:
            del self._strangers[channel]
            self._outbox.note("somebody does not say who it is")
            self._outbox.close(channel)
            self._peers.on_end(channel, now)
        for client in [client for client in self._clients if now - client.heard >= self._timeout]:
            self._outbox.note("a client is silent")
            self._outbox.close(client.channel)
            self._reception.part_with(client, False, now)
        for link in self._peers.silent(now):
            self._exchange.cut(link, "another server is silent", now)
        self._peers.beat()

    # Channels.

    def _on_opened(self, fact: ChannelOpened, now: int) -> None:
        if not fact.accepted:
            if self._peers.is_dialling(fact.channel):
                self._strangers[fact.channel] = Stranger(fact.peer, now)
                self._peers.on_opened(fact.channel)
        elif len(self._strangers) >= STRANGERS_LIMIT:
            self._outbox.refuse(fact.channel, "too many come at once")
        else:
            self._strangers[fact.channel] = Stranger(fact.peer, now)

    def _on_end(self, channel: Channel, failed: bool, now: int) -> None:
        self._strangers.pop(channel, None)
        client, link = self._clients.at(channel), self._peers.at(channel)
        if client is not None:
            self._reception.part_with(client, failed, now)
        elif link is not None:
            self._exchange.lose(link, now)
        else:
            self._peers.on_end(channel, now)

    def _on_frame(self, fact: FrameReceived, now: int) -> None:
        client, link = self._clients.at(fact.channel), self._peers.at(fact.channel)
        if client is not None:
            self._reception.on_frame(client, fact.data, now)
        elif link is not None:
            self._exchange.on_frame(link, fact.data, now)
        elif (stranger := self._strangers.pop(fact.channel, None)) is not None:
            self._meet(fact, stranger, now)

    def _meet(self, fact: FrameReceived, stranger: Stranger, now: int) -> None:
        """The first frame of a channel says who is at the other end."""
        hello, frame = read_peer_frame(fact.data), read_client_frame(fact.data)
        if isinstance(hello, ServerHello):
            self._exchange.greet(fact.channel, stranger.address, hello.process, now)
        elif isinstance(frame, Attach) and fact.channel < 0:
            self._reception.meet(fact.channel, stranger.address, frame, now)
        else:
            self._outbox.note("a bad first frame")
            self._outbox.close(fact.channel)
            self._peers.on_end(fact.channel, now)
