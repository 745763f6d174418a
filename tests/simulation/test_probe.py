"""A simulated machine asks a simulated group, through a network that loses and delays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.test_replay import Recording
from tests.simulation.worlds import scenario
from unisono.engine import DatagramReceived, Effect, Engine, Fact
from unisono.fingerprint import fingerprint
from unisono.node import Node
from unisono.probing.asker import SPREAD, Asker
from unisono.probing.picture import Picture, Watch
from unisono.simulation.scenario import Fault, GroupPlan, MemberPlan, Network, Scenario, Workload
from unisono.simulation.world import World
from unisono.units import MILLISECOND, SECOND

WAIT = 500 * MILLISECOND
LOAD = Workload(group="g", senders=(0, 1, 2, 3), rate=20.0, size=100)


class Witness(Asker):
    """Asks every second, keeps a picture of every round and when each answer came."""

    def __init__(self, realm: str, name: str, entropy: Callable[[int], bytes]) -> None:
        super().__init__("g", realm, name, entropy, WAIT, SECOND)
        self.watch = Watch()
        self.pictures: list[Picture] = []
        self.arrivals: list[int] = []

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        before = self.finished
        effects = super().handle(fact, now, wall)
        if isinstance(fact, DatagramReceived):
            self.arrivals.append(now)
        if self.finished is not None and self.finished is not before:
            self.pictures.append(self.watch.look(self.finished))
        return effects


def ask(drawn: Scenario, recordings: list[Recording] | None = None) -> tuple[Witness, World]:
    """Run it with somebody who asks on the last machine, which is in no group; perhaps record everybody."""
    assert isinstance(drawn.members, int)
    outsider = f"p{drawn.members - 1}"

    def node(name: str, randomness: Random, entropy: Callable[[int], bytes], realm: str, **rest: Any) -> Engine:
        def build() -> Engine:
            dice, bytes_of = copy.deepcopy((randomness, entropy))
            if name == outsider:
                return Witness(realm, name, bytes_of)
            return Node(name, dice, bytes_of, realm=realm, **rest)

        if recordings is None:
            return build()
        recordings.append(Recording(build))
        return recordings[-1]

    world = World(drawn, keep_rows=False, node=node)
    world.run()
    last = world.machines[-1].engine
    witness = last.engine if isinstance(last, Recording) else last
    assert isinstance(witness, Witness)
    assert [found for found in world.monitors.violations if found.process != outsider] == []  # it writes no trace
    return witness, world


def group(members: int, **rest: Any) -> Scenario:
    plan = GroupPlan(name="g", members=tuple(range(members)))
    return scenario(members=members + 1, groups=(plan,), workloads=(LOAD,), service="timestamp", **rest)


def test_simulated_members_answer_and_keep_every_promise() -> None:
    witness, _ = ask(group(4, network=Network(latency=5 * MILLISECOND, loss=0.05)))
    rounds = witness.pictures
    assert len(rounds) >= 9
    assert [len(picture.lines) for picture in rounds[1:]] == [4] * (len(rounds) - 1)
    (view,) = rounds[2].views
    assert [member.name for member in view.present] == ["p0", "p1", "p2", "p3"]
    for picture in rounds[2:4]:
        for line in picture.lines:
            assert line.rates is not None
            assert 15 < line.rates.sent < 25
            assert 60 < line.rates.delivered < 100
            assert 1500 < line.rates.sent_bytes < 2500


def test_a_split_shows_while_it_lasts() -> None:
    """Two and two do not hear each other; who asks hears all of them."""
    split = Fault(kind="partition", at=2 * SECOND, groups=((0, 1, 4), (2, 3, 4)), lasts=4 * SECOND)
    witness, _ = ask(group(4, faults=(split,), duration=8 * SECOND))
    seen = [tuple(sorted(len(view.present) for view in picture.views)) for picture in witness.pictures]
    assert seen[1] == (4,)
    assert (2, 2) in seen
    assert seen[-1] == (4,)
    picture = witness.pictures[seen.index((2, 2))]
    assert {tuple(member.name for member in view.members) for view in picture.views} == {("p0", "p1"), ("p2", "p3")}


def test_answers_of_many_members_are_spread_over_time() -> None:
    receivers = tuple(MemberPlan(index=index, options={"role": "receiver"}) for index in range(4, 30))
    witness, world = ask(group(30, member_plans=receivers, duration=SECOND, settle=SECOND))
    assert [len(picture.lines) for picture in witness.pictures] == [30] * len(witness.pictures)
    assert len(witness.arrivals) == 30 * len(witness.pictures), "each answers once in a round"
    last = witness.arrivals[-30:]
    busiest = max(sum(at <= other < at + 10 * MILLISECOND for other in last) for at in last)
    assert last[-1] - last[0] > WAIT // SPREAD // 2
    assert busiest <= 10, "ten milliseconds are a twelfth of the spread"
    assert not any("probe" in reason for reason in world.counters)


def test_a_replay_gives_the_same_questions_and_answers() -> None:
    recordings: list[Recording] = []
    witness, _ = ask(group(4, duration=3 * SECOND, settle=SECOND), recordings)
    assert [len(picture.lines) for picture in witness.pictures] == [4] * 4
    assert len(recordings) == 5
    for recording in recordings:
        again = recording.build()
        assert all(again.handle(fact, now, wall) == effects for fact, now, wall, effects in recording.steps)
        assert fingerprint(again) == fingerprint(recording.engine)
