"""Scenarios in which promises once broke: with its mend undone each is violated, by monitors and by Spark alike.

The scenarios hold as the engine is (`test_chaos`); each bug undoes what mended one of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.simulation.planted_awaited_bugs import PLANTED_AWAITED
from tests.simulation.planted_bugs import PlantedBug
from tests.simulation.planted_leaving_bugs import PLANTED_LEAVING
from tests.simulation.planted_receivers_bugs import PLANTED_RECEIVERS
from unisono.pipeline.audit import audit
from unisono.pipeline.monitor_audit import audit_with_monitors
from unisono.simulation.draw import draw
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = Path(__file__).parents[1] / "simulation/kept"
BUGS = {bug.scenario: bug for bug in (*PLANTED_AWAITED, *PLANTED_LEAVING, *PLANTED_RECEIVERS)}
SEEDS = {"awaited-crash": 1}
"""Seed 0 shows a bug, where nothing else stands here."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PlantedBug]:
    """The run of each scenario with its bug, by name of the run; they are in the folder `undone`."""
    folder = tmp_path_factory.getbasetemp() / "undone"
    found = {}
    for name, bug in BUGS.items():
        drawn = draw(read_scenario((KEPT / f"{name}.toml").read_text(), name), SEEDS.get(name, 0))
        with pytest.MonkeyPatch.context() as patch:
            bug.plant(patch)
            run(drawn, folder / name)
        found[f"{drawn.name}-{drawn.seed}"] = bug
    return found


@pytest.mark.slow
def test_each_mend_undone_is_seen_by_monitors_and_by_spark(
    spark: SparkSession, runs: dict[str, PlantedBug], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "undone"
    by_spark, by_monitors = audit(spark, [folder]), audit_with_monitors([folder])
    assert by_spark.engine == "spark"
    assert "L10" in by_spark.seconds, "the forms judged these runs, and not monitors in tasks"
    assert {one.run: one.counts for one in by_spark.runs} == {one.run: one.counts for one in by_monitors.runs}
    assert {one.run for one in by_spark.runs} == set(runs)
    unseen = {one.run for one in by_spark.runs if not set(one.counts) & runs[one.run].properties}
    assert unseen == set()
