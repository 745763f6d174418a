"""Processes of one site in simulation: the first hosts, one takes over, and partitions of the network do not matter."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.simulation.worlds import scenario
from unisono.engine import Channel, ChannelClosed, Engine, Note
from unisono.identity import ProcessId
from unisono.node import Node
from unisono.simulation.scenario import Fault, MemberPlan, Network, Scenario
from unisono.simulation.world import World
from unisono.site import Site
from unisono.units import MILLISECOND, SECOND

SITE_TIMEOUT = 500 * MILLISECOND
FAR = Network(latency=20 * MILLISECOND, jitter=5 * MILLISECOND)


class Town(World):
    """A world that looks around from time to time; `seen` is who hosted when, by site."""

    def __init__(self, drawn: Scenario, daemons: tuple[str, ...] = ()) -> None:
        self.seen: list[tuple[int, list[str]]] = []
        self.alone: list[tuple[int, list[str]]] = []

        def node(name: str, randomness: Random, entropy: Callable[[int], bytes], **rest: Any) -> Engine:
            return Node(name, randomness, entropy, **rest | {"site": True, "daemon": name in daemons})

        super().__init__(drawn, keep_rows=False, node=node)
        for at in range(0, drawn.duration, 10 * MILLISECOND):
            self.schedule(at, self._look)

    def site(self, index: int) -> Site:
        engine = self.machines[index].engine
        assert isinstance(engine, Node)
        assert engine.site is not None
        return engine.site

    def _sites(self) -> dict[str, Site]:
        engines = [machine.engine for machine in self.machines]
        found = [engine for engine in engines if isinstance(engine, Node)]
        return {n.process.name: n.site for n in found if n.process is not None and n.site is not None}

    def _look(self, now: int) -> None:
        sites = self._sites()
        self.seen.append((now, sorted(name for name, site in sites.items() if site.hosting)))
        self.alone.append((now, sorted(name for name, site in sites.items() if site.alone)))

    def hosts_at(self, at: int) -> list[str]:
        return next(hosts for now, hosts in self.seen if now >= at)

    def alone_at(self, at: int) -> list[str]:
        return next(alone for now, alone in self.alone if now >= at)

    def host_of(self, index: int) -> str | None:
        host = self.site(index).host
        return None if host is None else host.name


def town(
    *faults: Fault,
    members: int = 3,
    sites: int = 1,
    seed: int = 1,
    duration: int = 8 * SECOND,
    daemons: tuple[str, ...] = (),
    plans: tuple[MemberPlan, ...] = (),
) -> Town:
    drawn = scenario(
        seed=seed,
        members=members,
        sites=sites,
        duration=duration,
        settle=SECOND,
        workloads=(),
        faults=faults,
        network=FAR,
        site_timeout=SITE_TIMEOUT,
    )
    world = Town(replace(drawn, member_plans=plans), daemons)
    world.run()
    return world


def the_only(hosts: list[str]) -> int:
    assert len(hosts) == 1, hosts
    return int(hosts[0][1:])


@pytest.mark.parametrize("seed", range(5))
def test_the_first_hosts_and_the_others_join(seed: int) -> None:
    world = town(seed=seed)
    first = the_only(world.hosts_at(100 * MILLISECOND))
    assert all(world.host_of(index) == f"p{first}" for index in range(3))
    assert len({tuple(hosts) for now, hosts in world.seen if now > 100 * MILLISECOND}) == 1
    assert [guest.name for guest in world.site(first).guests] == [f"p{i}" for i in range(3) if i != first]


@pytest.mark.parametrize("seed", range(5))
def test_when_the_host_crashes_exactly_one_takes_over(seed: int) -> None:
    first = the_only(town(seed=seed).hosts_at(SECOND))
    world = town(Fault(kind="crash", at=2 * SECOND, members=(first,), restart=2 * SECOND), seed=seed)
    assert world.hosts_at(SECOND) == [f"p{first}"]
    second = the_only(world.hosts_at(2 * SECOND + 200 * MILLISECOND))
    assert second != first
    assert all(len(hosts) <= 1 for _, hosts in world.seen)
    assert [world.host_of(index) for index in range(3)] == [f"p{second}"] * 3
    assert len(world.site(second).guests) == 2
    assert all(isinstance(guest, ProcessId) for guest in world.site(second).guests)


def test_after_all_have_crashed_the_first_that_is_back_hosts() -> None:
    crashes = [Fault(kind="crash", at=2 * SECOND, members=(index,), restart=(3 - index) * SECOND) for index in range(3)]
    world = town(*crashes)
    assert world.hosts_at(2500 * MILLISECOND) == []
    assert world.hosts_at(3500 * MILLISECOND) == ["p2"]
    assert [world.host_of(index) for index in range(3)] == ["p2"] * 3


def test_a_paused_host_keeps_the_site_and_its_members_are_alone() -> None:
    first = the_only(town().hosts_at(SECOND))
    others = [f"p{index}" for index in range(3) if index != first]
    world = town(Fault(kind="pause", at=2 * SECOND, members=(first,), lasts=3 * SECOND))
    assert world.alone_at(2 * SECOND + SITE_TIMEOUT // 2) == []
    assert world.alone_at(2 * SECOND + SITE_TIMEOUT + 100 * MILLISECOND) == others
    assert world.alone_at(4900 * MILLISECOND) == others
    assert all(hosts in ([], [f"p{first}"]) for _, hosts in world.seen)
    assert [world.host_of(index) for index in range(3)] == [f"p{first}"] * 3


def test_a_paused_member_finds_its_host_again() -> None:
    first = the_only(town().hosts_at(SECOND))
    other = (first + 1) % 3
    world = town(Fault(kind="pause", at=2 * SECOND, members=(other,), lasts=3 * SECOND))
    assert [world.host_of(index) for index in range(3)] == [f"p{first}"] * 3
    assert world.counters["site: the host is silent"] == 0


def test_a_daemon_takes_the_site_when_it_comes_and_when_it_comes_back() -> None:
    world = town(
        Fault(kind="crash", at=4 * SECOND, members=(2,), restart=SECOND),
        daemons=("p2",),
        plans=(MemberPlan(index=2, joins=2 * SECOND),),
    )
    assert the_only(world.hosts_at(1500 * MILLISECOND)) in (0, 1)
    assert world.hosts_at(2500 * MILLISECOND) == ["p2"]
    assert the_only(world.hosts_at(4500 * MILLISECOND)) in (0, 1)
    assert world.hosts_at(6 * SECOND) == ["p2"]
    assert [world.host_of(index) for index in range(3)] == ["p2"] * 3


def test_sites_are_apart_and_no_partition_divides_one() -> None:
    cut = Fault(kind="partition", at=SECOND, groups=((0,), (1,), (2,), (3,)), lasts=5 * SECOND)
    world = town(cut, members=4, sites=2)
    for site in (0, 1):
        assert world.host_of(site) == world.host_of(site + 2) in (f"p{site}", f"p{site + 2}")
    assert {tuple(alone) for now, alone in world.alone if now > 100 * MILLISECOND} == {()}


@pytest.mark.parametrize("seed", range(8))
def test_after_many_crashes_and_pauses_every_site_has_one_host(seed: int) -> None:
    random = Random(seed)
    faults = [
        Fault(
            kind=random.choice(("crash", "pause")),
            at=random.randrange(10 * SECOND),
            members=(random.randrange(6),),
            lasts=random.randrange(1, 2 * SECOND),
            restart=random.randrange(1, 2 * SECOND),
        )
        for _ in range(30)
    ]
    world = town(*faults, members=6, sites=2, seed=seed, duration=14 * SECOND, daemons=("p1",))
    for _, hosts in world.seen:
        for site in (0, 1):
            assert sum(int(name[1:]) % 2 == site for name in hosts) <= 1
    assert len({world.host_of(index) for index in (0, 2, 4)} - {None}) == 1
    assert {world.host_of(index) for index in (1, 3, 5)} == {"p1"}
    assert all(world.host_of(index) is not None for index in range(6))
    assert len({name for _, hosts in world.seen for name in hosts}) > 2, "somebody took over"


def test_a_node_without_a_site_uses_no_channel() -> None:
    drawn = scenario(members=2, sites=1, duration=SECOND, workloads=(), control=False)
    world = World(drawn, keep_rows=False)
    world.run()
    for machine in world.machines:
        assert isinstance(machine.engine, Node)
        assert machine.engine.site is None
        closed = machine.engine.handle(ChannelClosed(Channel(1)), 0, 0)
        assert closed == [Note("node: nobody here uses channels")]
