"""Bugs planted in the engine come to light; the same runs without them hold every property."""

from __future__ import annotations

import pytest

from tests.simulation.planted_bugs import PLANTED, PlantedBug
from tests.simulation.worlds import SITUATIONS, run_world, situation

SEEDS = range(8)


@pytest.mark.parametrize("name", SITUATIONS)
def test_without_a_bug_every_property_holds(name: str) -> None:
    for seed in (0, 1):
        world = run_world(situation(name, seed))
        assert world.monitors.violations == []
        assert world.counters["DELIVER"] > world.counters["SEND"] > 0


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    for seed in SEEDS:
        violated = set(run_world(situation(bug.scenario, seed)).monitors.counts)
        if violated & bug.properties:
            return
    pytest.fail(f"{len(SEEDS)} seeds of {bug.scenario!r} show none of {sorted(bug.properties)}")


def test_the_list_is_long_enough() -> None:
    assert len({bug.name for bug in PLANTED}) >= 32
