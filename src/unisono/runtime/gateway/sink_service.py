"""A gateway's side of the conversation with those who send rows: stages, and batches made of them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec

from unisono.errors import UnisonoError
from unisono.runtime.framed_streams import BadFrame, read_frame, say_last, write_frame
from unisono.runtime.gateway.staging import StageFile, Staging
from unisono.trace.sink_messages import (
    Discard,
    Discarded,
    EndStage,
    Hello,
    Progress,
    Publish,
    Published,
    Refused,
    Request,
    Rows,
    Stage,
    Staged,
    Welcome,
    decode_request,
    encode,
)
from unisono.wire.frames import FRAME_LIMIT_BYTES

_LOG = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
"""Who says nothing for so long is gone."""
PROGRESS_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0


class Sending(Protocol):
    """A batch on its way: how far it is, and when it has been sent."""

    sent: int
    count: int
    done: asyncio.Future[None]


class Publisher(Protocol):
    """Takes batches on and sends them; None for one that was taken on and sent before."""

    async def publish(
        self, query: str, checkpoint: str, batch: int, stages: Sequence[tuple[str, int]]
    ) -> Sending | None: ...


class _Refusal(Exception):
    """Why this conversation ends here."""


class SinkService:
    """Serves those who send rows into one group."""

    def __init__(self, group: str, gateway: str, row_limit_bytes: int, staging: Staging, publisher: Publisher) -> None:
        self._group = group
        self._welcome = Welcome(gateway, row_limit_bytes)
        self._staging = staging
        self._publisher = publisher
        self.counters: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it ends; what is wrong with it is answered."""
        stage: list[StageFile] = []
        try:
            while (request := await self._next(reader)) is not None:
                await self._on_request(request, writer, stage)
        except (BadFrame, _Refusal, UnisonoError) as error:
            self.counters["refused"] += 1
            _LOG.info("a sink is refused: %s", error)
            await say_last(reader, writer, encode(Refused(str(error))), _PATIENCE_SECONDS)
        finally:
            for left in stage:
                left.abandon()

    async def _next(self, reader: asyncio.StreamReader) -> Request | None:
        async with asyncio.timeout(IDLE_SECONDS):
            data = await read_frame(reader, FRAME_LIMIT_BYTES)
        if data is None:
            return None
        try:
            request: Request = decode_request(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise _Refusal(f"this request cannot be read: {error}") from None
        return request

    async def _on_request(self, request: Request, writer: asyncio.StreamWriter, stage: list[StageFile]) -> None:
        if isinstance(request, Hello):
            if request.group != self._group:
                raise _Refusal(f"this gateway is in group {self._group!r}, not in {request.group!r}")
            await write_frame(writer, encode(self._welcome))
        elif isinstance(request, Stage):
            if stage:
                raise _Refusal("a stage begins before the last one ended")
            stage.append(self._staging.begin(request.name))
        elif isinstance(request, Rows):
            await self._on_rows(request.rows, stage)
        elif isinstance(request, EndStage):
            if not stage or stage[0].count != request.count:
                raise _Refusal(
                    f"a stage of {request.count} rows ends that has {stage[0].count if stage else 'not begun'}"
                )
            await asyncio.to_thread(stage[0].end)
            stage.clear()
            await write_frame(writer, encode(Staged(request.count)))
        elif isinstance(request, Discard):
            await asyncio.to_thread(self._staging.discard, request.names)
            await write_frame(writer, encode(Discarded()))
        else:
            await self._on_publish(request, writer)

    async def _on_rows(self, rows: list[bytes], stage: list[StageFile]) -> None:
        if not stage:
            raise _Refusal("rows came without a stage")
        for row in rows:
            if len(row) > self._welcome.row_limit_bytes:
                raise _Refusal(f"a row has {len(row)} bytes, at most {self._welcome.row_limit_bytes} are sent")
        await asyncio.to_thread(stage[0].add, rows)

    async def _on_publish(self, request: Publish, writer: asyncio.StreamWriter) -> None:
        count = sum(rows for _, rows in request.stages)
        names = [name for name, _ in request.stages]
        sending = await self._publisher.publish(request.query, request.checkpoint, request.batch, request.stages)
        await asyncio.to_thread(self._staging.discard, names)
        while sending is not None and not sending.done.done():
            await asyncio.wait({sending.done}, timeout=PROGRESS_SECONDS)
            if not sending.done.done():
                await write_frame(writer, encode(Progress(sending.sent, sending.count)))
        if sending is not None:
            sending.done.result()
        await write_frame(writer, encode(Published(count, sending is None)))
