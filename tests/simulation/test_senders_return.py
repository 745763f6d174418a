"""All senders leave, receivers stay, one returns: receivers follow, and no gap goes untold (N24)."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.worlds import run_world, scenario
from unisono.simulation.scenario import Fault, MemberPlan, Network, Scenario, Workload
from unisono.simulation.world import World
from unisono.trace.schema import DeliverRow, MembershipRow, SendRow, ViewRow
from unisono.units import MILLISECOND, SECOND

SENDERS, RECEIVERS = 3, 3


def senders_return(seed: int) -> Scenario:
    """The senders leave one after another and one comes back, at drawn times, while a tenth of the packets is lost."""
    random = Random(seed)
    left = 2 * SECOND
    faults = []
    for member in random.sample(range(SENDERS), SENDERS):
        left += random.randint(0, 400) * MILLISECOND
        faults.append(Fault(kind="leave", at=left, members=(member,)))
    back = random.randrange(SENDERS)
    faults.append(Fault(kind="join", at=left + random.randint(1, 3000) * MILLISECOND, members=(back,)))
    return scenario(
        seed=seed,
        members=SENDERS + RECEIVERS,
        duration=9 * SECOND,
        settle=8 * SECOND,
        network=Network(latency=(MILLISECOND, 5 * MILLISECOND), jitter=MILLISECOND, loss=0.1),
        workloads=(Workload(group="g", senders=tuple(range(SENDERS)), rate=20.0, size=50),),
        member_plans=tuple(
            MemberPlan(index=SENDERS + index, options={"role": "receiver"}) for index in range(RECEIVERS)
        ),
        faults=tuple(faults),
        service="timestamp",
        control=False,
    )


def returned(world: World) -> tuple[str, int]:
    """Who came back, and the first number of what it sent then."""
    joined = [row for row in world.rows if isinstance(row, MembershipRow) and row.kind == "JOIN"]
    last = max(joined, key=lambda row: row.truth or 0)
    assert last.process in {f"p{index}" for index in range(SENDERS)}
    sent = [
        row.number
        for row in world.rows
        if isinstance(row, SendRow) and row.process == last.process and (row.truth or 0) > (last.truth or 0)
    ]
    return last.process, min(sent)


@pytest.mark.parametrize("seed", range(8))
def test_receivers_follow_the_one_that_returns_and_every_gap_is_told(seed: int) -> None:
    world = run_world(senders_return(seed))
    assert world.monitors.violations == []
    back, first = returned(world)
    for index in range(SENDERS, SENDERS + RECEIVERS):
        rows = [row for row in world.rows if row.process == f"p{index}"]
        got = [row.number for row in rows if isinstance(row, DeliverRow) and row.source == back and row.number >= first]
        assert got, f"p{index} does not follow"
        assert got == list(range(got[0], got[0] + len(got)))
        if got[0] > first:
            begins = next(
                place
                for place, row in enumerate(rows)
                if isinstance(row, DeliverRow) and row.number == got[0] and row.source == back
            )
            view = next(row for row in reversed(rows[:begins]) if isinstance(row, ViewRow))
            assert not view.whole, f"p{index} was not told that it missed {first} to {got[0] - 1}"
