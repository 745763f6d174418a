"""A place for the tasks of a sweep to run without Spark: threads of this process, whose workers may be told to die."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from unisono.pipeline.spark.waves import WaveFailed
from unisono.sweeps.grid import Point, points
from unisono.sweeps.planning import Plan
from unisono.sweeps.result import SeedRow, decode
from unisono.sweeps.store import Asked, Store
from unisono.sweeps.sweep import Sweep
from unisono.sweeps.task import Keep, Task, run_task

SHORT = ("duration=200ms", "settle=200ms")


class Threads:
    """Runs waves, notes every seed that was run, and dies at seeds that it is told of: once, or always."""

    def __init__(
        self,
        work: Callable[[bytes], Iterator[bytes]] = run_task,
        deadly: Collection[int] = (),
        once: Collection[int] = (),
        slots: int = 2,
    ) -> None:
        self.ran: list[tuple[int, int]] = []
        self.waves: list[int] = []
        self._work = work
        self._deadly = set(deadly)
        self._once = set(once)
        self._slots = slots
        self._pool = ThreadPoolExecutor(slots)

    def slots(self) -> int:
        return self._slots

    def submit(self, payloads: Sequence[bytes]) -> Future[list[bytes]]:
        self.waves.append(len(payloads))
        return self._pool.submit(self._run, list(payloads))

    def _run(self, payloads: list[bytes]) -> list[bytes]:
        results = []
        for payload in payloads:
            task: Task = pickle.loads(payload)
            asked = {seed for span in task.spans for seed in range(span.first, span.end)}
            for seed in asked & self._once:
                self._once.discard(seed)
                raise WaveFailed("killed")
            if asked & self._deadly:
                raise WaveFailed("crashed")
            for data in self._work(payload):
                row = decode(data).row
                self.ran.append((row.point, row.seed))
                results.append(data)
        return results

    def cancel(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def asked(**fields: object) -> Asked:
    known: dict[str, object] = {
        "scenario": "quiet-lan",
        "text": "",
        "changes": (),
        "seeds": (0, 4),
        "keep": "failing",
        "code": "c",
        "command": "unisono sweep quiet-lan",
    }
    return Asked(**{**known, **fields})  # type: ignore[arg-type]  # the fields above, some replaced


def swept(
    directory: Path,
    spread: Threads,
    seeds: range,
    changes: Sequence[str] = SHORT,
    keep: Keep = Keep.FAILING,
    on_row: Callable[[SeedRow], object] = lambda row: None,
) -> list[SeedRow]:
    """The rows of a sweep of quiet-lan after a call, those of earlier calls included."""
    grid: list[Point] = points("quiet-lan", changes)
    with Store(directory, asked(changes=tuple(changes), seeds=(seeds.start, seeds.stop), keep=keep.value)) as store:
        plan = Plan(len(grid), seeds, store.rows())
        Sweep(spread, store, plan, {point.number: point.scenario for point in grid}, keep, on_row).run()
        return sorted(store.rows(), key=lambda row: (row.point, row.seed))
