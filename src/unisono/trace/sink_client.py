"""Sends rows to a gateway: stages them, and says which of them make up a batch.

What is asked can be asked again: a gateway that starts again has what was staged, and knows what it has sent.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from typing import IO
from uuid import uuid4

import msgspec

from unisono.errors import GroupError, LogError
from unisono.trace.frame_client import FrameClient, read_frame
from unisono.trace.sink_messages import (
    GREETING,
    Discard,
    EndStage,
    Hello,
    Progress,
    Publish,
    Published,
    Refused,
    Reply,
    Request,
    Rows,
    Stage,
    Staged,
    Welcome,
    decode_reply,
    encode,
)
from unisono.units import MIB
from unisono.wire.frames import FRAME_LIMIT_BYTES, frame

PATIENCE_SECONDS = 60.0
REPLY_LIMIT_BYTES = 64 << 10
_CHUNK_BYTES = 256 << 10
_LENGTH_BYTES = 4


class SinkClient(FrameClient):
    """One connection to the gateway of a group; used by one thread at a time."""

    def __init__(self, address: str, group: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        super().__init__(address, GREETING, patience_seconds)
        self._group = group
        self._welcome: Welcome | None = None

    def stage(self, rows: Iterable[bytes]) -> tuple[str, int]:
        """Leave rows with the gateway, on its disk: under what name, and how many. Not sent until they are published.

        They are in a file here until the gateway has them, so that they can be sent again.
        """
        with tempfile.TemporaryFile(prefix="unisono-rows-") as file:
            count = 0
            for row in rows:
                file.write(len(row).to_bytes(_LENGTH_BYTES, "little") + row)
                count += 1
            name = uuid4().hex
            self._insistently(lambda: self._stage(name, file, count))
            return name, count

    def publish(self, query: str, checkpoint: str, batch: int, stages: Sequence[tuple[str, int]]) -> Published:
        """Have a batch sent, once, whoever asks for it how often; returns when it has been sent."""
        return self._insistently(lambda: self._publish(Publish(query, checkpoint, batch, list(stages))))

    def discard(self, names: Sequence[str]) -> None:
        """These stages will not be published."""
        self._insistently(lambda: self._ask(Discard(list(names))))

    def _stage(self, name: str, file: IO[bytes], count: int) -> None:
        limit = self._open().row_limit_bytes
        file.seek(0)
        self._say(Stage(name))
        chunk: list[bytes] = []
        size = 0
        for number in range(count):
            row = file.read(int.from_bytes(file.read(_LENGTH_BYTES), "little"))
            if len(row) > limit:
                raise GroupError(
                    f"row {number} of this task has {len(row)} bytes and {self._group!r} takes {limit};"
                    " send less in a row, or raise message_limit_bytes for every member"
                )
            if chunk and size + len(row) > _CHUNK_BYTES:
                self._say(Rows(chunk))
                chunk, size = [], 0
            chunk.append(row)
            size += len(row)
        if chunk:
            self._say(Rows(chunk))
        reply = self._ask(EndStage(count))
        if not isinstance(reply, Staged) or reply.count != count:
            raise GroupError(f"the gateway at {self._address} answered {count} staged rows with {reply}")

    def _publish(self, request: Publish) -> Published:
        reply = self._ask(request)
        while isinstance(reply, Progress):
            reply = self._hear()
        if not isinstance(reply, Published):
            raise GroupError(f"the gateway at {self._address} answered a batch with {reply}")
        return reply

    def _ask(self, request: Request) -> Reply:
        self._open()
        self._say(request)
        return self._hear()

    def _say(self, request: Request) -> None:
        assert self._socket is not None, "a connection is open"
        self._socket.sendall(frame(encode(request)))

    def _hear(self) -> Reply:
        assert self._socket is not None, "a connection is open"
        try:
            reply: Reply = decode_reply(read_frame(self._socket, REPLY_LIMIT_BYTES))
        except (msgspec.DecodeError, ValueError, LogError) as error:
            raise GroupError(f"{self._address} is no gateway of this version: {error}") from None
        if isinstance(reply, Refused):
            raise GroupError(f"the gateway at {self._address} refused: {reply.reason}")
        return reply

    def _open(self) -> Welcome:
        if self._socket is None:
            self._connect()
            self._say(Hello(self._group))
            reply = self._hear()
            if not isinstance(reply, Welcome):
                raise GroupError(f"{self._address} is no gateway of this version: it said {reply}")
            self._welcome = reply
        assert self._welcome is not None, "a connection begins with a welcome"
        return self._welcome

    def _no_answer(self, error: OSError) -> GroupError:
        return GroupError(
            f"no answer from the gateway at {self._address}: {error}; is it running, and is this its"
            " address? `unisono gateway` starts one"
        )


assert FRAME_LIMIT_BYTES > _CHUNK_BYTES + MIB, "a chunk of rows fits a frame"
