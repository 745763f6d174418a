"""Channels over TCP: frames arrive whole, once and in order, or the channel fails.

Both ends introduce themselves with a first frame (realm and port of their endpoint); a channel stands when the other's
introduction has come. A stranger, a damaged frame or an end in mid-frame is a failure, never a frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Coroutine
from struct import Struct as Layout
from typing import cast

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
    OpenChannel,
    SendFrame,
    StopListening,
)
from unisono.errors import NetworkError
from unisono.runtime.addresses import numeric, spell
from unisono.runtime.sockets import Count
from unisono.wire.frames import FRAME_LIMIT_BYTES, FRAME_OVERHEAD_BYTES, LENGTH_BYTES, frame, read_frames

_LOG = logging.getLogger(__name__)

ACCEPTED_LIMIT = 1024
"""Channels that others may hold open to this process."""
INTRODUCTION_SECONDS = 10.0
"""An end that has not introduced itself by then is closed."""
CONNECT_SECONDS = 15.0
LINGER_SECONDS = 15.0
"""How long a closed channel waits for its peer to close too."""
UNSENT_LIMIT_BYTES = 2 * FRAME_LIMIT_BYTES
"""What may wait for a peer that does not read; beyond it the channel fails."""
PEER_TIMEOUT_MILLISECONDS = 15_000

_INTRODUCTION = Layout("<4sBQH")
_MAGIC, _VERSION = b"unis", 1

ChannelEffect = Listen | StopListening | OpenChannel | CloseChannel | SendFrame
Give = Callable[[Fact], None]


class Channels:
    """All channels of one process, on the TCP socket of its endpoint."""

    def __init__(self, realm: str, sock: socket.socket) -> None:
        self._socket = sock
        self._host = str(sock.getsockname()[0])
        self._realm = xxh3_64_intdigest(f"channel\0{realm}".encode())
        port = int(sock.getsockname()[1])
        self.introduction = frame(_INTRODUCTION.pack(_MAGIC, _VERSION, self._realm, port))
        self._ends: dict[Channel, End] = {}
        self._opening: dict[Channel, asyncio.Task[None]] = {}
        self._strangers: set[End] = set()
        self._server: asyncio.AbstractServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receive: Give = lambda fact: None
        self.count: Count = lambda reason: None

    def start(self, loop: asyncio.AbstractEventLoop, give: Give, count: Count) -> None:
        self._loop, self._receive, self.count = loop, give, count

    @property
    def listening(self) -> bool:
        return self._server is not None

    def carry_out(self, effect: ChannelEffect) -> None:
        assert self._loop is not None, "channels are used after they started"
        if isinstance(effect, SendFrame):
            end = self._ends.get(effect.channel)
            if end is not None:
                end.send(effect.data)
        elif isinstance(effect, Listen | StopListening) and effect.at == SITE:
            if isinstance(effect, Listen):
                self._receive(ListenFailed(SITE, "not offered here yet"))
        elif isinstance(effect, Listen):
            self._spawn(self._listen())
        elif isinstance(effect, OpenChannel):
            self._opening[effect.channel] = self._spawn(self._open(effect.channel, effect.to))
        elif isinstance(effect, CloseChannel):
            self._close(effect.channel)

    async def stop(self) -> None:
        """Close every channel after the frames sent so far, and accept no more."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ends = [*self._ends.values(), *self._strangers]
        self._ends.clear()
        self._strangers.clear()
        for end in ends:
            end.finish()
        if ends:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await asyncio.gather(*(end.gone.wait() for end in ends))
        for end in ends:
            end.abort()
        self._socket.close()

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

    async def _open(self, channel: Channel, to: Address) -> None:
        assert self._loop is not None, "channels are used after they started"
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            host, port, *_ = numeric(to, family)
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._loop.create_connection(
                    lambda: End(self, channel), host, port, family=family, local_addr=(self._host, 0)
                )
        except NetworkError as error:
            self._fail_to_open(channel, str(error))
        except TimeoutError:
            self._fail_to_open(channel, "timed out")
        except OSError as error:
            self._fail_to_open(channel, error.strerror or str(error))
        finally:
            self._opening.pop(channel, None)

    def _fail_to_open(self, channel: Channel, reason: str) -> None:
        if not self._closed:
            self._receive(ChannelFailed(channel, reason))

    def _close(self, channel: Channel) -> None:
        opening = self._opening.pop(channel, None)
        if opening is not None:
            opening.cancel()
        end = self._ends.pop(channel, None) or next((s for s in self._strangers if s.channel == channel), None)
        if end is not None:
            self._strangers.discard(end)
            end.finish()

    # What ends report.

    def connected(self, end: End) -> bool:
        """A connection stands; whether there is room for it."""
        accepted = len(self._strangers) + sum(channel < 0 for channel in self._ends)
        if self._closed or (end.channel is None and accepted >= ACCEPTED_LIMIT):
            self.count("channel: no room for another")
            return False
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
        self._receive(ChannelOpened(end.channel, spell((host, port)), accepted))
        return True

    def received(self, end: End, data: bytes) -> None:
        if end.channel in self._ends:
            self._receive(FrameReceived(end.channel, data))

    def ended(self, end: End, reason: str | None) -> None:
        """An end is gone: closed by the peer, or failed with a reason."""
        self._strangers.discard(end)
        channel = end.channel
        if channel is None or self._closed:
            return
        if self._ends.pop(channel, None) is None:
            if not end.finished and not end.stands:
                self._receive(ChannelFailed(channel, reason or "refused"))
            return
        self._receive(ChannelClosed(channel) if reason is None else ChannelFailed(channel, reason))


class End(asyncio.Protocol):
    """One TCP connection; `channel` is None until an accepted one has introduced itself."""

    def __init__(self, channels: Channels, channel: Channel | None) -> None:
        self._channels = channels
        self._transport: asyncio.Transport | None = None
        self._host = ""
        self._data = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._reason: str | None = None
        self.channel = channel
        self.stands = False
        self.finished = False
        self.gone = asyncio.Event()

    def send(self, data: bytes) -> None:
        assert self._transport is not None, "frames are sent when the channel stands"
        if self._transport.get_write_buffer_size() > UNSENT_LIMIT_BYTES:
            self._fail("the peer does not read")
            return
        self._transport.write(frame(data))

    def finish(self) -> None:
        """Close after what was sent.

        Only this direction, and what still comes is thrown away: closing both with something unread would make the
        system reset the connection, and the peer lose what is on its way.
        """
        self.finished = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()
            self._rearm(LINGER_SECONDS, "the peer does not close")

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        self._host = str(transport.get_extra_info("peername")[0])
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PEER_TIMEOUT_MILLISECONDS)
        if not self._channels.connected(self):
            self._transport.abort()
            return
        self._transport.write(self._channels.introduction)
        self._rearm(INTRODUCTION_SECONDS, "no introduction came")

    def data_received(self, data: bytes) -> None:
        if self.finished:
            return
        self._data += data
        if not self.stands and self._too_long():
            self._fail("not a channel of this kind")
            return
        frames = read_frames(self._data)
        for payload in frames:
            if self.stands:
                self._channels.received(self, payload)
            elif self._channels.introduced(self, self._host, payload):
                self._stand()
            else:
                self._fail("a stranger")
                return
        assert frames.ending is not None, "every frame was taken"
        if frames.ending.why == "damaged":
            self._fail("a damaged frame")
            return
        del self._data[: frames.ending.whole_bytes]

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.gone.set()
        reason = self._reason
        if reason is None and error is not None:
            reason = getattr(error, "strerror", None) or str(error) or "broken"
        if reason is None and self._data:
            reason = "closed in the middle of a frame"
        self._channels.ended(self, reason)

    def _rearm(self, seconds: float, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._fail, reason)

    def _stand(self) -> None:
        self.stands = True
        if self._timer is not None:
            self._timer.cancel()

    def _too_long(self) -> bool:
        """Before it stands, the other end sends one short frame."""
        length = int.from_bytes(self._data[:LENGTH_BYTES], "little")
        return len(self._data) >= LENGTH_BYTES and length + FRAME_OVERHEAD_BYTES > 256

    def _fail(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._data.clear()
        self.abort()
