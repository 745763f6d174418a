"""Members that stop sending and begin again all the time: nothing is lost, and no repair is entered (N23)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.worlds import run_world, situation
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import run
from unisono.trace.run_directory import read_run
from unisono.trace.schema import DeliverRow, SendRow
from unisono.units import SECOND

BEGINS = 2 * SECOND
"""When roles begin to change."""


@pytest.mark.parametrize("seed", range(4))
def test_roles_change_ten_times_a_second_without_a_repair_and_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    outcome = run(draw(load("role-churn"), seed), tmp_path / "run")
    assert outcome.violations == []
    rows = read_run(tmp_path / "run")
    since = min(row.truth for row in rows if row.truth is not None) + BEGINS
    later = [row for row in rows if row.truth is not None and row.truth > since]
    assert [row for row in later if row.kind == "MRA"] == []
    assert sum(row.kind == "ROLE" for row in later) > 60
    sent = {(row.process, row.number) for row in later if isinstance(row, SendRow)}
    everybody = {row.process for row in rows if row.process}
    for member in everybody:
        got = {(row.source, row.number) for row in rows if isinstance(row, DeliverRow) and row.process == member}
        assert sent <= got, member


@pytest.mark.parametrize("seed", [4, 8, 11, 43, 56])
def test_seeds_that_failed_once_hold(seed: int) -> None:
    """A receiver that comes while roles change, and messages of an earlier view among those of the next."""
    assert run_world(situation("roles change", seed)).monitors.violations == []
