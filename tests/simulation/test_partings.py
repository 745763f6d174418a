"""Members that hear each other stay together: seeds of chaos in which they did not, with their mends undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.planted_bugs import PlantedBug
from tests.simulation.planted_parting_bugs import PLANTED_PARTING
from unisono.simulation.draw import draw
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import run

KEPT = Path(__file__).parent / "kept"


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED_PARTING, ids=lambda bug: bug.scenario)
def test_with_its_mend_undone_a_kept_seed_is_violated(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    """That each holds as the engine is, `test_chaos` shows."""
    scenario = read_scenario((KEPT / f"{bug.scenario}.toml").read_text(), bug.scenario)
    bug.plant(monkeypatch)
    outcome = run(draw(scenario, scenario.seed or 0))
    assert bug.properties & set(outcome.violated), outcome.violated
