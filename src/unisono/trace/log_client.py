"""Reads a retained log from another machine or process, over TCP, with plain sockets.

Every question can be asked again, so a connection that broke is made anew until the patience is over.
"""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Self

import msgspec

from unisono.errors import LogError, LogGone
from unisono.spelling import split_endpoint
from unisono.trace.log_messages import (
    ANSWER_LIMIT_BYTES,
    GREETING,
    WAIT_LIMIT_MILLISECONDS,
    Answer,
    AskBounds,
    AskRead,
    Bounds,
    Gone,
    Payloads,
    Question,
    Refused,
    decode_answer,
    encode,
)
from unisono.units import MIB
from unisono.wire.frames import CHECKSUM_BYTES, FRAME_LIMIT_BYTES, LENGTH_BYTES, frame, read_frames

PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
_ANSWER_SECONDS = 30.0


class LogClient:
    """One connection to a log's server at `host:port`; used by one thread at a time."""

    def __init__(self, address: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._address = address
        self._endpoint = split_endpoint(address)
        self._patience_seconds = patience_seconds
        self._socket: socket.socket | None = None

    def bounds(self) -> tuple[int, int]:
        """The oldest offset that is kept, and that after the last payload."""
        answer, _ = self._ask(AskBounds())
        if not isinstance(answer, Bounds):
            raise LogError(f"{self._address} answered a question for bounds with {answer}")
        return answer.begin, answer.end

    def read(self, offset: int, limit_bytes: int = MIB, wait_seconds: float = 0.0) -> list[bytes]:
        """Payloads from this offset on, at least one if there is one or one comes in time."""
        wait = min(round(wait_seconds * 1000), WAIT_LIMIT_MILLISECONDS)
        answer, payloads = self._ask(AskRead(offset, limit_bytes, wait), wait / 1000)
        if isinstance(answer, Gone):
            raise LogGone(offset, answer.begin)
        if not isinstance(answer, Payloads):
            raise LogError(f"{self._address} answered a question for payloads with {answer}")
        return payloads

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

    def _ask(self, question: Question, wait_seconds: float = 0.0) -> tuple[Answer, list[bytes]]:
        end = time.monotonic() + self._patience_seconds
        while True:
            try:
                return self._ask_once(question, wait_seconds)
            except OSError as error:
                self.close()
                if time.monotonic() + _PAUSE_SECONDS > end:
                    raise LogError(
                        f"no answer from the log at {self._address}: {error}; is it running, and is this its address?"
                    ) from error
                time.sleep(_PAUSE_SECONDS)
            except BaseException:  # an answer that was read half would be taken for that of the next question
                self.close()
                raise

    def _ask_once(self, question: Question, wait_seconds: float) -> tuple[Answer, list[bytes]]:
        connection = self._socket
        if connection is None:
            connection = self._socket = socket.create_connection(self._endpoint, timeout=self._patience_seconds or 1.0)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(frame(GREETING))
        connection.settimeout(wait_seconds + _ANSWER_SECONDS)
        connection.sendall(frame(encode(question)))
        try:
            answer = decode_answer(_read_frame(connection, ANSWER_LIMIT_BYTES))
        except (msgspec.DecodeError, ValueError) as error:
            raise LogError(f"{self._address} is no server of a log of this version: {error}") from None
        if isinstance(answer, Refused):
            raise LogError(f"the log at {self._address} refused: {answer.reason}")
        count = answer.count if isinstance(answer, Payloads) else 0
        return answer, [_read_frame(connection, FRAME_LIMIT_BYTES) for _ in range(count)]


def _read_frame(connection: socket.socket, limit_bytes: int) -> bytes:
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
