"""Receivers that come and go disturb nobody, and many cost a sender no more than few."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.simulation.audiences import large_audience, run_crowd
from tests.simulation.churning import BEGINS, ROUND_TRIP, latencies, longest_pause, receiver_churn, repairs
from tests.simulation.worlds import run_world
from unisono.simulation.scenario import Workload
from unisono.units import MILLISECOND, SECOND

SECONDS = 6


@pytest.mark.parametrize("seed", [0, 1])
def test_receivers_that_come_and_go_cost_nobody_a_round_trip(seed: int) -> None:
    churned = run_world(receiver_churn(seed, rate=20, seconds=SECONDS))
    quiet = run_world(receiver_churn(seed, rate=20, seconds=SECONDS, churn=False))
    assert churned.monitors.violations == []
    assert churned.counters["LEAVE"] > 20 * (SECONDS - 4)
    assert repairs(churned, BEGINS) == 0
    usual = max(latencies(quiet, BEGINS).values())
    longest = latencies(churned, BEGINS)
    assert len(longest) > 40
    assert max(longest.values()) <= usual + ROUND_TRIP


def test_stability_goes_on_while_reports_are_gathered_and_receivers_come_and_go() -> None:
    """A window takes a third of a second to fill: nobody waits for one because a sum does not fit."""
    drawn = receiver_churn(
        3, rate=20, seconds=10, control=True, control_interval=300 * MILLISECOND, direct_reports=4, service="source"
    )
    load = (Workload(group="g", senders=(0,), rate=200.0, size=1000),)
    world = run_world(replace(drawn, workloads=load, options={**drawn.options, "window_bytes": 1 << 16}))
    assert world.monitors.violations == []
    assert longest_pause(world, BEGINS, 10 * SECOND) <= 5 * MILLISECOND + ROUND_TRIP


def test_what_a_sender_spends_on_control_does_not_grow_with_its_receivers() -> None:
    """Sixteen senders; with sixty receivers reports are gathered. The campaign has a thousand."""
    few = run_crowd(large_audience(10, 13, seed=1))
    many = run_crowd(large_audience(60, 13, seed=1))
    for figures in (few, many):
        assert figures.violations == 0
        assert figures.counted
        assert figures.whole
    assert many.control <= 1.25 * few.control
