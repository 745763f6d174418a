"""Reads a retained log from another machine or process, over TCP."""

from __future__ import annotations

import msgspec

from unisono.errors import LogError, LogGone
from unisono.trace.frame_client import ANSWER_SECONDS, FrameClient, read_frame
from unisono.trace.log.messages import (
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
from unisono.wire.frames import FRAME_LIMIT_BYTES, frame

PATIENCE_SECONDS = 10.0


class LogClient(FrameClient):
    """One connection to a log's server at `host:port`; used by one thread at a time."""

    def __init__(self, address: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        super().__init__(address, GREETING, patience_seconds)

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

    def _no_answer(self, error: OSError) -> LogError:
        return LogError(f"no answer from the log at {self._address}: {error}; is it running, and is this its address?")

    def _ask(self, question: Question, wait_seconds: float = 0.0) -> tuple[Answer, list[bytes]]:
        return self._insistently(lambda: self._ask_once(question, wait_seconds))

    def _ask_once(self, question: Question, wait_seconds: float) -> tuple[Answer, list[bytes]]:
        connection = self._socket or self._connect()
        connection.settimeout(wait_seconds + ANSWER_SECONDS)
        connection.sendall(frame(encode(question)))
        try:
            answer = decode_answer(read_frame(connection, ANSWER_LIMIT_BYTES))
        except (msgspec.DecodeError, ValueError) as error:
            raise LogError(f"{self._address} is no server of a log of this version: {error}") from None
        if isinstance(answer, Refused):
            raise LogError(f"the log at {self._address} refused: {answer.reason}")
        count = answer.count if isinstance(answer, Payloads) else 0
        return answer, [read_frame(connection, FRAME_LIMIT_BYTES) for _ in range(count)]
