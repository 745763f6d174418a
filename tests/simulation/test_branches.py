"""Receivers that hear two branches of their view go with the one that most of the view goes to."""

from __future__ import annotations

import pytest

from tests.simulation.worlds import LAN, run_world, scenario
from unisono.engine import Address
from unisono.identity import ViewId
from unisono.intergroup.membership.repair import MembershipRepair
from unisono.reliable.step import Step
from unisono.simulation.scenario import Fault, MemberPlan, Workload
from unisono.simulation.world import World
from unisono.trace.schema import ViewRow
from unisono.units import KIB, SECOND

CUT_OFF = 2 * SECOND
MISSED = 3 * SECOND
CLOCKS = 1000 * SECOND
"""The clocks of simulated processes are so far apart."""


def one_is_left_behind(senders: int, behind: int, seed: int, primary: int = 0) -> World:
    """One sender does not get what another says, nor repairs of it; three receivers hear everybody."""
    members, loud = senders + 3, (behind + 1) % senders
    return run_world(
        scenario(
            seed=seed,
            members=members,
            duration=5 * SECOND,
            settle=3 * SECOND,
            network=LAN,
            workloads=(
                Workload(group="g", senders=(loud,), rate=100.0, size=1000, stop=3 * SECOND),
                Workload(group="g", senders=tuple(one for one in range(senders) if one != loud), rate=10.0, size=50),
            ),
            member_plans=tuple(
                MemberPlan(index=index, options={"role": "receiver"}) for index in range(senders, members)
            ),
            faults=(
                Fault(kind="lose", at=CUT_OFF, sources=(loud,), targets=(behind,), message="data", lasts=2 * SECOND),
                Fault(kind="lose", at=CUT_OFF, targets=(behind,), message="repair", lasts=2 * SECOND),
            ),
            service="timestamp",
            window_bytes=64 * KIB,
            patience=SECOND,
            primary=primary,
        )
    )


def branches(world: World, name: str) -> list[set[str]]:
    """The views of one process after the fault began."""
    rows = [row for row in world.rows if isinstance(row, ViewRow) and row.process == name]
    return [{point.source for point in row.start} for row in rows if row.truth is not None and row.truth > CUT_OFF]


@pytest.mark.parametrize(("senders", "behind", "primary"), [(3, 0, 0), (3, 2, 3), (5, 1, 5)])
def test_receivers_stay_with_most_of_their_view(senders: int, behind: int, primary: int) -> None:
    world = one_is_left_behind(senders, behind, seed=1, primary=primary)
    assert not world.monitors.violations
    alone, others = {f"p{behind}"}, {f"p{index}" for index in range(senders) if index != behind}
    assert alone in branches(world, f"p{behind}"), "it stepped out"
    assert world.marks["dropped-out"] == 0
    for receiver in range(senders, senders + 3):
        views = branches(world, f"p{receiver}")
        assert alone not in views
        assert views[0] == others
        assert views[-1] == alone | others


def test_of_two_halves_all_receivers_choose_the_same() -> None:
    world = one_is_left_behind(2, 1, seed=1)
    assert not world.monitors.violations
    assert {"p1"} in branches(world, "p1")
    for receiver in ("p2", "p3", "p4"):
        assert {"p1"} not in branches(world, receiver)
    assert world.marks["dropped-out"] == 0


def test_a_receiver_goes_on_to_a_view_as_it_began_whatever_it_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view begins that the receiver misses, and another follows it by the order: it is told that one first, as who
    comes into the middle of it is."""
    original = MembershipRepair.tell_view
    told: list[Address] = []

    def tell_view(self: MembershipRepair, step: Step, address: Address, known: ViewId | None) -> None:
        as_a_newcomer = known is not None and step.now % CLOCKS >= MISSED and not told
        if as_a_newcomer:
            assert self.standing is not None
            assert self.standing.view != self.standing.era
            told.append(address)
        original(self, step, address, None if as_a_newcomer else known)

    monkeypatch.setattr(MembershipRepair, "tell_view", tell_view)
    world = run_world(
        scenario(
            seed=1,
            members=5,
            duration=5 * SECOND,
            settle=3 * SECOND,
            network=LAN,
            workloads=(Workload(group="g", senders=(0, 1, 2), rate=50.0, size=50),),
            member_plans=(
                MemberPlan(index=2, joins=2 * SECOND),
                MemberPlan(index=3, options={"role": "auto", "idle": 30 * SECOND}),
                MemberPlan(index=4, options={"role": "receiver"}),
            ),
            faults=(
                Fault(kind="lose", at=SECOND, targets=(4,), message="new_view", lasts=MISSED - SECOND),
                Fault(kind="send", at=5 * SECOND // 2, members=(3,)),
            ),
            service="timestamp",
        )
    )
    assert told
    assert not world.monitors.violations
    assert world.marks["dropped-out"] == 0
