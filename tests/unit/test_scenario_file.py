"""Scenario files: what is written reads back, and what is wrong is named with its key, line and expectation."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.errors import ScenarioError
from unisono.settings import SERVICE_CODES
from unisono.simulation.locator import locate
from unisono.simulation.scenario import (
    Burst,
    Fault,
    GroupPlan,
    MemberPlan,
    Network,
    RandomFaults,
    Scenario,
    When,
    Workload,
)
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.scenario_keys import (
    DISK_FAULTS,
    DRAWN_KINDS,
    FAULTS,
    MESSAGES,
    ONLY_SESSIONS,
    SHAPES,
    TRACE_KINDS,
    fault_field,
)
from unisono.simulation.scenario_text import write_scenario
from unisono.simulation.scenario_values import write_duration
from unisono.units import MILLISECOND, SECOND, parse_duration

WHOLE = """
name = "whole"
says = "Every table once."
seed = 7
members = 5
sites = 2
duration = "30s"
settle = "20s"

[options]
keep_alive = ["100ms", "200ms"]
sources = ["a", "b"]

[network]
shape = "wan"
latency = ["1ms", "20ms"]
burst = {every = "5s", packets = 50}

[[group]]
name = "h"
members = [0, 1, 2]

[[workload]]
senders = [0, 1]
rate = "max"
size = [100, "10KiB"]

[[member]]
index = 3
service = "unordered"
options = {keep_alive = "100ms"}

[[fault]]
at = "10s"
kind = "partition"
groups = [[0, 1, 2], [2, 3, 4]]
lasts = "forever"
flaps = "1s"

[[fault]]
kind = "clock_drift"
members = [1, 2]
by = "500ppm"

[fault.when]
kind = "VIEW"
member = 0
count = 2

[random]
count = 3
kinds = ["crash", "lose"]
"""


def test_a_whole_file() -> None:
    scenario = read_scenario(WHOLE)
    assert scenario.options == {"keep_alive": [100 * MILLISECOND, 200 * MILLISECOND], "sources": ("a", "b")}
    assert scenario.network == Network(
        shape="wan",
        latency=(MILLISECOND, 20 * MILLISECOND),
        jitter=2 * MILLISECOND,
        hops=6,
        burst=Burst(every=5 * SECOND, packets=50),
    )
    assert scenario.workloads == (Workload(group="h", senders=(0, 1), rate="max", size=(100, 10240)),)
    assert scenario.member_plans[0].options == {"service": "unordered", "keep_alive": 100 * MILLISECOND}
    assert scenario.faults[1] == Fault(
        kind="clock_drift", members=(1, 2), by=0.0005, when=When(kind="VIEW", member=0, count=2)
    )
    assert scenario.random == RandomFaults(count=(3, 3), kinds=("crash", "lose"))
    assert read_scenario(write_scenario(scenario)) == scenario


def test_a_shape_gives_what_the_file_does_not_say() -> None:
    text = 'name = "x"\n[network]\nshape = "sites"\njitter = "1ms"'
    network = read_scenario(text).network
    assert network.latency == SHAPES["sites"]["latency"]
    assert network.site_latency == SHAPES["sites"]["site_latency"]
    assert network.jitter == MILLISECOND
    assert read_scenario('name = "x"').network.latency == SHAPES["lan"]["latency"]


def test_certain_packets_need_no_rate() -> None:
    text = 'name = "x"\n[[fault]]\nat = "1s"\nkind = "lose"\nmessage = "data"\ncount = 1'
    assert read_scenario(text).faults[0].rate == 1.0


FAULT = 'name = "x"\nmembers = 3\n[[fault]]\nat = "1s"\n'
BAD: list[tuple[str, str, int | None, str]] = [
    ("name = \n", "", 1, "not valid TOML: invalid value"),
    ('name = "x"\n[network', "", 2, "not valid TOML"),
    ('name = "x"\nname = "y"\n', "", 2, "not valid TOML: cannot overwrite a value"),
    ("x = " + "[" * 10_000, "", None, "nested too deeply"),
    ("members = 3", "name", None, "missing"),
    ('name = ""', "name", 1, "cannot be empty"),
    ('name = "x"\nmembres = 3', "membres", 2, 'unknown key; did you mean "members"?'),
    ('name = "x"\nwhatever = 3', "whatever", 2, "unknown key; expected one of name, says"),
    ('name = "x"\nprotocol = "replication"', "protocol", 2, "protocol 'replication' is not offered yet"),
    ('name = "x"\nprotocol = "intergruop"', "protocol", 2, 'did you mean "intergroup"?'),
    ('name = "x"\nservers = 3', "servers", 2, 'only protocol = "virtual_synchrony" has servers'),
    ('name = "x"\ncontrollers = 1', "controllers", 2, 'only protocol = "virtual_synchrony" has controllers'),
    ('name = "x"\nmembers = 0', "members", 2, "expected a whole number from 1 to 1024, got 0"),
    ('name = "x"\nmembers = true', "members", 2, "got true"),
    ('name = "x"\nmembers = [8, 3]', "members", 2, "the lowest before the highest"),
    ('name = "x"\nmembers = [3]', "members", 2, "one value or [lowest, highest]"),
    ('name = "x"\nduration = 30', "duration", 2, 'expected a time with a unit such as "200ms", got 30'),
    ('name = "x"\nduration = "30"', "duration", 2, "with a unit"),
    ('name = "x"\nduration = "-3s"', "duration", 2, "above 0"),
    ('name = "x"\nsettle = "-3s"', "settle", 2, "not negative"),
    ('name = "x"\nseed = -1', "seed", 2, "from 0 on"),
    ('name = "x"\nexpect = "held!"', "expect", 2, 'expected "held" or one of W1'),
    ('name = "x"\nmarks = ["gpa"]', "marks", 2, 'did you mean "gap"?'),
    ('name = "x"\noptions = 3', "options", 2, "expected a table, got 3"),
    ('name = "x"\n[options]\nkeepalive = "1s"', "options.keepalive", 3, 'did you mean "keep_alive"?'),
    ('name = "x"\n[options]\nkeep_alive = 5', "options.keep_alive", 3, "expected a duration with a unit"),
    ('name = "x"\n[options]\nkeep_alive = ["1s", "9h"]', "options.keep_alive", 3, "expected 1ms to 1min"),
    ('name = "x"\n[options]\nkeep_alive = []', "options.keep_alive", 3, "a list of values to draw from"),
    ('name = "x"\noptions.service = "fifo"', "options.service", 2, "got 'fifo'"),
    ('name = "x"\n[options]\n\nsecure = true', "options.secure", 4, "not offered yet"),
    ('name = "x"\n[network]\nloss = 1.5', "network.loss", 3, "expected a rate from 0 to 1, got 1.5"),
    ('name = "x"\n[network]\nloss = nan', "network.loss", 3, "a rate from 0 to 1"),
    ('name = "x"\n[network]\nlatency = ["1ms", "x"]', "network.latency", 3, "a time with a unit"),
    ('name = "x"\n[network]\nbandwidth = 100', "network.bandwidth", 3, 'such as "10Mbit"'),
    ('name = "x"\n[network]\nshape = "lam"', "network.shape", 3, 'did you mean "lan"?'),
    ('name = "x"\n[network]\nshape = []', "network.shape", 3, "a list of values to draw from"),
    ('name = "x"\n[network]\nshape = ["lan", "wan"]\njitter = "1ms"', "network.jitter", 4, "a shape that is drawn"),
    ('name = "x"\n[network]\nburst = {every = "1s"}', "network.burst.packets", 3, "missing"),
    ('name = "x"\n[network.burst]\nevery = "1s"\npackets = 0', "network.burst.packets", 4, "from 1 on"),
    ('name = "x"\n[group]\nname = "g"', "group", 2, "tables that begin with [[group]]"),
    ('name = "x"\n[[group]]\nname = "g"\nmembers = [0, 3]', "group[0].members", 4, "there is no member 3"),
    ('name = "x"\n[[group]]\nname = "g"\nmembers = [0, 0]', "group[0].members", 4, "0 is listed twice"),
    (
        'name = "x"\n[[group]]\nname = "g"\nmembers = [0]\n[[group]]\nname = "g"\nmembers = [1]',
        "group[1].name",
        6,
        "another group is called 'g'",
    ),
    (
        'name = "x"\nmembers = [2, 5]\n[[group]]\nname = "g"\nmembers = [3, 4]',
        "group[0].members",
        5,
        "when only 2 members are drawn",
    ),
    ('name = "x"\n[[workload]]\n[[workload]]\nrate = 0', "workload[1].rate", 4, "messages a second above 0"),
    ('name = "x"\n[[workload]]\ngroup = "h"', "workload[0].group", 3, "unknown group 'h'; expected one of g"),
    (
        'name = "x"\n[[workload]]\n[[group]]\nname="a"\nmembers=[0]\n[[group]]\nname="b"\nmembers=[1]',
        "workload[0].group",
        2,
        "missing; expected one of a, b",
    ),
    (
        'name = "x"\n[[group]]\nname="a"\nmembers=[0]\n[[workload]]\nsenders = [1]',
        "workload[0].senders",
        6,
        "member 1 is not in group 'a'",
    ),
    ('name = "x"\n[[workload]]\nstart = "5s"\nstop = "4s"', "workload[0].stop", 4, "after the start, 5s"),
    ('name = "x"\n[[workload]]\nstop = "11s"', "workload[0].stop", 3, "within the duration, 10s, got 11s"),
    ('name = "x"\n[[workload]]\nsenders = "some"', "workload[0].senders", 3, "expected a list"),
    ('name = "x"\n[[member]]\njoins = "1s"', "member[0].index", 2, "missing"),
    ('name = "x"\n[[member]]\nindex = 3', "member[0].index", 3, "there is no member 3; members are 0 to 2"),
    ('name = "x"\n[[member]]\nindex = 1\nrole = "listener"', "member[0].role", 4, "got 'listener'"),
    ('name = "x"\n[[member]]\nindex = 1\njoins = "2s"\nleaves = "1s"', "member[0].leaves", 5, "after it joins, 2s"),
    ('name = "x"\n[[member]]\nindex = 1\n[[member]]\nindex = 1', "member[1].index", 5, "has a table already"),
    ('name = "x"\n[[member]]\nindex = 1\nservice = "frames"', "member[0].service", 4, "got 'frames'"),
    (
        'name = "x"\n[[member]]\nindex = 1\noptions = {\tkeep_alive = "1y"}',
        "member[0].options.keep_alive",
        4,
        "expected a number with a unit",
    ),
    (FAULT, "fault[0].kind", 3, "missing; expected one of partition"),
    (FAULT + 'kind = "crush"', "fault[0].kind", 5, 'did you mean "crash"?'),
    (FAULT + 'kind = "absent"', "fault[0].kind", 5, "fault 'absent' is not offered yet"),
    (FAULT + 'kind = "stop_answering"\nmember = 0', "fault[0].kind", 5, 'only protocol = "virtual_synchrony"'),
    (FAULT + 'kind = "partition"', "fault[0].groups", 3, "missing; partition needs groups"),
    (FAULT + 'kind = "partition"\ngroups = [[0, 1, 2]]', "fault[0].groups", 6, "a list of at least 2"),
    (FAULT + 'kind = "partition"\ngroups = [[0], []]', "fault[0].groups", 6, "not empty"),
    (FAULT + 'kind = "partition"\ngroups = [\n[0],\n[3]]', "fault[0].groups", 6, "there is no member 3"),
    (FAULT + 'kind = "partition"\ngruops = [[0], [1]]', "fault[0].gruops", 6, 'did you mean "groups"?'),
    (FAULT + 'kind = "crash"\nmember = 0\nlasts = "1s"', "fault[0].lasts", 7, "unknown key"),
    (FAULT + 'kind = "crash"\nmember = "server:0"', "fault[0].member", 6, "no server:0; there are no servers"),
    (FAULT + 'kind = "crash"\nmember = "sever:0"', "fault[0].member", 6, 'a name such as "server:0"'),
    (FAULT + 'kind = "crash"\nmember = 100000', "fault[0].member", 6, "there is no member 100000"),
    (FAULT + 'kind = "crash"\nmembers = [7]', "fault[0].members", 6, "there is no member 7"),
    (FAULT + 'kind = "crash"\nmember = 7', "fault[0].member", 6, "there is no member 7"),
    (FAULT + 'kind = "crash"\nmember = 0\nmembers = [1]', "fault[0].members", 7, 'either "member" or "members"'),
    (FAULT + 'kind = "crash"\nmember = 0\ndisk = 1', "fault[0].disk", 7, "true or false"),
    (FAULT + 'kind = "crash"\nmember = []', "fault[0].member", 6, "not empty"),
    (FAULT + 'kind = "lose"', "fault[0].rate", 3, "missing; lose needs rate"),
    (FAULT + 'kind = "lose"\nrate = -0.1', "fault[0].rate", 6, "a rate from 0 to 1"),
    (FAULT + 'kind = "lose"\nrate = 1\nmessage = "date"', "fault[0].message", 7, 'did you mean "data"?'),
    (FAULT + 'kind = "lose"\nrate = 1\nfrom = 5', "fault[0].from", 7, "there is no member 5"),
    (FAULT + 'kind = "lose"\nrate = 1\nplane = "air"', "fault[0].plane", 7, "expected one of multicast, unicast"),
    (FAULT + 'kind = "delay"\nby = 5', "fault[0].by", 6, "a time with a unit"),
    (FAULT + 'kind = "limit"\nby = "5ms"', "fault[0].by", 6, "a bandwidth with a unit"),
    (FAULT + 'kind = "clock_step"\nmember = 0\nby = "0s"', "fault[0].by", 7, "a step with a unit"),
    (FAULT + 'kind = "timer_drift"\nmember = 0\nby = "-100%"', "fault[0].by", 7, "a ratio above -1"),
    (FAULT + 'kind = "disk"\nmember = 0\nwhat = "burn"', "fault[0].what", 7, "torn"),
    (FAULT + 'kind = "send"\nmember = 0\ngroup = "h"', "fault[0].group", 7, "unknown group 'h'"),
    (FAULT + 'kind = "pause"\nmember = 0\nlasts = "0s"', "fault[0].lasts", 7, "above 0"),
    (FAULT + 'kind = "pause"\nmember = 0\nwhen = {kind = "VIEW"}', "fault[0].when", 7, "not both"),
    ('name = "x"\n[[fault]]\nkind = "pause"\nmember = 0', "fault[0].at", 2, 'expected either "at" or "when"'),
    ('name = "x"\n[[fault]]\nkind = "pause"\nmember = 0\nat = "11s"', "fault[0].at", 5, "within the duration, 10s"),
    (
        'name = "x"\n[[fault]]\nkind = "pause"\nmember = 0\nwhen = {kind = "CUTS"}',
        "fault[0].when.kind",
        5,
        'did you mean "CUT"?',
    ),
    (
        'name = "x"\n[[fault]]\nkind = "pause"\nmember = 0\n[fault.when]\nkind = "VIEW"\nmember = 4',
        "fault[0].when.member",
        7,
        "there is no member 4",
    ),
    (
        'name = "x"\nfault = [\n{at = "1s", kind = "pause", member = 0},\n{at = "1s", kind = "pause", member = 9},\n]',
        "fault[1].member",
        4,
        "there is no member 9",
    ),
    (FAULT + 'kind = "pause"\nmember = 0\n' + '[[fault]]\nat = "1s"\nkind = 3', "fault[1].kind", 9, "got 3"),
    ('name = "x"\nmembers = [3, 9]\n[options]\nprimary = [0, 5]', "options.primary", 4, "less than the 9 members"),
    ('name = "x"\n[random]\nkinds = ["join"]', "random.kinds", 3, "expected one of partition"),
    ('name = "x"\n[random]\ncount = [7, 3]', "random.count", 3, "the lowest before the highest"),
    ('name = "x"\n[random]\nsorts = "all"', "random.sorts", 3, "unknown key"),
]


@pytest.mark.parametrize(("text", "path", "line", "words"), BAD)
def test_what_is_wrong_is_named(text: str, path: str, line: int | None, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_scenario(text, "a.toml")
    assert (caught.value.path, caught.value.line) == (path, line)
    assert words in caught.value.expected
    assert str(caught.value).startswith("a.toml")


def test_lines_of_keys() -> None:
    text = """
a.b = 1 # [c]
text = \"\"\"
[no]
"quoted" \\\"\"\" = 3\"\"\"\"
'odd key' = '[x]'
[ t . "u" ]
list = [
  1, # one
  {k = "}", l = [2]},
]
[[n]]
[[n]]
when = 2020-01-01 10:00:00
[n.m]
z = true
[[n.o]]"""
    lines = locate(text)
    assert lines == {
        "a": 2,
        "a.b": 2,
        "text": 3,
        "odd key": 6,
        "t.u": 7,
        "t.u.list": 8,
        "t.u.list[0]": 9,
        "t.u.list[1]": 10,
        "t.u.list[1].k": 10,
        "t.u.list[1].l": 10,
        "t.u.list[1].l[0]": 10,
        "n": 12,
        "n[0]": 12,
        "n[1]": 13,
        "n[1].when": 14,
        "n[1].m": 15,
        "n[1].m.z": 16,
        "n[1].o": 17,
        "n[1].o[0]": 17,
    }


@given(st.integers(-(10**18), 10**18))
def test_a_duration_reads_back(nanoseconds: int) -> None:
    assert parse_duration(write_duration(nanoseconds)) == nanoseconds


@pytest.mark.parametrize(
    ("nanoseconds", "words"),
    [
        (0, "0s"),
        (12_300 * MILLISECOND, "12.3s"),
        (-1_500 * MILLISECOND, "-1.5s"),
        (45_600_000, "45.6ms"),
        (86_400 * SECOND, "1d"),
        (90 * SECOND, "90s"),
        (1_000_001, "1000.001us"),
    ],
)
def test_a_duration_is_pleasant(nanoseconds: int, words: str) -> None:
    assert write_duration(nanoseconds) == words


MEMBERS = 5
DURATION = 40 * SECOND
GROUP_NAMES = ("g", "other group")

members = st.lists(st.integers(0, MEMBERS - 1), min_size=1, max_size=MEMBERS, unique=True).map(tuple)
member = st.integers(0, MEMBERS - 1)
times = st.integers(0, DURATION)
spans = st.integers(1, 10**15)
rates = st.floats(0, 1)
ratios = st.floats(-0.999, 1).filter(bool)


def ranges(values: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    return values | st.tuples(values, values).map(lambda pair: tuple(sorted(pair)))


whens = st.builds(When, kind=st.sampled_from(TRACE_KINDS), member=st.none() | member, count=st.integers(1, 9))
FAULT_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "lasts": spans | st.just("forever"),
    "flaps": spans,
    "groups": st.lists(members, min_size=2, max_size=4).map(tuple),
    "sources": members,
    "targets": members,
    "members": members,
    "each": spans,
    "rate": rates,
    "plane": st.sampled_from(("multicast", "unicast")),
    "message": st.sampled_from(MESSAGES),
    "sequence": st.integers(0, 2**62),
    "count": st.integers(1, 1000),
    "age": spans,
    "above": st.integers(1, 10**9),
    "restart": times,
    "disk": st.booleans(),
    "times": st.floats(1, 1000),
    "what": st.sampled_from(DISK_FAULTS),
    "group": st.sampled_from(GROUP_NAMES),
    "size": st.integers(1, 10**6),
    "service": st.sampled_from(sorted(SERVICE_CODES)),
    "together": st.booleans(),
}
BY_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "delay": spans,
    "limit": st.integers(1, 10**12),
    "clock_step": st.integers(-(10**15), 10**15).filter(bool),
    "clock_drift": ratios,
    "timer_drift": ratios,
}


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    kind = draw(st.sampled_from([kind for kind in FAULTS if kind not in ONLY_SESSIONS]))
    fields: dict[str, Any] = {"when": draw(whens)} if draw(st.booleans()) else {"at": draw(times)}
    for key in FAULTS[kind].keys:
        field = fault_field(key)
        if key in ("at", "when", "kind"):
            continue
        must = key in FAULTS[kind].required or (kind == "send" and key in ("size", "count"))
        if must or draw(st.booleans()):
            fields[field] = draw(BY_VALUES[kind] if key == "by" else FAULT_VALUES[field])
    return Fault(kind=kind, **fields)


OPTION_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "service": st.sampled_from(("source", "unordered")),
    "keep_alive": st.integers(MILLISECOND, 60 * SECOND),
    "window_bytes": st.integers(64 * 1024, 2**30),
    "event_limit": st.integers(1, 10_000),
    "rejoin": st.booleans(),
}
options = st.fixed_dictionaries(
    {},
    optional={
        **{name: values | st.lists(values, min_size=1, max_size=3) for name, values in OPTION_VALUES.items()},
        "sources": st.just("all") | st.lists(st.text(max_size=5), max_size=3).map(tuple),
    },
)

networks = st.builds(
    Network,
    shape=st.sampled_from(("lan", "wan", "world", "star")),
    latency=ranges(times),
    site_latency=st.none() | ranges(times),
    jitter=times,
    loss=rates,
    burst=st.none() | st.builds(Burst, every=spans, packets=st.integers(1, 500)),
    duplicate=rates,
    reorder=rates,
    corrupt=rates,
    bandwidth=st.none() | st.integers(1, 10**12),
    queue=st.none() | st.integers(1, 10**6),
    hops=st.integers(0, 255),
    shared=st.booleans(),
)

workloads = st.builds(
    lambda start, length, **fields: Workload(start=start, stop=None if length is None else start + length, **fields),
    start=st.integers(0, DURATION // 2),
    length=st.none() | st.integers(0, DURATION // 2),
    group=st.sampled_from(GROUP_NAMES),
    senders=st.just("all") | members,
    rate=st.just("max") | st.floats(0.001, 10**5),
    size=ranges(st.integers(1, 10**6)),
)
member_plans = st.builds(
    lambda index, joins, leaves, options: MemberPlan(
        index=index, joins=joins, leaves=None if leaves is None else joins + leaves, options=options
    ),
    index=member,
    joins=st.integers(0, DURATION // 2),
    leaves=st.none() | st.integers(1, DURATION // 2),
    options=options,
)
scenarios = st.builds(
    Scenario,
    name=st.text(string.ascii_letters + "é\"'\\ -", min_size=1, max_size=20),
    says=st.text(st.characters(codec="utf-8"), max_size=30),
    seed=st.none() | st.integers(0, 2**64),
    members=st.just(MEMBERS) | st.integers(1, MEMBERS).map(lambda least: (least, MEMBERS)),
    sites=st.none() | st.integers(1, 9),
    duration=st.just(DURATION),
    settle=times,
    expect=st.sampled_from(("held", "O2")),
    marks=st.sampled_from(((), "all", ("gap", "woke-up"))),
    marks_seeds=st.integers(1, 10**4),
    options=options,
    network=networks,
    groups=st.just(tuple(GroupPlan(name=name, members=tuple(range(MEMBERS))) for name in GROUP_NAMES)),
    workloads=st.lists(workloads, max_size=3).map(tuple),
    member_plans=st.lists(member_plans, max_size=3, unique_by=lambda plan: plan.index).map(tuple),
    faults=st.lists(faults(), max_size=4).map(tuple),
    random=st.none()
    | st.builds(
        RandomFaults,
        count=st.tuples(st.integers(0, 5), st.integers(5, 9)),
        kinds=st.just("all") | st.lists(st.sampled_from(DRAWN_KINDS), min_size=1, unique=True).map(tuple),
    ),
)


@settings(deadline=None, max_examples=200)
@given(scenarios)
def test_what_is_written_reads_back(scenario: Scenario) -> None:
    text = write_scenario(scenario)
    assert read_scenario(text) == scenario
    assert write_scenario(read_scenario(text)) == text
