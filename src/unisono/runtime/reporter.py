"""Hands the trace of this process to a collector: in reports, behind the work, and again until they are acknowledged.

Nothing here makes the process wait. While the collector is away reports are kept up to a limit; then the oldest go,
which is counted and told in the trace itself, as a row HOLE.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from unisono.runtime.framed_streams import BadFrame, read_frame
from unisono.spelling import split_endpoint
from unisono.trace.column_buffer import ColumnBuffer
from unisono.trace.report_messages import ANSWER_LIMIT_BYTES, GREETING, Refused, Stored, decode_answer
from unisono.trace.reports import REPORT_LIMIT_BYTES, encode
from unisono.units import MIB
from unisono.wire.frames import frame

_LOG = logging.getLogger(__name__)

REPORT_ROWS = 4096
REPORT_SECONDS = 0.2
"""A report has at most so many rows, and the oldest of them has waited no longer than this."""
KEPT_BYTES = 32 * MIB
"""What is kept while the collector is away."""
FLYING_BYTES = 4 * MIB
"""What is under way to the collector and not yet acknowledged."""
CONNECT_SECONDS = 5.0
PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""How long to wait before each try to reach the collector; the last goes on."""
_LAST_SEALS = 3
"""The last report may push out others, which a row tells that is in none yet, and that one may do so again."""

Hole = Callable[[int, int, int, int], None]


class Sealed(NamedTuple):
    """A report, ready to send."""

    number: int
    rows: int
    data: bytes


class Reporter:
    """The reports of one life of one process. `buffer` is filled by the tracer, which then calls `gathered`."""

    def __init__(self, address: str, run: str, process: str, host: str, kept_bytes: int = KEPT_BYTES) -> None:
        self._address = address
        self._endpoint = split_endpoint(address)
        self._run, self._process, self._host = run, process, host
        self._incarnation = 0
        self._kept_limit = kept_bytes
        self.buffer = ColumnBuffer()
        self._waiting: deque[Sealed] = deque()
        self._flying: dict[int, Sealed] = {}
        self._kept_bytes = self._flying_bytes = 0
        self._next = 0
        self._count: Callable[[str], None] = lambda reason: None
        self._hole: Hole = lambda reports, rows, first, last: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def unacknowledged(self) -> int:
        """How many reports the collector has not acknowledged."""
        return len(self._waiting) + len(self._flying)

    def start(self, loop: asyncio.AbstractEventLoop, count: Callable[[str], None], hole: Hole) -> None:
        """Begin to look for the collector. `hole` is told when reports were given up."""
        self._loop, self._count, self._hole = loop, count, hole
        self._task = loop.create_task(self._send_all())

    def gathered(self, incarnation: int) -> None:
        """More is in the buffer; called at the end of a turn."""
        self._incarnation = incarnation
        if self.buffer.count >= REPORT_ROWS:
            self._seal()
        elif self._timer is None and self._loop is not None and self.buffer.count:
            self._timer = self._loop.call_later(REPORT_SECONDS, self._on_time)

    async def close(self, patience_seconds: float) -> None:
        """Send what is left, wait for its acknowledgement for so long, and end."""
        if self._task is None:
            return
        for _ in range(_LAST_SEALS):
            self._seal()
        if self._timer is not None:
            self._timer.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_seconds):
                await self._idle.wait()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if self.unacknowledged:
            self._count("report not acknowledged at the end")
            _LOG.warning(
                "the collector at %s did not acknowledge the last %d reports", self._address, self.unacknowledged
            )

    def _on_time(self) -> None:
        self._timer = None
        self._seal()

    def _seal(self) -> None:
        """Make a report of what was gathered."""
        if not self._incarnation or not self.buffer.count:
            return
        report = self.buffer.take(self._run, self._process, self._incarnation, self._host, self._next)
        sealed = Sealed(self._next, report.count, encode(report))
        self._next += 1
        if len(sealed.data) > REPORT_LIMIT_BYTES:
            self._count("report too large")
            self._hole(1, sealed.rows, sealed.number, sealed.number)
            return
        self._waiting.append(sealed)
        self._kept_bytes += len(sealed.data)
        self._idle.clear()
        self._news.set()
        self._keep_to_limit()

    def _keep_to_limit(self) -> None:
        """Give up the oldest reports that are not under way."""
        dropped: list[Sealed] = []
        while self._kept_bytes > self._kept_limit and len(self._waiting) > 1:
            dropped.append(self._waiting.popleft())
            self._kept_bytes -= len(dropped[-1].data)
        if dropped:
            for _ in dropped:
                self._count("report dropped")
            self._hole(len(dropped), sum(one.rows for one in dropped), dropped[0].number, dropped[-1].number)

    async def _send_all(self) -> None:
        tries = 0
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(*self._endpoint)
            except (OSError, TimeoutError) as error:
                if not tries:
                    _LOG.info("the collector at %s cannot be reached: %s", self._address, error)
                await asyncio.sleep(PAUSES_SECONDS[min(tries, len(PAUSES_SECONDS) - 1)])
                tries += 1
                continue
            before = self.unacknowledged
            receiving = asyncio.ensure_future(self._receive(reader))
            try:
                await self._send(writer, receiving)
            except OSError as error:
                _LOG.info("the collector at %s is gone: %s", self._address, error)
            finally:
                receiving.cancel()
                writer.close()
                self._take_back()
            tries = 0 if self.unacknowledged < before else tries + 1
            await asyncio.sleep(PAUSES_SECONDS[min(tries, len(PAUSES_SECONDS) - 1)])

    async def _send(self, writer: asyncio.StreamWriter, receiving: asyncio.Future[None]) -> None:
        writer.write(frame(GREETING))
        while not receiving.done():
            self._news.clear()
            while self._waiting and self._flying_bytes < FLYING_BYTES and not receiving.done():
                sealed = self._waiting.popleft()
                self._flying[sealed.number] = sealed
                self._flying_bytes += len(sealed.data)
                writer.write(frame(sealed.data))
                await writer.drain()
            news = asyncio.ensure_future(self._news.wait())
            try:
                await asyncio.wait((news, receiving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        """Take answers until the connection ends."""
        try:
            while (data := await read_frame(reader, ANSWER_LIMIT_BYTES)) is not None:
                answer = decode_answer(data)
                if isinstance(answer, Stored):
                    for number in answer.numbers:
                        self._done(number)
                else:
                    self._refused(answer)
        except (BadFrame, msgspec.DecodeError, ValueError) as error:
            self._count("no collector")
            _LOG.warning("what answers at %s is no collector of this version: %s", self._address, error)

    def _refused(self, answer: Refused) -> None:
        self._count(f"report refused: {answer.reason}")
        _LOG.warning("the collector at %s refused: %s", self._address, answer.reason)
        sealed = None if answer.number is None else self._done(answer.number)
        if sealed is not None:
            self._hole(1, sealed.rows, sealed.number, sealed.number)

    def _done(self, number: int) -> Sealed | None:
        sealed = self._flying.pop(number, None)
        if sealed is not None:
            self._flying_bytes -= len(sealed.data)
            self._kept_bytes -= len(sealed.data)
            self._news.set()
            if not self.unacknowledged:
                self._idle.set()
        return sealed

    def _take_back(self) -> None:
        """What was under way and not acknowledged is sent again on the next connection."""
        self._waiting.extendleft(reversed(self._flying.values()))
        self._flying.clear()
        self._flying_bytes = 0
        self._keep_to_limit()
