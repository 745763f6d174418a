"""The leader dies when its new view has reached k of the others (E11, N12): both branches keep every property."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.simulation.worlds import LAN, run_world, scenario
from unisono.simulation.scenario import Fault, Scenario, When, Workload
from unisono.simulation.world import World
from unisono.trace.schema import ViewRow
from unisono.units import MILLISECOND, SECOND

CRASH = 2 * SECOND
"""When one sender more than those who matter crashes, so that the others need a view."""
SUSPICION = SECOND
CASES = [(others, reached) for others in range(1, 5) for reached in range(others + 1)]


def repair_after_a_crash(others: int, *faults: Fault) -> Scenario:
    """Sender 0 leads `others` more into the view without the last one."""
    victim = others + 1
    return scenario(
        seed=others,
        members=others + 2,
        duration=7 * SECOND,
        settle=12 * SECOND,
        network=LAN,
        workloads=(Workload(group="g", rate=10.0, size=(20, 2000)),),
        faults=(Fault(kind="crash", at=CRASH, members=(victim,)), *faults),
        service="timestamp",
        suspicion=SUSPICION,
        keep_alive=200 * MILLISECOND,
    )


def views_of(world: World, member: int) -> list[ViewRow]:
    return [row for row in world.rows if isinstance(row, ViewRow) and row.process == f"p{member}"]


def when(row: ViewRow) -> int:
    assert row.truth is not None
    return row.truth


@cache
def views_before_the_crash(others: int) -> int:
    """How many views the leader has before the one that matters."""
    return sum(when(row) < CRASH for row in views_of(run_world(repair_after_a_crash(others)), 0))


def die_after_the_view(others: int, reached: int, lost_from: tuple[int, ...], returns: bool) -> tuple[World, ViewRow]:
    """The world afterwards, and the leader's last view of its first life."""
    count = views_before_the_crash(others)
    missed = tuple(range(reached + 1, others + 1))
    restart = 100 * MILLISECOND if returns else None
    faults = [Fault(kind="crash", when=When(kind="VIEW", member=0, count=count + 1), members=(0,), restart=restart)]
    if missed:
        keys: dict[str, Any] = {"message": "new_view", "sources": lost_from, "targets": missed}
        faults.append(Fault(kind="lose", at=CRASH, lasts=2500 * MILLISECOND, rate=1.0, **keys))
    world = run_world(repair_after_a_crash(others, *faults))
    return world, views_of(world, 0)[count]


def check(world: World, last: ViewRow, others: int, installed: list[int], returns: bool) -> None:
    assert [violation.text for violation in world.monitors.violations] == []
    for member in range(1, others + 1):
        views = views_of(world, member)
        assert any(row.view == last.view for row in views) == (member in installed)
        without = next(row for row in views if when(row) > when(last) and row.view != last.view)
        assert when(without) - when(last) <= 2 * SUSPICION, "who is left goes on soon after the leader is missed"
        assert len(views[-1].start) == others + returns


@pytest.mark.parametrize(("others", "reached"), CASES)
def test_who_has_the_view_tells_it_to_the_others(others: int, reached: int) -> None:
    returns = (others + reached) % 2 == 1
    world, last = die_after_the_view(others, reached, lost_from=(0,), returns=returns)
    check(world, last, others, list(range(1, others + 1)) if reached else [], returns)


@pytest.mark.parametrize(
    ("others", "reached"), [(others, reached) for others, reached in CASES if 0 < reached < others]
)
def test_who_missed_the_view_goes_another_way(others: int, reached: int) -> None:
    returns = (others + reached) % 2 == 0
    world, last = die_after_the_view(others, reached, lost_from=(), returns=returns)
    check(world, last, others, list(range(1, reached + 1)), returns)
