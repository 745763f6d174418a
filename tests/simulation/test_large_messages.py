"""Messages of up to 64 MiB arrive whole, in order with small ones, within the caps; or not at all."""

from __future__ import annotations

import pytest

from tests.simulation.worlds import run_world, scenario
from unisono.simulation.scenario import Fault, Network
from unisono.trace.schema import DeliverRow, SendRow
from unisono.units import MIB, MILLISECOND, SECOND


def big(size: int) -> tuple[Fault, ...]:
    return (
        Fault(kind="send", at=SECOND, members=(0,), size=100),
        Fault(kind="send", at=SECOND, members=(0,), size=size),
        Fault(kind="send", at=SECOND + MILLISECOND, members=(0,), size=100),
    )


@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_a_message_of_64_mib_arrives_whole(loss: float) -> None:
    network = Network(latency=MILLISECOND, loss=loss)
    drawn = scenario(
        members=2, duration=4 * SECOND, workloads=(), network=network, faults=big(64 * MIB), datagram_bytes=60_000
    )
    world = run_world(drawn)
    assert world.monitors.violations == []
    sizes = [row.size for row in world.rows if isinstance(row, DeliverRow) and row.process == "p1"]
    assert sizes == [100, 64 * MIB, 100]
    numbers = [(row.number, row.sequence) for row in world.rows if isinstance(row, SendRow)]
    assert [number for number, _ in numbers] == [1, 2, 3]
    assert numbers[2][1] > 64 * MIB // 60_000


def test_a_larger_one_is_refused_and_loses_nothing_else() -> None:
    world = run_world(scenario(members=2, workloads=(), faults=big(2 * MIB), message_limit_bytes=MIB))
    assert world.counters["send refused"] == 1
    sizes = [row.size for row in world.rows if isinstance(row, DeliverRow) and row.process == "p1"]
    assert sizes == [100, 100]


def test_unordered_it_comes_whole_or_not_at_all() -> None:
    network = Network(latency=MILLISECOND, loss=0.002, jitter=MILLISECOND)
    faults = tuple(Fault(kind="send", at=i * SECOND // 10, members=(0,), size=300_000) for i in range(1, 30))
    world = run_world(scenario(members=2, workloads=(), network=network, faults=faults, service="unordered"))
    whole = [row for row in world.rows if isinstance(row, DeliverRow) and row.process == "p1"]
    assert 0 < len(whole) < 29
    assert {row.size for row in whole} == {300_000}
    assert world.monitors.violations == []
