"""A gateway: the member of a group that keeps all it is given in a retained log, serves it, and sends rows for Spark.

What it takes from the group is on disk before it takes more, so that a slow disk slows the group's senders and nothing
piles up here. Its directory has everything: the log, the rows on their way, what was staged, and who it is.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from unisono.errors import SettingError, StorageError
from unisono.events import Message, View
from unisono.identity import ProcessId
from unisono.rows import HEADER_LIMIT_BYTES
from unisono.runtime.gateway.outgoing import Batch, Outgoing, Taken
from unisono.runtime.gateway.recording import Recording
from unisono.runtime.gateway.sink_service import SinkService
from unisono.runtime.gateway.staging import Staging
from unisono.runtime.log_server import LogServer
from unisono.settings import RELIABLE_SERVICES, Settings
from unisono.trace.sink_messages import GREETING

_LOG = logging.getLogger(__name__)

EVENTS_AT_ONCE = 1000
SETTLE_SECONDS = 1.0
"""So long a new life waits before it sends rows: members in source order must follow it first to get them."""
IDENTITY = "gateway.json"

Result = TypeVar("Result")


class JoinedGroup(Protocol):
    """The group as a gateway uses it; `unisono.Group` is one."""

    name: str
    settings: Settings

    @property
    def view(self) -> View | None: ...

    async def receive_many(self, limit: int = 1000) -> Sequence[object]: ...

    async def send_many(self, messages: Iterable[bytes]) -> None: ...


class Identity(Struct, frozen=True):
    """Whose directory this is: the group, its realm, and the name of the gateway in it."""

    group: str
    realm: str
    name: str
    version: int = 1


class Status(Struct, frozen=True):
    """What a gateway does, for people and programs."""

    group: str
    address: str
    members: list[str]
    begin: int
    end: int
    kept_bytes: int
    messages: int
    gaps: int
    readers: int
    rows_sent: int
    rows_waiting: int
    batches_sent: int
    batches_again: int
    """How often a batch was asked for that had been taken on before."""


class Delivery:
    """One batch on its way."""

    def __init__(self, taken: Taken, done: asyncio.Future[None]) -> None:
        self.taken = taken
        self.count = taken.batch.count
        self.sent = 0
        self.done = done


def claim(directory: Path, group: str, realm: str, name: str | None) -> Identity:
    """Who the gateway of this directory is; a new directory is taken for this group."""
    path = directory / IDENTITY
    try:
        directory.mkdir(parents=True, exist_ok=True)
        known = msgspec.json.decode(path.read_bytes(), type=Identity)
    except FileNotFoundError:
        host = "".join(c for c in socket.gethostname().split(".")[0] if c.isprintable())[:32]
        known = Identity(group, realm, name or f"gateway-{host or 'here'}-{secrets.token_hex(2)}")
        path.write_bytes(msgspec.json.format(msgspec.json.encode(known)) + b"\n")
    except OSError as error:
        raise StorageError(f"cannot use {directory}: {error.strerror}; choose another with --data") from error
    except msgspec.DecodeError as error:
        raise StorageError(f"{path} cannot be read: {error}; choose another directory with --data") from None
    if (known.group, known.realm) != (group, realm):
        where = f"group {known.group!r} in realm {known.realm!r}"
        raise StorageError(f"{directory} belongs to a gateway of {where}; choose another directory with --data")
    if name is not None and name != known.name:
        raise SettingError("name", f"the gateway of {directory} is called {known.name!r}; leave the name out")
    return known


class Gateway:
    """Keeps and serves what one group says, and sends rows into it. `run` is its life.

    Made before the group is joined, so that a directory that cannot be used disturbs nobody.
    """

    def __init__(
        self,
        group: JoinedGroup,
        name: str,
        directory: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        retain_bytes: int | None = None,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        if group.settings.service not in RELIABLE_SERVICES:
            raise SettingError("service", f"a gateway needs {' or '.join(sorted(RELIABLE_SERVICES))}")
        self._group = group
        self._process: ProcessId | None = None
        self._endpoint = (host, port)
        self._settle_seconds = settle_seconds
        self._log_thread = ThreadPoolExecutor(1, thread_name_prefix="unisono-gateway-log")
        self._rows_thread = ThreadPoolExecutor(1, thread_name_prefix="unisono-gateway-rows")
        self._recording = Recording(directory / "log", group.name, retain_bytes)
        try:
            self._outgoing = Outgoing(directory / "rows", group.settings.window_bytes)
            self._staging = Staging(directory / "staging")
        except BaseException:
            self._recording.log.close()
            raise
        limit = group.settings.message_limit_bytes - HEADER_LIMIT_BYTES
        self._sink = SinkService(group.name, name, limit, self._staging, self)
        self._server = LogServer(self._recording.log, others={GREETING: self._sink.serve})
        self._queue: deque[Delivery] = deque()
        self._queued = asyncio.Event()
        self._known: dict[tuple[str, int], Delivery] = {}
        self._taking = asyncio.Lock()
        self._ended = False
        self._sent_rows = self._sent_batches = self._asked_again = 0

    @property
    def address(self) -> str:
        return self._server.address

    def status(self) -> Status:
        """How it stands."""
        log, view = self._recording.log, self._group.view
        return Status(
            self._group.name,
            self.address,
            [] if view is None else [process.name for process in view.members],
            log.begin,
            log.synced,
            log.kept_bytes,
            self._recording.messages,
            self._recording.gaps,
            self._server.readers,
            self._sent_rows,
            sum(delivery.count - delivery.sent for delivery in self._queue),
            self._sent_batches,
            self._asked_again,
        )

    async def run(self, process: ProcessId, started: Callable[[], None] = lambda: None) -> None:
        """Record, serve and send until the group is left, or something fails; `started` when it can be reached.

        The group is joined, as this process.
        """
        loop = asyncio.get_running_loop()
        self._process = process
        try:
            await _in(self._log_thread, self._recording.begin_life, process)
            for taken in self._outgoing.again:
                self._enqueue(Delivery(taken, loop.create_future()))
            await self._server.start(*self._endpoint)
            started()
            sending = loop.create_task(self._send())
            recording = loop.create_task(self._record())
            try:
                await asyncio.wait({sending, recording}, return_when=asyncio.FIRST_COMPLETED)
                for task in (sending, recording):
                    if task.done():
                        task.result()
            finally:
                sending.cancel()
                recording.cancel()
                await asyncio.gather(sending, recording, return_exceptions=True)
        finally:
            await self._server.close()
            self.close()

    def close(self) -> None:
        """Close the files; `run` does this at its end."""
        self._ended = True
        self._rows_thread.shutdown(wait=True)
        self._log_thread.shutdown(wait=True)
        self._outgoing.close()
        self._recording.close()

    async def publish(
        self, query: str, checkpoint: str, batch: int, stages: Sequence[tuple[str, int]]
    ) -> Delivery | None:
        """Take a batch on, unless it was; the delivery to wait for, or None where that is over."""
        async with self._taking:
            if self._ended:
                raise ConnectionResetError("this gateway is ending")  # who asks tries again, with its next life
            if self._outgoing.is_known(query, checkpoint, batch):
                self._asked_again += 1
                return self._known.get((query, batch))
            asked = Batch(query, checkpoint, batch, sum(count for _, count in stages))
            rows = (row for name, _ in stages for row in self._staging.rows(name))
            taken = await _in(self._rows_thread, self._outgoing.take, asked, rows)
            delivery = Delivery(taken, asyncio.get_running_loop().create_future())
            self._enqueue(delivery)
            return delivery

    def _enqueue(self, delivery: Delivery) -> None:
        self._known[delivery.taken.batch.query, delivery.taken.batch.number] = delivery
        self._queue.append(delivery)
        self._queued.set()

    async def _record(self) -> None:
        """Write down what the group says, as fast as the disk takes it."""
        while events := await self._group.receive_many(EVENTS_AT_ONCE):
            await _in(self._log_thread, self._write, events)
            for event in events:
                if isinstance(event, Message) and event.source == self._process:
                    self._outgoing.on_recorded(event.number)
                elif isinstance(event, View) and self._outgoing.on_view(event):
                    self._queued.set()

    def _write(self, events: Sequence[object]) -> None:
        self._recording.write(self._recording.entries(events))

    async def _send(self) -> None:
        """Send batch after batch; those of the life before first, and what somebody lacks who is back."""
        await asyncio.sleep(self._settle_seconds)
        while True:
            self._queued.clear()
            await self._send_again()
            if not self._queue:
                await self._queued.wait()
                continue
            delivery = self._queue[0]
            await self._deliver(delivery)
            self._queue.popleft()
            del self._known[delivery.taken.batch.query, delivery.taken.batch.number]
            self._sent_batches += 1
            delivery.done.set_result(None)

    async def _deliver(self, delivery: Delivery) -> None:
        async for end in self._send_batch(delivery.taken):
            delivery.sent = end - delivery.taken.first
        await _in(self._rows_thread, self._outgoing.write_note)

    async def _send_again(self) -> None:
        """Send again what somebody may lack who was out of the view and is back."""
        offset, batches = await _in(self._rows_thread, self._outgoing.lacking)
        for taken in batches:
            async for _ in self._send_batch(taken, offset):
                pass
        if batches:
            await _in(self._rows_thread, self._outgoing.write_note)

    async def _send_batch(self, taken: Taken, send_from: int | None = None) -> AsyncIterator[int]:
        """Send a batch a chunk at a time; gives the offset that sending has come to."""
        chunks = self._outgoing.messages(taken, send_from)
        while (chunk := await _in(self._rows_thread, next, chunks, None)) is not None:
            end, messages = chunk
            await self._group.send_many(messages)
            await _in(self._rows_thread, self._outgoing.on_sent, taken, end, messages)
            self._sent_rows += len(messages)
            yield end


def _in(thread: ThreadPoolExecutor, work: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
    """Files are used by one thread, in the order of these calls."""
    return asyncio.get_running_loop().run_in_executor(thread, work, *arguments)
