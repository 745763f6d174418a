"""Schedules that once broke sessions, each with the place where it did."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from msgspec.structs import replace

from tests.simulation.session_worlds import moment, run_session, session
from unisono.engine import Address, Channel, ChannelFailed, ChannelOpened, FrameReceived
from unisono.identity import ProcessId
from unisono.settings import Settings
from unisono.simulation.cast import controller as controller_number
from unisono.simulation.cast import server
from unisono.simulation.scenario import Fault, GroupPlan, MemberPlan, Network, Scenario, Workload
from unisono.trace.schema import DeliverRow, SendRow, ViewRow
from unisono.units import MILLISECOND, SECOND
from unisono.virtual_synchrony.session.server_link import Moved, ServerLink
from unisono.virtual_synchrony.structured import controller
from unisono.virtual_synchrony.structured.controlled import controller_settings
from unisono.wire.server_frames import Welcome, write_server_frame


def test_who_was_stopped_far_from_its_server_sends_again() -> None:
    """Its server answers a question when the next one was asked already."""
    drawn = session(
        members=3,
        servers=1,
        network=Network(latency=150 * MILLISECOND),
        workloads=(Workload(group="g", rate=10.0, size=50),),
        duration=6 * SECOND,
        faults=(Fault(kind="pause", at=3 * SECOND, members=(1,), lasts=700 * MILLISECOND),),
        server_timeout=3 * SECOND,
        suspicion=3 * SECOND,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    late = [row.process for row in world.rows if row.kind == "SEND" and moment(row) > 4500 * MILLISECOND]
    assert late.count("p1") >= late.count("p0") - 1 > 0


def rejoining(leave: int) -> Scenario:
    """A client of a controller joins anew, leaves so many milliseconds later, and joins again at once."""
    at = 2 * SECOND + leave * MILLISECOND
    drawn = session(
        servers=1,
        controllers=1,
        duration=3 * SECOND,
        network=Network(latency=5 * MILLISECOND),
        workloads=(Workload(group="g", rate=10.0, size=50),),
        faults=(
            Fault(kind="leave", at=SECOND, members=(1,), group="g"),
            Fault(kind="join", at=2 * SECOND, members=(1,), group="g"),
            Fault(kind="leave", at=at, members=(1,), group="g"),
            Fault(kind="join", at=at + MILLISECOND, members=(1,), group="g"),
        ),
    )
    return replace(drawn, groups=tuple(GroupPlan(name=name, members=(0, 1, 2, 3)) for name in ("g", "h")))


@pytest.mark.parametrize("leave", [11, 15, 18, 19, 20, 21])
def test_a_client_of_a_controller_leaves_while_its_view_is_announced_and_comes_again(leave: int) -> None:
    """It did not come along with anybody, and its other groups have nothing to do with it."""
    world = run_session(rejoining(leave))
    assert not world.monitors.violations
    assert not [row for row in world.rows if row.kind == "JOIN" and row.group == "h" and moment(row) > SECOND]


def test_a_controller_that_drops_out_tells_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Settings] = []

    def settings(given: Settings) -> Settings:
        made.append(given)
        chosen = controller_settings(given)
        return replace(chosen, message_limit_bytes=1000) if len(made) == 2 else chosen

    monkeypatch.setattr(controller, "controller_settings", settings)
    large = Workload(group="g", senders=(1,), rate=20.0, size=5000, start=2 * SECOND, stop=2100 * MILLISECOND)
    drawn = session(servers=1, controllers=2, workloads=(Workload(group="g", rate=10.0, size=50), large))
    world = run_session(drawn)
    assert not world.monitors.violations
    late = [row.process for row in world.rows if isinstance(row, DeliverRow) and moment(row) > 3 * SECOND]
    assert {late.count(name) for name in ("p0", "p1", "p2", "p3")} == {late.count("p0")}
    assert late
    assert world.marks["vs-dismissed"] >= 1


def test_a_newcomer_of_a_weak_group_gets_what_was_sent_in_its_first_view() -> None:
    """It loses all of that view, and the source sends it again in the next, where another one comes."""
    drawn = session(
        members=5,
        servers=1,
        workloads=(Workload(group="g", senders=(0,), rate=200.0, size=50),),
        member_plans=(
            MemberPlan(index=3, joins=2000 * MILLISECOND),
            MemberPlan(index=4, joins=2100 * MILLISECOND),
        ),
        faults=tuple(
            Fault(
                kind="lose",
                at=1900 * MILLISECOND,
                rate=1.0,
                sources=(0,),
                targets=(3,),
                message=kind,
                lasts=280 * MILLISECOND,
            )
            for kind in ("data", "repair")
        ),
        semantics="weak",
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    views = [row.view for row in world.rows if isinstance(row, ViewRow) and row.process == "p3"]
    sent = {row.number for row in world.rows if isinstance(row, SendRow) and row.agreed in views}
    taken = {row.number for row in world.rows if isinstance(row, DeliverRow) and row.process == "p3"}
    assert len(views) == 2
    assert taken == sent


def cut(sources: tuple[int, ...], targets: tuple[int, ...], since: int, until: int) -> Fault:
    lasts = (until - since) * MILLISECOND
    return Fault(kind="one_way", at=since * MILLISECOND, sources=sources, targets=targets, lasts=lasts)


def test_parted_servers_announce_two_views_with_one_number_to_a_client() -> None:
    """The client saw one announced, of servers that died; the server it comes to has it in the other."""
    first, second, third = server(0), server(1), server(2)
    death = 3900
    drawn = session(
        members=8,
        servers=3,
        duration=6 * SECOND,
        network=Network(latency=MILLISECOND),
        workloads=(Workload(group="g", senders=(1, 4, 7), rate=5.0, size=50),),
        member_plans=(MemberPlan(index=7, joins=3100 * MILLISECOND),),
        failover=200 * MILLISECOND,
        suspicion=5 * SECOND,
        faults=(
            cut((first, second), (third,), 1000, 5900),
            cut((third,), (first, second), 1000, 5900),
            cut((second,), (first,), 3700, 5000),
            cut((third,), (1,), 3000, death),
            cut((1,), (third,), 3300, death),
            Fault(kind="crash", at=death * MILLISECOND, members=(first,)),
            Fault(kind="crash", at=death * MILLISECOND, members=(second,)),
        ),
    )
    groups = (GroupPlan(name="g", members=(1, 4, 7)), GroupPlan(name="h", members=(0, 2, 3, 5, 6)))
    world = run_session(replace(drawn, groups=groups))
    assert not world.monitors.violations
    last = {row.process: row.view for row in world.rows if isinstance(row, ViewRow) and row.group == "g"}
    assert len(last) == 3
    assert len(set(last.values())) == 1


@pytest.mark.parametrize("restart", [False, True])
def test_a_client_stays_with_the_controller_that_it_came_to_last(restart: bool) -> None:
    """Its first controller was stopped and has not missed it. It learns of it, or claims it at a server that is new."""
    stopped, only = controller_number(0), server(0)
    again = Fault(kind="crash", at=2500 * MILLISECOND, members=(only,), restart=100 * MILLISECOND)
    drawn = session(
        servers=1,
        controllers=2,
        duration=6 * SECOND,
        workloads=(Workload(group="g", senders=(1,), rate=10.0, size=50),),
        server_timeout=SECOND,
        faults=(
            Fault(kind="pause", at=2 * SECOND, members=(stopped,), lasts=1400 * MILLISECOND),
            cut((stopped,), (0,), 2100, 5000),
            cut((0,), (stopped,), 2100, 5000),
            *((again,) if restart else ()),
        ),
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    mine = [row.kind for row in world.rows if row.process == "p0" and row.kind in ("EXCLUDED", "VIEW")]
    assert mine.count("EXCLUDED") == 1
    assert mine[-1] == "VIEW"
    assert world.marks["vs-claim-overruled"] == 1


def test_what_clients_sent_leaves_their_controller_before_the_view_ends() -> None:
    """The windows of controllers are full when others have said their cuts and take no more."""
    drawn = session(
        members=6,
        servers=1,
        controllers=3,
        duration=5 * SECOND,
        network=Network(latency=20 * MILLISECOND),
        workloads=(Workload(group="g", rate=60.0, size=2000),),
        window_bytes=8192,
        faults=tuple(
            Fault(kind=kind, at=(2000 + 200 * number) * MILLISECOND, members=(5,))
            for number, kind in enumerate(("leave", "join", "leave", "join"))
        ),
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    assert not [row for row in world.rows if row.kind == "EXCLUDED"]


def test_clients_get_one_view_when_their_controllers_come_and_go() -> None:
    """A controller comes with its first client and goes with its last; the view that changes nothing is left out."""
    plans = tuple(MemberPlan(index=index, joins=2 * SECOND, leaves=4 * SECOND) for index in (1, 3))
    drawn = session(
        members=5,
        servers=2,
        controllers=2,
        duration=6 * SECOND,
        workloads=(Workload(group="g", rate=10.0, size=50),),
        member_plans=plans,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    seen: dict[str, list[list[str]]] = {}
    for row in world.rows:
        if isinstance(row, ViewRow):
            seen.setdefault(row.process, []).append([start.source for start in row.start])
    assert seen["p0"][-1] == ["p0", "p2", "p4"]
    for views in seen.values():
        assert all(earlier != later for earlier, later in pairwise(views))


def test_nobody_is_accused_between_two_keep_alives() -> None:
    drawn = session(
        members=3,
        servers=1,
        duration=12 * SECOND,
        workloads=(Workload(group="g", senders=(0,), rate=0.1, size=50),),
        keep_alive=2 * SECOND,
        suspicion=SECOND,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    assert not [row for row in world.rows if row.kind == "SUSPECT"]


@pytest.mark.parametrize("failures", range(4))
def test_a_client_knows_which_server_it_is_with(failures: int) -> None:
    place, now = Address("10.0.0.1:7500"), 0
    link = ServerLink(ProcessId("ada", 1), (place,), Settings(), Random(1), 1, list)
    link.start(now)
    for number in range(1, failures + 1):
        link.handle(ChannelFailed(Channel(number), "refused"), now)
        due = link.deadline()
        assert due is not None
        now = due
        link.on_time(now)
    channel = Channel(failures + 1)
    link.handle(ChannelOpened(channel, place, accepted=False), now)
    welcome = Welcome(ProcessId("tom", 1), ("10.0.0.2:7500", "10.0.0.3:7500"))
    link.handle(FrameReceived(channel, write_server_frame(welcome)), now)
    assert link.news == [Moved(place)]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_change_does_not_wait_for_who_died_with_a_server_until_failover_is_over(lost: int) -> None:
    """The servers keep the dead client, so that the change needs its cut; the members miss it, and say so."""
    death, comes = 2 * SECOND, 2300 * MILLISECOND
    drawn = session(
        workloads=(Workload(group="g", rate=20.0, size=50),),
        member_plans=(MemberPlan(index=3, joins=comes),),
        faults=(Fault(kind="crash", at=death, members=(server(lost), 1)),),
        failover=8 * SECOND,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    views = [row for row in world.rows if isinstance(row, ViewRow) and moment(row) > death]
    together = [moment(row) for row in views if {one.source for one in row.start} == {"p0", "p2", "p3"}]
    assert len(together) == 3
    assert max(together) < death + 2 * Settings().suspicion
    gone = {one.reason for row in views if row.process != "p3" for one in row.reasons if one.process == "p1"}
    assert gone == {"suspected"}
