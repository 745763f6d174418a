"""Figures that agreed views have to meet: pauses (N2), a heal in five parts (N3), a pause in each phase (N20)."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.simulation.unrest import MEMBERSHIP
from tests.simulation.worlds import LAN, run_world, scenario
from unisono.engine import Effect, SendDatagram
from unisono.engine import Fact as Happening
from unisono.node import Node
from unisono.simulation.packet_rules import classify
from unisono.simulation.scenario import Fault, Network, When, Workload
from unisono.simulation.world import World
from unisono.trace.schema import FaultRow, ViewRow
from unisono.units import MILLISECOND, SECOND

KEEP_ALIVE = 200 * MILLISECOND
SUSPICION = SECOND
BYTES_PER_PAIR = 500
"""What all say about membership when they merge, for each pair of them."""


def views_of(world: World, member: int) -> list[ViewRow]:
    return [row for row in world.rows if isinstance(row, ViewRow) and row.process == f"p{member}"]


def when(row: ViewRow) -> int:
    assert row.truth is not None
    return row.truth


def test_pauses_every_ten_seconds_for_ten_minutes() -> None:
    """N2: at most 1.2 views for each pause, and the healthy stay together."""
    pauses = [Fault(kind="pause", at=at * SECOND, members=(1,), lasts=3 * SUSPICION // 2) for at in range(5, 600, 10)]
    world = run_world(
        scenario(
            members=4,
            duration=600 * SECOND,
            settle=12 * SECOND,
            workloads=(Workload(group="g", senders=(0, 1), rate=0.5, size=50),),
            faults=tuple(pauses),
            service="timestamp",
            keep_alive=KEEP_ALIVE,
            suspicion=SUSPICION,
        )
    )
    assert world.monitors.violations == []
    for member in (0, 2, 3):
        views = views_of(world, member)
        apart = next(position for position, row in enumerate(views) if len(row.start) == 4)
        assert len(views) - apart - 1 <= 1.2 * len(pauses)
        for row in views[apart:]:
            assert {"p0", "p2", "p3"} <= {point.source for point in row.start}


class Meter(Node):
    """A node that counts the bytes of what it says about membership."""

    sent: ClassVar[int] = 0

    def handle(self, fact: Happening, now: int, wall: int) -> list[Effect]:
        effects = super().handle(fact, now, wall)
        for effect in effects:
            if isinstance(effect, SendDatagram) and classify(effect.data).names.intersection(MEMBERSHIP):
                Meter.sent += len(effect.data)
        return effects


@pytest.mark.parametrize(("members", "seed"), [(5, 1), (10, 2)])
@pytest.mark.parametrize(
    "network", [LAN, Network(latency=MILLISECOND, jitter=2 * MILLISECOND, loss=0.02)], ids=["lan", "lossy"]
)
def test_five_parts_heal_at_once(members: int, seed: int, network: Network) -> None:
    """N3: one merged view, at most two views on the way to it, within two seconds, with bytes of the order of n²."""
    parts = tuple(tuple(range(part, members, 5)) for part in range(5))
    heal = 7 * SECOND
    drawn = scenario(
        seed=seed,
        members=members,
        duration=11 * SECOND,
        settle=11 * SECOND,
        network=network,
        workloads=(Workload(group="g", rate=5.0, size=(50, 500)),),
        faults=(Fault(kind="partition", at=2 * SECOND, groups=parts, lasts=heal - 2 * SECOND),),
        service="timestamp",
        keep_alive=KEEP_ALIVE,
        suspicion=SUSPICION,
    )
    world = World(drawn, keep_rows=True, node=Meter)
    world.schedule(heal, lambda now: setattr(Meter, "sent", 0))
    spent: list[int] = []
    world.schedule(heal + 2 * SECOND, lambda now: spent.append(Meter.sent))
    world.run()
    assert world.monitors.violations == []
    merged: set[str | None] = set()
    for member in range(members):
        before: list[ViewRow] = []
        after: list[ViewRow] = []
        for row in views_of(world, member):
            (after if when(row) > heal else before).append(row)
        assert len(before[-1].start) == members // 5, "the partition did divide them"
        together = next(position for position, row in enumerate(after) if len(row.start) == members)
        assert together <= 2
        assert when(after[together]) - heal <= 2 * SECOND
        assert len(after) == together + 1, "whoever has met stays together"
        merged.add(after[-1].view)
    assert len(merged) == 1
    assert spent[0] <= BYTES_PER_PAIR * members**2


@pytest.mark.parametrize(("kind", "count"), [("MRA", 2), ("CUT", 1), ("CUT", 5), ("SUSPECT", 1), ("VIEW", 3)])
def test_a_pause_in_each_phase_of_a_repair(kind: str, count: int) -> None:
    """N20: a sender stands still in the middle of a repair until the others have gone on, and is with them again."""
    drawn = scenario(
        seed=count,
        members=4,
        duration=9 * SECOND,
        settle=12 * SECOND,
        network=LAN,
        workloads=(Workload(group="g", rate=10.0, size=(50, 3000)),),
        faults=(
            Fault(kind="crash", at=2 * SECOND, members=(3,)),
            Fault(kind="pause", when=When(kind=kind, member=1, count=count), members=(1,), lasts=4 * SECOND),
        ),
        service="timestamp",
        keep_alive=KEEP_ALIVE,
        suspicion=SUSPICION,
    )
    world = run_world(drawn)
    assert world.monitors.violations == []
    assert any(row.kind == "FAULT" and isinstance(row, FaultRow) and row.fault == "pause" for row in world.rows)
    for member in range(3):
        assert {point.source for point in views_of(world, member)[-1].start} == {"p0", "p1", "p2"}


def test_who_was_stopped_once_and_dies_with_others_is_not_waited_for() -> None:
    """It is given more time than they are; those who live do not wait for its word when the others are left out."""
    crash = 8 * SECOND
    world = run_world(
        scenario(
            members=6,
            duration=14 * SECOND,
            settle=6 * SECOND,
            network=LAN,
            workloads=(Workload(group="g", rate=5, size=50),),
            faults=(
                Fault(kind="pause", at=2 * SECOND, members=(5,), lasts=9 * SUSPICION // 5),
                Fault(kind="crash", at=crash, members=(3, 4, 5)),
            ),
            service="timestamp",
            keep_alive=KEEP_ALIVE,
            suspicion=SUSPICION,
        )
    )
    assert world.monitors.violations == []
    for member in (0, 1, 2):
        last = views_of(world, member)[-1]
        assert {point.source for point in last.start} == {"p0", "p1", "p2"}
        assert SUSPICION // 2 < when(last) - crash < 2 * SUSPICION
