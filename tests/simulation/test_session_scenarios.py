"""The scenarios of virtual synchrony: each does what it says, and a seed replays to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.large_sessions import bytes_of_a_join
from tests.simulation.test_determinism import simulate
from unisono.marks import ALL_MARKS
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.outcome import Outcome
from unisono.simulation.world import run

pytestmark = pytest.mark.slow


def held(name: str, seed: int, *changes: str) -> Outcome:
    outcome = run(draw(load(name, changes), seed))
    changed = "".join(f" --set '{change}'" for change in changes)
    assert outcome.violations == [], f"unisono simulate {name} --seed {seed}{changed}"
    assert outcome.counters["DELIVER"] > 0
    assert set(outcome.marks) <= set(ALL_MARKS)
    return outcome


SHARE = range(12)
"""Seeds of chaos that every change must pass, among few and for a short time; `make campaign` runs many more."""
SHORT = ("members=[3, 5]", "duration=8s", "settle=14s", "workload[1].rate=15")


@pytest.mark.parametrize("seed", SHARE)
def test_chaos_holds(seed: int) -> None:
    held("vs-chaos", seed, *SHORT)


def test_clients_come_and_go_while_a_server_is_away() -> None:
    outcome = held("vs-servers", 1)
    assert outcome.marks["vs-server-changed"] >= 1


@pytest.mark.parametrize("seed", range(2))
def test_another_forwards_when_the_forwarder_dies(seed: int) -> None:
    outcome = held("vs-forwarder-crash", seed)
    assert outcome.counters["CRASH"] == 3, "two that die, and one that forwards"
    assert outcome.marks["vs-take-over"] >= 1


def test_sending_goes_on_while_the_view_changes() -> None:
    outcome = held("vs-optimistic", 1)
    assert outcome.marks["vs-optimistic-delivered"] >= 1


def test_equal_seeds_give_equal_files_under_any_hash_seed(tmp_path: Path) -> None:
    short = [part for change in SHORT for part in ("--set", change)]
    first, second = (simulate(tmp_path / seed, seed, "vs-chaos", "--seed", "4", *short) for seed in ("1", "2"))
    assert first == second
    assert {"deliver.parquet", "view.parquet", "scenario.toml", "summary.json"} <= set(first)


def test_a_join_costs_a_client_no_more_among_many() -> None:
    few, many = (bytes_of_a_join(members, controllers=4) for members in (20, 200))
    assert 0 < many <= 2 * few
