"""Every damage is named, by the oracle and by the monitor alike, at the same place."""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unisono.properties.damages import COMMON_DAMAGES, DAMAGES, SESSION_DAMAGES
from unisono.properties.generator import good_session_trace, good_trace
from unisono.properties.oracles.cycles import in_a_cycle
from unisono.properties.registry import PROPERTIES, MonitorSuite, Violation, monitor_violations, oracle_violations
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import run
from unisono.trace.run_directory import read_run
from unisono.trace.schema import AnyRow

SEEDS = 640
LEAST_APPLIED = 10
ENOUGH = 20


@cache
def sampled(seed: int) -> tuple[AnyRow, ...]:
    groups = ("market", "yard") if seed % 2 == 0 else ("market",)
    return tuple(good_trace(Random(seed), events=25 if seed % 4 < 2 else 45, groups=groups))


@cache
def sampled_sessions(seed: int) -> tuple[AnyRow, ...]:
    return tuple(good_session_trace(Random(seed), events=15 if seed % 4 < 2 else 25))


def places(violations: list[Violation]) -> Counter[object]:
    return Counter(violation.place() for violation in violations)


def assert_agreement(rows: list[AnyRow]) -> set[str]:
    """Both forms report the same; the ids that they report.

    Where two rows of a process have one position there is no order, and only that is sure (W).
    """
    expected, found = oracle_violations(rows), monitor_violations(rows, keep=sys.maxsize)
    if len({(row.process, row.incarnation, row.position) for row in rows}) < len(rows):
        expected, found = ([one for one in some if one.property[0] == "W"] for some in (expected, found))
    if in_a_cycle(rows):
        assert {"O6", "O8", "D1"} & {violation.property for violation in expected}
    assert places(found) == places(expected)
    return {violation.property for violation in found}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named(name: str) -> None:
    applied = 0
    for seed in range(SEEDS):
        good = sampled_sessions(seed) if name in SESSION_DAMAGES else sampled(seed)
        rows = DAMAGES[name].apply(list(good), Random(seed))
        if rows is not None:
            applied += 1
            assert assert_agreement(rows) >= set(DAMAGES[name].breaks), f"seed {seed}"
        if applied == ENOUGH:
            break
    assert applied >= LEAST_APPLIED


def test_damages_fit_the_runs_that_they_are_said_to_be_for() -> None:
    sessions, groups = ([sample(seed) for seed in range(40)] for sample in (sampled_sessions, sampled))
    for name, kind in DAMAGES.items():
        in_sessions, in_groups = (
            any(kind.apply(list(rows), Random(1)) is not None for rows in traces) for traces in (sessions, groups)
        )
        if name == "silenced":
            continue  # no sampled session is long enough
        assert in_sessions == (name in SESSION_DAMAGES | COMMON_DAMAGES), name
        assert not (in_groups and name in SESSION_DAMAGES), name


SIMULATED = {
    "strong": ("vs-optimistic", "duration=12s", "workload[0].rate=10"),
    "weak": ("vs-weak", "duration=12s"),
}


@cache
def simulated_sessions(sort: str) -> tuple[AnyRow, ...]:
    scenario, *changes = SIMULATED.get(sort) or (sort,)
    with TemporaryDirectory() as folder:
        run(draw(load(scenario, changes), 1), Path(folder) / "run")
        return tuple(read_run(Path(folder) / "run"))


@pytest.mark.parametrize("sort", SIMULATED)
@pytest.mark.parametrize("name", DAMAGES)
def test_damage_to_a_simulated_session_breaks_what_it_names_or_does_not_fit(sort: str, name: str) -> None:
    assert_breaks_or_does_not_fit(name, simulated_sessions(sort), seeds=3)


def test_only_where_servers_are_there_too_a_standstill_is_one() -> None:
    assert_breaks_or_does_not_fit("stalled", simulated_sessions("vs-structured"), seeds=8)


def assert_breaks_or_does_not_fit(name: str, good: tuple[AnyRow, ...], seeds: int) -> None:
    kind = DAMAGES[name]
    for seed in range(seeds):
        rows = kind.apply(list(good), Random(seed))
        if rows is not None:
            suite = MonitorSuite(kind.breaks)
            for row in rows:
                suite.observe(row)
            suite.finish()
            assert set(suite.counts) == set(kind.breaks), f"seed {seed}"


@pytest.mark.parametrize("sort", SIMULATED)
def test_timestamps_of_sessions_are_not_damaged_where_nobody_promises_anything_about_them(sort: str) -> None:
    good = simulated_sessions(sort)
    for name in ("forged_timestamp", "decreasing_timestamp", "sent_below_delivered"):
        assert DAMAGES[name].apply(list(good), Random(1)) is None


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_leaves_its_input_alone(name: str) -> None:
    sample = good_session_trace if name in SESSION_DAMAGES else good_trace
    rows = sample(Random(5))
    DAMAGES[name].apply(rows, Random(5))
    assert rows == sample(Random(5))


@pytest.mark.parametrize("name", ["ring", "forged_ring"])
def test_a_ring_is_a_cycle_whatever_the_timestamps_say(name: str) -> None:
    """Each process of the forged one follows its own timestamps: O6 has nothing to say, O8 has."""
    rings = [DAMAGES[name].apply(list(sampled(seed)), Random(seed)) for seed in range(80)]
    for rows in [rows for rows in rings if rows is not None]:
        assert len(in_a_cycle(rows)) == 3
        found = assert_agreement(rows)
        assert found >= ({"O6"} if name == "ring" else {"O8"})
        assert ("O6" in found) == (name == "ring")


def test_every_property_is_broken_by_some_damage() -> None:
    assert {property_id for damage in DAMAGES.values() for property_id in damage.breaks} == set(PROPERTIES)


@given(seed=st.integers(0, 2**32), names=st.lists(st.sampled_from(sorted(DAMAGES)), min_size=1, max_size=2))
@settings(max_examples=400, deadline=None)
def test_both_forms_agree_on_damaged_traces(seed: int, names: list[str]) -> None:
    random = Random(seed)
    rows = good_trace(random, events=random.randrange(40), truth=random.random() < 0.8)
    for name in names:
        rows = DAMAGES[name].apply(rows, random) or rows
    assert_agreement(rows)


@given(seed=st.integers(0, 2**32), names=st.lists(st.sampled_from(sorted(DAMAGES)), min_size=1, max_size=2))
@settings(max_examples=150, deadline=None)
def test_both_forms_agree_on_damaged_sessions(seed: int, names: list[str]) -> None:
    random = Random(seed)
    rows = good_session_trace(random, events=random.randrange(25))
    for name in names:
        rows = DAMAGES[name].apply(rows, random) or rows
    assert_agreement(rows)


def test_both_forms_agree_on_cuts_of_sessions_that_say_they_only_receive() -> None:
    """An optimistic message counts (D9) where its sender had the view, whatever role it says."""
    found: Counter[str] = Counter()
    for seed in range(20):
        rows = DAMAGES["session_cut_left_out"].apply(list(sampled_sessions(seed)), Random(seed))
        again = rows and DAMAGES["receiver_that_sends"].apply(rows, Random(seed))
        found.update(assert_agreement(again) if again else ())
    assert found["D9"] > 3


@given(seed=st.integers(0, 2**32), kept=st.floats(0.5, 1))
@settings(max_examples=150, deadline=None)
def test_both_forms_agree_on_sessions_with_holes(seed: int, kept: float) -> None:
    random = Random(seed)
    rows = [row for row in good_session_trace(random, events=15) if random.random() < kept]
    assert_agreement(rows)


@given(seed=st.integers(0, 2**32), kept=st.floats(0.5, 1))
@example(seed=246588, kept=0.75)
@settings(max_examples=300, deadline=None)
def test_both_forms_agree_on_traces_with_holes(seed: int, kept: float) -> None:
    """Any rows may be missing, also those of membership and faults; positions keep their holes."""
    random = Random(seed)
    rows = [row for row in good_trace(random, events=25) if random.random() < kept]
    assert_agreement(rows)
