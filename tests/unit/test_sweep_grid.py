"""The grid: commas divide, but not within brackets and quotes, and every point is a scenario that can be run."""

from __future__ import annotations

import pytest

from unisono.errors import ScenarioError
from unisono.sweeps.grid import divide, points


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("0", ["0"]),
        ("0, 0.01 ,0.05", ["0", "0.01", "0.05"]),
        ("[3, 8]", ["[3, 8]"]),
        ("3,[3, 8]", ["3", "[3, 8]"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ("'a\\',b", ["'a\\'", "b"]),
        ('"a\\",b",c', ['"a\\",b"', "c"]),
        ('{every = "5s", packets = 50},{every = "1s", packets = 5}', None),
        ("[[0,1],[2]],[[0],[1,2]]", ["[[0,1],[2]]", "[[0],[1,2]]"]),
        ("", [""]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_commas_divide_outside_of_brackets_and_quotes(text: str, parts: list[str] | None) -> None:
    assert divide(text) == (parts or ['{every = "5s", packets = 50}', '{every = "1s", packets = 5}'])


def test_every_combination_is_a_point_and_named_by_what_differs() -> None:
    grid = points("quiet-lan", ["loss=0,0.1", "members=3,[3, 8],5", "duration=1s"])
    assert [point.number for point in grid] == list(range(6))
    assert [point.name for point in grid[:3]] == ["loss=0, members=3", "loss=0, members=[3, 8]", "loss=0, members=5"]
    assert grid[4].changes == ("loss=0.1", "members=[3, 8]", "duration=1s")
    assert (grid[4].scenario.network.loss, grid[4].scenario.members) == (0.1, (3, 8))
    (alone,) = points("quiet-lan", [])
    assert (alone.name, alone.changes) == ("as set", ())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["loss"], "expected KEY=VALUE"),
        (["loss=0,,1"], "empty"),
        (["loss=0,"], "empty"),
        (["loss=0,0"], "0 is listed twice"),
        (["loss=0", "loss=1"], "set twice"),
        (["loss=0,2"], "loss"),
        (["lost=0,1"], "did you mean"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(changes: list[str], complaint: str) -> None:
    with pytest.raises(ScenarioError, match=complaint):
        points("quiet-lan", changes)
