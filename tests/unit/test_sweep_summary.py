"""A sweep in sum: what a point came to, intervals that mean what they say, the page, the line of progress."""

from __future__ import annotations

import random
from typing import Any

import pytest

from unisono.cli.sweep_report import SweepProgress
from unisono.simulation.scenario import Scenario
from unisono.sweeps.grid import Point
from unisono.sweeps.page import middle_words, render_sweep
from unisono.sweeps.result import SeedRow
from unisono.sweeps.summary import Failure, Middle, PointCount, PointSummary, measured, middle, sweep_json

SCENARIO = Scenario(name="x", says="Nothing happens.")


def row(seed: int, *violated: str, **fields: Any) -> SeedRow:
    known: dict[str, Any] = {
        "verdict": "violated" if violated else "held",
        "failed": bool(violated),
        "violations": {"D1": 0, **dict.fromkeys(violated, 2)},
        "messages": 10,
        "datagrams": 25,
        "latency_p50_ms": float(seed),
    }
    return SeedRow(point=0, seed=seed, **{**known, **fields})


def summary(scenario: Scenario, rows: list[SeedRow], asked: int | None = None) -> PointSummary:
    count = PointCount(Point(0, "loss=0", ("loss=0", "members=3"), scenario))
    for one in rows:
        count.add(one)
    return count.summary(len(rows) if asked is None else asked)


def test_a_point_adds_up_its_seeds() -> None:
    stopped = SeedRow(point=0, seed=3, verdict="stopped", failed=True, stopped="AssertionError: no")
    told = summary(SCENARIO, [row(0), row(1, "O1"), row(2, "O1", "L2"), stopped])
    assert (told.seeds, told.held, told.failing, told.stopped, told.met) == (4, 1, 3, 1, False)
    assert told.violated == {"L2": 1, "O1": 2}
    assert told.measures["latency_p50_ms"] == Middle(1.0, None, None, 3)
    assert told.measures["datagrams_per_message"].median == 2.5
    assert summary(SCENARIO, [row(0), row(1)]).met
    assert not summary(SCENARIO, [row(0), row(1)], asked=3).met


def test_what_is_expected_has_to_show() -> None:
    expecting = Scenario(name="x", expect="O1")
    assert summary(expecting, [row(0), row(1, "O1", failed=False)]).met
    assert not summary(expecting, [row(0), row(1)]).met
    assert not summary(expecting, [row(0, "O1", failed=False), row(1, "O1", "L2")]).met


def test_marks_are_asked_for_when_enough_seeds_ran() -> None:
    marked = Scenario(name="x", marks=("gap", "paced"), marks_seeds=2)
    assert summary(marked, [row(0)]).met
    told = summary(marked, [row(0, marks={"gap": 1}), row(1, marks={"gap": 2})])
    assert (told.met, told.missing_marks, told.marks) == (False, ("paced",), {"gap": 3})


def test_measures_of_a_seed() -> None:
    assert measured(row(0, repairs=5), "repairs_per_message") == 0.5
    assert measured(row(0, messages=0), "repairs_per_message") is None
    assert measured(row(0, views=7), "views") == 7
    assert measured(row(0, latency_p50_ms=None), "latency_p50_ms") is None


@pytest.mark.parametrize(("count", "low", "high"), [(1, None, None), (5, None, None), (6, 0, 5), (20, 5, 14)])
def test_the_interval_of_a_median_is_taken_from_the_values(count: int, low: int | None, high: int | None) -> None:
    told = middle([float(value) for value in reversed(range(count))])
    assert (told.median, told.low, told.high) == ((count - 1) / 2, low, high)


@pytest.mark.parametrize("count", [25, 1200])
def test_the_interval_has_the_true_median_in_95_of_100_cases(count: int) -> None:
    stream = random.Random(count)
    cases, inside = 400, 0
    for _ in range(cases):
        told = middle([stream.expovariate(1.0) for _ in range(count)])
        assert told.low is not None
        assert told.high is not None
        inside += told.low <= 0.6931 <= told.high
    assert 0.93 <= inside / cases <= 0.99


def test_words_for_a_median() -> None:
    assert middle_words(None, "ms") == ""
    assert middle_words(Middle(1.5, None, None, 2), "ms") == "1.5 ms"
    assert middle_words(Middle(1.5, 1.0, 2.0, 9), "") == "1.5 (1 to 2)"
    assert middle_words(Middle(3.0, 3.0, 3.0, 9), "") == "3"


def test_the_page_says_everything_as_text() -> None:
    pytest.importorskip("jinja2")
    failure = Failure(
        point=0,
        seed=1,
        verdict="violated",
        violated=("O1",),
        stopped=None,
        trace="point-0-seed-1",
        replay="unisono simulate '<x>' --seed 1",
    )
    told = summary(SCENARIO, [row(seed) for seed in range(8)] + [row(9, "O1")])
    page = render_sweep(SCENARIO, range(9), [told], [failure], "unisono sweep x")
    assert "Not as expected at 1 of 1 points" in page
    assert "unisono simulate &#39;&lt;x&gt;&#39; --seed 1" in page
    assert "loss=0" in page
    assert "<circle" in page
    assert "<script" not in page
    whole = render_sweep(SCENARIO, range(1), [summary(SCENARIO, [row(0)])], [], "unisono sweep x")
    assert "Every point came out as expected" in whole
    half = render_sweep(SCENARIO, range(2), [summary(SCENARIO, [row(0)], asked=2)], [], "unisono sweep x")
    assert "Not finished: 1 of 2 seeds" in half


def test_the_object_for_scripts() -> None:
    told = sweep_json(SCENARIO, {"asked": 1}, [summary(SCENARIO, [row(0)])], [])
    assert (told["met"], told["asked"], told["seeds"], told["points"][0]["name"]) == (True, 1, 1, "loss=0")
    assert told["points"][0]["measures"]["views"] == {"median": 0.0, "low": None, "high": None, "seeds": 1}


def test_progress_tells_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("unisono.cli.sweep_report.monotonic", lambda: now[0])
    progress = SweepProgress(100)
    for _ in range(20):
        progress.advance(False)
    progress.begin(20)
    now[0] = 150.0
    progress.advance(True)
    assert progress.line() == "21 of 100 seeds, 1 failing"
    for _ in range(10):
        now[0] += 0.5
        progress.advance(False)
    assert progress.line() == "31 of 100 seeds, 1 failing, 2 a second, 34 s left"
