"""Sessions at their limits: full buffers, senders that never pause, messages as large as they may be."""

from __future__ import annotations

import pytest

from tests.simulation.session_worlds import moment, run_session, session
from unisono.simulation.scenario import Fault, MemberPlan, Network, Workload
from unisono.trace.schema import DeliverRow, ViewRow
from unisono.units import KIB, MILLISECOND, SECOND


def test_a_full_buffer_does_not_hold_the_end_of_a_view_up() -> None:
    """Who does not read has room for less than its view ends with, and gets all of it."""
    death = 1600 * MILLISECOND
    drawn = session(
        duration=3 * SECOND,
        workloads=(
            Workload(group="g", senders=(0,), rate=1000.0, size=1000, start=500 * MILLISECOND, stop=SECOND),
            Workload(group="g", senders=(0,), rate=4000.0, size=1, start=SECOND, stop=death),
        ),
        faults=(
            Fault(kind="stop_reading", at=SECOND, members=(1,), lasts=1500 * MILLISECOND),
            Fault(kind="crash", at=death, members=(3,)),
        ),
        receive_buffer_bytes=128 * KIB,
        event_limit=10,
        failover=50 * MILLISECOND,
        patience=30 * SECOND,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    ends = [row for row in world.rows if isinstance(row, ViewRow) and moment(row) > death]
    assert {row.process for row in ends if moment(row) < 2500 * MILLISECOND} == {"p0", "p1", "p2"}, (
        "while it does not read"
    )
    before = [row for row in world.rows if isinstance(row, DeliverRow) and row.view == ends[0].previous]
    counts = {name: sum(row.process == name for row in before) for name in ("p1", "p2")}
    assert counts["p1"] == counts["p2"] > 2000


def test_who_has_no_room_does_not_ask() -> None:
    """Who does not read asks for what it has no room for when there is room again, and not all the time before."""
    stops, reads = SECOND, 2500 * MILLISECOND
    drawn = session(
        duration=3 * SECOND,
        workloads=(Workload(group="g", senders=(0,), rate=1000.0, size=1000, start=500 * MILLISECOND),),
        faults=(Fault(kind="stop_reading", at=stops, members=(1,), lasts=reads - stops),),
        receive_buffer_bytes=64 * KIB,
        event_limit=10,
        patience=30 * SECOND,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    asked = [moment(row) for row in world.rows if row.kind == "RTR" and row.process == "p1"]
    assert len([at for at in asked if stops <= at < reads]) <= 1, "what was under way when the buffer filled"
    assert len([at for at in asked if at >= reads]) > 0
    delivered = [row.process for row in world.rows if isinstance(row, DeliverRow)]
    assert delivered.count("p1") == delivered.count("p2") > 1000


def test_who_sends_without_pause_sees_who_is_silent() -> None:
    drawn = session(
        workloads=(Workload(group="g", rate=100.0, size=50),),
        faults=(Fault(kind="lose", at=SECOND, rate=1.0, sources=(3,), targets=(1,), lasts=2 * SECOND),),
        suspicion=500 * MILLISECOND,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    accused = [row for row in world.rows if row.kind == "SUSPECT"]
    assert [(row.process, getattr(row, "peer", None)) for row in accused] == [("p1", "p3")]


def test_a_controller_sends_the_largest_message_of_a_client() -> None:
    largest = 30_000
    drawn = session(
        controllers=2,
        workloads=(Workload(group="g", senders=(0,), rate=10.0, size=largest),),
        message_limit_bytes=largest,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    deliveries = [row for row in world.rows if isinstance(row, DeliverRow)]
    assert len(deliveries) > 4 * 30
    assert {row.size for row in deliveries} == {largest}


def test_who_cannot_put_a_message_together_goes_and_says_so() -> None:
    """One member allows smaller messages than another sends: it drops out, and the others go on together."""
    drawn = session(
        workloads=(Workload(group="g", senders=(0,), rate=20.0, size=5_000, start=SECOND),),
        member_plans=(MemberPlan(index=2, options={"message_limit_bytes": 1_000}),),
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    assert [row.process for row in world.rows if row.kind == "SELF_FAIL"] == ["p2"]
    assert [row.process for row in world.rows if row.kind == "LEAVE"] == ["p2"]
    last = {row.process: row for row in world.rows if isinstance(row, ViewRow)}
    assert {start.source for start in last["p0"].start} == {"p0", "p1", "p3"}
    heard = [row.process for row in world.rows if isinstance(row, DeliverRow)]
    assert "p2" not in heard
    assert heard.count("p1") == heard.count("p0") > 50


@pytest.mark.parametrize(("semantics", "other"), [("strong", "weak"), ("weak", "strong")])
def test_who_comes_with_other_semantics_goes_and_holds_nobody_up(semantics: str, other: str) -> None:
    drawn = session(
        workloads=(Workload(group="g", rate=20.0, size=50),),
        member_plans=(
            MemberPlan(index=2, joins=SECOND, options={"semantics": other}),
            MemberPlan(index=3, joins=2 * SECOND),
        ),
        semantics=semantics,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    assert [row.process for row in world.rows if row.kind == "LEAVE"] == ["p2"]
    last = {row.process: row for row in world.rows if isinstance(row, ViewRow)}
    assert {start.source for start in last["p0"].start} == {"p0", "p1", "p3"}
    assert last["p0"].view == last["p1"].view == last["p3"].view


@pytest.mark.slow
def test_cuts_that_do_not_fit_a_datagram_are_exchanged() -> None:
    """As in a group of many hundreds: everybody's cut takes several datagrams, and some are lost."""
    drawn = session(
        members=40,
        duration=1500 * MILLISECOND,
        settle=4 * SECOND,
        network=Network(latency=MILLISECOND, loss=0.03),
        workloads=(Workload(group="g", rate=4.0, size=20),),
        faults=(Fault(kind="crash", at=SECOND, members=(39,)),),
        datagram_bytes=576,
        failover=0,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    last = {row.process: row for row in world.rows if isinstance(row, ViewRow)}
    assert {len(last[f"p{index}"].start) for index in range(39)} == {39}
    assert len(last["p0"].transitional or []) == 39
    assert world.marks["vs-cut-asked"]
