"""Who sends and who only receives changes ten times a second: nothing is lost, and no repair is entered (N23)."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.churning import repairs
from tests.simulation.worlds import run_world, scenario
from unisono.simulation.scenario import Fault, Network, Workload
from unisono.simulation.world import World
from unisono.trace.schema import DeliverRow, SendRow
from unisono.units import MILLISECOND, SECOND

MEMBERS = 6
MET = 2 * SECOND
"""By then all members are in one view."""
FLIP = 100 * MILLISECOND
ENDS = 6 * SECOND


def role_churn(seed: int, loss: float) -> World:
    """Every tenth of a second the next member changes what it is; each of them sends while it may."""
    turns = range(MET, ENDS, FLIP)
    faults = [
        Fault(
            kind="become_receiver" if turn // MEMBERS % 2 == 0 else "become_sender",
            at=at,
            members=(turn % MEMBERS,),
        )
        for turn, at in enumerate(turns)
    ]
    faults += [Fault(kind="become_sender", at=ENDS, members=(member,)) for member in range(MEMBERS)]
    drawn = scenario(
        seed=seed,
        members=MEMBERS,
        duration=ENDS + SECOND,
        settle=6 * SECOND,
        network=Network(latency=2 * MILLISECOND, jitter=MILLISECOND, loss=loss),
        workloads=(Workload(group="g", senders=(0, 3), rate=20.0, size=50),),
        faults=tuple(faults),
        service="timestamp",
    )
    return run_world(drawn)


@pytest.mark.parametrize(("seed", "loss"), [(0, 0.0), (1, 0.0), (2, 0.02)])
def test_changes_of_role_lose_nothing_and_enter_no_repair(seed: int, loss: float) -> None:
    world = role_churn(seed, loss)
    assert world.monitors.violations == []
    assert repairs(world, MET) == 0
    kinds = Counter(row.kind for row in world.rows if (row.truth or 0) > MET)
    assert kinds["PADD"] >= MEMBERS
    assert kinds["PLEAVE"] >= MEMBERS
    sent = {(row.process, row.number) for row in world.rows if isinstance(row, SendRow)}
    for index in range(MEMBERS):
        rows = [row for row in world.rows if isinstance(row, DeliverRow) and row.process == f"p{index}"]
        assert {(row.source, row.number) for row in rows} == sent
