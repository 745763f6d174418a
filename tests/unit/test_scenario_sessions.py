"""Scenario files of virtual synchrony: servers and controllers by name, what is refused, and what is drawn."""

from __future__ import annotations

from collections import Counter

import pytest

from unisono.errors import ScenarioError
from unisono.marks import SESSION_MARKS
from unisono.simulation.campaign import every_mark
from unisono.simulation.cast import Cast, cast_of, controller, kind_of, name_of, read_name, server
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.scenario import Fault, Scenario, When
from unisono.simulation.scenario_checks import check
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.scenario_keys import (
    DRAWN_SESSION_KINDS,
    DRAWN_SESSION_MESSAGES,
    OF_APPLICATIONS,
    ONLY_INTERGROUP,
)
from unisono.simulation.scenario_text import write_scenario
from unisono.trials.loopback import refuse_what_needs_a_network
from unisono.trials.trial import refuse_what_cannot_be_made, run_trial
from unisono.units import SECOND

HEAD = 'name = "x"\nprotocol = "virtual_synchrony"\n'
WHOLE = (
    HEAD
    + """
members = [2, 4]
servers = 2
controllers = [1, 3]

[[fault]]
at = "1s"
kind = "partition"
groups = [[0, "server:0"], [1, "server:1", "controller:0"]]

[[fault]]
at = "2s"
kind = "one_way"
from = ["server:0", 1]
to = "server:1"

[[fault]]
when = {kind = "CUT", member = "server:1", count = 2}
kind = "crash"
member = "controller:2"
restart = "1s"

[[fault]]
at = "3s"
kind = "stop_answering"
member = [0, 1]
lasts = "2s"
"""
)


def test_servers_and_controllers_are_named() -> None:
    scenario = read_scenario(WHOLE)
    assert (scenario.servers, scenario.controllers) == (2, (1, 3))
    assert scenario.faults == (
        Fault(kind="partition", at=SECOND, groups=((0, server(0)), (1, server(1), controller(0)))),
        Fault(kind="one_way", at=2 * SECOND, sources=(server(0), 1), targets=(server(1),)),
        Fault(
            kind="crash",
            when=When(kind="CUT", member=server(1), count=2),
            members=(controller(2),),
            restart=SECOND,
        ),
        Fault(kind="stop_answering", at=3 * SECOND, members=(0, 1), lasts=2 * SECOND),
    )
    text = write_scenario(scenario)
    assert read_scenario(text) == scenario
    assert 'groups = [[0, "server:0"], [1, "server:1", "controller:0"]]' in text
    assert 'when = {kind = "CUT", member = "server:1", count = 2}' in text


def test_there_are_three_servers_where_a_session_does_not_say() -> None:
    assert read_scenario(HEAD).servers == 3
    assert read_scenario(HEAD).controllers == 0
    assert read_scenario('name = "x"').servers == 0


def test_a_change_may_name_a_server() -> None:
    changes = ["servers=[1, 2]", 'fault[0].member="server:1"', "fault[0].restart=3s"]
    scenario = read_scenario(HEAD + '[[fault]]\nat = "1s"\nkind = "crash"\nmember = 0', overrides=changes)
    assert scenario.servers == (1, 2)
    assert scenario.faults[0].members == (server(1),)


FAULT = HEAD + '[[fault]]\nat = "1s"\n'
BAD: list[tuple[str, str, int | None, str]] = [
    (HEAD + "servers = 0", "servers", 3, "at least one membership server"),
    (HEAD + "servers = [0, 2]", "servers", 3, "at least one membership server"),
    (HEAD + "servers = 65", "servers", 3, "a whole number from 0 to 64"),
    (HEAD + "servers = [3, 1]", "servers", 3, "the lowest before the highest"),
    (HEAD + "controllers = -1", "controllers", 3, "a whole number from 0 to 256"),
    (HEAD + "state = 100", "state", 3, 'only protocol = "intergroup" hands states over'),
    (HEAD + "[[workload]]\nproxy = true", "workload[0].proxy", 4, "sends for others"),
    (HEAD + '[[churn]]\nof = "roles"\nrate = 1\nstay = "1s"', "churn[0].of", 4, "has roles"),
    (FAULT + 'kind = "become_receiver"\nmember = 0', "fault[0].kind", 5, 'only protocol = "intergroup" has'),
    (FAULT + 'kind = "crash"\nmember = "server:3"', "fault[0].member", 6, "servers are server:0 to server:2"),
    (FAULT + 'kind = "crash"\nmember = "controller:0"', "fault[0].member", 6, "there are no controllers"),
    (FAULT + 'kind = "crash"\nmember = ["server:0", "server:0"]', "fault[0].member", 6, '"server:0" is listed twice'),
    (FAULT + 'kind = "crash"\nmember = "server:00"', "fault[0].member", 6, 'a name such as "server:0"'),
    (FAULT + 'kind = "crash"\nmember = 3', "fault[0].member", 6, "there is no member 3; members are 0 to 2"),
    (FAULT + 'kind = "leave"\nmember = [0, "server:0"]', "fault[0].member", 6, "server:0 has no application"),
    (FAULT + 'kind = "stop_answering"\nmember = "server:1"', "fault[0].member", 6, "server:1 has no application"),
    (FAULT + 'kind = "partition"\ngroups = [[0], ["server:7"]]', "fault[0].groups", 6, "there is no server:7"),
    (FAULT + 'kind = "one_way"\nfrom = 0\nto = "server:4"', "fault[0].to", 7, "there is no server:4"),
    (
        HEAD + '[[fault]]\nkind = "pause"\nmember = 0\nwhen = {kind = "CUT", member = "server:9"}',
        "fault[0].when.member",
        6,
        "there is no server:9",
    ),
    (HEAD + '[[group]]\nname = "g"\nmembers = [0, "server:0"]', "group[0].members", 5, "is in no group"),
    (HEAD + '[[workload]]\nsenders = ["server:0"]', "workload[0].senders", 4, "sends nothing"),
    (HEAD + '[[member]]\nindex = "server:0"', "member[0].index", 4, "by its index"),
    (HEAD + '[random]\nkinds = ["change"]', "random.kinds", 4, 'only protocol = "intergroup" has'),
    ('name = "x"\n[random]\nkinds = ["stop_answering"]', "random.kinds", 3, 'only protocol = "virtual_synchrony" has'),
]


@pytest.mark.parametrize(("text", "path", "line", "words"), BAD)
def test_what_is_wrong_is_named(text: str, path: str, line: int | None, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_scenario(text, "a.toml")
    assert (caught.value.path, caught.value.line) == (path, line)
    assert words in caught.value.expected


def test_a_smaller_draw_leaves_out_who_is_not_there() -> None:
    scenario = read_scenario(WHOLE)
    drawn = {(one.members, one.controllers): one for one in (draw(scenario, seed) for seed in range(60))}
    assert set(drawn) == {(members, controllers) for members in (2, 3, 4) for controllers in (1, 2, 3)}
    assert [fault.kind for fault in drawn[2, 1].faults] == ["partition", "one_way", "stop_answering"]
    assert [fault.kind for fault in drawn[2, 3].faults] == ["partition", "one_way", "crash", "stop_answering"]
    for one in drawn.values():
        check(one)


def test_names_and_numbers() -> None:
    cast = Cast(4, 3, 2)
    names = [name_of(who) for who in cast.everybody()]
    assert names == ["0", "1", "2", "3", "server:0", "server:1", "server:2", "controller:0", "controller:1"]
    assert [cast.machine(who) for who in cast.everybody()] == list(range(9))
    assert [cast.process_name(machine) for machine in (0, 3, 4, 8)] == ["p0", "p3", "server:0", "controller:1"]
    assert [read_name(name) for name in names[4:]] == list(cast.everybody()[4:])
    assert not any(map(cast.has, (4, server(3), controller(2))))


def test_a_partition_leaves_servers_between_the_sides_unless_it_names_them() -> None:
    cast = Cast(4, 2, 1)
    fault = Fault(kind="partition", groups=((0, 1, server(1)), (2, 3)))
    assert cast.on_machines(fault).groups == ((0, 1, 5, 4, 6), (2, 3, 4, 6))
    assert Cast(4).on_machines(Fault(kind="partition", groups=((0, 1), (2,)))).groups == ((0, 1), (2,))


CHAOS = load("vs-chaos")


def drawn_chaos(count: int) -> list[Scenario]:
    return [draw(CHAOS, seed) for seed in range(count)]


def test_drawn_faults_are_those_of_sessions_and_hit_servers_too() -> None:
    kinds: Counter[str] = Counter()
    hit: dict[str, set[str]] = {}
    singled_out: set[str | None] = {None}
    for scenario in drawn_chaos(500):
        assert read_scenario(write_scenario(scenario)) == scenario
        assert draw(scenario, scenario.seed or 0) == scenario
        cast = cast_of(scenario)
        gone: Counter[str] = Counter()
        for fault in scenario.faults:
            kinds[fault.kind] += 1
            singled_out.add(fault.message)
            named = (*fault.members, *fault.sources, *fault.targets, *(who for group in fault.groups for who in group))
            hit.setdefault(fault.kind, set()).update(map(kind_of, named))
            if fault.kind == "crash" and fault.restart is None:
                gone.update(map(kind_of, fault.members))
        assert gone["server"] < cast.servers
        assert gone["controller"] <= max(0, cast.controllers - 1)
        assert gone["member"] <= (cast.members - 1) // 2
    assert set(kinds) == {*DRAWN_SESSION_KINDS, "join"}
    assert not set(kinds) & set(ONLY_INTERGROUP)
    assert singled_out == {None, *DRAWN_SESSION_MESSAGES}
    for kind, who in hit.items():
        assert who <= ({"member"} if kind in OF_APPLICATIONS else {"member", "server", "controller"}), kind
    for kind in ("crash", "pause", "slow", "isolate", "partition", "one_way", "clock_step", "disk", "limit"):
        assert hit[kind] == {"member", "server", "controller"}, kind


def test_a_fourth_of_the_seeds_has_controllers() -> None:
    drawn = Counter(scenario.controllers for scenario in drawn_chaos(500))
    assert set(drawn) == {0, 1, 2, 3}
    assert 100 < sum(count for controllers, count in drawn.items() if controllers) < 150
    assert read_scenario(write_scenario(CHAOS)) == CHAOS


@pytest.mark.parametrize("controllers", ["[3, 1]", "[0, 1, 2000]", "[]", '["a", 1, 2]'])
def test_controllers_to_choose_from_are_numbers(controllers: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        load("vs-chaos", (f"controllers={controllers}",))
    assert refused.value.path == "controllers"


def test_all_marks_of_a_session_are_its_own() -> None:
    assert every_mark(CHAOS) == tuple(SESSION_MARKS)
    assert not set(every_mark(load("chaos"))) & set(SESSION_MARKS)


def test_what_only_a_simulator_can_do_to_a_session_is_refused_on_real_processes() -> None:
    for name in ("vs-servers", "vs-optimistic", "vs-large-1000"):
        refuse_what_cannot_be_made(draw(load(name), 0))
    with pytest.raises(ScenarioError) as refused:
        refuse_what_cannot_be_made(draw(load("vs-forwarder-crash"), 0))
    assert refused.value.path == "fault[2].when"
    with pytest.raises(ScenarioError) as refused:
        refuse_what_needs_a_network(
            draw(load("vs-servers", ['fault=[{at = "1s", kind = "isolate", member = "server:0"}]']), 0)
        )
    assert refused.value.path == "fault[0].kind"
    with pytest.raises(ScenarioError, match="1013 namespaces") as refused:
        run_trial(draw(load("vs-large-1000"), 0))
    assert refused.value.path == "members"
