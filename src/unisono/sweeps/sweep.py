"""The loop of a sweep: hands out tasks, takes in results, commits them, and goes on where some task fails.

At any moment twice as many tasks are under way as can run, so that a worker that is done finds the next one waiting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from time import monotonic

from unisono.errors import UnisonoError
from unisono.pipeline.spark.waves import Spreading, WaveFailed
from unisono.simulation.scenario import Scenario
from unisono.sweeps.planning import Plan, undone
from unisono.sweeps.result import WORKER_ENDED, Returned, SeedRow, decode
from unisono.sweeps.store import Store
from unisono.sweeps.task import Keep, Span, Task, stopped_row

COMMIT_SECONDS = 3.0
WAVES_AT_ONCE = 16
TRIES_ALONE = 2
"""A seed whose worker ends so often while it runs by itself is what ends it."""
HOPELESS = 3
"""After so many of these and not one result, the fault is not with the seeds."""


class Sweep:
    """One call: whatever is left of the sweep in a store."""

    def __init__(
        self,
        spread: Spreading,
        store: Store,
        plan: Plan,
        scenarios: Mapping[int, Scenario],
        keep: Keep,
        on_row: Callable[[SeedRow], object] = lambda row: None,
        on_commit: Callable[[Sequence[SeedRow]], None] = lambda rows: None,
    ) -> None:
        self._spread = spread
        self._store = store
        self._scenarios = scenarios
        self._plan = plan
        self._keep = keep
        self._on_row = on_row
        self._on_commit = on_commit
        self._under_way: dict[Future[list[bytes]], list[tuple[Span, ...]]] = {}
        self._tries: dict[tuple[int, int], int] = defaultdict(int)
        self._waiting: list[SeedRow] = []
        self._results = 0
        self._ended_workers = 0

    def run(self) -> None:
        """Go on to the end; an interrupt or an error leaves what is done committed."""
        try:
            self._loop()
        except BaseException:
            self._spread.cancel()
            self._take_what_is_done()
            self._commit()
            raise
        finally:
            self._spread.close()

    def _loop(self) -> None:
        committed = monotonic()
        while True:
            self._hand_out()
            if not self._under_way:
                break
            finished, _ = wait(self._under_way, timeout=COMMIT_SECONDS, return_when=FIRST_COMPLETED)
            for wave in finished:
                self._take_in(wave, self._under_way.pop(wave))
            if monotonic() - committed >= COMMIT_SECONDS:
                # What is left is handed out first: the disk keeps nobody waiting.
                self._hand_out()
                self._commit()
                committed = monotonic()
        self._commit()

    def _hand_out(self) -> None:
        slots = self._spread.slots()
        width = max(1, 2 * slots // WAVES_AT_ONCE)
        busy = sum(map(len, self._under_way.values()))
        while (suspects := self._plan.take_suspects()) is not None:
            self._submit([suspects])
            busy += 1
        while busy < 2 * slots:
            wave: list[tuple[tuple[Span, ...], float]] = []
            while len(wave) < width and (taken := self._plan.take(slots)) is not None:
                wave.append(taken)
            if not wave:
                return
            self._submit(wave)
            busy += len(wave)

    def _submit(self, wave: list[tuple[tuple[Span, ...], float]]) -> None:
        payloads = []
        for spans, seconds in wave:
            scenarios = {span.point: self._scenarios[span.point] for span in spans}
            payloads.append(Task(spans, scenarios, self._keep, self._plan.seeds.start, seconds).encode())
        self._under_way[self._spread.submit(payloads)] = [spans for spans, _ in wave]

    def _take_in(self, wave: Future[list[bytes]], tasks: list[tuple[Span, ...]]) -> None:
        try:
            results = [decode(data) for data in wave.result()]
        except WaveFailed as error:
            self._find_the_culprit(tasks, error)
            return
        for returned in results:
            self._note(returned)
        done = {(returned.row.point, returned.row.seed) for returned in results}
        for spans in tasks:
            self._plan.give_back(undone(spans, done))

    def _note(self, returned: Returned) -> None:
        row = self._store.keep_trace(returned)
        self._results += row.stopped != WORKER_ENDED
        self._plan.learn(row.point, row.seconds)
        self._waiting.append(row)
        self._on_row(row)

    def _find_the_culprit(self, tasks: list[tuple[Span, ...]], error: Exception) -> None:
        """A wave had no result: its tasks go again by themselves, then in halves; a seed alone is tried again once."""
        for spans in tasks:
            if len(tasks) > 1 or sum(map(len, spans)) > 1:
                self._plan.suspect(spans)
                continue
            (span,) = spans
            seed = (span.point, span.first)
            self._tries[seed] += 1
            if self._tries[seed] < TRIES_ALONE:
                self._plan.suspect(spans)
                continue
            self._ended_workers += 1
            if not self._results and self._ended_workers >= HOPELESS:
                raise UnisonoError(f"no seed comes to an end, every worker does: {error}") from error
            self._note(Returned(stopped_row(*seed, WORKER_ENDED)))

    def _take_what_is_done(self) -> None:
        """What came in while the loop was elsewhere, after an interrupt; failures no longer matter."""
        for wave, tasks in list(self._under_way.items()):
            if wave.done() and not wave.cancelled() and wave.exception() is None:
                self._take_in(wave, tasks)

    def _commit(self) -> None:
        self._on_commit(self._waiting)
        self._store.commit(self._waiting)
        self._waiting = []
