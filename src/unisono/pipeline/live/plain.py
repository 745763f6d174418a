"""The live audits without Spark: one process reads the log, keeps the state and writes the tables.

The state of a batch is stored after its tables were written; one that was cut short is done again and replaces itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from unisono.errors import LogError, LogGone, TraceError, UnisonoError
from unisono.pipeline.live.batches import advance, results
from unisono.pipeline.live.lives import STEP_NANOSECONDS, TICKS
from unisono.pipeline.live.outputs import Line, Standing
from unisono.pipeline.live.tables import LiveTables
from unisono.trace.log.client import LogClient

BATCH_BYTES = 8 << 20
WAIT_SECONDS = 0.5
PATIENCE_SECONDS = 1.0

Told = Callable[[int, list[Line], list[Standing]], None]


class Stored(Struct, array_like=True):
    """Where the next batch begins, and the state before it."""

    batch: int = 0
    offset: int | None = None
    now: int = 0
    state: bytes = b""


class PlainQuery:
    """The same as `LiveQuery`, in a thread of this process."""

    def __init__(
        self, collector: str, data: str | os.PathLike[str], told: Told = lambda *_: None, host: str | None = None
    ) -> None:
        self._directory = Path(data)
        self._tables = LiveTables(self._directory / "tables", host)
        self._path = self._directory / "monitor.state"
        self._stored = self._load()
        self._told = told
        self._client = LogClient(collector, PATIENCE_SECONDS)
        self._refuse_other_log(collector)
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="unisono live", daemon=True)
        self._thread.start()

    @property
    def offset(self) -> int | None:
        """The first report that was not read yet."""
        return self._stored.offset

    def check(self) -> None:
        """Raise what ended it, if anything did."""
        if self._error is not None:
            raise UnisonoError(f"the live audit ended: {self._error}") from self._error

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        seen: int | None = None
        ticks = 0
        try:
            while not self._stop.is_set():
                payloads = self._read()
                here = time.monotonic_ns()
                passed = 0 if seen is None or payloads is None else min(here - seen, STEP_NANOSECONDS)
                seen = None if payloads is None else here
                ticks = 0 if payloads else ticks + 1
                if payloads is not None and ticks <= TICKS:
                    self._batch(payloads, passed)
        except Exception as error:
            self._error = error

    def _read(self) -> list[bytes] | None:
        """More of the log, or nothing after a short wait; None while the collector does not answer."""
        stored = self._stored
        try:
            if stored.offset is None:
                stored.offset = self._client.bounds()[0]
            return self._client.read(stored.offset, BATCH_BYTES, WAIT_SECONDS)
        except LogGone as gone:
            stored.offset = gone.begin
            return []
        except LogError:
            return None

    def _batch(self, payloads: list[bytes], passed: int) -> None:
        stored = self._stored
        assert stored.offset is not None, "it was read from there"
        now = stored.now + passed
        state, found = advance(stored.state, [(now, payload) for payload in payloads], now)
        result = results(found)
        for standing in result.standings:
            standing.state_bytes = len(state)
        lines = self._tables.write(stored.batch, list(result.lines))
        self._stored = Stored(stored.batch + 1, stored.offset + len(payloads), now, state)
        aside = self._path.with_suffix(".new")
        aside.write_bytes(msgspec.msgpack.encode(self._stored))
        aside.replace(self._path)
        self._told(stored.batch, lines, result.standings)

    def _refuse_other_log(self, collector: str) -> None:
        end, offset = self._client.bounds()[1], self._stored.offset
        if offset is not None and offset > end:
            raise TraceError(
                f"{self._path} is at offset {offset} and the log at {collector} ends at {end}: it is another log;"
                " choose another --data"
            )

    def _load(self) -> Stored:
        if not self._path.exists():
            return Stored()
        try:
            return msgspec.msgpack.decode(self._path.read_bytes(), type=Stored)
        except msgspec.MsgspecError as error:
            raise TraceError(f"{self._path} is no state of a live audit: {error}; choose another --data") from None
