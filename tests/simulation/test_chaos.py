"""A share of the campaign, and every seed that ever failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from unisono.marks import ALL_MARKS
from unisono.simulation.draw import draw
from unisono.simulation.library import builtin_names, load
from unisono.simulation.outcome import Outcome
from unisono.simulation.scenario import Scenario
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import run

SHARE = range(20)
"""Seeds of chaos that every change must pass, among few members; `make campaign` runs many more, among many."""
FEW = ("members=[3, 8]",)

SEEDS_OF_KEPT = range(2)
"""Of a scenario that names none: so many here, and fifty by `make kept`."""
KEPT = sorted((Path(__file__).parent / "kept").glob("*.toml"))


def held(scenario: Scenario, seed: int) -> Outcome:
    outcome = run(draw(scenario, seed))
    assert outcome.violations == [], f"unisono simulate {scenario.name} --seed {seed}"
    assert outcome.counters["DELIVER"] > 0
    return outcome


@pytest.mark.parametrize("seed", SHARE)
def test_chaos_holds(seed: int) -> None:
    outcome = held(load("chaos", FEW), seed)
    assert set(outcome.marks) <= set(ALL_MARKS)


ELSEWHERE = ("chaos", "hierarchy-1000", "large-audience", "receiver-churn")
"""The first is run above; the others take their time: `make hierarchy` and `make audience` run ones like them."""
OTHERS = [name for name in builtin_names() if name not in ELSEWHERE and not name.startswith("vs-")]
"""Those of virtual synchrony are in test_session_scenarios.py."""


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_scenario_does_what_it_says(name: str) -> None:
    scenario = load(name)
    outcome = run(draw(scenario, 1))
    assert list(outcome.violated) == ([] if scenario.expect == "held" else [scenario.expect])


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_seed_that_failed_once_holds(path: Path) -> None:
    scenario = read_scenario(path.read_text(), str(path))
    for seed in SEEDS_OF_KEPT if scenario.seed is None else (scenario.seed,):
        held(scenario, seed)


def test_the_kept_seeds_are_there() -> None:
    assert len(KEPT) >= 3
