"""The errata of document 002, each held by a run that would fail under the printed form."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

from tests.simulation.planted_session_bugs import cut_too_low
from tests.simulation.session_worlds import moment, run_session, session, session_situation
from unisono.simulation.scenario import Fault, When, Workload
from unisono.simulation.world import World
from unisono.trace.schema import DeliverRow, MembershipRow, SendRow, ViewRow
from unisono.units import MILLISECOND, SECOND

Life = tuple[str, int]


def delivered(world: World) -> dict[tuple[Life, str], set[tuple[str, int, int]]]:
    """What each process delivered in each view."""
    found: defaultdict[tuple[Life, str], set[tuple[str, int, int]]] = defaultdict(set)
    for row in world.rows:
        if isinstance(row, DeliverRow):
            assert row.view is not None
            found[(row.process, row.incarnation), row.view].add((row.source, row.source_incarnation, row.sequence))
    return found


def test_e1_who_goes_on_together_delivered_the_same_before_and_not_after() -> None:
    """2.4 as printed speaks of the new view; what holds, and is wanted, is the same messages in the old one."""
    world = run_session(session_situation("one dies", 0))
    messages = delivered(world)
    moves: defaultdict[tuple[str, str], list[Life]] = defaultdict(list)
    for row in world.rows:
        if isinstance(row, ViewRow) and row.previous is not None:
            assert row.view is not None
            moves[row.previous, row.view].append((row.process, row.incarnation))
    together = {move: lives for move, lives in moves.items() if len(lives) > 1}
    assert together
    for (previous, _), lives in together.items():
        assert len({frozenset(messages[life, previous]) for life in lives}) == 1
    dead = next(row for row in world.rows if row.kind == "CRASH")
    after = [
        {frozenset(messages[life, view]) for life in lives}
        for (_, view), lives in together.items()
        if (dead.process, dead.incarnation) in lives
    ]
    assert any(len(sets) > 1 for sets in after), "of those who came together one died, and did not deliver the rest"


def test_e2_sending_view_delivery_does_not_come_from_the_agreed_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agreement on what is delivered serves 2.4: without it that is broken, and 2.3 still holds."""
    cut_too_low.plant(monkeypatch)
    world = run_session(session_situation("one dies", 0))
    assert "D5" in world.monitors.counts
    assert "D3" not in world.monitors.counts
    sent = {
        (row.process, row.incarnation, row.sequence, row.view): row.view
        for row in world.rows
        if isinstance(row, SendRow)
    }
    deliveries = [row for row in world.rows if isinstance(row, DeliverRow)]
    assert deliveries
    assert all((row.source, row.source_incarnation, row.sequence, row.view) in sent for row in deliveries)


def test_e12_another_is_asked_when_the_forwarder_fails() -> None:
    """The least that has a message forwards it; most of that is lost, and no further start-change is needed."""
    death = 1500 * MILLISECOND
    drawn = session(
        workloads=(
            Workload(group="g", rate=20.0, size=100),
            Workload(group="g", senders=(3,), rate=300.0, size=100, start=SECOND, stop=2 * SECOND),
        ),
        faults=(
            Fault(kind="lose", at=death - 50 * MILLISECOND, rate=1.0, sources=(3,), targets=(2,), lasts=SECOND),
            Fault(kind="crash", at=death, members=(3,)),
            Fault(
                kind="lose",
                when=When(kind="FORWARD", member=0),
                rate=1.0,
                sources=(0,),
                targets=(2,),
                lasts=400 * MILLISECOND,
            ),
        ),
        failover=50 * MILLISECOND,
        forward_timeout=20 * MILLISECOND,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    assert world.marks["vs-forwarded"]
    assert world.marks["vs-take-over"]
    changes = {row.number for row in started(world) if moment(row) > death}
    assert len(changes) == 1
    installed = [
        moment(row) for row in world.rows if row.kind == "VIEW" and row.process == "p2" and moment(row) > death
    ]
    assert installed[0] < death + 400 * MILLISECOND, "while the forwarder could not be heard"


def started(world: World) -> list[MembershipRow]:
    return [row for row in world.rows if isinstance(row, MembershipRow) and row.kind == "START_CHANGE"]


def test_e13_a_silent_application_holds_nobody_up() -> None:
    timeout = 300 * MILLISECOND
    drawn = session(
        faults=(
            Fault(kind="stop_answering", at=SECOND, members=(1,), lasts=3 * SECOND),
            Fault(kind="leave", at=1500 * MILLISECOND, members=(3,)),
        ),
        block="ask",
        block_timeout=timeout,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    assert world.marks["vs-block-forced"]
    blocked = {row.process: moment(row) for row in world.rows if row.kind == "BLOCK" and moment(row) > SECOND}
    installed = {row.process: moment(row) for row in world.rows if row.kind == "VIEW" and moment(row) > SECOND}
    assert set(installed) == {"p0", "p1", "p2"}
    for process, then in installed.items():
        assert then - blocked[process] < timeout + 100 * MILLISECOND


@pytest.mark.parametrize("name", ["the only server restarts", "parted and met"])
def test_e24_start_changes_grow_at_each_client_whatever_server_it_is_with(name: str) -> None:
    world = run_session(session_situation(name, 1))
    assert not world.monitors.violations
    assert world.marks["vs-server-changed"] or name == "parted and met"
    numbers: defaultdict[Life, list[int]] = defaultdict(list)
    for row in started(world):
        assert row.number is not None
        numbers[row.process, row.incarnation].append(row.number)
    assert numbers
    for of_one in numbers.values():
        assert all(before < after for before, after in pairwise(of_one))
