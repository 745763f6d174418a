"""Known ways in which group communication fails under churn, as sessions go through them: N11, N13 and N20."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.session_worlds import NEAR, moment, run_session, session
from unisono.simulation.scenario import Fault, Scenario, When, Workload
from unisono.simulation.world import World
from unisono.trace.schema import RepairRow, SendRow, ViewRow
from unisono.units import MILLISECOND, SECOND

DEATH = 2 * SECOND


@pytest.mark.slow
def test_n11_what_half_of_many_lack_is_forwarded_once() -> None:
    """32 members, one departs with 500 messages that only half of the others have."""
    many, lacking = 32, tuple(range(16, 31))
    drawn = session(
        members=many,
        duration=2500 * MILLISECOND,
        settle=3 * SECOND,
        network=NEAR,
        workloads=(
            Workload(group="g", senders=(31,), rate=500.0, size=100, start=SECOND, stop=1600 * MILLISECOND),
            Workload(group="g", senders=(31,), rate=2500.0, size=100, start=1790 * MILLISECOND, stop=DEATH),
        ),
        faults=(
            Fault(kind="lose", at=1780 * MILLISECOND, rate=1.0, sources=(31,), targets=lacking, lasts=SECOND),
            Fault(kind="crash", at=DEATH, members=(31,)),
        ),
        failover=50 * MILLISECOND,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    assert {row.process: len(row.start) for row in world.rows if isinstance(row, ViewRow)} == {
        f"p{index}": many if index == 31 else many - 1 for index in range(many)
    }
    forwarded: Counter[int] = Counter()
    again = 0
    for row in world.rows:
        if isinstance(row, RepairRow) and row.source == "p31" and moment(row) > DEATH:
            if row.kind == "FORWARD":
                forwarded.update(range(row.first, row.last + 1))
            elif row.kind == "RTX":
                again += row.last - row.first + 1
    assert len(forwarded) >= 500
    assert set(forwarded.values()) == {1}
    assert sum(forwarded.values()) + again <= 1.2 * len(forwarded), "messages of one size: what counts is how many"


def last_words(*faults: Fault) -> Scenario:
    """The fourth member dies with messages on their way that the third does not have."""
    return session(
        workloads=(
            Workload(group="g", rate=20.0, size=100),
            Workload(group="g", senders=(3,), rate=200.0, size=100, start=SECOND, stop=DEATH),
        ),
        faults=(
            Fault(kind="lose", at=DEATH - 50 * MILLISECOND, rate=1.0, sources=(3,), targets=(2,), lasts=SECOND),
            Fault(kind="crash", at=DEATH, members=(3,)),
            *faults,
        ),
        failover=50 * MILLISECOND,
        forward_timeout=20 * MILLISECOND,
    )


def test_n13_the_forwarder_dies_at_each_message() -> None:
    calm = run_session(last_words())
    messages = sum(row.kind == "FORWARD" for row in calm.rows)
    assert messages >= 5
    for count in range(1, messages + 1):
        killed = Fault(kind="crash", when=When(kind="FORWARD", member=0, count=count), members=(0,))
        world = run_session(last_words(killed))
        assert world.counters["CRASH"] == 2
        assert not world.monitors.violations, f"the forwarder died at message {count}"
        for name in ("p1", "p2"):
            changes = [
                row for row in world.rows if row.kind == "START_CHANGE" and row.process == name and moment(row) > DEATH
            ]
            assert 1 <= len(changes) <= 2, "one for the first death, at most one more"


PAUSE = 4 * SECOND


def paused(kind: str, optimistic: bool) -> tuple[World, int, int]:
    """One member is stopped at such a moment of a view change, and resumes when the others have gone on."""

    def drawn(*faults: Fault) -> Scenario:
        return session(
            duration=9 * SECOND,
            workloads=(Workload(group="g", rate=40.0, size=(50, 4000)),),
            faults=(Fault(kind="leave", at=DEATH, members=(3,)), *faults),
            server_timeout=SECOND,
            block="auto" if optimistic else "ask",
            optimistic=optimistic,
        )

    calm = run_session(drawn())
    before = sum(row.kind == kind and row.process == "p1" and moment(row) < DEATH for row in calm.rows)
    world = run_session(
        drawn(Fault(kind="pause", when=When(kind=kind, member=1, count=before + 1), members=(1,), lasts=PAUSE))
    )
    edges = [moment(row) for row in world.rows if row.kind == "FAULT" and getattr(row, "fault", "") == "pause"]
    return world, edges[0], edges[1]


@pytest.mark.slow
@pytest.mark.parametrize("optimistic", [False, True], ids=["blocking", "optimistic"])
@pytest.mark.parametrize("kind", ["START_CHANGE", "BLOCK", "BLOCK_OK", "CUT", "SYNCHRONIZED", "NEW_VIEW", "VIEW"])
def test_n20_who_was_stopped_in_a_view_change_sends_in_its_next_view(kind: str, optimistic: bool) -> None:
    if kind == "BLOCK" and optimistic:
        pytest.skip("nobody is asked to block there")
    world, stopped, resumed = paused(kind, optimistic)
    assert not world.monitors.violations
    views = [row for row in world.rows if isinstance(row, ViewRow) and moment(row) > stopped]
    without = [row for row in views if row.process == "p0" and all(start.source != "p1" for start in row.start)]
    assert without, "the others went on without it"
    assert moment(without[0]) < resumed
    learned = [row for row in views if row.process == "p1" and moment(row) >= resumed]
    assert learned, "it learns that it was out"
    sends = [row for row in world.rows if isinstance(row, SendRow) and row.process == "p1" and moment(row) >= resumed]
    assert len(sends) > 40 * (PAUSE // SECOND) // 2, "what was queued meanwhile is sent"
    assert {row.agreed for row in sends} <= {row.view for row in learned}
