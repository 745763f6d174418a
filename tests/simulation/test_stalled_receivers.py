"""A receiver whose application takes nothing for a minute of flood keeps no more at its end than when it was full."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.simulation.reachable import reachable
from tests.simulation.session_worlds import session
from tests.simulation.worlds import scenario
from unisono.simulation.scenario import Fault, MemberPlan, Scenario, Workload
from unisono.simulation.world import World
from unisono.trace.schema import GaugeRow
from unisono.units import KIB, SECOND

MINUTE = 60
STALLED = 2
BEGINS = 2 * SECOND
FULL = 20
"""After so many seconds every buffer is as full as it gets."""
SLACK = 400
"""Objects more or less that are no growth: what happens to be on its way."""


def flooded(service: str, role: str, loses: bool, **options: Any) -> Scenario:
    """Two senders say more than the third member, which reads nothing, has room for; half of it may be lost there."""
    lost = Fault(kind="lose", at=BEGINS, rate=0.5, message="data", targets=(STALLED,), lasts=MINUTE * SECOND)
    unrepaired = Fault(kind="lose", at=BEGINS, rate=0.9, message="repair", targets=(STALLED,), lasts=MINUTE * SECOND)
    return scenario(
        duration=(MINUTE + 2) * SECOND,
        workloads=(Workload(group="g", senders=(0, 1), rate=30.0, size=(20, 1500)),),
        faults=(
            Fault(kind="stop_reading", at=BEGINS, members=(STALLED,), lasts=MINUTE * SECOND),
            *((lost, unrepaired) if loses else ()),
        ),
        member_plans=(MemberPlan(index=STALLED, options={"role": role}),),
        service=service,
        event_limit=10,
        window_bytes=64 * KIB,
        receive_buffer_bytes=128 * KIB,
        trace_messages=False,
        **options,
    )


def watch(drawn: Scenario) -> tuple[list[Counter[str]], list[GaugeRow]]:
    """What the stalled member keeps when it is full and at the end of the minute; its gauges."""
    gauges: list[GaugeRow] = []

    def note(row: object) -> None:
        if isinstance(row, GaugeRow) and row.kind == "GAUGE" and row.process == f"p{STALLED}":
            gauges.append(row)

    world = World(drawn, keep_rows=False, watch=note)
    kept: list[Counter[str]] = []
    for second in (FULL, MINUTE):
        world.schedule(second * SECOND, lambda now: kept.append(reachable(world.machines[STALLED].engine)))
    world.run()
    return kept, gauges


def assert_bounded(drawn: Scenario) -> None:
    (full, end), gauges = watch(drawn)
    assert end.total() <= full.total() + SLACK, (end - full).most_common(5)
    capped = [gauge for gauge in gauges if gauge.cap is not None]
    assert {"repair tickets", "receive buffer bytes"} <= {gauge.name for gauge in capped}
    assert [gauge for gauge in capped if gauge.cap is not None and gauge.value > gauge.cap] == []


@pytest.mark.parametrize("loses", [False, True], ids=["reads nothing", "and half is lost"])
@pytest.mark.parametrize("role", ["receiver", "sender"])
@pytest.mark.parametrize("service", ["source", "timestamp"])
def test_a_member_that_takes_nothing_keeps_no_more_after_a_minute_than_when_it_was_full(
    service: str, role: str, loses: bool
) -> None:
    assert_bounded(flooded(service, role, loses))


@pytest.mark.parametrize("loses", [False, True], ids=["reads nothing", "and half is lost"])
def test_a_member_of_a_session_that_takes_nothing_does_not_either(loses: bool) -> None:
    calm = flooded("source", "sender", loses)
    assert_bounded(
        session(
            members=3,
            duration=calm.duration,
            workloads=calm.workloads,
            faults=calm.faults,
            event_limit=10,
            window_bytes=64 * KIB,
            receive_buffer_bytes=128 * KIB,
            trace_messages=False,
        )
    )
