"""Spreads work over Spark: bytes go to a function on a worker, and the bytes that it yields come back.

Several waves of tasks are under way at once, so that no core waits while the driver takes in what another wave gave.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from unisono.errors import UnisonoError
from unisono.pipeline.spark import cluster
from unisono.pipeline.spark.waves import WaveFailed

WAVES = 64
"""At most so many at once; each has a thread of the driver."""

Work = Callable[[bytes], Iterator[bytes]]


class Spread:
    """A function on the workers of a session. It is imported there, so that it must be in a module they have."""

    def __init__(self, session: SparkSession, work: Work) -> None:
        self._session = session
        self._work = work
        self._threads = ThreadPoolExecutor(WAVES, thread_name_prefix="wave")

    def slots(self) -> int:
        """How many tasks can run at the same time, now."""
        return max(1, int(self._session.sparkContext.defaultParallelism))

    def submit(self, payloads: Sequence[bytes]) -> Future[list[bytes]]:
        """Run a wave: a task for each payload. Its results come together; where one task fails, `WaveFailed` does."""
        return self._threads.submit(self._run, list(payloads))

    def cancel(self) -> None:
        """End what is under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._session.sparkContext.cancelAllJobs()

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, payloads: list[bytes]) -> list[bytes]:
        count = len(payloads)
        try:
            table = (
                self._session.range(0, count, 1, count)
                .mapInArrow(_on_worker(self._work, payloads), "result binary")
                .toArrow()
            )
        except (PySparkException, Py4JError) as error:
            raise self._meaning(error) from error
        return [bytes(value) for value in table.column("result").to_pylist()]

    def _meaning(self, error: Exception) -> UnisonoError:
        """Whether one task failed, or all would."""
        context = self._session.sparkContext
        if context._jsc is None or context._jsc.sc().isStopped():
            return UnisonoError(f"Spark has ended: {cluster.first_line(error)}")
        told = cluster.why_workers_fail(str(error))
        return UnisonoError(told) if told is not None else WaveFailed(cluster.first_line(error))


def _on_worker(work: Work, payloads: list[bytes]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a task does: the payload is chosen by the number that it is given."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        # Ctrl-C reaches the whole process group; the driver alone decides what follows.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for result in work(payloads[number]):
                    yield pyarrow.RecordBatch.from_pydict({"result": pyarrow.array([result], pyarrow.binary())})

    return run
