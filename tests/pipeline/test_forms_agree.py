"""Oracle, monitor, Spark and DuckDB say the same of a thousand small traces, place by place."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from tests.pipeline import duckdb_audits
from tests.pipeline.conftest import Places
from tests.pipeline.traces import Sample, counter_example, run_of_counter_example
from unisono.pipeline.audits.forms import spark_form
from unisono.properties.registry import PROPERTIES, Violation, monitor_violations, oracle_violations

pytestmark = pytest.mark.xdist_group("spark")
"""What the oracles say takes a minute: one process finds it out for all of these."""


def places(found: Iterable[tuple[str, Iterable[Violation]]]) -> Places:
    """Of runs with their violations."""
    return Counter((run, *violation.place()) for run, violations in found for violation in violations)


@pytest.fixture(scope="module")
def expected(samples: list[Sample]) -> Places:
    """What the oracles say."""
    return places((sample.run, oracle_violations(sample.rows)) for sample in samples)


@pytest.fixture(scope="module")
def unordered(samples: list[Sample]) -> set[object]:
    """The runs in which two rows of a process have one position: there is no order, and only that is sure (W)."""
    return {
        sample.run
        for sample in samples
        if len({(row.process, row.incarnation, row.position) for row in sample.rows}) < len(sample.rows)
    }


def differences(
    found: Places, expected: Places, unordered: Collection[object] = ()
) -> list[tuple[str, tuple[object, ...]]]:
    """The first few, in words: what a failing test shows."""
    found, expected = (
        Counter({place: count for place, count in some.items() if place[0] not in unordered or str(place[1])[0] == "W"})
        for some in (found, expected)
    )
    more = [("not expected", place) for place in (found - expected)]
    return sorted(more + [("missed", place) for place in (expected - found)], key=str)[:5]


def test_there_is_enough_of_everything(samples: list[Sample], expected: Places) -> None:
    assert not {sample.run for sample in samples if sample.good} & {place[0] for place in expected}
    broken = Counter(place[1] for place in expected)
    assert set(broken) == set(PROPERTIES)
    assert min(broken.values()) >= 10


def test_monitors_agree(samples: list[Sample], expected: Places, unordered: set[object]) -> None:
    found = places((sample.run, monitor_violations(sample.rows, keep=sys.maxsize)) for sample in samples)
    assert differences(found, expected, unordered) == []


def test_spark_agrees(by_spark: Places, samples: list[Sample], expected: Places, unordered: set[object]) -> None:
    runs = {sample.run for sample in samples}
    found: Places = Counter({place: count for place, count in by_spark.items() if place[0] in runs})
    assert differences(found, expected, unordered) == []


def test_duckdb_agrees(stored: Path, expected: Places, unordered: set[object]) -> None:
    assert set(duckdb_audits.AUDITS) == set(PROPERTIES)
    found: Places = Counter(place for place in duckdb_audits.places(stored).elements())
    assert differences(found, expected, unordered) == []


def test_every_form_refuses_the_counter_example(by_spark: Places) -> None:
    found = {place[:2] for place in by_spark}
    for property_id, item in PROPERTIES.items():
        rows = counter_example(property_id)
        assert item.oracle(rows)
        assert property_id in {violation.property for violation in monitor_violations(rows)}
        assert (run_of_counter_example(property_id), property_id) in found


def test_no_two_properties_share_a_spark_form() -> None:
    assert len({spark_form(property_id) for property_id in PROPERTIES}) == len(PROPERTIES)
