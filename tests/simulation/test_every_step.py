"""Whoever is killed at whatever step of a view change, nothing is violated and the change ends (`make every-step`)."""

from __future__ import annotations

import pytest

from tests.simulation.every_step import SITUATIONS, kill, scenario, steps_of, victims

RUNS = 16
"""So many kills of each situation, spread over its steps and victims; the campaign makes all of them."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_kill_at_any_step_violates_nothing_and_the_change_ends(name: str) -> None:
    drawn = scenario(**SITUATIONS[name])
    steps = steps_of(drawn)
    assert steps > RUNS
    who = victims(drawn)
    for number in range(RUNS):
        step = 1 + number * (steps - 1) // (RUNS - 1)
        assert not kill(drawn, step, who[number % len(who)])
