"""Who hears nobody goes on alone: the others stay together, are not told that they are out, and it is back soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.worlds import run_world
from unisono.intergroup.activation import Activations
from unisono.intergroup.membership.repair import MembershipRepair
from unisono.simulation.draw import draw
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import World
from unisono.trace.schema import MembershipRow, ViewRow
from unisono.units import SECOND

NAME = "deaf-member"
HEARS_AGAIN = 7 * SECOND
SOON = SECOND
SEEDS = range(2)


def outcome(seed: int) -> World:
    text = (Path(__file__).parent / "kept" / f"{NAME}.toml").read_text()
    return run_world(draw(read_scenario(text, NAME), seed))


def told_excluded(world: World) -> set[str]:
    return {row.process for row in world.rows if isinstance(row, MembershipRow) and row.kind == "EXCLUDED"}


def together_at(world: World) -> int:
    """When the last of all was in the first view with all after one heard nobody."""
    since = HEARS_AGAIN - 2 * SECOND
    first: dict[str, int] = {}
    for row in world.rows:
        if isinstance(row, ViewRow) and len(row.start) == 5 and (row.truth or 0) > since:
            first.setdefault(row.process, row.truth or 0)
    assert len(first) == 5
    return max(first.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_the_others_are_not_out_and_it_is_back_soon(seed: int) -> None:
    world = outcome(seed)
    assert world.monitors.violations == []
    assert told_excluded(world) == set()
    assert together_at(world) < HEARS_AGAIN + SOON


def test_where_anybody_who_goes_shuts_the_others_out_they_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MembershipRepair, "_is_left_out", lambda self, members: True)
    assert told_excluded(outcome(0)) == {"p0", "p1", "p2", "p3"}


def test_where_who_asks_is_not_taken_for_one_that_hears_it_is_back_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Activations, "begin_anew", lambda self, source, now: None)
    assert max(together_at(outcome(seed)) for seed in SEEDS) > HEARS_AGAIN + SOON
