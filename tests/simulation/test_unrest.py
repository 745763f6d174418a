"""Small groups under random trouble that aims at membership: seeds that once failed, and a few more."""

from __future__ import annotations

import pytest

from tests.simulation.unrest import unrest
from unisono.simulation.world import run

FAILED_ONCE = (12, 27, 35, 38, 39, 45, 48, 230, 377, 512)
OTHERS = (101, 102, 103)


@pytest.mark.parametrize("seed", FAILED_ONCE + OTHERS)
def test_agreed_views_hold_in_unrest(seed: int) -> None:
    outcome = run(unrest(seed))
    assert outcome.violations == []
    assert outcome.counters["DELIVER"] > 0
