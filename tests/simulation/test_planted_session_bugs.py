"""Bugs planted in sessions and their servers come to light in situations that hold every property without them."""

from __future__ import annotations

import pytest

from tests.simulation.planted_bugs import PlantedBug
from tests.simulation.planted_session_bugs import PLANTED_SESSIONS
from tests.simulation.session_worlds import SITUATIONS, run_session, session_situation

SEEDS = range(4)


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_holds(name: str) -> None:
    world = run_session(session_situation(name, 0))
    assert not world.monitors.violations
    assert world.counters["DELIVER"] > 0


@pytest.mark.parametrize("bug", PLANTED_SESSIONS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    for seed in SEEDS:
        violated = set(run_session(session_situation(bug.scenario, seed)).monitors.counts)
        if violated & bug.properties:
            return
    pytest.fail(f"{len(SEEDS)} seeds of {bug.scenario!r} show none of {sorted(bug.properties)}")


def test_the_list_is_long_enough() -> None:
    assert len({bug.name for bug in PLANTED_SESSIONS}) >= 12
