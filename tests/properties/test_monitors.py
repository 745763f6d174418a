"""Monitors: the order of arrival does not matter, and a stored monitor goes on as if nothing had happened."""

from __future__ import annotations

import sys
from collections import Counter, deque
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unisono.errors import TraceError
from unisono.properties.damages import DAMAGES
from unisono.properties.generator import good_session_trace, good_trace
from unisono.properties.monitors import intervals
from unisono.properties.monitors.monitor import KEPT_VIOLATIONS
from unisono.properties.monitors.progress import NoDeadlock
from unisono.properties.registry import PROPERTIES, MonitorSuite, monitor_violations
from unisono.trace.schema import AnyRow, GaugeRow, ViewRow


def damaged(random: Random, events: int = 20) -> list[AnyRow]:
    rows = good_session_trace(random, events) if random.random() < 0.4 else good_trace(random, events=events)
    for name in random.sample(sorted(DAMAGES), 3):
        rows = DAMAGES[name].apply(rows, random) or rows
    return rows


def interleaved(rows: list[AnyRow], random: Random) -> list[AnyRow]:
    """Another order that keeps the order of each process."""
    queues: dict[tuple[str, int], deque[AnyRow]] = {}
    for row in rows:
        queues.setdefault((row.process, row.incarnation), deque()).append(row)
    result = []
    while queues:
        process = random.choice(list(queues))
        result.append(queues[process].popleft())
        if not queues[process]:
            del queues[process]
    return result


def places(rows: list[AnyRow]) -> Counter[object]:
    """Where the monitors find something, all of it: which of many violations are kept does depend on the order."""
    return Counter(violation.place() for violation in monitor_violations(rows, keep=sys.maxsize))


@given(seed=st.integers(0, 2**32))
@example(seed=30480)
@settings(max_examples=200, deadline=None)
def test_the_order_of_arrival_does_not_matter(seed: int) -> None:
    random = Random(seed)
    rows = damaged(random)
    assert places(interleaved(rows, random)) == places(rows)


@pytest.mark.parametrize("seed", range(12))
def test_a_suite_stored_at_any_row_goes_on_alike(seed: int) -> None:
    rows = damaged(Random(seed), events=12)
    expected = monitor_violations(rows)
    for cut in range(len(rows) + 1):
        first = MonitorSuite()
        for row in rows[:cut]:
            first.observe(row)
        second = MonitorSuite.load(first.dump())
        for row in rows[cut:]:
            second.observe(row)
        second.finish()
        assert second.violations == expected


@pytest.mark.parametrize("property_id", PROPERTIES)
def test_a_monitor_stored_after_every_row_gives_the_same_verdict(property_id: str) -> None:
    for seed in range(5):
        rows = damaged(Random(seed))
        monitor = PROPERTIES[property_id].monitor()
        steady = PROPERTIES[property_id].monitor()
        for row in rows:
            monitor.observe(row)
            steady.observe(row)
            monitor = type(monitor).load(monitor.dump())
        monitor.finish()
        steady.finish()
        assert monitor == steady
        assert type(monitor).load(monitor.dump()) == steady


def test_finishing_twice_reports_once() -> None:
    rows = DAMAGES["removed_send"].apply(good_trace(Random(1)), Random(1))
    assert rows is not None
    suite = MonitorSuite()
    for row in rows:
        suite.observe(row)
    suite.finish()
    found = suite.violations
    suite.finish()
    resumed = MonitorSuite.load(suite.dump())
    resumed.finish()
    assert found
    assert suite.violations == resumed.violations == found


def test_only_the_first_violations_are_kept_but_all_are_counted() -> None:
    suite = MonitorSuite(["L7"])
    for position in range(3 * KEPT_VIOLATIONS):
        suite.observe(GaugeRow(kind="GAUGE", process="alice", position=position, name="window", value=2, cap=1))
    assert suite.counts == {"L7": 3 * KEPT_VIOLATIONS}
    assert [violation.position for violation in suite.violations] == list(range(KEPT_VIOLATIONS))


def test_a_suite_can_run_some_properties_only() -> None:
    suite = MonitorSuite(["L7"])
    assert list(suite.monitors) == ["L7"]
    assert list(MonitorSuite.load(suite.dump()).monitors) == ["L7"]


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x81\xa2D1\xc4\x01\x00", b"\x81\xa2X9\xc4\x00"])
def test_a_state_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(TraceError):
        MonitorSuite.load(data)


def test_rows_of_unknown_kinds_are_rows_of_a_life_and_nothing_else() -> None:
    row = GaugeRow(kind="SOMETHING_NEW", name="window", value=2, cap=1)
    assert [violation.property for violation in monitor_violations([row])] == ["W2"]
    for item in PROPERTIES.values():
        item.monitor().observe(row)


def test_the_times_of_progress_take_little_room() -> None:
    monitor = NoDeadlock()
    for time in range(0, 100_000_000_000, 10_000_000):
        monitor.observe(
            ViewRow(
                kind="VIEW",
                truth=time,
                start_time=0,
                leader="alice",
                leader_incarnation=1,
                leader_sequence=1,
                previous=None,
                role="sender",
                start=[],
            )
        )
    assert len(monitor.progress) < 30


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(0, 30))
def test_runs_are_a_set_of_numbers(numbers: list[int], probe: int) -> None:
    runs: list[int] = []
    known: set[int] = set()
    for number in numbers:
        assert intervals.add(runs, number) == (number not in known)
        known.add(number)
    assert {number for number in range(-1, 33) if intervals.holds(runs, number)} == known
    assert runs == sorted(set(runs))
    assert intervals.first_absent(runs, probe) == next(number for number in range(probe, 33) if number not in known)
