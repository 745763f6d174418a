"""Membership servers and scripted clients on channels in memory: any order of delivery, crashes, cuts and one clock.

Nothing is lost while a channel stands, and each direction of it keeps its order; what comes first of different channels
is drawn. All choices come from one seeded generator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from tests.simulation.server_clients import Broken, ModelClient, check
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
    OpenChannel,
    SendFrame,
    Start,
    TimePassed,
)
from unisono.identity import ProcessId, ViewId
from unisono.settings import Settings
from unisono.units import MILLISECOND
from unisono.virtual_synchrony.servers.server import MembershipServer
from unisono.wire.server_frames import StartChange, read_server_frame, write_server_frame

GROUP = "g"
SETTINGS = Settings()
MakeServer = Callable[[ProcessId, tuple[Address, ...], Settings, Random], MembershipServer]


class End:
    """One end of a channel; `inbox` is what is under way to it."""

    def __init__(self, name: str, life: int, channel: Channel) -> None:
        self.name = name
        self.life = life
        self.channel = channel
        self.peer: End | None = None
        self.inbox: deque[Fact] = deque()
        self.wants: str | None = None
        """Whom it wants to reach, until somebody takes it."""


class World:
    """`servers` and `clients` by name, those that live. Names are addresses too."""

    def __init__(
        self, seed: int, servers: int, settings: Settings = SETTINGS, make: MakeServer = MembershipServer
    ) -> None:
        self.random = Random(seed)
        self.now = 0
        self.settings = settings
        self.views: dict[tuple[str, ViewId], frozenset[ProcessId]] = {}
        self.announced: dict[ViewId, set[str]] = {}
        """To whom a start-change with this view was sent, whether or not it came."""
        self.notes: list[str] = []
        self.cuts: set[frozenset[str]] = set()
        self.servers: dict[str, MembershipServer] = {}
        self.clients: dict[str, ModelClient] = {}
        self.places: dict[str, str] = {}
        """The server that a client is with, or wants to come to."""
        self._make = make
        self._lives: dict[str, int] = {}
        self._ends: dict[tuple[str, Channel], End] = {}
        self._accepted = 0
        self._opened = 0
        self._pings: dict[str, int] = {}
        self.names = [f"s{number}" for number in range(servers)]
        for name in self.names:
            self.start_server(name)

    # The script.

    def start_server(self, name: str) -> None:
        process = self._new_life(name)
        peers = tuple(Address(other) for other in self.names if other != name)
        self.servers[name] = self._make(process, peers, self.settings, self.random)
        self._give(name, Start())

    def start_client(self, name: str, server: str, controller: bool = False) -> ModelClient:
        process = self._new_life(name)
        client = self.clients[name] = ModelClient(
            process, lambda channel, frame: self._send(name, channel, frame), self.views, controller
        )
        self._pings[name] = self.now
        self._call(name, server)
        return client

    def kill(self, name: str) -> None:
        """Every channel of it breaks at once."""
        self.servers.pop(name, None)
        self.clients.pop(name, None)
        self.places.pop(name, None)
        for end in [end for end in self._ends.values() if end.name == name]:
            self._break(end)

    def end_client(self, name: str) -> None:
        """A client ends in order: it closes its channel."""
        client = self.clients.pop(name)
        self.places.pop(name, None)
        for end in [end for end in self._ends.values() if end.name == name]:
            self._close(end)
        client.lose()

    def move(self, name: str, server: str, orderly: bool) -> None:
        """A client goes to another server; the old channel breaks, or stays as it is and is not listened to."""
        client = self.clients[name]
        end = None if client.channel is None else self._ends.get((name, client.channel))
        client.lose()
        if end is not None and not orderly:
            self._break(end)
        self._call(name, server)

    def break_channels(self, one: str, other: str) -> None:
        for end in [end for end in self._ends.values() if end.name == one and end.peer is not None]:
            if end.peer is not None and end.peer.name == other:
                self._break(end)

    # Time and delivery.

    def deliver(self) -> bool:
        """Let one thing arrive somewhere, if something can."""
        ready = [end for end in self._ends.values() if self._is_ready(end)]
        if not ready:
            return False
        end = self.random.choice(ready)
        if end.wants is not None:
            self._accept(end)
            return True
        fact = end.inbox.popleft()
        if isinstance(fact, ChannelClosed | ChannelFailed):
            self._ends.pop((end.name, end.channel), None)
        self._give(end.name, fact)
        return True

    def settle(self) -> None:
        """Deliver all, with no time passing."""
        for _ in range(200_000):
            if not self.deliver():
                return
        raise Broken("there is no end to it")

    def pass_time(self, span: int) -> None:
        """Let time pass, from deadline to deadline; nothing is delivered meanwhile."""
        end = self.now + span
        while True:
            due = min((due for _, due in self._dues()), default=None)
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            for name, at in self._dues():
                if at <= self.now:
                    self._wake(name)
        self.now = end

    def run(self, span: int, step: int = 20 * MILLISECOND) -> None:
        """Let time pass and everything arrive at once."""
        self.settle()
        for _ in range(span // step):
            self.pass_time(step)
            self.settle()

    # What should be.

    def check_settled(self, group: str = GROUP, parts: list[set[str]] | None = None) -> None:
        """All living clients of a group are in one view, with each other and nobody else, or in these parts."""
        living = {name for name, client in self.clients.items() if group in client.books}
        for part in [living] if parts is None else parts:
            lives = {self.clients[name].process for name in part}
            charges = {one for name in part for one in self.clients[name].charges.get(group, ())}
            last = {name: self.clients[name].books[group].offered for name in part}
            check(len(set(last.values())) <= 1, f"views differ: {last}")
            for name in part:
                book = self.clients[name].books[group]
                check(book.offered is not None, f"{name} has no view")
                check(book.offered == book.announced, f"{name} waits for {book.announced}")
                check(set(book.members) == lives | charges, f"{name} sees {sorted(book.members)}, not {sorted(part)}")
        for name, server in sorted(self.servers.items()):
            check(not server.is_changing(group), f"{name} is in a round")

    def check_announced(self, group: str = GROUP) -> None:
        """Every view that somebody has now was announced to all its members. None of them left or was lost so far."""
        for name, client in self.clients.items():
            view = client.books[group].offered
            if view is not None:
                members = {process.name for process in self.views[group, view]}
                check(members <= self.announced[view], f"{name} has {view}, which was not announced to all")

    # How it is done.

    def _new_life(self, name: str) -> ProcessId:
        self._lives[name] = self._lives.get(name, 0) + 1
        return ProcessId(name, self._lives[name])

    def _dues(self) -> list[tuple[str, int]]:
        dues = [(name, due) for name, server in self.servers.items() if (due := server.deadline()) is not None]
        return dues + [(name, due + self.settings.server_interval) for name, due in self._pings.items()]

    def _wake(self, name: str) -> None:
        if name in self.servers:
            self._give(name, TimePassed())
            return
        client = self.clients.get(name)
        if client is None:
            del self._pings[name]
            return
        self._pings[name] = self.now
        if not client.attached and self._is_calling(name):
            return
        if client.channel is None or self.now - client.heard >= self.settings.server_timeout:
            self._call_other(name)
        else:
            client.ping()

    def _is_calling(self, name: str) -> bool:
        return any(end.name == name and end.wants is not None for end in self._ends.values())

    def _call_other(self, name: str) -> None:
        client = self.clients[name]
        end = None if client.channel is None else self._ends.get((name, client.channel))
        if end is not None:
            self._close(end)
        client.lose()
        if self.servers:
            self._call(name, self.random.choice(sorted(self.servers)))

    def _call(self, name: str, server: str) -> None:
        self._opened += 1
        self.places[name] = server
        end = self._ends[name, Channel(self._opened)] = End(name, self._lives[name], Channel(self._opened))
        end.wants = server
        self.clients[name].channel = end.channel

    def _is_ready(self, end: End) -> bool:
        other = end.wants or (end.peer.name if end.peer is not None else None)
        blocked = other is not None and frozenset((end.name, other)) in self.cuts
        return not blocked and (end.wants is not None or bool(end.inbox))

    def _accept(self, end: End) -> None:
        wanted, end.wants = end.wants, None
        assert wanted is not None
        if wanted not in self.servers:
            end.inbox.append(ChannelFailed(end.channel, "refused"))
            return
        self._accepted += 1
        other = End(wanted, self._lives[wanted], Channel(-self._accepted))
        other.peer, end.peer = end, other
        self._ends[wanted, other.channel] = other
        end.inbox.append(ChannelOpened(end.channel, Address(wanted), False))
        self._give(wanted, ChannelOpened(other.channel, Address(end.name), True))

    def _break(self, end: End) -> None:
        for side in (end, end.peer):
            if side is not None and (side.name, side.channel) in self._ends:
                side.inbox.clear()
                side.wants = None
                if side.name in self.servers or side.name in self.clients:
                    side.peer = None  # nothing that is cut keeps it from hearing of it
                    side.inbox.append(ChannelFailed(side.channel, "broken"))
                else:
                    del self._ends[side.name, side.channel]

    def _close(self, end: End) -> None:
        del self._ends[end.name, end.channel]
        if end.peer is not None and (end.peer.name, end.peer.channel) in self._ends:
            end.peer.inbox.append(ChannelClosed(end.peer.channel))

    def _send(self, name: str, channel: Channel, frame: object) -> None:
        self._pass(name, channel, write_server_frame(frame))

    def _pass(self, name: str, channel: Channel, data: bytes) -> None:
        end = self._ends.get((name, channel))
        if end is not None and end.peer is not None and (end.peer.name, end.peer.channel) in self._ends:
            end.peer.inbox.append(FrameReceived(end.peer.channel, data))

    def _give(self, name: str, fact: Fact) -> None:
        server, client = self.servers.get(name), self.clients.get(name)
        if server is not None:
            for effect in server.handle(fact, self.now):
                self._carry_out(name, effect)
        elif client is not None:
            self._tell(client, fact)

    def _tell(self, client: ModelClient, fact: Fact) -> None:
        if isinstance(fact, Start | TimePassed) or getattr(fact, "channel", None) != client.channel:
            return
        if isinstance(fact, ChannelOpened):
            client.call(fact.channel, self.now)
        elif isinstance(fact, FrameReceived):
            client.hear(read_server_frame(fact.data), self.now)
        else:
            client.lose()

    def _watch(self, name: str, channel: Channel, data: bytes) -> None:
        end, frame = self._ends.get((name, channel)), read_server_frame(data)
        if isinstance(frame, StartChange) and end is not None and end.peer is not None:
            self.announced.setdefault(frame.view, set()).add(end.peer.name)

    def _carry_out(self, name: str, effect: Effect) -> None:
        match effect:
            case SendFrame(channel, data):
                self._watch(name, channel, data)
                self._pass(name, channel, data)
            case CloseChannel(channel):
                end = self._ends.get((name, channel))
                if end is not None:
                    self._close(end)
            case OpenChannel(channel, to):
                end = self._ends[name, channel] = End(name, self._lives[name], channel)
                end.wants = str(to)
            case Note(reason):
                self.notes.append(reason)
            case _:
                raise Broken(f"a server does not do {effect}")
