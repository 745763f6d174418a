"""`--set`: a path or a unique name, TOML values or bare words, and errors that name the key."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.errors import ScenarioError
from unisono.simulation.overrides import apply_overrides
from unisono.simulation.scenario_file import read_scenario
from unisono.units import MILLISECOND, SECOND

TEXT = """
name = "x"
members = 4

[[workload]]
rate = 10

[[fault]]
at = "1s"
kind = "lose"
message = "data"
count = 1

[[fault]]
at = "2s"
kind = "clog"
members = [0, 1]
each = "1s"
"""


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("network.loss=0.05", "network.loss", 0.05),
        ("loss=0.05", "network.loss", 0.05),
        ("duration=5s", "duration", "5s"),
        ('duration = "5s"', "duration", "5s"),
        ("members=[3, 8]", "members", [3, 8]),
        ("keep_alive=50ms", "options.keep_alive", "50ms"),
        ("options.service=unordered", "options.service", "unordered"),
        ("shared=true", "network.shared", True),
        ("count=3", "fault[0].count", 3),
        ("workload[0].rate=max", "workload[0].rate", "max"),
        ("each=2s", "fault[1].each", "2s"),
        ("network.burst.every=2s", "network.burst.every", "2s"),
        ("fault[1].when={kind='VIEW'}", "fault[1].when", {"kind": "VIEW"}),
        ("fault=[]", "fault", []),
        ("says=a = b", "says", "a = b"),
        ("says=", "says", ""),
        ("says=1\nmembers = 9", "says", "1\nmembers = 9"),
    ],
)
def test_a_key_is_set(assignment: str, path: str, value: Any) -> None:
    data = {
        "members": 4,
        "workload": [{}],
        "fault": [{"kind": "lose", "count": 1}, {"kind": "clog", "members": [0, 1]}],
    }
    changed, paths = apply_overrides(data, [assignment])
    assert paths == {path}
    found: Any = changed
    for step in path.replace("[", ".[").split("."):
        found = found[int(step[1:-1])] if step.startswith("[") else found[step]
    assert found == value
    assert "network" not in data, "the data that came in stays as it was"


def test_overrides_apply_in_order_and_before_validation() -> None:
    scenario = read_scenario(TEXT, None, ["loss=2", "loss=0.5", "rate=20", "fault[1].at=500ms", "keep_alive=100ms"])
    assert scenario.network.loss == 0.5
    assert scenario.workloads[0].rate == 20.0
    assert scenario.faults[1].at == 500 * MILLISECOND
    assert scenario.options == {"keep_alive": 100 * MILLISECOND}
    assert read_scenario(TEXT, None, ["fault=[]", "duration=1s"]).duration == SECOND


@pytest.mark.parametrize(
    ("assignment", "path", "line", "words"),
    [
        ("loss", "loss", None, "expected KEY=VALUE"),
        ("=3", "=3", None, "expected KEY=VALUE"),
        ("los=3", "los", None, 'did you mean "loss"?'),
        ("at=3s", "at", None, "not unique; write one of fault[0].at, fault[1].at"),
        ("network.los=3", "network.los", None, 'did you mean "loss"?'),
        ("network.loss=3", "network.loss", None, "a rate from 0 to 1"),
        ("workload.rate=3", "workload.rate", None, "say which one: workload[0] to workload[0]"),
        ("workload[1].rate=3", "workload[1].rate", None, "there is no workload[1]"),
        ("group.name=a", "group", None, "tables that begin with [[group]]"),
        ("members.x=3", "members.x", None, "members is not a table"),
        ("network..loss=3", "network..loss", None, "expected a key"),
        ("duration=1500ms", "fault[1].at", 15, "within the duration, 1.5s, got 2s"),
        ("fault[0].kind=crash", "fault[0].message", 11, "unknown key"),
    ],
)
def test_a_wrong_override_names_its_key(assignment: str, path: str, line: int | None, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_scenario(TEXT, "a.toml", [assignment])
    assert (caught.value.path, caught.value.line) == (path, line)
    assert words in caught.value.expected
