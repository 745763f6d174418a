"""A replay of recorded facts gives the same effects, for every engine."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from tests.simulation.courier import Courier
from tests.simulation.session_worlds import session_situation
from tests.simulation.worlds import SITUATIONS, run_world, scenario, situation
from unisono.engine import Address, Effect, Engine, Fact
from unisono.fingerprint import fingerprint
from unisono.identity import ProcessId
from unisono.intergroup import IntergroupEngine
from unisono.intergroup.hierarchy import ControlProcess
from unisono.node import Node
from unisono.simulation.scenario import Fault, GroupPlan, Network, Scenario
from unisono.simulation.world import World
from unisono.units import MILLISECOND, SECOND

Step = tuple[Fact, int, int, list[Effect]]


class Recording:
    """Stands in for an engine, notes what goes in and out, and can build the engine again as it was."""

    def __init__(self, build: Callable[[], Engine]) -> None:
        self.build = build
        self.engine = build()
        self.steps: list[Step] = []

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        effects = self.engine.handle(fact, now, wall)
        self.steps.append((fact, now, wall, copy.deepcopy(effects)))
        return effects

    def deadline(self) -> int | None:
        return self.engine.deadline()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def record_nodes(drawn: Scenario, site: bool = False, daemon: str = "") -> list[Recording]:
    recordings: list[Recording] = []

    def node(name: str, randomness: Random, entropy: Callable[[int], bytes], **rest: Any) -> Engine:
        seeds = copy.deepcopy(randomness), copy.deepcopy(entropy)
        rest |= {"site": site, "daemon": name == daemon}
        recordings.append(Recording(lambda: Node(name, *copy.deepcopy(seeds), **rest)))
        return recordings[-1]

    World(drawn, keep_rows=False, node=node).run()
    return recordings


def record_groups(drawn: Scenario, monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """The group engines inside the nodes, each with the clock and the generator it had at the beginning."""
    recordings: list[Recording] = []

    def engine(*arguments: Any) -> Any:
        saved = copy.deepcopy(arguments)
        recordings.append(Recording(lambda: IntergroupEngine(*copy.deepcopy(saved))))
        return recordings[-1]

    with monkeypatch.context() as patch:
        patch.setattr("unisono.node.IntergroupEngine", engine)
        run_world(drawn)
    return recordings


def record_control(drawn: Scenario, monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """The control processes of nodes that are in no group: there nobody else draws from their generator."""
    recordings: list[Recording] = []

    def process(realm: str, who: ProcessId, *rest: Any) -> Any:
        saved = copy.deepcopy((realm, who, *rest))
        recording = Recording(lambda: ControlProcess(*copy.deepcopy(saved)))
        if who.name != "p0":
            recordings.append(recording)
        return recording

    with monkeypatch.context() as patch:
        patch.setattr("unisono.intergroup.hierarchy.seat.ControlProcess", process)
        run_world(drawn)
    return recordings


def record_couriers(drawn: Scenario) -> list[Recording]:
    recordings: list[Recording] = []

    def courier(name: str, randomness: Random, entropy: Callable[[int], bytes], **rest: Any) -> Engine:
        saved = copy.deepcopy(randomness)
        peer = Address("member:1") if name == "p0" else None
        recordings.append(Recording(lambda: Courier(peer, copy.deepcopy(saved))))
        return recordings[-1]

    World(drawn, keep_rows=False, node=courier).run()
    return recordings


COURIER_SCENARIO = scenario(
    members=2,
    duration=8 * SECOND,
    workloads=(),
    faults=(
        Fault(kind="isolate", at=500 * MILLISECOND, members=(1,), lasts=SECOND),
        Fault(kind="crash", at=2 * SECOND, members=(1,), restart=500 * MILLISECOND),
    ),
)

SITE_SCENARIO = scenario(
    members=4,
    sites=1,
    duration=8 * SECOND,
    faults=(
        Fault(kind="crash", at=SECOND, members=(0,), restart=2 * SECOND),
        Fault(kind="crash", at=2 * SECOND, members=(3,), restart=3 * SECOND),
        Fault(kind="pause", at=4 * SECOND, members=(1, 2), lasts=SECOND),
    ),
    site_timeout=500 * MILLISECOND,
)

CHURN = scenario(
    faults=(
        Fault(kind="leave", at=SECOND, members=(0,)),
        Fault(kind="join", at=3 * SECOND, members=(0,)),
        Fault(kind="crash", at=2 * SECOND, members=(1,), restart=200 * MILLISECOND),
        Fault(kind="replay", at=0, rate=0.05, age=5 * SECOND),
    )
)


HIERARCHY = msgspec.structs.replace(
    scenario(
        members=12,
        duration=25 * SECOND,
        settle=0,
        workloads=(),
        network=Network(shape="regions", regions=3, jitter=200_000, loss=0.05),
        faults=(Fault(kind="crash", at=15 * SECOND, members=(1, 5, 8), restart=2 * SECOND),),
        control=True,
        control_interval=500 * MILLISECOND,
        high_coordinators=4,
    ),
    groups=(GroupPlan(name="g", members=(0,)),),
)
"""Control processes that find each other, lose each other and come back; all but the first are in no group."""


SESSIONS = ("parted and met", "sending goes on", "the application is asked", "weak", "controllers")
"""Situations of sessions: the nodes are members, membership servers and controllers."""


@pytest.mark.parametrize("engine", ["node", "intergroup", "control", "courier", "site", "session"])
def test_a_replay_gives_the_same_effects(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "courier":
        recordings = record_couriers(COURIER_SCENARIO)
    elif engine == "site":
        recordings = record_nodes(SITE_SCENARIO, site=True, daemon="p3")
        seen = {type(fact).__name__ for recording in recordings for fact, *_ in recording.steps}
        assert {"Listening", "ListenFailed", "ChannelOpened", "FrameReceived", "ChannelFailed"} <= seen
    elif engine == "session":
        recordings = [recording for name in SESSIONS for recording in record_nodes(session_situation(name, 3))]
        seen = {type(fact).__name__ for recording in recordings for fact, *_ in recording.steps}
        assert {"BlockOk", "ChannelOpened", "FrameReceived", "ChannelFailed", "DatagramReceived"} <= seen
    elif engine == "control":
        recordings = record_control(HIERARCHY, monkeypatch)
        assert {recording.state.leads for recording in recordings} == {True, False}
    else:
        scenarios = [
            CHURN,
            *([HIERARCHY] if engine == "node" else []),
            *(situation(name, 3) for name in ("loss", "fragments", "stopped reader", "cut off")),
        ]
        record = record_nodes if engine == "node" else lambda drawn: record_groups(drawn, monkeypatch)
        recordings = [recording for drawn in scenarios for recording in record(drawn)]
    assert sum(len(recording.steps) for recording in recordings) > 60
    for recording in recordings:
        replayed = recording.build()
        for fact, now, wall, effects in recording.steps:
            assert replayed.handle(fact, now, wall) == effects
        if engine != "intergroup":  # the clock of a group engine is its node's, and runs on outside of it
            assert fingerprint(replayed) == fingerprint(recording.engine)


def test_another_generator_gives_other_effects() -> None:
    """The replay test can fail: effects do depend on what is handed in."""
    recording = max(record_couriers(COURIER_SCENARIO), key=lambda recording: recording.sent)
    deadlines = [
        [(engine.handle(fact, now, wall), engine.deadline())[1] for fact, now, wall, _ in recording.steps]
        for engine in (recording.build(), Courier(Address("member:1"), Random("another")))
    ]
    assert deadlines[0] != deadlines[1]


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_copy_goes_on_like_the_original(name: str) -> None:
    _copy_in_the_middle(max(record_nodes(situation(name, 5)), key=lambda recording: len(recording.steps)))


@pytest.mark.parametrize("name", ["sending goes on", "controllers"])
def test_a_copy_of_a_session_goes_on_like_the_original(name: str) -> None:
    """Members, servers and controllers: their links hold each other."""
    for recording in record_nodes(session_situation(name, 5)):
        _copy_in_the_middle(recording)


def _copy_in_the_middle(recording: Recording) -> None:
    middle = len(recording.steps) // 2
    original = recording.build()
    for fact, now, wall, _ in recording.steps[:middle]:
        original.handle(fact, now, wall)
    copied = copy.deepcopy(original)
    assert fingerprint(copied) == fingerprint(original)
    before = fingerprint(original)
    for fact, now, wall, effects in recording.steps[middle:]:
        assert copied.handle(fact, now, wall) == effects
    assert fingerprint(original) == before
    assert fingerprint(copied) != before
