"""The end of a connection that asks, with plain sockets: frames to a server at `host:port`, and insisting.

A connection that broke is made anew until the patience is over: whatever is asked can be asked again.
"""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from unisono.errors import LogError, UnisonoError
from unisono.spelling import split_endpoint
from unisono.units import MIB
from unisono.wire.frames import CHECKSUM_BYTES, LENGTH_BYTES, frame, read_frames

ANSWER_SECONDS = 30.0
"""How long an answer may take that the other end does not wait for itself."""
_PAUSE_SECONDS = 0.1

Result = TypeVar("Result")


class FrameClient(ABC):
    """One connection, opened when it is needed; used by one thread at a time."""

    def __init__(self, address: str, greeting: bytes, patience_seconds: float) -> None:
        self._address = address
        self._endpoint = split_endpoint(address)
        self._greeting = greeting
        self._patience_seconds = patience_seconds
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _no_answer(self, error: OSError) -> UnisonoError:
        """What to raise when the patience is over."""

    def _connect(self) -> socket.socket:
        """A new connection, on which the greeting has been said."""
        timeout = min(self._patience_seconds or 1.0, ANSWER_SECONDS)
        self._socket = socket.create_connection(self._endpoint, timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(ANSWER_SECONDS)
        self._socket.sendall(frame(self._greeting))
        return self._socket

    def _insistently(self, work: Callable[[], Result]) -> Result:
        """Do this, and again on a new connection where one broke, until the patience is over."""
        end = time.monotonic() + self._patience_seconds
        while True:
            try:
                return work()
            except OSError as error:
                self.close()
                if time.monotonic() + _PAUSE_SECONDS > end:
                    raise self._no_answer(error) from error
                time.sleep(_PAUSE_SECONDS)
            except BaseException:  # what was said or read half would be taken for a part of what comes next
                self.close()
                raise


def read_frame(connection: socket.socket, limit_bytes: int) -> bytes:
    """The next payload; ConnectionError where there is none."""
    prefix = _read_exactly(connection, LENGTH_BYTES)
    length = int.from_bytes(prefix, "little")
    if length > limit_bytes:
        raise LogError(f"a frame of {length} bytes came where at most {limit_bytes} are expected; is this a log?")
    payload = next(read_frames(prefix + _read_exactly(connection, length + CHECKSUM_BYTES)), None)
    if payload is None:
        raise ConnectionError("a frame came damaged")
    return payload


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), MIB))
        if not part:
            raise ConnectionError("the connection was closed")
        data += part
    return bytes(data)
