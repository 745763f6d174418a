"""Bugs to plant in what a receiver keeps, and in how it finds its way: each is a change of one method."""

from __future__ import annotations

import pytest

from tests.simulation.planted_bugs import PlantedBug, planted_bug
from unisono.reliable.gaps import Gaps


@planted_bug("every datagram that finds no room has a ticket", "stalled-under-flood", "L7")
def tickets_without_limit(patch: pytest.MonkeyPatch) -> None:
    original = Gaps.look_further
    patch.setattr(Gaps, "look_further", lambda self, due, horizon: original(self, due, 1 << 62))


PLANTED_RECEIVERS = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
