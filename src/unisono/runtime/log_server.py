"""Serves a retained log over TCP: its bounds, and payloads from an offset on, as soon as they are synced.

Readers are not trusted: what they ask is checked, bounded and answered, or refused with a reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from unisono.errors import LogError, LogGone, NetworkError
from unisono.runtime.framed_streams import BadFrame, read_frame, say_last, write_frame
from unisono.spelling import join_endpoint
from unisono.trace.log.messages import (
    GREETING,
    QUESTION_LIMIT_BYTES,
    READ_LIMIT_BYTES,
    Answer,
    AskRead,
    Bounds,
    Gone,
    Payloads,
    Question,
    Refused,
    decode_question,
    encode,
)
from unisono.trace.log.retained import RetainedLog

_LOG = logging.getLogger(__name__)

CONNECTION_LIMIT = 64
GREETING_SECONDS = 5.0
ANSWER_SECONDS = 30.0
"""A reader that takes nothing for so long is dropped."""


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection until it is over."""


class LogServer:
    """Serves one log in the running loop. Whoever appends to the log does so in this process.

    `others` are services at the same address, by the greeting that asks for them.
    """

    def __init__(
        self,
        log: RetainedLog,
        connection_limit: int = CONNECTION_LIMIT,
        others: Mapping[bytes, Serve] | None = None,
    ) -> None:
        self._log = log
        self._others = dict(others or {})
        self._connection_limit = connection_limit
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._grown = asyncio.Event()
        self._unwatch: Callable[[], None] = lambda: None
        self.counters: Counter[str] = Counter()
        """How often each reason to refuse something was met."""
        self.address = ""

    @property
    def readers(self) -> int:
        return len(self._tasks)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; `address` says where."""
        try:
            self._server = await asyncio.start_server(self._accept, host, port)
        except OSError as error:
            raise NetworkError(f"cannot listen on {join_endpoint(host, port)}: {error.strerror or error}") from error
        name = self._server.sockets[0].getsockname()
        self.address = join_endpoint(name[0], name[1])
        self.begin()

    def begin(self) -> None:
        """Watch the log, for readers that wait; `start` does this. Whoever listens itself then calls `answer_all`."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(self._wake)

        self._unwatch = self._log.watch(tell)

    async def close(self) -> None:
        """Serve nobody any more; the log stays open."""
        self._unwatch()
        self._unwatch = lambda: None
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, TimeoutError) as error:
            _LOG.info("a reader of the log is gone: %r", error)
        except asyncio.CancelledError:
            # `close` ends it; the streams of asyncio would call a cancelled task an error.
            _LOG.info("a connection was closed from this side")
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.readers > self._connection_limit:
            await self._refuse(reader, writer, f"there are {self._connection_limit} readers already; try later")
            return
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                greeting = await read_frame(reader, QUESTION_LIMIT_BYTES)
            if greeting is None:
                return
        except BadFrame as error:
            await self._refuse(reader, writer, str(error))
            return
        if (other := self._others.get(greeting)) is not None:
            await other(reader, writer)
            return
        if greeting != GREETING:
            await self._refuse(reader, writer, "this is a retained log, which speaks another protocol or version")
            return
        await self.answer_all(reader, writer)

    async def answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of a reader that has greeted, until it goes."""
        try:
            while (data := await read_frame(reader, QUESTION_LIMIT_BYTES)) is not None:
                try:
                    question = decode_question(data)
                except (msgspec.DecodeError, ValueError) as error:
                    await self._refuse(reader, writer, f"this question cannot be read: {error}")
                    return
                answer, payloads = await self._answer(question)
                async with asyncio.timeout(ANSWER_SECONDS):
                    await write_frame(writer, encode(answer))
                for payload in payloads:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await write_frame(writer, payload)
        except BadFrame as error:
            await self._refuse(reader, writer, str(error))

    async def _answer(self, question: Question) -> tuple[Answer, list[bytes]]:
        if not isinstance(question, AskRead):
            return Bounds(self._log.begin, self._log.synced), []
        loop = asyncio.get_running_loop()
        end = loop.time() + question.wait_milliseconds / 1000
        while (synced := self._log.synced) <= question.offset:
            if question.offset > synced:
                return self._count(Refused(f"there is no offset {question.offset}: the log's end is {synced}")), []
            try:
                async with asyncio.timeout_at(end):
                    await self._grown.wait()
            except TimeoutError:
                break
        try:
            limit = min(question.limit_bytes, READ_LIMIT_BYTES)
            payloads = await asyncio.to_thread(self._log.read, question.offset, limit)
        except LogGone as error:
            return Gone(error.begin), []
        except LogError as error:
            _LOG.error("the log cannot be read: %s", error)
            return self._count(Refused(str(error))), []
        payloads = payloads[: max(0, self._log.synced - question.offset)]
        return Payloads(len(payloads)), payloads

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reason: str) -> None:
        await say_last(reader, writer, encode(self._count(Refused(reason))), GREETING_SECONDS)

    def _count(self, refused: Refused) -> Refused:
        self.counters[refused.reason.partition(":")[0]] += 1
        return refused
