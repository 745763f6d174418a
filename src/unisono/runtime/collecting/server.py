"""Takes reports from many processes and acknowledges each when it is on disk; stores each once.

One writer appends to the retained log what many connections brought and syncs it once for all of them. What is known of
earlier reports is what the log and the lake have, so a collector that was killed goes on where they end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec

from unisono.errors import BadReport, NetworkError
from unisono.runtime.collecting.runs import CollectedRuns
from unisono.runtime.framed_streams import BadFrame, read_frame, say_last, write_frame
from unisono.runtime.log_server import LogServer
from unisono.spelling import join_endpoint
from unisono.trace.log.messages import GREETING as READER_GREETING
from unisono.trace.log.retained import RetainedLog
from unisono.trace.report_messages import ANSWERED_LIMIT, GREETING, Answer, Refused, Stored, encode
from unisono.trace.reports import REPORT_LIMIT_BYTES, Report, ReportId, decode
from unisono.units import MIB

_LOG = logging.getLogger(__name__)

CONNECTION_LIMIT = 1024
PENDING_BYTES = 64 * MIB
"""So much may wait to be synced; then connections are not read until it is."""
GREETING_LIMIT_BYTES = 256
GREETING_SECONDS = 5.0
FRAME_SECONDS = 60.0
ANSWER_SECONDS = 30.0
"""Who does not take its answers for so long is dropped."""
UNANSWERED_LIMIT = 1 << 16


class Connection:
    """One process that reports, as far as the collector answers it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.life: tuple[str, str, int] | None = None
        self._answers: list[Answer] = []
        self._news = asyncio.Event()

    def answer(self, answer: Answer) -> None:
        """Say this, together with what else is to be said."""
        last = self._answers[-1] if self._answers else None
        if isinstance(answer, Stored) and isinstance(last, Stored) and len(last.numbers) < ANSWERED_LIMIT:
            last.numbers.extend(answer.numbers)
        elif len(self._answers) < UNANSWERED_LIMIT:
            self._answers.append(answer)
        self._news.set()

    async def say_answers(self) -> None:
        """Write answers as they come; ends when the connection does."""
        while True:
            await self._news.wait()
            self._news.clear()
            answers, self._answers = self._answers, []
            async with asyncio.timeout(ANSWER_SECONDS):
                for answer in answers:
                    await write_frame(self.writer, encode(answer))


class Pending(NamedTuple):
    """A report that waits to be stored, or to be acknowledged after one that does."""

    connection: Connection
    id: ReportId
    report: Report | None
    data: bytes


class Collector:
    """The server for reports, and for who reads its log, in the running loop. `writer` is the thread of the log."""

    def __init__(
        self,
        log: RetainedLog,
        runs: CollectedRuns,
        writer: ThreadPoolExecutor,
        connection_limit: int = CONNECTION_LIMIT,
    ) -> None:
        self._log = log
        self._runs = runs
        self._connection_limit = connection_limit
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending: list[Pending] = []
        self._pending_bytes = 0
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._writer = writer
        self._readers = LogServer(log)
        self.counters: Counter[str] = Counter()
        """How often each reason to refuse something was met, and what was taken."""
        self.address = ""

    @property
    def connections(self) -> int:
        return len(self._tasks)

    async def start(self, host: str, port: int) -> None:
        """Listen; `address` says where. `run` then stores what comes."""
        try:
            self._server = await asyncio.start_server(self._accept, host, port, limit=256 * 1024)
        except OSError as error:
            raise NetworkError(f"cannot listen on {join_endpoint(host, port)}: {error.strerror or error}") from error
        name = self._server.sockets[0].getsockname()
        self.address = join_endpoint(name[0], name[1])
        self._readers.begin()

    async def run(self) -> None:
        """Store and acknowledge until cancelled. Raises where the disk does not take it: nothing is safe then."""
        loop = asyncio.get_running_loop()
        while True:
            await self._work.wait()
            self._work.clear()
            pending, self._pending = self._pending, []
            if not pending:
                continue
            stored = [one for one in pending if one.report is not None]
            if stored:
                data = [one.data for one in stored]
                await loop.run_in_executor(self._writer, self._append, data)
            for one in stored:
                assert one.report is not None, "it was chosen for that"
                self._runs.stored(one.report)
                self._pending_bytes -= len(one.data)
            self._room.set()
            for one in pending:
                self.counters["duplicates" if one.report is None else "reports"] += 1
                one.connection.answer(Stored([one.id.number]))

    async def close(self) -> None:
        """Take nothing more. What was not acknowledged will come again."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._readers.close()

    def _append(self, data: list[bytes]) -> None:
        self._log.append(data)
        self._log.sync()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._tasks.add(task)
        connection = Connection(writer)
        answering = asyncio.ensure_future(connection.say_answers())
        try:
            refusal = await self._serve(reader, connection, answering)
            answering.cancel()
            if refusal is not None:
                self.counters[f"refused: {refusal.reason.partition(':')[0]}"] += 1
                await say_last(reader, writer, encode(refusal), GREETING_SECONDS)
        except (ConnectionError, TimeoutError) as error:
            _LOG.info("a process that reports is gone: %r", error)
        except asyncio.CancelledError:
            # `close` ends it; the streams of asyncio would call a cancelled task an error.
            _LOG.info("a connection was closed from this side")
        finally:
            answering.cancel()
            self._tasks.discard(task)
            if connection.life is not None:
                self._runs.disconnected(connection.life)
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, connection: Connection, answering: asyncio.Future[None]
    ) -> Refused | None:
        """Take reports until the connection ends; a refusal where it has to."""
        if len(self._tasks) > self._connection_limit:
            return Refused(None, f"too many connections: there are {self._connection_limit}; try later")
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                greeting = await read_frame(reader, GREETING_LIMIT_BYTES)
            if greeting is None:
                return None
            if greeting == READER_GREETING:
                await self._readers.answer_all(reader, connection.writer)
                return None
            if greeting != GREETING:
                return Refused(None, "other protocol: this is a collector, which speaks another protocol or version")
            while (data := await read_frame(reader, REPORT_LIMIT_BYTES, FRAME_SECONDS)) is not None:
                if answering.done():
                    return None
                refusal = self._take(connection, data)
                if refusal is not None:
                    return refusal
                if self._pending_bytes > PENDING_BYTES:
                    self._room.clear()
                    await self._room.wait()
        except BadFrame as error:
            return Refused(None, f"bad frame: {error}")
        except TimeoutError:
            return Refused(None, f"no greeting: nothing came in {GREETING_SECONDS} seconds")
        return None

    def _take(self, connection: Connection, data: bytes) -> Refused | None:
        """Put a report among those to be stored; a refusal where the connection cannot go on."""
        try:
            report = decode(data)
            known = self._runs.expect(report)
        except BadReport as error:
            _LOG.info("a report was refused: %s", error)
            number = number_of(data)
            if number is None:
                return Refused(None, str(error))
            self.counters[f"refused: {error.reason}"] += 1
            connection.answer(Refused(number, str(error)))
            return None
        life = (report.run, report.process, report.incarnation)
        if connection.life is None:
            connection.life = life
            self._runs.connected(life)
        elif connection.life != life:
            return Refused(None, f"other process: this connection reports for {connection.life[1]!r}")
        self._pending.append(Pending(connection, report.id, None if known else report, data))
        if not known:
            self._pending_bytes += len(data)
        self._work.set()
        return None


def number_of(data: bytes) -> int | None:
    """The number of a report that is refused, as far as it has one."""
    try:
        found = msgspec.msgpack.decode(data, type=list[object])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    number = found[5] if len(found) == 7 else None
    return number if isinstance(number, int) and 0 <= number < 1 << 63 else None
