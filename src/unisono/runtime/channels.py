"""Channels over TCP, or over local sockets inside a site: frames arrive whole, once and in order, or the channel fails.

Both ends introduce themselves with a first frame (realm and port of their endpoint); a channel stands when the other's
introduction has come. A stranger, a damaged frame or an end in mid-frame is a failure, never a frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Coroutine, Iterable
from struct import Struct as Layout

from xxhash import xxh3_64_intdigest

from unisono.engine import (
    SITE,
    Address,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Fact,
    FrameReceived,
    Listen,
    ListenFailed,
    Listening,
    OpenChannel,
    SendFrame,
    StopListening,
)
from unisono.errors import NetworkError
from unisono.runtime.addresses import numeric, spell
from unisono.runtime.channel_end import End
from unisono.runtime.site_address import SiteAddress, is_own, site_address
from unisono.runtime.sockets import Count
from unisono.wire.frames import frame

_LOG = logging.getLogger(__name__)

ACCEPTED_LIMIT = 1024
"""Channels that others may hold open to this process."""
CONNECT_SECONDS = 15.0
ACCEPT_PAUSE_SECONDS = 1.0
"""How long to wait when the system has no more room for connections."""

PART_SECONDS = 0.2
"""When a process ends, its peers have so long to close too: one that is stopped is not waited for longer."""
FLUSH_SECONDS = 1.0
"""So long what was sent has to leave this process then."""

_INTRODUCTION = Layout("<4sBQH")
_MAGIC, _VERSION = b"unis", 1

ChannelEffect = Listen | StopListening | OpenChannel | CloseChannel | SendFrame
Give = Callable[[Fact], None]


class Channels:
    """All channels of one process: on the TCP socket of its endpoint, and at the address of its site."""

    def __init__(self, realm: str, sock: socket.socket, site: SiteAddress | None = None) -> None:
        self._socket = sock
        self._host = str(sock.getsockname()[0])
        self._realm = xxh3_64_intdigest(f"channel\0{realm}".encode())
        port = int(sock.getsockname()[1])
        self.introduction = frame(_INTRODUCTION.pack(_MAGIC, _VERSION, self._realm, port))
        self._ends: dict[Channel, End] = {}
        self._opening: dict[Channel, asyncio.Task[None]] = {}
        self._strangers: set[End] = set()
        self._connections: set[End] = set()
        """All that there are, those included that are closed here and not yet by the peer."""
        self._site = site or site_address(realm)
        self._at_site: socket.socket | None = None
        self._server: asyncio.AbstractServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._give: Give = lambda fact: None
        self.count: Count = lambda reason: None

    def start(self, loop: asyncio.AbstractEventLoop, give: Give, count: Count) -> None:
        self._loop, self._give, self.count = loop, give, count

    @property
    def listening(self) -> bool:
        return self._server is not None

    def carry_out(self, effect: ChannelEffect) -> None:
        assert self._loop is not None, "channels are used after they started"
        if isinstance(effect, SendFrame):
            end = self._ends.get(effect.channel)
            if end is not None:
                end.send(effect.data)
        elif isinstance(effect, Listen):
            if effect.at == SITE:
                self._listen_at_site()
            else:
                self._spawn(self._listen())
        elif isinstance(effect, StopListening):
            assert effect.at == SITE, "a process listens on its own endpoint as long as it lives"
            self._leave_site()
        elif isinstance(effect, OpenChannel):
            self._opening[effect.channel] = self._spawn(self._open(effect.channel, effect.to))
        else:
            self._close(effect.channel)

    async def stop(self) -> None:
        """Close every channel after the frames sent so far, and accept no more."""
        self._closed = True
        self._leave_site()
        for channel in list(self._opening):
            self._give_up(channel)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for end in [*self._ends.values(), *self._strangers]:
            end.finish()
        self._ends.clear()
        self._strangers.clear()
        await _all_gone(self._connections, PART_SECONDS)
        await _all_gone([end for end in self._connections if end.unsent], FLUSH_SECONDS)
        for end in list(self._connections):
            end.abort()
        await _all_gone(self._connections, FLUSH_SECONDS)
        self._socket.close()

    def _tell(self, fact: Fact) -> None:
        """What happens while everything ends is of no interest any more."""
        if not self._closed:
            self._give(fact)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        assert self._loop is not None, "channels are used after they started"
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _listen(self) -> None:
        assert self._loop is not None, "channels are used after they started"
        if self._server is not None:
            return
        try:
            self._server = await self._loop.create_server(lambda: End(self, None), sock=self._socket)
        except OSError as error:
            _LOG.error("cannot accept channels: %s", error)
            self.count(f"channel: cannot listen: {error.strerror}")

    def _listen_at_site(self) -> None:
        assert self._loop is not None, "channels are used after they started"
        if self._at_site is None:
            try:
                self._at_site = self._site.listen()
            except OSError as error:
                self._tell(ListenFailed(SITE, error.strerror or str(error)))
                return
            self._loop.add_reader(self._at_site.fileno(), self._accept_at_site)
        self._tell(Listening(SITE))

    def _leave_site(self) -> None:
        """Free the address, and turn away who has not introduced itself there."""
        if self._at_site is None:
            return
        assert self._loop is not None, "channels are used after they started"
        self._loop.remove_reader(self._at_site.fileno())
        self._site.release(self._at_site)
        self._at_site = None
        for end in [end for end in self._strangers if end.inside and end.channel is None]:
            end.abort()

    def _accept_at_site(self) -> None:
        assert self._loop is not None, "channels are used after they started"
        while self._at_site is not None:
            try:
                sock, _ = self._at_site.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.count(f"channel: cannot accept: {error.strerror}")
                self._loop.remove_reader(self._at_site.fileno())
                self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._accept_again, self._at_site)
                return
            sock.setblocking(False)
            self._spawn(self._take_in(sock))

    def _accept_again(self, listener: socket.socket) -> None:
        if self._at_site is listener:
            assert self._loop is not None, "channels are used after they started"
            self._loop.add_reader(listener.fileno(), self._accept_at_site)

    async def _take_in(self, sock: socket.socket) -> None:
        assert self._loop is not None, "channels are used after they started"
        try:
            if is_own(sock):
                await self._loop.connect_accepted_socket(lambda: End(self, None, inside=True), sock)
            else:
                self.count("channel: another user")
                sock.close()
        except BaseException as error:
            sock.close()
            if not isinstance(error, OSError):
                raise
            self.count(f"channel: cannot accept: {error.strerror}")

    async def _open(self, channel: Channel, to: Address) -> None:
        assert self._loop is not None, "channels are used after they started"
        limit = self._loop.call_later(CONNECT_SECONDS, self._time_out, channel)
        try:
            await (self._connect_to_host(channel) if to == SITE else self._connect(channel, to))
        except NetworkError as error:
            self._fail_to_open(channel, str(error))
        except OSError as error:
            self._fail_to_open(channel, error.strerror or str(error))
        finally:
            limit.cancel()

    async def _connect(self, channel: Channel, to: Address) -> None:
        assert self._loop is not None, "channels are used after they started"
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        host, port, *_ = numeric(to, family)
        await self._loop.create_connection(
            lambda: End(self, channel), host, port, family=family, local_addr=(self._host, 0)
        )

    async def _connect_to_host(self, channel: Channel) -> None:
        assert self._loop is not None, "channels are used after they started"
        sock = self._site.connect()
        try:
            await self._loop.create_unix_connection(lambda: End(self, channel, inside=True), sock=sock)
        except BaseException:
            sock.close()
            raise

    def _fail_to_open(self, channel: Channel, reason: str) -> None:
        if self._opening.pop(channel, None) is not None:
            self._tell(ChannelFailed(channel, reason))

    def _time_out(self, channel: Channel) -> None:
        if self._give_up(channel):
            self._tell(ChannelFailed(channel, "timed out"))

    def _give_up(self, channel: Channel) -> bool:
        """Stop opening a channel, unless it is connected: a loop may drop a connection then without a word."""
        opening = self._opening.pop(channel, None)
        return opening is not None and opening.cancel()

    def _close(self, channel: Channel) -> None:
        self._give_up(channel)
        end = self._ends.pop(channel, None) or next((s for s in self._strangers if s.channel == channel), None)
        if end is not None:
            self._strangers.discard(end)
            end.finish()

    # What ends report.

    def connected(self, end: End) -> bool:
        """A connection stands; whether there is room for it."""
        accepted = len(self._strangers) + sum(channel < 0 for channel in self._ends)
        self._connections.add(end)
        if self._closed or (end.channel is None and accepted >= ACCEPTED_LIMIT):
            self.count("channel: no room for another")
            return False
        if end.channel is not None and self._opening.pop(end.channel, None) is None:
            return False  # given up just now
        self._strangers.add(end)
        return True

    def introduced(self, end: End, host: str, introduction: bytes) -> bool:
        """The first frame of the other end; whether it is one of ours."""
        self._strangers.discard(end)
        if len(introduction) != _INTRODUCTION.size:
            self.count("channel: not ours")
            return False
        magic, version, realm, port = _INTRODUCTION.unpack(introduction)
        if magic != _MAGIC or version != _VERSION or realm != self._realm:
            self.count("channel: a stranger")
            return False
        accepted = end.channel is None
        if end.channel is None:
            self._accepted += 1
            end.channel = Channel(-self._accepted)
        self._ends[end.channel] = end
        peer = SITE if end.inside else spell((host, port))
        self._tell(ChannelOpened(end.channel, peer, accepted))
        return True

    def received(self, end: End, data: bytes) -> None:
        if end.channel in self._ends:
            self._tell(FrameReceived(end.channel, data))

    def ended(self, end: End, reason: str | None) -> None:
        """An end is gone: closed by the peer, or failed with a reason."""
        self._connections.discard(end)
        self._strangers.discard(end)
        channel = end.channel
        if channel is None:
            return
        if self._ends.pop(channel, None) is None:
            if not end.finished and not end.stands:
                self._tell(ChannelFailed(channel, reason or "refused"))
            return
        self._tell(ChannelClosed(channel) if reason is None else ChannelFailed(channel, reason))


async def _all_gone(ends: Iterable[End], seconds: float) -> None:
    """Wait until these are closed, but no longer than that."""
    waits = [end.gone.wait() for end in ends]
    if waits:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*waits)
