"""The simulator does what it says: links, lines, clocks, disks, channels and lives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tests.simulation.courier import FRAMES, Courier
from tests.simulation.worlds import LAN, run_world, scenario
from unisono.engine import Address, DatagramReceived, Effect, Engine, Fact, SendDatagram, Start
from unisono.simulation.clocks import LocalClock
from unisono.simulation.disk import Disk, DiskError
from unisono.simulation.network import Network as Links
from unisono.simulation.packet_rules import PacketRule
from unisono.simulation.scenario import Burst, Fault, MemberPlan, Network, Scenario, When, Workload
from unisono.simulation.world import World
from unisono.trace.schema import DeliverRow, FaultRow, MembershipRow, SendRow, ViewRow
from unisono.units import MICROSECOND, MILLISECOND, SECOND

PACKETS = 2000


def links(plan: Network, members: int = 3, sites: int = 3) -> Links:
    return Links(plan, members, sites, seed=1, remember=True)


def send(network: Links, count: int = PACKETS, data: bytes = b"x" * 100, gap: int = MILLISECOND) -> list[Any]:
    """Packets of member 0 to member 1, one after another."""
    return [
        arrival
        for index in range(count)
        for arrival in network.transmit(index * gap, 0, [1], True, 32, data + index.to_bytes(4, "big"))
    ]


def test_latency_and_jitter_bound_every_delay() -> None:
    arrivals = send(links(Network(latency=5 * MILLISECOND, jitter=2 * MILLISECOND)), gap=0)
    assert len(arrivals) == PACKETS
    assert 5 * MILLISECOND <= min(a.at for a in arrivals) < max(a.at for a in arrivals) <= 7 * MILLISECOND


def test_a_range_of_latencies_gives_each_pair_its_own() -> None:
    network = links(Network(latency=(MILLISECOND, 50 * MILLISECOND)), members=6, sites=6)
    delays = {network.transmit(0, 0, [other], False, 32, b"x")[0].at for other in range(1, 6)}
    assert len(delays) == 5
    assert all(MILLISECOND <= delay <= 50 * MILLISECOND for delay in delays)


@pytest.mark.parametrize(
    ("plan", "counter"),
    [(Network(loss=0.2), "lost"), (Network(duplicate=0.2), "duplicated"), (Network(corrupt=0.2), "corrupted")],
)
def test_rates_are_met(plan: Network, counter: str) -> None:
    network = links(plan)
    arrivals = send(network)
    assert 0.15 * PACKETS < network.counters[counter] < 0.25 * PACKETS
    assert len(arrivals) == PACKETS - network.counters["lost"] + network.counters["duplicated"]


def test_bursts_lose_packets_in_a_row() -> None:
    arrivals = send(links(Network(burst=Burst(every=SECOND // 2, packets=40))))
    came = {int.from_bytes(arrival.data[-4:], "big") for arrival in arrivals}
    lost = sorted(set(range(PACKETS)) - came)
    runs = [b - a for a, b in pairwise(lost)]
    assert 40 <= len(lost) < PACKETS // 2
    assert Counter(runs).most_common(1)[0] == (1, runs.count(1))
    assert runs.count(1) > len(runs) * 0.9


def test_reordered_packets_are_overtaken() -> None:
    arrivals = sorted(send(links(Network(latency=MILLISECOND, reorder=0.1))))
    order = [int.from_bytes(arrival.data[-4:], "big") for arrival in arrivals]
    assert order != sorted(order)
    assert sorted(order) == list(range(PACKETS))


def test_bandwidth_sends_one_packet_after_another() -> None:
    network = links(Network(bandwidth=1_000_000))
    arrivals = send(network, count=10, gap=0)
    gaps = {b.at - a.at for a, b in pairwise(arrivals)}
    assert gaps == {(104 + 42) * 8 * SECOND // 1_000_000}


def test_a_full_queue_drops() -> None:
    network = links(Network(bandwidth=1_000_000, queue=5))
    assert sum(network.take_in(0, 1, 100) is None for _ in range(20)) == 14
    assert network.counters["dropped in the queue"] == 14


def test_a_shared_medium_is_heard_in_one_order() -> None:
    network = links(Network(bandwidth=1_000_000, shared=True))
    heard: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    for sender in (0, 1, 2) * 5:
        for arrival in network.transmit(0, sender, [m for m in range(3) if m != sender], True, 32, b"x" * 50):
            heard[arrival.receiver].append((arrival.at, sender))
    for a, b in ((0, 1), (1, 2), (0, 2)):
        common = set(heard[a]) & set(heard[b])
        assert [entry for entry in heard[a] if entry in common] == [entry for entry in heard[b] if entry in common]
        assert len(common) == 5


def test_scope_ends_at_its_hops() -> None:
    network = links(Network(hops=3), members=4, sites=2)
    reached = {arrival.receiver for arrival in network.transmit(0, 0, [1, 2, 3], True, 2, b"x")}
    assert reached == {2}
    assert {a.receiver for a in network.transmit(0, 0, [1, 2, 3], True, 3, b"x")} == {1, 2, 3}


def test_a_rule_hits_only_what_it_singles_out() -> None:
    network = links(Network())
    network.rules.append(PacketRule(Fault(kind="lose", rate=1.0, sources=(0,), targets=(1,), plane="unicast", count=2)))
    assert [len(network.transmit(0, 0, [1], False, 32, b"x")) for _ in range(4)] == [0, 0, 1, 1]
    assert len(network.transmit(0, 0, [1], True, 32, b"x")) == 1
    assert len(network.transmit(0, 2, [1], False, 32, b"x")) == 1


def test_oversize_packets_vanish_and_old_ones_come_again() -> None:
    network = links(Network())
    network.rules.append(PacketRule(Fault(kind="oversize", above=100)))
    assert network.transmit(0, 0, [1], True, 32, b"x" * 101) == []
    assert len(network.transmit(0, 0, [1], True, 32, b"x" * 100)) == 1
    network = links(Network())
    network.rules.append(PacketRule(Fault(kind="replay", rate=1.0, age=SECOND)))
    first, second = send(network, count=2, gap=SECOND // 2)[:2], send(network, count=1)
    assert len(first) == 2
    assert len(second) == 2


def test_clocks_drift_and_step() -> None:
    clock = LocalClock(1000)
    clock.run_at(200_000, 0)
    assert clock.read(10 * SECOND) == 1000 + 12 * SECOND
    assert clock.when(1000 + 12 * SECOND) == 10 * SECOND
    clock.step(-5 * SECOND)
    assert clock.read(10 * SECOND) == 1000 + 7 * SECOND
    clock.run_at(0, 10 * SECOND)
    assert clock.read(11 * SECOND) == 1000 + 8 * SECOND
    assert clock.read(clock.when(123 * SECOND)) >= 123 * SECOND


def _disk() -> Disk:
    disk = Disk(Random(1))
    disk.append("log", b"first")
    disk.sync("log")
    disk.append("log", b"second")
    return disk


def test_a_disk_keeps_what_was_written_unless_it_fails() -> None:
    disk = _disk()
    disk.crash()
    assert disk.read("log") == (b"first", b"second")
    disk = _disk()
    disk.begin("lose_unsynced")
    disk.crash()
    assert disk.read("log") == (b"first",)
    disk = _disk()
    disk.begin("torn")
    disk.crash()
    assert disk.read("log") == (b"first",)
    disk.append("log", b"third")
    assert disk.read("log") == (b"first", b"third")
    disk = _disk()
    disk.sync("log")
    disk.begin("stale")
    assert disk.read("log") == (b"first",)
    disk.wipe()
    assert disk.read("log") == ()


def test_a_flipped_bit_is_found_when_read() -> None:
    disk = _disk()
    disk.begin("flip")
    assert disk.read("log") in ((), (b"first",))


def test_a_full_or_failing_disk_says_so() -> None:
    disk = _disk()
    disk.begin("full")
    with pytest.raises(DiskError, match="space"):
        disk.append("log", b"more")
    disk.end("full")
    disk.append("log", b"more")
    disk.begin("error")
    with pytest.raises(DiskError, match="sync"):
        disk.sync("log")


def couriers(drawn: Scenario) -> tuple[World, dict[str, list[Courier]]]:
    """A world of couriers: p0 speaks to p1 over a channel."""
    lives: dict[str, list[Courier]] = {}

    def build(name: str, randomness: Random, entropy: Callable[[int], bytes], **rest: Any) -> Engine:
        courier = Courier(Address("member:1") if name == "p0" else None, randomness)
        lives.setdefault(name, []).append(courier)
        return courier

    world = World(drawn, keep_rows=True, node=build)
    world.run()
    return world, lives


def _channel_scenario(*faults: Fault, network: Network = LAN, duration: int = 8 * SECOND) -> Scenario:
    return scenario(members=2, duration=duration, settle=SECOND, workloads=(), faults=faults, network=network)


EVERY_FRAME = [f"frame {number}".encode() for number in range(1, FRAMES + 1)]


def test_frames_come_whole_once_and_in_order_whatever_the_datagrams_suffer() -> None:
    rough = Network(latency=MILLISECOND, jitter=30 * MILLISECOND, loss=0.3, duplicate=0.3, reorder=0.3)
    _, lives = couriers(_channel_scenario(network=rough))
    assert lives["p1"][0].received == EVERY_FRAME
    assert lives["p0"][0].received == [b"re:" + frame for frame in EVERY_FRAME]
    assert lives["p1"][0].trouble == ["closed"]


def test_a_short_cut_delays_frames_and_loses_none() -> None:
    cut = Fault(kind="partition", at=500 * MILLISECOND, groups=((0,), (1,)), lasts=2 * SECOND)
    _, lives = couriers(_channel_scenario(cut))
    assert lives["p1"][0].received == EVERY_FRAME
    assert lives["p0"][0].trouble == []


def test_a_long_cut_breaks_the_channel() -> None:
    cut = Fault(kind="one_way", at=500 * MILLISECOND, sources=(0,), targets=(1,), lasts=20 * SECOND)
    _, lives = couriers(_channel_scenario(cut, duration=30 * SECOND))
    assert 0 < len(lives["p1"][0].received) < FRAMES
    assert lives["p1"][0].facts[-1] == "ChannelFailed"
    cut = Fault(kind="isolate", at=0, members=(1,), lasts=20 * SECOND)
    _, lives = couriers(_channel_scenario(cut, duration=30 * SECOND))
    assert lives["p0"][0].trouble == ["timed out"]
    assert lives["p1"][0].received == EVERY_FRAME


def test_a_crash_breaks_channels_and_the_disk_counts_the_lives() -> None:
    crash = Fault(kind="crash", at=700 * MILLISECOND, members=(1,), restart=SECOND)
    _, lives = couriers(_channel_scenario(crash))
    assert [courier.lives for courier in lives["p1"]] == [1, 2]
    assert lives["p0"][0].trouble[:2] == ["peer crashed", "refused"]
    assert lives["p1"][1].received
    amnesia = Fault(kind="crash", at=700 * MILLISECOND, members=(1,), restart=SECOND, disk=False)
    assert [courier.lives for courier in couriers(_channel_scenario(amnesia))[1]["p1"]] == [1, 1]


def test_a_failing_sync_is_told_to_the_engine() -> None:
    trouble = Fault(kind="disk", at=100 * MILLISECOND, members=(1,), what="error")
    crash = Fault(kind="crash", at=700 * MILLISECOND, members=(1,), restart=SECOND)
    _, lives = couriers(_channel_scenario(trouble, crash))
    assert lives["p1"][1].trouble[0] == "sync failed"


def test_a_partition_cuts_both_ways_and_a_bridge_connects() -> None:
    fault = Fault(kind="partition", at=SECOND, groups=((0, 1), (1, 2)), lasts=2 * SECOND)
    world = run_world(scenario(faults=(fault,)))
    during = {
        (row.source, row.process)
        for row in world.rows
        if isinstance(row, DeliverRow) and row.truth is not None and 1.1 * SECOND < row.truth < 2.9 * SECOND
    }
    assert {("p0", "p1"), ("p1", "p0"), ("p1", "p2"), ("p2", "p1")} <= during
    assert not {("p0", "p2"), ("p2", "p0")} & during
    assert world.monitors.violations == []


def test_one_way_cuts_one_direction() -> None:
    fault = Fault(kind="one_way", at=SECOND, sources=(0,), targets=(1,), lasts=2 * SECOND)
    world = run_world(scenario(members=2, faults=(fault,)))
    during = {
        (row.source, row.process)
        for row in world.rows
        if isinstance(row, DeliverRow) and row.truth is not None and 1.1 * SECOND < row.truth < 2.9 * SECOND
    }
    assert ("p1", "p0") in during
    assert ("p0", "p1") not in during


def test_a_paused_process_does_nothing_and_resumes_with_its_queued_sends() -> None:
    fault = Fault(kind="pause", at=SECOND, members=(1,), lasts=SECOND)
    world = run_world(scenario(faults=(fault,)))
    own = [row.truth for row in world.rows if row.process == "p1" and row.truth is not None]
    assert not [truth for truth in own if SECOND < truth < 2 * SECOND]
    resumed = [
        row for row in world.rows if isinstance(row, SendRow) and row.process == "p1" and row.truth == 2 * SECOND
    ]
    assert len(resumed) > 10
    assert world.monitors.violations == []


def test_a_slow_process_falls_behind() -> None:
    slow = Fault(kind="slow", at=0, members=(1,), times=50.0)
    world = run_world(scenario(faults=(slow,), workloads=(Workload(group="g", rate=100.0),)))
    sent = {
        (row.process, row.number): row.truth for row in world.rows if isinstance(row, SendRow) and row.truth is not None
    }
    delays: dict[str, list[int]] = {"p0": [], "p1": []}
    for row in world.rows:
        if isinstance(row, DeliverRow) and row.source == "p2" and row.truth is not None and row.process in delays:
            delays[row.process].append(row.truth - sent[row.source, row.number])
    assert sum(delays["p1"]) > 2 * sum(delays["p0"])


def test_a_restart_is_another_process() -> None:
    fault = Fault(kind="crash", at=SECOND, members=(0,), restart=SECOND)
    world = run_world(scenario(faults=(fault,)))
    starts = [row.incarnation for row in world.rows if isinstance(row, MembershipRow) and row.kind == "START"]
    crashed = next(row for row in world.rows if row.kind == "CRASH")
    assert len(set(starts)) == 4
    assert max(row.position for row in world.rows if row.incarnation == crashed.incarnation) == crashed.position
    assert world.marks["incarnation-kept"] == 1


def test_members_join_and_leave_when_the_plan_says() -> None:
    drawn = scenario()
    plans = (MemberPlan(index=2, joins=2 * SECOND, leaves=4 * SECOND),)
    world = World(
        type(drawn)(**{**{f: getattr(drawn, f) for f in drawn.__struct_fields__}, "member_plans": plans}), True
    )
    world.run()
    joins = {row.process: row.truth for row in world.rows if row.kind == "JOIN"}
    leaves = {row.process: row.truth for row in world.rows if row.kind == "LEAVE"}
    assert joins["p2"] is not None
    assert 2 * SECOND <= joins["p2"] < 2.1 * SECOND
    assert leaves["p2"] is not None
    assert 4 * SECOND <= leaves["p2"] < 4.5 * SECOND
    assert world.monitors.violations == []


def test_who_is_to_return_before_it_has_left_returns_when_it_has() -> None:
    """Cut off, p0 cannot leave before the others have what it sent; it is called back meanwhile, and is heard again."""
    faults = (
        Fault(kind="isolate", at=SECOND, members=(0,), lasts=SECOND),
        Fault(kind="leave", at=1200 * MILLISECOND, members=(0,)),
        Fault(kind="join", at=1500 * MILLISECOND, members=(0,)),
    )
    world = run_world(scenario(faults=faults))
    stays = [(row.kind, row.truth) for row in world.rows if row.process == "p0" and row.kind in ("JOIN", "LEAVE")]
    assert [kind for kind, _ in stays] == ["JOIN", "LEAVE", "JOIN"]
    left = stays[1][1] or 0
    assert left >= 2 * SECOND
    later = [row for row in world.rows if (row.truth or 0) > left]
    sent = {row.number for row in later if isinstance(row, SendRow) and row.process == "p0"}
    came = {row.number for row in later if isinstance(row, DeliverRow) and (row.source, row.process) == ("p0", "p1")}
    assert sent & came
    assert world.monitors.violations == []


def test_a_fault_can_wait_for_a_row() -> None:
    fault = Fault(kind="crash", when=When(kind="SEND", member=1, count=7), members=(1,))
    world = run_world(scenario(faults=(fault,)))
    assert len([row for row in world.rows if isinstance(row, SendRow) and row.process == "p1"]) == 7


def test_clogged_members_are_cut_one_after_another() -> None:
    fault = Fault(kind="clog", at=SECOND, members=(0, 1), each=300 * MILLISECOND, lasts=SECOND)
    world = run_world(scenario(faults=(fault,)))
    edges = [(row.edge, row.members, row.truth) for row in world.rows if isinstance(row, FaultRow) and row.members]
    assert [(edge, members) for edge, members, _ in edges[:2]] == [("begin", ["p0"]), ("begin", ["p1"])]
    assert sorted(edge for edge, _, _ in edges) == ["begin", "begin", "end", "end"]
    assert edges[1][2] == SECOND + 300 * MILLISECOND


def test_a_flapping_fault_comes_and_goes() -> None:
    fault = Fault(kind="isolate", at=SECOND, members=(0,), lasts=2 * SECOND, flaps=400 * MILLISECOND)
    world = run_world(scenario(faults=(fault,)))
    edges = [row.edge for row in world.rows if isinstance(row, FaultRow) and row.fault == "isolate"]
    assert edges == ["begin", "end"] * 3


def test_forever_outlasts_healing() -> None:
    fault = Fault(kind="isolate", at=SECOND, members=(0,), lasts="forever")
    world = run_world(scenario(members=4, faults=(fault,), source_timeout=2 * SECOND))
    views = {row.process: row for row in world.rows if isinstance(row, ViewRow)}
    assert [start.source for start in views["p1"].start] == ["p1", "p2", "p3"]
    assert world.monitors.violations == []


def test_sending_as_fast_as_allowed_fills_the_window_and_keeps_the_caps() -> None:
    fast = Workload(group="g", senders=(0,), rate="max", size=1000, stop=SECOND)
    network = Network(latency=5 * MILLISECOND, bandwidth=5_000_000)
    world = run_world(scenario(members=2, workloads=(fast,), network=network, window_bytes=64 * 1024))
    assert world.marks["window-full"] > 0
    assert world.counters["SEND"] > 300
    assert world.monitors.violations == []


def test_the_timers_of_a_machine_may_run_fast_or_slow() -> None:
    drift = Fault(kind="timer_drift", at=0, members=(0,), by=-0.2)
    world = run_world(scenario(faults=(drift,), workloads=()))
    gauges = {name: sum(row.process == name and row.kind == "GAUGE" for row in world.rows) for name in ("p0", "p1")}
    assert gauges["p0"] < gauges["p1"]
    assert LAN.latency == 100 * MICROSECOND


# ── places ──


def test_places_make_latency_and_hops_grow_together() -> None:
    network = links(Network(regions=5), members=60, sites=60)
    pairs = [(a, b) for a in range(60) for b in range(60) if a != b]
    by_distance = sorted(pairs, key=lambda pair: network.latency(*pair))
    near, far = by_distance[:200], by_distance[-200:]
    assert max(network.hops(*pair) for pair in near) < min(network.hops(*pair) for pair in far)
    assert all(network.latency(a, b) == network.latency(b, a) for a, b in pairs)
    assert all(a % 5 == b % 5 for a, b in near), "the nearest are in one region"


def test_places_keep_the_triangle_inequality_but_for_the_lines() -> None:
    """A way over a third site is never shorter: a composed distance is an upper bound."""
    network = links(Network(regions=4), members=15, sites=15)
    for a, b, c in ((a, b, c) for a in range(15) for b in range(15) for c in range(15) if len({a, b, c}) == 3):
        assert network.latency(a, c) <= network.latency(a, b) + network.latency(b, c) + MICROSECOND


def test_places_come_from_the_seed() -> None:
    def latencies(seed: int) -> list[int]:
        network = Links(Network(regions=4), 10, 10, seed, remember=False)
        return [network.latency(0, other) for other in range(1, 10)]

    assert latencies(1) == latencies(1)
    assert latencies(1) != latencies(2)


def test_scope_is_by_hops() -> None:
    network = links(Network(regions=5), members=60, sites=60)
    others = list(range(1, 60))
    for scope in (0, 1, 4, 30):
        reached = {arrival.receiver for arrival in network.transmit(0, 0, others, True, scope, b"x")}
        assert reached == {other for other in others if network.hops(0, other) <= scope}


def test_it_does_not_matter_in_which_order_links_are_first_used() -> None:
    plan = Network(latency=(MILLISECOND, 50 * MILLISECOND), jitter=MILLISECOND, loss=0.1)
    first, second = links(plan, members=5, sites=5), links(plan, members=5, sites=5)
    pairs = [(a, b) for a in range(5) for b in range(5) if a != b]
    there = {pair: first.transmit(0, pair[0], [pair[1]], True, 32, b"x") for pair in pairs}
    back = {pair: second.transmit(0, pair[0], [pair[1]], True, 32, b"x") for pair in reversed(pairs)}
    assert there == back


def test_a_datagram_to_oneself_comes_back() -> None:
    class Mirror(Courier):
        def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
            if isinstance(fact, DatagramReceived) and fact.data == b"to myself":
                self.received.append(fact.data)
                return []
            to_itself = [SendDatagram(Address("member:0"), b"to myself", 0)] if isinstance(fact, Start) else []
            return [*super().handle(fact, now, wall), *to_itself]

    def node(name: str, randomness: Random, *rest: Any, **more: Any) -> Engine:
        return Mirror(None, randomness)

    world = World(scenario(members=1, duration=SECOND, settle=0, workloads=()), keep_rows=False, node=node)
    world.run()
    engine = world.machines[0].engine
    assert isinstance(engine, Mirror)
    assert engine.received == [b"to myself"]
