"""Bugs planted in the agreement on views come to light, in a simulated situation or in a small exploration.

The situations hold every property without them (`test_planted_bugs`), and so do the explorations (`test_exploration`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from tests.exploration.explorer import Explorer
from tests.exploration.whole import Bounds
from tests.simulation.planted_bugs import ASSERTION, PlantedBug
from tests.simulation.planted_membership_bugs import PLANTED_MEMBERSHIP
from tests.simulation.planted_role_bugs import PLANTED_ROLES
from tests.simulation.worlds import run_world, situation
from unisono.reliable.fragments import OrderedAssembly
from unisono.wire.messages import DataMessage

SEEDS = range(8)
EXPLORE = "explore: "
TIMERS = (1, 2)
"""How many timers may expire: what needs few is found soonest with few."""
STATES = 12_000


@pytest.mark.parametrize("bug", PLANTED_MEMBERSHIP + PLANTED_ROLES, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    if bug.scenario.startswith(EXPLORE):
        for timers in TIMERS:
            found = Explorer(bug.scenario.removeprefix(EXPLORE), Bounds(timers=timers), limit=STATES).run()
            if found.violation is not None:
                assert found.violation.split(":")[0] in bug.properties
                return
        pytest.fail(f"{found.states} states of {bug.scenario!r} show nothing")
    for seed in SEEDS:
        if named(bug, seed) & bug.properties:
            return
    pytest.fail(f"{len(SEEDS)} seeds of {bug.scenario!r} show none of {sorted(bug.properties)}")


def named(bug: PlantedBug, seed: int) -> set[str]:
    """What a seed of the bug's situation shows: the properties that are violated, or an assertion that fails."""
    try:
        with parts_watched() if ASSERTION in bug.properties else nullcontext():
            return set(run_world(situation(bug.scenario, seed)).monitors.counts)
    except AssertionError:
        if ASSERTION not in bug.properties:
            raise
        return {ASSERTION}


@contextmanager
def parts_watched() -> Iterator[None]:
    """No message begins while parts of another are held: those are dropped with the view in which they were sent."""
    original = OrderedAssembly.add

    def add(self: OrderedAssembly, fragment: DataMessage) -> bytes | None:
        assert fragment.index or not self.bytes, "parts of a message outlive the view that they were sent in"
        return original(self, fragment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OrderedAssembly, "add", add)
        yield


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_of_a_message_outlives_the_view_in_which_it_was_sent(seed: int) -> None:
    with parts_watched():
        world = run_world(situation("a view ends in the middle of a message", seed))
    assert world.monitors.violations == []
    assert world.counters["CUT"] > 20
    assert world.marks["fragmented"] > 100


def test_the_list_is_long_enough() -> None:
    assert len({bug.name for bug in PLANTED_MEMBERSHIP}) >= 17
    assert len({bug.name for bug in PLANTED_ROLES}) >= 14
