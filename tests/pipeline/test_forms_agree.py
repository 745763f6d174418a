"""Oracle, monitor, Spark and DuckDB say the same of thousands of small traces, place by place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.pipeline import duckdb_audits
from tests.pipeline.traces import Sample, of_run
from unisono.pipeline.audit import sized_for
from unisono.pipeline.audits.forms import spark_form
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.tables import read_tables
from unisono.properties.generator import good_trace
from unisono.properties.monitors.monitor import KEPT_VIOLATIONS
from unisono.properties.registry import PROPERTIES, Violation, monitor_violations, oracle_violations
from unisono.trace.parquet import write_tables
from unisono.trace.schema import AnyRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Places = Counter[tuple[object, ...]]


def places(run: str, violations: Iterable[Violation]) -> Places:
    return Counter((run, *violation.place()) for violation in violations)


@pytest.fixture(scope="module")
def expected(samples: list[Sample]) -> Places:
    """What the oracles say."""
    return sum((places(sample.run, oracle_violations(sample.rows)) for sample in samples), Counter())


def spark_places(session: SparkSession, folder: Path) -> Places:
    found: Places = Counter()
    with sized_for(session, 0), closing(Projections(read_tables(session, [folder]))) as trace:
        for property_id in PROPERTIES:
            found.update(tuple(row) for row in spark_form(property_id)(trace).drop("text").collect())
    return found


def differences(found: Places, expected: Places) -> list[tuple[str, tuple[object, ...]]]:
    """The first few, in words: what a failing test shows."""
    more = [("not expected", place) for place in (found - expected)]
    return sorted(more + [("missed", place) for place in (expected - found)], key=str)[:5]


def test_there_is_enough_of_everything(samples: list[Sample], expected: Places) -> None:
    assert not {sample.run for sample in samples if sample.good} & {place[0] for place in expected}
    broken = Counter(place[1] for place in expected)
    assert set(broken) == set(PROPERTIES)
    assert min(broken.values()) >= 10


def test_monitors_agree(samples: list[Sample], expected: Places) -> None:
    """Where a monitor found more than it keeps, it still kept as many as it should."""
    found = sum((places(sample.run, monitor_violations(sample.rows)) for sample in samples), Counter())
    counts: Counter[tuple[object, ...]] = Counter(place[:2] for place in expected.elements())
    many = {key for key, count in counts.items() if count > KEPT_VIOLATIONS}
    assert len(many) < len(samples) / 100
    assert differences(found - expected, Counter()) == []
    missed = expected - found
    assert differences(Counter(place for place in missed if place[:2] not in many), Counter()) == []
    kept: Counter[tuple[object, ...]] = Counter(place[:2] for place in found.elements())
    assert {kept[key] for key in many} <= {KEPT_VIOLATIONS}


def test_spark_agrees(spark: SparkSession, stored: Path, expected: Places) -> None:
    assert differences(spark_places(spark, stored), expected) == []


def test_duckdb_agrees(stored: Path, expected: Places) -> None:
    assert set(duckdb_audits.AUDITS) == set(PROPERTIES)
    found: Places = Counter(place for place in duckdb_audits.places(stored).elements())
    assert differences(found, expected) == []


def counter_example(property_id: str) -> list[AnyRow]:
    """The first valid trace that the counter-example of a property fits, after the damage."""
    for seed in range(1000):
        rows = PROPERTIES[property_id].counter_example.apply(good_trace(Random(seed)), Random(seed))
        if rows is not None:
            return of_run(rows, property_id)
    raise AssertionError(f"the counter-example of {property_id} fits no trace")


def test_every_form_refuses_the_counter_example(spark: SparkSession, tmp_path: Path) -> None:
    traces = {property_id: counter_example(property_id) for property_id in PROPERTIES}
    write_tables(tmp_path, [row for rows in traces.values() for row in rows])
    found = {(place[0], place[1]) for place in spark_places(spark, tmp_path)}
    for property_id, rows in traces.items():
        item = PROPERTIES[property_id]
        assert item.oracle(rows)
        assert property_id in {violation.property for violation in monitor_violations(rows)}
        assert (property_id, property_id) in found


def test_no_two_properties_share_a_spark_form() -> None:
    assert len({spark_form(property_id) for property_id in PROPERTIES}) == len(PROPERTIES)
