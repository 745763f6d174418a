"""One end of a channel on a connection: an introduction first, then frames; whatever else comes is a failure."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol, cast

from unisono.engine import Channel
from unisono.wire.frames import FRAME_LIMIT_BYTES, FRAME_OVERHEAD_BYTES, LENGTH_BYTES, frame, read_frames

INTRODUCTION_SECONDS = 10.0
"""An end that has not introduced itself by then is closed."""
LINGER_SECONDS = 15.0
"""How long a closed channel waits for its peer to close too."""
UNSENT_LIMIT_BYTES = 2 * FRAME_LIMIT_BYTES
"""What may wait for a peer that does not read; beyond it the channel fails."""
PEER_TIMEOUT_MILLISECONDS = 15_000


class Owner(Protocol):
    """Whom an end reports to."""

    @property
    def introduction(self) -> bytes:
        """The frame with which every end begins."""
        ...

    def connected(self, end: End) -> bool:
        """A connection stands; whether there is room for it."""
        ...

    def introduced(self, end: End, host: str, introduction: bytes) -> bool:
        """The first frame of the other end; whether it is one of ours."""
        ...

    def received(self, end: End, data: bytes) -> None: ...

    def ended(self, end: End, reason: str | None) -> None:
        """An end is gone: closed by the peer, or failed with a reason."""
        ...


class End(asyncio.Protocol):
    """One connection; `channel` is None until an accepted one has introduced itself, `inside` says inside a site."""

    def __init__(self, channels: Owner, channel: Channel | None, inside: bool = False) -> None:
        self._channels = channels
        self._transport: asyncio.Transport | None = None
        self._host = ""
        self._data = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._reason: str | None = None
        self.channel = channel
        self.inside = inside
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

    @property
    def unsent(self) -> bool:
        """Whether something that was sent has not left this process."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self.inside:
            self._host = str(transport.get_extra_info("peername")[0])
            _watch_peer(transport.get_extra_info("socket"))
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


def _watch_peer(sock: socket.socket) -> None:
    """Send small frames at once, and find out when the other machine is gone."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PEER_TIMEOUT_MILLISECONDS)
