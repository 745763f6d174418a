"""Bugs planted in the agreement on views come to light, in a simulated situation or in a small exploration.

The situations hold every property without them (`test_planted_bugs`), and so do the explorations (`test_exploration`).
"""

from __future__ import annotations

import pytest

from tests.exploration.explorer import Explorer
from tests.exploration.whole import Bounds
from tests.simulation.planted_bugs import PlantedBug
from tests.simulation.planted_membership_bugs import PLANTED_MEMBERSHIP
from tests.simulation.planted_role_bugs import PLANTED_ROLES
from tests.simulation.worlds import run_world, situation

SEEDS = range(4)
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
        violated = set(run_world(situation(bug.scenario, seed)).monitors.counts)
        if violated & bug.properties:
            return
    pytest.fail(f"{len(SEEDS)} seeds of {bug.scenario!r} show none of {sorted(bug.properties)}")


def test_the_list_is_long_enough() -> None:
    assert len({bug.name for bug in PLANTED_MEMBERSHIP}) >= 17
    assert len({bug.name for bug in PLANTED_ROLES}) >= 7
