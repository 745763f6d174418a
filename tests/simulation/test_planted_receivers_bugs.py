"""Bugs planted in what receivers keep and follow come to light in scenarios that were found, and are kept.

The scenarios hold without them (`test_chaos`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.planted_bugs import PlantedBug
from tests.simulation.planted_receivers_bugs import PLANTED_RECEIVERS
from unisono.simulation.draw import draw
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import run

KEPT = Path(__file__).parent / "kept"
SEEDS = range(4)


@pytest.mark.parametrize("bug", PLANTED_RECEIVERS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    path = KEPT / f"{bug.scenario}.toml"
    scenario = read_scenario(path.read_text(), str(path))
    bug.plant(monkeypatch)
    for seed in SEEDS:
        if set(run(draw(scenario, seed)).violated) & bug.properties:
            return
    pytest.fail(f"{len(SEEDS)} seeds of {bug.scenario!r} show none of {sorted(bug.properties)}")
