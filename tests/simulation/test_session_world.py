"""What the simulator does for a session, whatever the engines do: servers, blocks, faults by name, bytes."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

from unisono.engine import (
    Address,
    BlockOk,
    Channel,
    ChannelOpened,
    Deliver,
    Effect,
    Fact,
    FrameReceived,
    Join,
    Listen,
    OpenChannel,
    Record,
    SendFrame,
    Start,
)
from unisono.events import Block
from unisono.simulation.cast import controller, server
from unisono.simulation.scenario import Fault, Scenario, When
from unisono.simulation.world import World
from unisono.trace.schema import FaultRow, MembershipRow
from unisono.units import MILLISECOND, SECOND


class Actor:
    """Stands in for a node: a server listens, all others call the first that they were told of and say a word.

    A member that joins is asked to block at once.
    """

    def __init__(self, log: Log, name: str, randomness: Random, entropy: Any, **arguments: Any) -> None:
        self._log = log
        self._name = name
        self._arguments = arguments
        log.arguments[name].append(arguments)

    def deadline(self) -> int | None:
        return None

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        self._log.facts[self._name].append(fact)
        self._log.moments[self._name, type(fact)].append(now % (1000 * SECOND))  # clocks start so far apart
        if isinstance(fact, Start):
            started = Record(MembershipRow(kind="START", process=self._name, incarnation=len(self._log.facts)))
            calls = () if self._arguments.get("serves") else (self._whom(),)
            return [started, Listen(), *(OpenChannel(Channel(1), to) for to in calls)]
        if isinstance(fact, ChannelOpened) and not fact.accepted:
            return [SendFrame(fact.channel, b"word")]
        if isinstance(fact, Join):
            return [Deliver(fact.group, "", 0, (Block(1),))]
        return []

    def _whom(self) -> Address:
        address: Address = (self._arguments.get("controllers") or self._arguments["servers"])[0]
        return address


class Log:
    """What every actor was told, by its name."""

    def __init__(self) -> None:
        self.arguments: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.facts: defaultdict[str, list[Fact]] = defaultdict(list)
        self.moments: defaultdict[tuple[str, type[Fact]], list[int]] = defaultdict(list)

    def count(self, name: str, kind: type[Fact]) -> int:
        return sum(isinstance(fact, kind) for fact in self.facts[name])


def played(*faults: Fault, controllers: int = 0) -> tuple[World, Log]:
    scenario = Scenario(
        name="test",
        protocol="virtual_synchrony",
        seed=1,
        members=3,
        servers=2,
        controllers=controllers,
        duration=2 * SECOND,
        settle=SECOND,
        faults=faults,
    )
    log = Log()
    world = World(scenario, keep_rows=True, node=lambda *given, **arguments: Actor(log, *given, **arguments))
    world.run()
    return world, log


def test_each_is_told_its_part() -> None:
    world, log = played(controllers=1)
    assert [machine.name for machine in world.machines] == ["p0", "p1", "p2", "server:0", "server:1", "controller:0"]
    servers, controllers = (Address("member:3"), Address("member:4")), (Address("member:5"),)
    told = {
        name: {key: given[0][key] for key in ("serves", "controls", "servers", "controllers") if key in given[0]}
        for name, given in log.arguments.items()
    }
    assert told["server:0"] == {"serves": True, "servers": servers[1:]}
    assert told["controller:0"] == {"controls": True, "servers": servers}
    assert told["p2"] == {"controllers": controllers}
    assert set(list(log.arguments)[:3]) == {"server:0", "server:1", "controller:0"}, "these start first"
    assert {name for name in log.facts if log.count(name, Join)} == {"p0", "p1", "p2"}
    join = next(fact for fact in log.facts["p1"] if isinstance(fact, Join))
    assert join.protocol == "virtual_synchrony"


def test_clients_reach_their_servers_and_bytes_are_counted() -> None:
    world, log = played()
    assert log.arguments["p0"][0]["servers"] == (Address("member:3"), Address("member:4"))
    assert log.count("server:0", FrameReceived) == 3
    by_name = {machine.name: machine for machine in world.machines}
    assert [by_name[f"p{index}"].sent_bytes for index in range(3)] == [4, 4, 4]
    assert by_name["server:0"].received_bytes == 12
    assert by_name["p0"].received_bytes == 0


def test_every_site_is_its_own() -> None:
    world, _ = played(controllers=1)
    assert len({world.network.site(machine.index) for machine in world.machines}) == 6


def test_an_application_answers_a_block_unless_it_is_told_not_to() -> None:
    silent = Fault(kind="stop_answering", at=0, members=(1,), lasts=SECOND)
    deaf = Fault(kind="stop_reading", at=0, members=(2,), lasts=SECOND)
    _, log = played(silent, deaf)
    answers = [log.moments[f"p{index}", BlockOk] for index in range(3)]
    asked = log.moments["p0", Join][0]
    assert [len(moments) for moments in answers] == [1, 1, 1]
    assert asked < answers[0][0] <= asked + 20 * MILLISECOND
    assert all(SECOND <= moments[0] <= SECOND + 20 * MILLISECOND for moments in answers[1:]), "when the fault is over"


def test_a_server_crashes_and_comes_back() -> None:
    crash = Fault(kind="crash", at=SECOND, members=(server(1),), restart=500 * MILLISECOND)
    world, log = played(crash)
    assert log.count("server:1", Start) == 2
    assert log.count("server:0", Start) == 1
    kinds = [row.kind for row in world.rows if row.process == "server:1"]
    assert kinds == ["START", "CRASH", "START", "END"]


def test_a_fault_may_wait_for_a_row_of_a_server_and_hit_a_controller() -> None:
    when = When(kind="START", member=server(0), count=2)
    faults = (
        Fault(kind="crash", at=SECOND, members=(server(0),), restart=100 * MILLISECOND),
        Fault(kind="crash", when=when, members=(controller(0),)),
    )
    world, _ = played(*faults, controllers=1)
    crashes = [(row.process, row.truth) for row in world.rows if row.kind == "CRASH"]
    assert crashes == [("server:0", SECOND), ("controller:0", 1100 * MILLISECOND)]


def test_a_fault_that_takes_every_server_away_takes_everybody_away() -> None:
    faults = (
        Fault(kind="isolate", at=SECOND, members=(server(0),), lasts=SECOND // 2),
        Fault(kind="pause", at=SECOND, members=(server(0), server(1)), lasts=SECOND // 2),
    )
    world, _ = played(*faults)
    away = {row.fault: row.members for row in world.rows if isinstance(row, FaultRow) and row.edge == "begin"}
    assert away["isolate"] == ["server:0"]
    assert away["pause"] == ["p0", "p1", "p2", "server:0", "server:1"]


def test_a_server_between_two_sides_is_reached_from_both() -> None:
    sides = Fault(kind="partition", at=0, groups=((0,), (1, 2)))
    _, log = played(sides)
    assert max(log.moments["server:0", FrameReceived]) < SECOND
    apart = Fault(kind="partition", at=0, groups=((0, 1, 2), (server(0), server(1))))
    _, log = played(apart)
    assert log.count("server:0", FrameReceived) == 3
    assert min(log.moments["server:0", FrameReceived]) > 2 * SECOND, "when the faults are over"
