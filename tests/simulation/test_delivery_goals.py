"""What delivery is aimed at: few requests, few repairs, one round trip, a rate that no slow receiver takes away."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.worlds import run_world, scenario
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.scenario import Fault, MemberPlan, Network, Scenario, Workload
from unisono.simulation.world import World
from unisono.trace.schema import DeliverRow, RepairRow, SendRow
from unisono.units import MICROSECOND, MILLISECOND, SECOND

SITES = Network(
    shape="sites",
    latency=100 * MICROSECOND,
    site_latency=(5 * MILLISECOND, 40 * MILLISECOND),
    jitter=50 * MICROSECOND,
)
STAR = Network(shape="star", latency=2 * MILLISECOND, jitter=200 * MICROSECOND)
RECEIVERS = 32
ADAPTED = 20
"""Losses after which a group should have adapted."""


def audience(network: Network, faults: tuple[Fault, ...], seed: int) -> Scenario:
    return scenario(
        seed=seed,
        members=RECEIVERS + 1,
        sites=8 if network.shape == "sites" else None,
        duration=14 * SECOND,
        network=network,
        workloads=(Workload(group="g", senders=(0,), rate=50.0, size=200),),
        faults=faults,
        member_plans=(MemberPlan(index=0, options={"role": "sender"}),),
        role="receiver",
        sources=("p0",),
    )


def per_loss(world: World) -> tuple[float, float]:
    """Requests and repairs, in datagrams, for each sequence that was asked for, once the group has adapted."""
    rows = [row for row in world.rows if isinstance(row, RepairRow)]
    lost = sorted({sequence for row in rows if row.kind == "RTR" for sequence in range(row.first, row.last + 1)})
    assert len(lost) > 2 * ADAPTED
    since = [row for row in rows if row.first >= lost[ADAPTED]]
    requests = {(row.process, row.truth) for row in since if row.kind == "RTR"}
    repairs = [row for row in since if row.kind == "RTX"]
    count = len(lost) - ADAPTED
    return len(requests) / count, len(repairs) / count


@pytest.mark.parametrize(("network", "most"), [(SITES, 1.3), (STAR, 2.0)], ids=["sites", "star"])
def test_receivers_that_lose_the_same_packet_hardly_ask_twice(network: Network, most: float) -> None:
    together = Fault(kind="lose", at=2 * SECOND, rate=0.1, sources=(0,), message="data", together=True)
    world = run_world(audience(network, (together,), seed=1))
    assert world.monitors.violations == []
    requests, repairs = per_loss(world)
    assert requests <= most
    assert repairs <= most


@pytest.mark.parametrize(("network", "most"), [(SITES, 1.4), (STAR, 2.0)], ids=["sites", "star"])
def test_receivers_that_lose_packets_on_their_own_hardly_ask_twice(network: Network, most: float) -> None:
    """The bound of the sites is for the mean of many drawings; this is one of a few seconds."""
    world = run_world(audience(network, (Fault(kind="lose", at=2 * SECOND, rate=0.05),), seed=1))
    assert world.monitors.violations == []
    requests, repairs = per_loss(world)
    assert requests <= most
    assert repairs <= most


def last_deliveries(world: World) -> list[int]:
    """From each send to its delivery at the last member, in order of size."""
    sent = {(row.process, row.number): row.truth for row in world.rows if isinstance(row, SendRow)}
    last: dict[tuple[str, int], int] = {}
    for row in world.rows:
        if isinstance(row, DeliverRow) and row.truth is not None:
            key = row.source, row.number
            last[key] = max(last.get(key, 0), row.truth)
    return sorted(last[key] - at for key, at in sent.items() if at is not None and at > 2 * SECOND)


def test_timestamp_order_takes_a_round_trip_whatever_the_clocks() -> None:
    world = run_world(draw(load("wan-timestamp"), 1))
    latencies = last_deliveries(world)
    assert len(latencies) > 500
    assert latencies[int(len(latencies) * 0.99)] <= 75 * MILLISECOND


def delivered(world: World, process: str, first: int, last: int) -> int:
    return sum(
        isinstance(row, DeliverRow) and row.process == process and first <= (row.truth or 0) < last
        for row in world.rows
    )


@pytest.mark.parametrize("seed", [0, 2])
def test_a_receiver_that_stops_reading_costs_the_others_no_more_than_the_patience(seed: int) -> None:
    world = run_world(draw(load("slow-receiver"), seed))
    assert world.monitors.violations == []
    before = delivered(world, "p2", 2 * SECOND, 5 * SECOND)
    after = delivered(world, "p2", 20 * SECOND, 23 * SECOND)
    assert after >= 0.9 * before
    told = Counter(row.kind for row in world.rows if row.process == "p3")["LEFT_BEHIND"]
    agreed = any(row.service == "RTO" for row in world.rows)
    assert told == (1 if agreed else 2)  # the first word takes it out of an agreed view


def test_more_than_a_line_carries_is_no_collapse() -> None:
    """Two senders that send all they may, over lines of four megabits with short queues."""
    seconds, bits = 10, 4_000_000
    world = run_world(
        scenario(
            members=3,
            duration=seconds * SECOND,
            settle=20 * SECOND,
            network=Network(latency=5 * MILLISECOND, bandwidth=bits, queue=60),
            workloads=(Workload(group="g", senders=(0, 1), rate="max", size=1000),),
        )
    )
    got = sum(isinstance(row, DeliverRow) and row.process == "p2" for row in world.rows)
    assert got * 1000 * 8 >= 0.5 * seconds * bits
