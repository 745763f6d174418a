"""Links to other servers: channels opened again and again to those that are configured, and one kept of two.

A link begins when the other's hello came, and is `synced` when all its rosters have come; only then it counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from unisono.engine import Address, Channel, OpenChannel, Randomness
from unisono.identity import ProcessId
from unisono.virtual_synchrony.servers.outbox import Outbox
from unisono.wire.peer_frames import SERVERS_LIMIT, ServerBeat, ServerHello

DOUBLINGS_LIMIT = 4
"""The wait before another try grows up to sixteen times the interval."""


class Dial:
    """An address where a server should be. `due` is when to try again, or to give a try up."""

    __slots__ = ("address", "channel", "due", "server", "tries")

    def __init__(self, address: Address, now: int) -> None:
        self.address = address
        self.channel: Channel | None = None
        self.due = now
        self.tries = 0
        self.server: ProcessId | None = None
        """Who was there last."""


class Link:
    """A channel to a server that has introduced itself."""

    __slots__ = ("address", "channel", "heard", "server", "synced", "version")

    def __init__(self, server: ProcessId, channel: Channel, address: Address, now: int) -> None:
        self.server = server
        self.channel = channel
        self.address = address
        self.heard = now
        self.synced = False
        self.version = 0
        """The last version of any roster that was heard."""


class Peers:
    """All links of a server, and its tries to get more."""

    __slots__ = ("_dials", "_interval", "_links", "_next", "_outbox", "_own", "_randomness", "_timeout")

    def __init__(
        self, own: ProcessId, outbox: Outbox, randomness: Randomness, interval: int, timeout: int, first_channel: int
    ) -> None:
        self._own = own
        self._outbox = outbox
        self._randomness = randomness
        self._interval = interval
        self._timeout = timeout
        self._next = first_channel
        self._dials: list[Dial] = []
        self._links: dict[ProcessId, Link] = {}

    def __iter__(self) -> Iterator[Link]:
        """The links, in the order of servers."""
        return iter([self._links[server] for server in sorted(self._links)])

    @property
    def channels(self) -> list[Channel]:
        return [link.channel for link in self]

    @property
    def synced(self) -> list[ProcessId]:
        return [link.server for link in self if link.synced]

    @property
    def addresses(self) -> list[Address]:
        """Where other servers are, or should be."""
        places = [dial.address for dial in self._dials if dial.server != self._own]
        return sorted({*places, *(link.address for link in self._links.values())})

    def at(self, channel: Channel) -> Link | None:
        return next((link for link in self._links.values() if link.channel == channel), None)

    def channel_of(self, server: ProcessId) -> Channel:
        return self._links[server].channel

    def heard_of(self, server: ProcessId) -> int:
        """Up to which version the rosters of a server are known."""
        link = self._links.get(server)
        return 0 if link is None else link.version

    # Channels that this server opens.

    def start(self, addresses: tuple[Address, ...], now: int) -> None:
        self._dials = [Dial(address, now) for address in dict.fromkeys(addresses)]
        self.on_time(now)

    def is_dialling(self, channel: Channel) -> bool:
        return any(dial.channel == channel for dial in self._dials)

    def on_opened(self, channel: Channel) -> None:
        self._outbox.send(channel, ServerHello(self._own))

    def on_time(self, now: int) -> None:
        """Try again where it is time, and give up what takes too long."""
        for dial in self._dials:
            if dial.due > now or self._is_linked(dial) or dial.server == self._own:
                continue
            if dial.channel is not None:
                self._outbox.close(dial.channel)
                self._wait(dial, now)
            else:
                dial.channel = Channel(self._next)
                self._next += 1
                dial.due = now + max(2 * self._timeout, self._interval)
                self._outbox.effects.append(OpenChannel(dial.channel, dial.address))

    def next_due(self) -> int | None:
        dues = [dial.due for dial in self._dials if not self._is_linked(dial) and dial.server != self._own]
        return min(dues, default=None)

    def _is_linked(self, dial: Dial) -> bool:
        if dial.channel is not None:
            return self.at(dial.channel) is not None
        return dial.server in self._links or any(link.address == dial.address for link in self._links.values())

    def _wait(self, dial: Dial, now: int) -> None:
        """Try again after a while that differs between servers, and grows."""
        dial.channel = None
        delay = self._interval << min(dial.tries, DOUBLINGS_LIMIT)
        dial.tries += 1
        dial.due = now + int(delay * (0.5 + self._randomness.random()) / 2)

    # Links.

    def identify(self, channel: Channel, server: ProcessId) -> None:
        """The other end of a channel, which perhaps this server opened, is that server."""
        for dial in self._dials:
            if dial.channel == channel:
                dial.server, dial.tries = server, 0

    def wants(self, channel: Channel, server: ProcessId) -> bool:
        """Whether a channel is to be the link to a server; an earlier one, if there is one, is the worse then.

        Of two channels to the same server the one that the lesser server opened is kept, so that both ends keep the
        same; of two that the same server opened, the later one.
        """
        rival = self.rival(server)
        if server.name == self._own.name:
            return False
        if rival is None:
            return len(self._links) < SERVERS_LIMIT
        if rival.server != server:
            return server.incarnation > rival.server.incarnation
        return self._opener(channel, server) <= self._opener(rival.channel, server)

    def add(self, link: Link) -> None:
        self._links[link.server] = link

    def rival(self, server: ProcessId) -> Link | None:
        """The link to a server of this name, in this life or another."""
        return next((link for link in self._links.values() if link.server.name == server.name), None)

    def _opener(self, channel: Channel, server: ProcessId) -> ProcessId:
        return self._own if channel > 0 else server

    def drop(self, link: Link, now: int) -> None:
        """The link is no more."""
        del self._links[link.server]
        self.on_end(link.channel, now)
        for dial in self._dials:
            if dial.channel is None and dial.due < now:
                self._wait(dial, now)

    def on_end(self, channel: Channel, now: int) -> None:
        """A channel that this server opened is no more, or is not wanted."""
        for dial in self._dials:
            if dial.channel == channel:
                self._wait(dial, now)

    def beat(self) -> None:
        self._outbox.send_all(self.channels, ServerBeat())

    def silent(self, now: int) -> list[Link]:
        return [link for link in self if now - link.heard >= self._timeout]

    def forgive(self, gap: int) -> None:
        """This process was stopped for so long: nobody could be heard."""
        for link in self._links.values():
            link.heard += gap
        for dial in self._dials:
            dial.due += gap if dial.channel is not None else 0
