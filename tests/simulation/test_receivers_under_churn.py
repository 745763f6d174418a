"""Receivers that come and go while the views of the senders change: M9 and D5, and that a break of either is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.simulation.churning import receiver_churn
from tests.simulation.worlds import run_world
from unisono.properties.registry import PROPERTIES, MonitorSuite
from unisono.simulation.scenario import Fault
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow, DeliverRow, ViewRow
from unisono.units import MILLISECOND, SECOND

SENDERS = {f"p{index}" for index in range(8)}


def changing_views(seed: int) -> World:
    """A sender crashes and comes back, one leaves and comes back, and one only receives for a while."""
    drawn = receiver_churn(seed, rate=10, seconds=8)
    faults = (
        Fault(kind="crash", at=3 * SECOND, members=(1,), restart=300 * MILLISECOND),
        Fault(kind="become_receiver", at=5 * SECOND, members=(3,)),
        Fault(kind="leave", at=6 * SECOND, members=(2,)),
        Fault(kind="become_sender", at=6500 * MILLISECOND, members=(3,)),
        Fault(kind="join", at=7 * SECOND, members=(2,)),
    )
    return run_world(replace(drawn, faults=(*drawn.faults, *faults)))


@pytest.fixture(scope="module")
def world() -> World:
    return changing_views(1)


def passages(rows: list[AnyRow]) -> Iterator[tuple[int, int]]:
    """Where receivers went from one view to the next after they had delivered something in the first: both places."""
    delivered: dict[tuple[str, int], int] = {}
    for place, row in enumerate(rows):
        life = row.process, row.incarnation
        if isinstance(row, DeliverRow):
            delivered[life] = place
        elif isinstance(row, ViewRow):
            last = delivered.pop(life, None)
            if row.process not in SENDERS and row.previous is not None and last is not None:
                yield last, place
        elif row.kind == "LEAVE":
            delivered.pop(life, None)


def named(rows: list[AnyRow], name: str) -> set[tuple[str, int]]:
    """Whom the monitor and the oracle of a property blame for breaking it, and at which row of theirs."""
    suite = MonitorSuite([name])
    for row in rows:
        suite.observe(row)
    suite.finish()
    assert {one.place() for one in suite.violations} == {one.place() for one in PROPERTIES[name].oracle(rows)}
    return {(one.process, one.position) for one in suite.violations}


def test_receivers_under_churn_follow_the_views_and_end_each_like_the_senders(world: World) -> None:
    assert world.monitors.violations == []
    through = {world.rows[place].process for _, place in passages(world.rows)}
    assert len(through) > 10
    kinds = {row.kind for row in world.rows}
    assert {"MRA", "PADD", "PLEAVE"} <= kinds


def test_a_delivery_that_a_receiver_under_churn_lacks_is_named(world: World) -> None:
    delivered, view = next(passages(world.rows))
    rows = [row for place, row in enumerate(world.rows) if place != delivered]
    blamed = world.rows[view]
    assert (blamed.process, blamed.position) in named(rows, "D5")


def test_a_view_that_no_sender_had_is_named_at_a_receiver_under_churn(world: World) -> None:
    _, place = next(passages(world.rows))
    row = world.rows[place]
    assert isinstance(row, ViewRow)
    rows = list(world.rows)
    rows[place] = replace(row, view=f"{row.view}-other")
    assert (row.process, row.position) in named(rows, "M9")
