"""A part of the orders of a leave and of a change of role: nothing breaks, and bugs planted there are caught."""

from __future__ import annotations

import pytest

from tests.exploration.schedules import STARTS, explore, orders
from tests.simulation.planted_bugs import PlantedBug
from tests.simulation.planted_leaving_bugs import goes_at_once
from tests.simulation.planted_role_bugs import change_forgotten, own_place


@pytest.mark.parametrize("start", STARTS)
def test_some_orders_of_every_start(start: str) -> None:
    found = explore(start, every=11, limit=15)
    assert (found.complaint, found.order) == (None, ())
    assert found.orders == 15
    assert found.packets > 40, "there is something to depart from"


@pytest.mark.parametrize(
    ("bug", "start"),
    [(goes_at_once, "leaves"), (change_forgotten, "stops sending"), (own_place, "begins to send")],
    ids=["leaving", "stopping", "beginning"],
)
def test_a_bug_in_leaving_or_in_a_change_of_role_is_caught(
    bug: PlantedBug, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug.plant(monkeypatch)
    assert explore(start, departures=2, near=1, every=2, limit=120).complaint is not None


def test_every_order_within_bounds_is_there_once() -> None:
    found = list(orders(4, 2, 1))
    assert len(set(found)) == len(found) == 1 + 4 * 3 + 3 * (9 - 1)
    assert all(kind != "crash" for order in found for _, kind in order[1:] if order[0].kind == "crash")
