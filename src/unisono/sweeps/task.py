"""The work of a sweep where it runs: a task is a few ranges of seeds, with a time to stay within.

A seed that raises is a result. Whatever is not done when the time is over is handed out again.
"""

from __future__ import annotations

import pickle
import socket
import tempfile
import traceback
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from time import perf_counter, time

from msgspec import Struct
from msgspec.structs import replace

from unisono.simulation.draw import draw
from unisono.simulation.latencies import Latencies
from unisono.simulation.outcome import Outcome
from unisono.simulation.scenario import Scenario
from unisono.simulation.world import run
from unisono.sweeps.packing import PACKED_LIMIT_BYTES, pack
from unisono.sweeps.result import Returned, SeedRow, encode
from unisono.units import MILLISECOND

TASK_LIMIT_BYTES = 2 * PACKED_LIMIT_BYTES
"""A task with more traces than this goes back early: what a driver takes at once is bounded."""

SAMPLE_EVERY = 100


class Keep(StrEnum):
    """Which seeds leave their trace: those that fail; these and every hundredth; or all."""

    FAILING = "failing"
    SAMPLE = "sample"
    ALL = "all"


class Span(Struct, frozen=True):
    """Seeds of one point, from `first` up to `end` without it."""

    point: int
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first


class Task(Struct, frozen=True):
    """Spans with the scenarios of their points. `begin` is the first seed of the whole sweep."""

    spans: tuple[Span, ...]
    scenarios: dict[int, Scenario]
    keep: Keep
    begin: int
    seconds: float

    def encode(self) -> bytes:
        return pickle.dumps(self)


def run_task(data: bytes) -> Iterator[bytes]:
    """The results of a task, each as soon as it is there; at least one."""
    task: Task = pickle.loads(data)
    began = perf_counter()
    held_bytes = done = 0
    for span in task.spans:
        for seed in range(span.first, span.end):
            if done and (held_bytes > TASK_LIMIT_BYTES or perf_counter() - began > task.seconds):
                return
            wanted = task.keep is Keep.ALL or (task.keep is Keep.SAMPLE and (seed - task.begin) % SAMPLE_EVERY == 0)
            returned = run_seed(task.scenarios[span.point], span.point, seed, wanted)
            held_bytes += len(returned.packed or b"")
            done += 1
            yield encode(returned)


def run_seed(scenario: Scenario, point: int, seed: int, wanted: bool) -> Returned:
    """One seed, with its trace where it is wanted or where it fails."""
    began, when = perf_counter(), time()
    try:
        drawn = draw(scenario, seed)
        latencies = Latencies()
        packed = no_trace = None
        if wanted:
            outcome, packed, no_trace = _traced(drawn, latencies)
        else:
            outcome = run(drawn, None, latencies.watch)
        failed = any(name != scenario.expect for name in outcome.violated)
        if failed and not wanted:
            _, packed, no_trace = _traced(drawn, Latencies())
        row = _row(point, outcome, latencies, failed, no_trace)
        return Returned(replace(row, began=when, seconds=perf_counter() - began), packed)
    except Exception as error:
        words = str(error).partition("\n")[0]
        row = stopped_row(point, seed, f"{type(error).__name__}: {words}")
        origin = traceback.format_exc()
        return Returned(replace(row, origin=origin, host=_host(), began=when, seconds=perf_counter() - began))


def _traced(drawn: Scenario, latencies: Latencies) -> tuple[Outcome, bytes | None, str | None]:
    """A run with its trace packed, or why it is not."""
    with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
        out = Path(folder) / "run"
        outcome = run(drawn, out, latencies.watch)
        return outcome, *pack(out)


def stopped_row(point: int, seed: int, why: str) -> SeedRow:
    """The row of a seed that came to no outcome."""
    return SeedRow(point=point, seed=seed, verdict="stopped", failed=True, stopped=why)


def _row(point: int, outcome: Outcome, latencies: Latencies, failed: bool, no_trace: str | None) -> SeedRow:
    counters = outcome.counters
    # A violation of what was not promised counts too.
    unpromised = {name: 1 for name in outcome.violated if not outcome.verdicts.get(name)}
    times = {name: nanoseconds / MILLISECOND for name, nanoseconds in latencies.percentiles().items()}
    return SeedRow(
        point=point,
        seed=outcome.seed,
        verdict="violated" if outcome.violated else "held",
        failed=failed,
        violations={**outcome.verdicts, **unpromised},
        marks=outcome.marks,
        counters=counters,
        messages=counters.get("SEND", 0),
        deliveries=counters.get("DELIVER", 0),
        requests=counters.get("RTR", 0),
        repairs=counters.get("RTX", 0),
        views=counters.get("VIEW", 0),
        datagrams=counters.get("datagrams", 0),
        datagram_bytes=counters.get("datagram bytes", 0),
        latency_p50_ms=times.get("p50"),
        latency_p90_ms=times.get("p90"),
        latency_p99_ms=times.get("p99"),
        latency_highest_ms=times.get("highest"),
        rows=latencies.rows,
        events=outcome.events,
        host=_host(),
        no_trace=no_trace,
    )


@cache
def _host() -> str:
    return socket.gethostname()
