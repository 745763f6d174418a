"""The trace of a real process: rows go to a spool, to a collector, or to both.

Rows are in the spool before anything that the same calls send leaves the process, so nothing is ever delivered that no
trace sent, whenever a process is killed. The spool is made when the process knows its incarnation and named after it; a
clean end writes its own row. A collector gets them a little later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from platform import node
from time import monotonic_ns
from urllib.parse import quote

from xxhash import xxh3_64_hexdigest

from unisono.engine import Deliver, Record
from unisono.errors import TraceError
from unisono.runtime.reporter import Reporter
from unisono.trace.column_buffer import ColumnBuffer
from unisono.trace.recorder import Recorder
from unisono.trace.schema import AnyRow, MembershipRow, StatisticRow, Value
from unisono.trace.spool import SpoolWriter
from unisono.trace.statistics import HOLE, values_of

SUFFIX = ".spool"
TURN_ROWS = 16_384
"""So many deliveries are handed on before their turn is over."""
DRAIN_SECONDS = 5.0
"""How long the end of a process waits for its collector."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Tracer:
    """The one reporter of a process: gathers the rows of a turn in columns and hands them over at its end.

    Without `messages`, sends, deliveries and what is sent by proxy leave no rows.
    """

    __slots__ = (
        "_buffer",
        "_directory",
        "_latest",
        "_lost_reports",
        "_lost_rows",
        "_messages",
        "_name",
        "_recorder",
        "_reporter",
        "_run",
        "_spool",
    )

    def __init__(
        self,
        directory: Path | None,
        name: str,
        run: str | None = None,
        *,
        messages: bool = True,
        collector: str | None = None,
    ) -> None:
        assert directory is not None or collector is not None, "a trace goes somewhere"
        self._directory = directory
        self._name = name
        self._run = run or (name if directory is None else directory.resolve().name)
        self._messages = messages
        self._recorder = Recorder(self._run, name, host_mark())
        self._reporter = None if collector is None else Reporter(collector, self._run, name, host_mark())
        self._buffer = ColumnBuffer() if directory is not None or self._reporter is None else self._reporter.buffer
        self._spool: SpoolWriter | None = None
        self._lost_reports = self._lost_rows = 0
        self._latest = 0

    def start(self, loop: asyncio.AbstractEventLoop, count: Callable[[str], None]) -> None:
        if self._reporter is not None:
            self._reporter.start(loop, count, self._hole)

    def observe(self, effect: Record | Deliver, at: int) -> None:
        """Make the rows of an effect; what was written in the middle of its step is not later than they are."""
        if at < self._latest:
            at = self._latest
        self._latest = at
        self._recorder.gather(effect, at, self._buffer, self._messages)
        if self._buffer.deliveries.count >= TURN_ROWS:
            self.flush()

    def report(self, kind: str, values: Mapping[str, float | str | bool], group: str, at: int) -> None:
        """A statistic of the application."""
        row = StatisticRow(kind=kind, group=group, values=values_of(values), view=self._recorder.view_of(group))
        self._add(row, at)
        self.flush()

    def flush(self) -> None:
        """Hand over what was gathered: to the system, where it survives the death of this process, and the reporter."""
        incarnation = self._recorder.incarnation
        if not incarnation or not self._buffer.count:
            return
        if self._directory is not None:
            if self._reporter is not None:
                self._reporter.buffer.extend(self._buffer)
            if self._spool is None:
                self._spool = self._open_spool(self._directory, incarnation)
            self._spool.write_report(self._buffer.take(self._run, self._name, incarnation, host_mark(), 0))
        if self._reporter is not None:
            self._reporter.gathered(incarnation)

    def close(self, at: int, ended: bool) -> None:
        """A clean end has its row; without one the process is taken for crashed."""
        if ended and self._recorder.incarnation:
            self._add(MembershipRow(kind="END"), at)
            self.flush()
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    async def drain(self, patience_seconds: float = DRAIN_SECONDS) -> None:
        """Wait until the collector has everything, but not for longer than this."""
        if self._reporter is not None:
            await self._reporter.close(patience_seconds)

    def _add(self, row: AnyRow, at: int) -> None:
        self._latest = max(self._latest, at)
        self._buffer.add(self._recorder.stamp(row, self._latest, None))

    def _hole(self, reports: int, rows: int, first: int, last: int) -> None:
        """Reports were given up: the trace says how many so far, since what was said before may be among them."""
        self._lost_reports += reports
        self._lost_rows += rows
        values = [
            Value("reports", float(self._lost_reports)),
            Value("rows", float(self._lost_rows)),
            Value("first", float(first)),
            Value("last", float(last)),
        ]
        self._add(StatisticRow(kind=HOLE, values=values), monotonic_ns())

    def _open_spool(self, directory: Path, incarnation: int) -> SpoolWriter:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TraceError(f"cannot write the trace to {directory}: {error.strerror}") from error
        return SpoolWriter(directory / f"{quote(self._name, safe='')}~{incarnation:x}{SUFFIX}", self._run)


@cache
def host_mark() -> str:
    """What stands for this machine in a trace: equal where monotonic clocks compare, and no name."""
    try:
        mark = _BOOT.read_text(encoding="ascii")
    except OSError:
        mark = node()
    return xxh3_64_hexdigest(mark.encode())[:12]
