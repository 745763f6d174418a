"""A process restarts without its disk, and its clock was set back: its new life has the lower incarnation.

All the same it is heard soon, by everybody.
"""

from __future__ import annotations

import pytest

from tests.simulation.session_worlds import session
from tests.simulation.worlds import run_world, scenario
from unisono.simulation.scenario import Fault, MemberPlan, Network, Workload
from unisono.simulation.world import World
from unisono.trace.schema import DeliverRow, MembershipRow
from unisono.units import MICROSECOND, MILLISECOND, SECOND

HOUR = 3600 * SECOND
CRASHES, BACK = 4 * SECOND, 4300 * MILLISECOND
FAULTS = (
    Fault(kind="clock_step", at=3 * SECOND, members=(1,), by=-3 * HOUR),
    Fault(kind="crash", at=CRASHES, members=(1,), restart=BACK - CRASHES, disk=False),
)
BOUND = 1200 * MILLISECOND
"""The least silence after which anybody is suspected, and an agreement or an activation."""
LONG_BOUND = 3 * SECOND
"""Twice the least silence and the same, where nobody tells the new life what time it is."""


def lives(world: World) -> tuple[int, int]:
    starts = [row for row in world.rows if isinstance(row, MembershipRow) and row.kind == "START"]
    first, second = (row.incarnation for row in starts if row.process == "p1")
    return first, second


def first_heard(world: World) -> dict[str, int]:
    """How long after the restart each of the others delivered a message of the new life."""
    _, second = lives(world)
    heard: dict[str, int] = {}
    for row in world.rows:
        if isinstance(row, DeliverRow) and row.source == "p1" and row.source_incarnation == second:
            assert row.truth is not None
            heard.setdefault(row.process, row.truth - BACK)
    return heard


def came_back(
    service: str = "timestamp",
    senders: tuple[int, ...] = (0, 1, 2),
    members: int = 3,
    faults: tuple[Fault, ...] = (),
) -> World:
    receivers = [index for index in range(members) if index not in senders]
    world = run_world(
        scenario(
            members=members,
            duration=10 * SECOND,
            network=Network(latency=MILLISECOND, jitter=100 * MICROSECOND),
            workloads=(Workload(group="g", senders=senders, rate=10.0, size=100),),
            member_plans=tuple(MemberPlan(index=index, options={"role": "receiver"}) for index in receivers),
            faults=(*FAULTS, *faults),
            service=service,
        )
    )
    first, second = lives(world)
    assert second < first, "the clock was set back"
    assert not world.monitors.violations
    return world


@pytest.mark.parametrize("service", ["timestamp", "source", "unordered", "source-latest", "framed"])
def test_senders_and_receivers_hear_the_new_life_soon(service: str) -> None:
    world = came_back(service, members=4)
    heard = first_heard(world)
    assert set(heard) == {"p0", "p1", "p2", "p3"}
    assert max(heard.values()) < BOUND


def test_receivers_of_a_lone_sender_hear_it_too() -> None:
    for service in ("timestamp", "source"):
        heard = first_heard(came_back(service, senders=(1,)))
        assert set(heard) == {"p0", "p1", "p2"}, service
        assert max(heard.values()) < LONG_BOUND, service


def test_the_new_life_of_a_receiver_hears_the_others_soon() -> None:
    for service in ("timestamp", "source"):
        world = came_back(service, senders=(0, 2))
        _, second = lives(world)
        times = [row.truth for row in world.rows if isinstance(row, DeliverRow) and row.incarnation == second]
        assert times[0] is not None
        assert times[0] - BACK < LONG_BOUND, service


def test_old_packets_of_the_life_before_are_nobody_even_while_the_new_one_is_silent() -> None:
    """They are heard again and again, as old as five seconds, and for two of these the new life is cut off."""
    world = came_back(
        faults=(
            Fault(kind="replay", at=2 * SECOND, rate=0.3, age=5 * SECOND, lasts=7 * SECOND),
            Fault(kind="isolate", at=6 * SECOND, members=(1,), lasts=2 * SECOND),
        )
    )
    first, second = lives(world)
    sources = [row.source_incarnation for row in world.rows if isinstance(row, DeliverRow) and row.source == "p1"]
    assert sources == sorted(sources, key=(first, second).index)


def test_the_new_life_of_a_member_of_a_session_is_heard_soon() -> None:
    world = World(session(members=3, duration=10 * SECOND, faults=FAULTS), keep_rows=True)
    world.run()
    assert not world.monitors.violations
    heard = first_heard(world)
    assert set(heard) == {"p0", "p1", "p2"}
    assert max(heard.values()) < BOUND
