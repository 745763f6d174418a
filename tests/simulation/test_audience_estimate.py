"""Members count their group without knowing it: right within the error they state, at a bounded cost."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from tests.simulation.worlds import run_world, scenario
from unisono.engine import SendDatagram
from unisono.events import AudienceEstimate
from unisono.simulation.machine import Machine
from unisono.simulation.packet_rules import classify
from unisono.simulation.scenario import Fault, MemberPlan, Network, Scenario, Workload
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow, GaugeRow
from unisono.units import MILLISECOND, SECOND

COUNT = "audience estimate"


def estimates(rows: list[AnyRow], process: str) -> list[GaugeRow]:
    return [row for row in rows if isinstance(row, GaugeRow) and row.name == COUNT and row.process == process]


def crowd(members: int, seconds: int, seed: int, askers: tuple[int, ...], loss: float = 0.0) -> Scenario:
    """One sends, the others look in, promised nothing."""
    return scenario(
        seed=seed,
        members=members,
        duration=seconds * SECOND,
        settle=SECOND,
        network=Network(latency=2 * MILLISECOND, jitter=MILLISECOND, loss=loss),
        workloads=(Workload(group="g", senders=(0,), rate=1.0, size=50),),
        member_plans=(MemberPlan(index=0, options={"role": "sender"}),),
        faults=(Fault(kind="count_audience", at=SECOND, members=askers),),
        role="receiver",
        service="unordered",
        control=False,
        keep_alive=SECOND,
    )


class Counting(World):
    """Counts the datagrams of a census by the second."""

    def __init__(self, drawn: Scenario) -> None:
        super().__init__(drawn, keep_rows=True)
        self.census: Counter[int] = Counter()

    def transmit(self, machine: Machine, effect: SendDatagram) -> None:
        if any(name.startswith("census") for name in classify(effect.data).names):
            self.census[self.now // SECOND] += 1
        super().transmit(machine, effect)


@pytest.mark.parametrize("seed", range(3))
def test_a_small_group_is_counted_exactly(seed: int) -> None:
    world = run_world(crowd(9, 7, seed, askers=(0,)))
    assert [row.value for row in estimates(world.rows, "p0")][-1] == 9


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_is_counted_within_a_tenth_at_a_bounded_cost(seed: int) -> None:
    world = Counting(crowd(151, 12, seed, askers=(seed,), loss=0.05))
    world.run()
    assert world.monitors.violations == []
    last = estimates(world.rows, f"p{seed}")[-1]
    assert abs(last.value - 151) <= 15
    assert max(world.census.values()) <= 2 * 64 + 2


def test_one_asks_and_the_others_who_want_to_know_listen() -> None:
    world = Counting(crowd(60, 12, 1, askers=(3, 5, 7)))
    world.run()
    for asker in ("p3", "p5", "p7"):
        assert abs(estimates(world.rows, asker)[-1].value - 60) <= 6
    assert max(world.census.values()) <= 2 * 64 + 2
    alone = Counting(crowd(60, 12, 1, askers=(3,)))
    alone.run()
    assert world.census.total() <= 1.3 * alone.census.total()


def test_when_who_asked_is_gone_another_goes_on() -> None:
    drawn = crowd(20, 30, 2, askers=(3, 5))
    crashed = Fault(kind="crash", at=8 * SECOND, members=(3,))
    world = run_world(replace(drawn, faults=(*drawn.faults, crashed)))
    values = [row.value for row in estimates(world.rows, "p5")]
    assert 20 in values
    assert values[-1] == 19


def test_nobody_asks_and_nothing_is_sent() -> None:
    world = Counting(crowd(9, 4, 1, askers=()))
    world.run()
    assert not world.census


def test_the_interval_of_an_estimate() -> None:
    known = AudienceEstimate(1000, 50.0, 400)
    assert (known.low, known.high) == (902, 1098)
    assert str(known) == "about 1000 (902 to 1098)"
    assert AudienceEstimate(10, 50.0, 8).low == 8
