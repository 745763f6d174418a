"""Views of many senders with long names, on a network that carries no datagram above 1,400 bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from msgspec.msgpack import encode

from tests.simulation.worlds import run_world, scenario
from unisono.simulation.cast import Cast
from unisono.simulation.scenario import FOREVER, Fault, MemberPlan, Network, Workload
from unisono.simulation.world import World
from unisono.trace.schema import DeliverRow, ViewRow
from unisono.units import MICROSECOND, MILLISECOND, SECOND
from unisono.wire.messages import ControlMessage
from unisono.wire.writing import DatagramWriter

NARROW = Fault(kind="oversize", at=0, above=1400, lasts=FOREVER)


@pytest.fixture(autouse=True)
def _long_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cast, "process_name", lambda self, machine: f"{machine:03}-" + "x" * 60)


def meet(members: int, loss: float, faults: tuple[Fault, ...] = (), receivers: int = 0, seconds: float = 0.6) -> World:
    """Senders, and receivers behind them, that join at once."""
    return run_world(
        scenario(
            members=members,
            duration=int(seconds * SECOND),
            settle=100 * MILLISECOND,
            network=Network(latency=100 * MICROSECOND, jitter=50 * MICROSECOND, loss=loss),
            workloads=(Workload(group="g", senders=(0,), rate=10.0, size=50),),
            member_plans=tuple(
                MemberPlan(index=index, options={"role": "receiver"}) for index in range(members - receivers, members)
            ),
            faults=(NARROW, *faults),
            service="timestamp",
        )
    )


def last_views(world: World) -> dict[str, ViewRow]:
    return {row.process: row for row in world.rows if isinstance(row, ViewRow)}


def test_forty_senders_come_into_one_view_by_one_agreement() -> None:
    world = meet(40, loss=0.0, seconds=0.3)
    assert not world.monitors.violations
    views = last_views(world)
    assert len(views) == 40
    assert {len(view.start) for view in views.values()} == {40}
    assert {view.view for view in views.values()} == {views["000-" + "x" * 60].view}
    assert world.counters["VIEW"] == 2 * 40, "one of its own each, and one together"
    assert world.marks["repair-stalled"] == 0


def test_what_is_lost_of_a_view_is_said_again_and_receivers_follow() -> None:
    """Two of sixteen senders crash; the lists of who did not hear them are part of what is said."""
    crash = Fault(kind="crash", at=2 * SECOND, members=(3, 4))
    world = meet(20, loss=0.05, faults=(crash,), receivers=4, seconds=4.5)
    assert not world.monitors.violations
    views = {process: row for process, row in last_views(world).items() if process[:3] not in ("003", "004")}
    assert {len(view.start) for view in views.values()} == {14}
    assert len({view.view for view in views.values()}) == 1
    delivered = [row for row in world.rows if isinstance(row, DeliverRow) and row.process.startswith("019")]
    assert delivered[-1].view == views["019-" + "x" * 60].view


def test_without_parts_they_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of these tests does what it is to do."""

    def whole(self: DatagramWriter, messages: Iterable[ControlMessage]) -> Iterator[tuple[int, bytes]]:
        return ((message.code, encode(message)) for message in messages)

    monkeypatch.setattr(DatagramWriter, "_fitting", whole)
    world = meet(12, loss=0.0)
    assert sorted(len(view.start) for view in last_views(world).values()) == [*[1] * 11, 12], "the leader alone"
