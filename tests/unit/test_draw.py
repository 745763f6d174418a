"""Draws: every choice comes from the seed, and a drawn scenario written out is the same scenario."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from unisono.errors import ScenarioError
from unisono.simulation.draw import draw
from unisono.simulation.library import builtin_names, load
from unisono.simulation.partitions import draw_groups
from unisono.simulation.scenario import Scenario
from unisono.simulation.scenario_checks import check
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.scenario_keys import (
    DISK_FAULTS,
    DRAWN_MESSAGES,
    DRAWN_SITUATIONS,
    FAULTS,
    ONLY_SESSIONS,
    SHAPES,
)
from unisono.simulation.scenario_text import write_scenario
from unisono.simulation.streams import stream
from unisono.units import MILLISECOND, SECOND

CHAOS = load("chaos")


@pytest.mark.parametrize("name", builtin_names())
def test_every_scenario_reads_and_draws(name: str) -> None:
    scenario = load(name)
    assert scenario.name == name
    assert scenario.says.endswith(".")
    assert read_scenario(write_scenario(scenario)) == scenario
    for seed in range(20):
        check(draw(scenario, seed))


@pytest.mark.parametrize("seed", range(51))
def test_an_explained_scenario_draws_to_itself(seed: int) -> None:
    drawn = draw(CHAOS, seed)
    assert drawn.random is None
    assert drawn.seed == seed
    assert isinstance(drawn.members, int)
    assert not any(isinstance(value, list) for value in drawn.options.values())
    again = read_scenario(write_scenario(drawn))
    assert again == drawn
    assert draw(again, seed) == drawn
    assert draw(CHAOS, seed) == drawn


def test_draws_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "from unisono.simulation.draw import draw\n"
        "from unisono.simulation.library import load\n"
        "from unisono.simulation.scenario_text import write_scenario\n"
        "for seed in range(20): print(write_scenario(draw(load('chaos'), seed)))\n"
    )
    texts = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        texts.append(done.stdout)
    assert texts[0] == texts[1]
    assert texts[0].count('name = "chaos"') == 20


def test_streams_are_separate_and_stable() -> None:
    assert stream(1, "a").random() == stream(1, "a").random()
    assert len({stream(seed, name).random() for seed in (1, 2) for name in ("a", "b")}) == 4
    assert stream(7, "members").randint(0, 10**6) == 415670


def drawn_chaos(count: int) -> list[Scenario]:
    return [draw(CHAOS, seed) for seed in range(count)]


def test_faults_keep_within_their_bounds() -> None:
    kinds: Counter[str] = Counter()
    damages: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    singled_out: set[str | None] = {None}
    everybody = 0
    for scenario in drawn_chaos(600):
        assert isinstance(scenario.members, int)
        sizes[scenario.members] += 1
        gone: set[int] = set()
        for fault in scenario.faults:
            kinds[fault.kind] += 1
            singled_out.add(fault.message)
            assert fault.at is not None
            assert fault.lasts is None or (isinstance(fault.lasts, int) and fault.at + fault.lasts <= scenario.duration)
            assert (fault.lasts is not None) == FAULTS[fault.kind].lasting
            assert fault.at % MILLISECOND == 0
            if fault.kind == "crash":
                everybody += len(fault.members) == scenario.members
                if fault.restart is None:
                    gone.update(fault.members)
                else:
                    assert fault.at + fault.restart <= scenario.duration
            if fault.kind == "disk":
                assert fault.what is not None
                damages[fault.what] += 1
                after = [other for other in scenario.faults if other.kind == "crash" and (other.at or 0) > fault.at]
                assert any(other.members == fault.members and other.restart is not None for other in after)
            if fault.kind == "leave":
                back = [other for other in scenario.faults if other.kind == "join" and other.members == fault.members]
                assert any((other.at or 0) > fault.at for other in back)
            if fault.kind == "oversize":
                assert fault.above is not None
                assert 300 <= fault.above <= 1472
        assert len(gone) <= (scenario.members - 1) // 2
    assert set(kinds) == set(FAULTS) - {"count_audience", *ONLY_SESSIONS}  # counting is no fault
    assert set(damages) == set(DISK_FAULTS)
    assert singled_out == {None, *DRAWN_MESSAGES}
    assert set(sizes) == set(range(3, 17))
    assert everybody > 0


@pytest.mark.parametrize("situation", DRAWN_SITUATIONS)
def test_a_situation_is_faults_that_belong_together(situation: str) -> None:
    scenario = load("chaos", (f'kinds=["{situation}"]', "count=1"))
    drawn = [draw(scenario, seed).faults for seed in range(60)]
    first = SITUATIONS[situation]
    assert {tuple(fault.kind for fault in faults) for faults in drawn} == first
    for faults in drawn:
        moments = [fault.at or 0 for fault in faults]
        assert moments == sorted(moments)


SITUATIONS = {
    "send_and_leave": {("send", "leave", "join")},
    "come_and_crash": {("leave", "join", "crash"), ("become_receiver", "become_sender", "crash")},
    "set_back": {("clock_step", "crash")},
    "begin_unheard": {
        ("become_receiver", link, "become_sender", "send", *then)
        for link in ("partition", "one_way")
        for then in ((), ("crash",), ("become_sender",))
    },
    "narrow": {("oversize", "send")},
}


def test_who_leaves_right_after_its_send_does_so_at_the_same_moment() -> None:
    scenario = load("chaos", ('kinds=["send_and_leave"]', "count=1"))
    for seed in range(30):
        send, leave, join = draw(scenario, seed).faults
        assert send.at == leave.at
        assert send.members == leave.members == join.members


def test_a_link_breaks_between_one_that_begins_to_send_and_another() -> None:
    scenario = load("chaos", ('kinds=["begin_unheard"]', "count=1"))
    for seed in range(60):
        stops, link, begins, *_ = draw(scenario, seed).faults
        one, other = stops.members
        assert set(begins.members) <= {one, other}
        if link.kind == "partition":
            assert not any(one in group and other in group for group in link.groups)
        else:
            assert {*link.sources, *link.targets} == {one, other}
        assert (stops.at or 0) < (link.at or 0) < (begins.at or 0)


def test_every_shape_of_a_list_is_drawn_with_what_it_means() -> None:
    found = {draw(CHAOS, seed).network for seed in range(60)}
    assert {network.shape for network in found} == {"lan", "star", "wan", "world"}
    for network in found:
        assert not isinstance(network.shape, tuple)
        means = SHAPES[network.shape]
        assert {key: getattr(network, key) for key in means} == means
        assert network.loss == 0.005


def test_lives_of_one_member_do_not_overlap() -> None:
    for scenario in drawn_chaos(300):
        spans: dict[int, list[tuple[int, int]]] = {}
        for fault in scenario.faults:
            if fault.kind == "crash" and fault.at is not None:
                end = scenario.duration if fault.restart is None else fault.at + fault.restart
                for member in fault.members:
                    spans.setdefault(member, []).append((fault.at, end))
        for taken in spans.values():
            ordered = sorted(taken)
            assert all(first[1] < second[0] for first, second in pairwise(ordered))


@pytest.mark.parametrize("members", range(2, 10))
def test_partitions_split_everybody(members: int) -> None:
    for seed in range(60):
        groups = draw_groups(stream(seed, "groups"), members)
        assert len(groups) >= 2
        assert all(groups)
        assert {member for group in groups for member in group} == set(range(members))
        together = {(a, b) for group in groups for a in group for b in group}
        assert len(together) < members * members, "somebody no longer hears somebody"


def test_a_smaller_draw_leaves_out_who_is_not_there() -> None:
    text = """
name = "x"
members = [2, 4]
[[group]]
name = "g"
members = [0, 1, 3]
[[workload]]
senders = [0, 3]
[[workload]]
senders = [3]
[[member]]
index = 3
[[fault]]
at = "1s"
kind = "crash"
member = [1, 3]
[[fault]]
at = "1s"
kind = "lose"
rate = 1
from = 3
[[fault]]
at = "1s"
kind = "partition"
groups = [[0, 1], [2, 3]]
[[fault]]
when = {kind = "VIEW", member = 3}
kind = "pause"
member = 0
"""
    scenario = read_scenario(text)
    by_size = {drawn.members: drawn for drawn in (draw(scenario, seed) for seed in range(40))}
    assert set(by_size) == {2, 3, 4}
    smallest = by_size[2]
    assert smallest.groups[0].members == (0, 1)
    assert [workload.senders for workload in smallest.workloads] == [(0,)]
    assert smallest.member_plans == ()
    assert [(fault.kind, fault.members) for fault in smallest.faults] == [("crash", (1,))]
    assert [fault.kind for fault in by_size[3].faults] == ["crash", "partition"]
    assert len(by_size[4].faults) == 4
    for drawn in by_size.values():
        check(drawn)


def test_one_member_and_a_short_run_can_still_be_drawn() -> None:
    for duration in ("1ns", "1us", "50ms"):
        scenario = read_scenario(f'name = "x"\nmembers = 1\nduration = "{duration}"\n[random]\ncount = 9')
        for seed in range(100):
            drawn = draw(scenario, seed)
            assert read_scenario(write_scenario(drawn)) == drawn


def test_a_member_draws_its_own_options() -> None:
    text = 'name = "x"\n[[member]]\nindex = 1\nservice = ["source", "unordered"]\noptions = {keep_alive = ["1s", "2s"]}'
    plans = [draw(read_scenario(text), seed).member_plans[0].options for seed in range(30)]
    assert {plan["service"] for plan in plans} == {"source", "unordered"}
    assert {plan["keep_alive"] for plan in plans} == {SECOND, 2 * SECOND}


CHURN = read_scenario(
    """
    name = "churn"
    members = 20
    duration = "10s"
    options = {role = "receiver"}
    member = [{index = 0, role = "sender"}]
    churn = [{rate = 8, stay = ["200ms", "900ms"], start = "1s", stop = "9s"}]
    """
)


@pytest.mark.parametrize("seed", range(5))
def test_members_come_and_go_in_turn(seed: int) -> None:
    drawn = draw(CHURN, seed)
    check(drawn)
    assert drawn.churns == ()
    assert read_scenario(write_scenario(drawn)) == drawn
    assert draw(drawn, seed) == drawn
    joins = {plan.index: plan.joins for plan in drawn.member_plans if plan.index}
    assert sorted(joins) == list(range(1, 20))
    assert min(joins.values()) >= SECOND
    turns = Counter(fault.kind for fault in drawn.faults)
    assert turns["join"] + len(joins) == 64
    for member, first in joins.items():
        moments = [(first, "join")]
        moments += [(fault.at or 0, fault.kind) for fault in drawn.faults if fault.members == (member,)]
        assert moments == sorted(moments)
        for (earlier, did), (later, does) in pairwise(moments):
            assert {did, does} == {"join", "leave"}
            assert did == "leave" or 200 * MILLISECOND - 1000 <= later - earlier <= 900 * MILLISECOND
        assert moments[-1][0] < 9 * SECOND


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ("churn[0].rate=2", "churn[0].rate"),
        ("churn[0].stay=3s", "churn[0].members"),
        ("churn[0].members=[3, 99]", "churn[0].members"),
        ("churn[0].stop=500ms", "churn[0].stop"),
        ("options.role=sender", "churn[0].members"),
    ],
)
def test_a_churn_that_cannot_be_is_refused(change: str, path: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read_scenario(write_scenario(CHURN), overrides=[change])
    assert refused.value.path == path
