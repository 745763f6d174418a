"""The whole of a collector: its server, its log, and the lake that follows the log.

What was stored goes into the lake every few seconds. A run is complete when all of its processes have ended, or have
been gone for some time; a report that comes later opens it again, and what was complete stays until it is again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import Struct

from unisono.errors import LogError
from unisono.runtime.collecting.runs import GONE_SECONDS, SETTLE_SECONDS, CollectedRuns
from unisono.runtime.collecting.server import Collector
from unisono.trace.catalogue import CATALOGUE, Entry, append, entries, now
from unisono.trace.lake import Lake
from unisono.trace.log.retained import RetainedLog
from unisono.trace.parquet import arrow_schema
from unisono.trace.reports import Report, decode
from unisono.units import MIB

_LOG = logging.getLogger(__name__)

LOG = "log"
RUNS = "runs"
LAKE_SECONDS = 10.0
"""What was stored is in the lake after so long."""
LAKE_BYTES = 32 * MIB
"""The most of the log that goes into one part."""
LOOK_SECONDS = 0.25


class CollectorOptions(Struct, frozen=True, kw_only=True):
    """Where and how a collector works."""

    data: Path
    host: str
    port: int
    retain_bytes: int | None = None
    settle_seconds: float = SETTLE_SECONDS
    gone_seconds: float = GONE_SECONDS
    lake_seconds: float = LAKE_SECONDS


Tell = Callable[[str, dict[str, Any]], None]
"""Told what happened, and the facts."""


class Collecting:
    """A collector from its start to its end; made and used in one event loop."""

    def __init__(self, options: CollectorOptions, tell: Tell = lambda event, facts: None) -> None:
        arrow_schema("send")  # without pyarrow there is no lake: said before anything is taken
        self._options = options
        self._tell = tell
        self._log = RetainedLog(options.data / LOG, retain_bytes=options.retain_bytes)
        try:
            self._lake = Lake(options.data / RUNS)
            self._position = max(self._lake.position, self._log.begin)
            if self._position > self._log.end:
                raise LogError(
                    f"the runs in {options.data / RUNS} are ahead of the log in {options.data / LOG}, which has lost"
                    " something; give a new directory, and keep this one"
                )
            self._log.hold_from(self._position)
            self._runs = CollectedRuns(self._lake, asyncio.get_running_loop().time)
            self._replay()
            self._enter_into_catalogue(self._lake.complete_runs)
        except BaseException:
            self._log.close()
            raise
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="unisono-log")
        self._filler = ThreadPoolExecutor(1, thread_name_prefix="unisono-lake")
        self._filled_at = 0.0
        self.collector = Collector(self._log, self._runs, self._writer)

    async def run(self, stop: asyncio.Event) -> None:
        """Collect until told to stop; what was stored is in the lake then."""
        loop = asyncio.get_running_loop()
        try:
            await self.collector.start(self._options.host, self._options.port)
            self._tell("listening", {"address": self.collector.address, "data": os.fspath(self._options.data)})
            storing = asyncio.ensure_future(self.collector.run())
            stopping = asyncio.ensure_future(stop.wait())
            try:
                self._filled_at = loop.time()
                while not stopping.done() and not storing.done():
                    await asyncio.wait((storing, stopping), timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    await self._look()
                if storing.done():
                    storing.result()
            finally:
                stopping.cancel()
                await self.collector.close()
                storing.cancel()
                await asyncio.gather(storing, return_exceptions=True)
            await self._fill()
            self._tell("stopped", self.facts())
        finally:
            self._writer.shutdown(wait=True)
            self._filler.shutdown(wait=True)
            self._log.close()

    def facts(self) -> dict[str, Any]:
        """How it is going."""
        counters = self.collector.counters
        return {
            "connections": self.collector.connections,
            "reports": counters["reports"],
            "duplicates": counters["duplicates"],
            "refused": {
                name.removeprefix("refused: "): count for name, count in sorted(counters.items()) if "refused" in name
            },
            "log": {"begin": self._log.begin, "end": self._log.synced, "bytes": self._log.kept_bytes},
            "lake": self._position,
            "open": self._runs.open_runs,
        }

    async def _look(self) -> None:
        """Fill the lake when it is time, and complete what is finished."""
        loop = asyncio.get_running_loop()
        names = self._runs.finished(self._options.settle_seconds, self._options.gone_seconds)
        finished = [(run, self._runs.stored_count(run), self._runs.summary(run)) for run in names]
        if finished or loop.time() - self._filled_at >= self._options.lake_seconds:
            await self._fill()
            self._filled_at = loop.time()
        for run, stored, summary in finished:
            path = await loop.run_in_executor(self._filler, self._lake.complete, run, summary)
            self._runs.completed(run, stored)
            await loop.run_in_executor(self._filler, append, path.parent, [_entry(path.name, summary["rows"])])
            self._tell("run complete", {"run": run, "path": os.fspath(path), "rows": summary["rows"]})

    async def _fill(self) -> None:
        """Bring the lake up to the end of the log."""
        loop = asyncio.get_running_loop()
        end = self._log.synced
        while self._position < end:
            self._position += await loop.run_in_executor(self._filler, self._fill_part, self._position)
            await loop.run_in_executor(self._writer, self._log.hold_from, self._position)

    def _fill_part(self, position: int) -> int:
        payloads = self._log.read(position, LAKE_BYTES)[: self._log.synced - position]
        self._lake.write(position, [decode(payload) for payload in payloads])
        return len(payloads)

    def _enter_into_catalogue(self, runs: list[str]) -> None:
        """Complete runs that a crash kept from the catalogue."""
        folder = self._options.data / RUNS
        known = {entry.run for entry in entries(folder)} if (folder / CATALOGUE).exists() else set()
        append(
            folder, [_entry(self._lake.path(run).name, None) for run in runs if self._lake.path(run).name not in known]
        )

    def _replay(self) -> None:
        """Learn what the log has that the lake has not."""
        position = self._position
        while payloads := self._log.read(position, LAKE_BYTES):
            self._runs.replay(_reports(payloads))
            position += len(payloads)


def _entry(run: str, rows: int | None) -> Entry:
    return Entry(run=run, made=now(), command="unisono collect", rows=rows)


def _reports(payloads: list[bytes]) -> list[Report]:
    return [decode(payload) for payload in payloads]
