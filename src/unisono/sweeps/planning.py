"""What a sweep has left to do, cut into tasks that take a few seconds each.

How long a seed takes is learned from those that are done. A task has a time to stay within, so that a wrong guess costs
little: what it does not get to is left again. Towards the end tasks get smaller, so that no core waits for another.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from unisono.sweeps.result import SeedRow
from unisono.sweeps.task import Span

SHORTEST_SECONDS = 1.0
LONGEST_SECONDS = 4.0
"""What a task is cut for; it ends by itself after twice as long."""
FIRST_SECONDS = 1.0
FIRST_SEEDS = 16
"""Of a scenario nobody has seen run."""


class Plan:
    """The seeds that are left, in the order of points; those among which one ended its worker are kept apart."""

    def __init__(self, points: int, seeds: range, results: Iterable[SeedRow] = ()) -> None:
        """`results` are those of earlier calls."""
        self.seeds = seeds
        self._left: deque[Span] = deque()
        self._suspects: deque[tuple[Span, ...]] = deque()
        self._costs: dict[int, tuple[float, int]] = {}
        self._overall = (0.0, 0)
        done: dict[int, set[int]] = defaultdict(set)
        for row in results:
            done[row.point].add(row.seed)
            self.learn(row.point, row.seconds)
        for point in range(points):
            finished = done.get(point)
            if finished:
                self._left.extend(_spans(point, (seed for seed in seeds if seed not in finished)))
            else:
                self._left.append(Span(point, seeds.start, seeds.stop))

    @property
    def seeds_left(self) -> int:
        """What is not handed out."""
        return sum(map(len, self._left)) + sum(len(span) for spans in self._suspects for span in spans)

    def learn(self, point: int, seconds: float) -> None:
        """A seed of this point took so long."""
        total, count = self._costs.get(point, (0.0, 0))
        self._costs[point] = (total + seconds, count + 1)
        self._overall = (self._overall[0] + seconds, self._overall[1] + 1)

    def take(self, slots: int) -> tuple[tuple[Span, ...], float] | None:
        """The next task and the time that it has; None where nothing is left."""
        if not self._left:
            return None
        if not self._overall[1]:
            share = max(1, self.seeds_left // (4 * slots))
            return self._cut(float(min(FIRST_SEEDS, share)), lambda point: 1.0), FIRST_SECONDS
        left = sum(self._cost(span.point) * len(span) for span in self._left)
        target = min(LONGEST_SECONDS, max(SHORTEST_SECONDS, left / (2 * slots)))
        return self._cut(target, self._cost), 2 * LONGEST_SECONDS

    def take_suspects(self) -> tuple[tuple[Span, ...], float] | None:
        """Seeds among which one ended its worker: a task that has to be a wave of its own."""
        return (self._suspects.popleft(), 2 * LONGEST_SECONDS) if self._suspects else None

    def give_back(self, spans: Iterable[Span]) -> None:
        """What a task did not get to."""
        self._left.extendleft(reversed([span for span in spans if len(span)]))

    def suspect(self, spans: Sequence[Span]) -> None:
        """One of these ended its worker: they are left in two halves, each a task of its own."""
        seeds = [(span.point, seed) for span in spans for seed in range(span.first, span.end)]
        middle = len(seeds) // 2
        for half in (seeds[:middle], seeds[middle:]):
            if half:
                self._suspects.append(spans_of(half))

    def _cut(self, budget: float, cost: Callable[[int], float]) -> tuple[Span, ...]:
        """Spans from the front that cost as much as the budget, one seed at least."""
        taken = []
        while self._left and budget > 0:
            span = self._left.popleft()
            each = cost(span.point)
            count = min(len(span), max(1, int(budget / each)))
            taken.append(Span(span.point, span.first, span.first + count))
            if count < len(span):
                self._left.appendleft(Span(span.point, span.first + count, span.end))
                break
            budget -= count * each
        return tuple(taken)

    def _cost(self, point: int) -> float:
        total, count = self._costs.get(point, self._overall)
        return max(total / count, 1e-6)


def spans_of(seeds: Iterable[tuple[int, int]]) -> tuple[Span, ...]:
    """Points and seeds as spans."""
    ordered = sorted(seeds)
    return tuple(
        span
        for point, group in groupby(ordered, key=lambda one: one[0])
        for span in _spans(point, (seed for _, seed in group))
    )


def undone(spans: Sequence[Span], done: Iterable[tuple[int, int]]) -> tuple[Span, ...]:
    """What is left of a task after these results."""
    gone = set(done)
    return spans_of(
        (span.point, seed) for span in spans for seed in range(span.first, span.end) if (span.point, seed) not in gone
    )


def _spans(point: int, seeds: Iterable[int]) -> Iterable[Span]:
    first = end = None
    for seed in seeds:
        if seed != end:
            if first is not None and end is not None:
                yield Span(point, first, end)
            first = seed
        end = seed + 1
    if first is not None and end is not None:
        yield Span(point, first, end)
