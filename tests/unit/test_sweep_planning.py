"""The plan of a sweep: every seed is handed out, tasks are as long as they should be, suspects are found by halves."""

from __future__ import annotations

import pytest

from unisono.sweeps.planning import FIRST_SEEDS, LONGEST_SECONDS, SHORTEST_SECONDS, Plan, spans_of, undone
from unisono.sweeps.result import SeedRow
from unisono.sweeps.task import Span


def row(point: int, seed: int, seconds: float = 0.1) -> SeedRow:
    return SeedRow(point=point, seed=seed, verdict="held", failed=False, seconds=seconds)


def seeds_of(spans: tuple[Span, ...]) -> list[tuple[int, int]]:
    return [(span.point, seed) for span in spans for seed in range(span.first, span.end)]


def test_every_seed_is_handed_out_once() -> None:
    plan = Plan(3, range(10, 60))
    taken: list[tuple[int, int]] = []
    while (task := plan.take(slots=2)) is not None:
        taken += seeds_of(task[0])
        plan.learn(0, 0.25)
    assert sorted(taken) == [(point, seed) for point in range(3) for seed in range(10, 60)]
    assert len(taken) == len(set(taken))
    assert plan.seeds_left == 0


def test_what_was_done_before_is_not_handed_out_again() -> None:
    plan = Plan(2, range(10), [row(0, seed) for seed in (0, 1, 5, 9)] + [row(1, seed) for seed in range(10)])
    assert plan.seeds_left == 6
    task = plan.take(slots=1)
    assert task is not None
    assert task[0] == (Span(0, 2, 5), Span(0, 6, 9))
    assert plan.take(slots=1) is None


def test_the_first_tasks_are_small_and_short() -> None:
    plan = Plan(1, range(100_000))
    task = plan.take(slots=2)
    assert task is not None
    assert len(seeds_of(task[0])) == FIRST_SEEDS
    few = Plan(1, range(8)).take(slots=2)
    assert few is not None
    assert len(seeds_of(few[0])) == 1


@pytest.mark.parametrize("cost", [0.001, 0.2, 1.3, 50.0])
def test_tasks_are_cut_for_seconds_whatever_a_seed_costs(cost: float) -> None:
    plan = Plan(1, range(200_000), [row(0, 0, cost)])
    task = plan.take(slots=2)
    assert task is not None
    seconds = cost * len(seeds_of(task[0]))
    assert seconds == pytest.approx(LONGEST_SECONDS, rel=0.3) or (cost > LONGEST_SECONDS and seconds == cost)


def test_towards_the_end_tasks_get_smaller() -> None:
    plan = Plan(1, range(81), [row(0, 0, 0.1)])
    task = plan.take(slots=2)
    assert task is not None
    assert SHORTEST_SECONDS <= 0.1 * len(seeds_of(task[0])) < LONGEST_SECONDS


def test_a_task_spans_points_where_they_are_small() -> None:
    plan = Plan(50, range(1), [row(0, 0, 0.1)])
    task = plan.take(slots=1)
    assert task is not None
    assert len({span.point for span in task[0]}) > 5


def test_what_a_task_did_not_get_to_is_left() -> None:
    spans = (Span(0, 0, 5), Span(1, 0, 3))
    left = undone(spans, [(0, 0), (0, 1), (1, 1)])
    assert left == (Span(0, 2, 5), Span(1, 0, 1), Span(1, 2, 3))
    plan = Plan(2, range(1), [row(0, 0), row(1, 0)])
    plan.give_back(left)
    assert plan.seeds_left == 5
    assert undone(spans, seeds_of(spans)) == ()


def test_suspects_are_halved_and_come_apart() -> None:
    plan = Plan(1, range(1), [row(0, 0)])
    plan.suspect((Span(0, 0, 4), Span(0, 6, 7)))
    first, second = plan.take_suspects(), plan.take_suspects()
    assert first is not None
    assert second is not None
    assert (first[0], second[0]) == ((Span(0, 0, 2),), spans_of([(0, 2), (0, 3), (0, 6)]))
    assert plan.take_suspects() is None
    plan.suspect((Span(0, 3, 4),))
    assert plan.take_suspects() == ((Span(0, 3, 4),), 2 * LONGEST_SECONDS)
