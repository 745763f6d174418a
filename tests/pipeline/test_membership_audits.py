"""Agreed views in Spark and in SQL: both find nothing in a good trace, and every break at its known place."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.pipeline import duckdb_audits
from tests.pipeline.agreed_traces import BROKEN, EXCUSED, TURNED, Place, agreed_traces, run_of
from tests.pipeline.conftest import Places
from unisono.trace.parquet import write_tables


@pytest.fixture(scope="module")
def by_sql(tmp_path_factory: pytest.TempPathFactory) -> Counter[duckdb_audits.Place]:
    folder = tmp_path_factory.mktemp("agreed")
    write_tables(folder, agreed_traces())
    return Counter({place: count for place, count in duckdb_audits.places(folder).items() if place[1] in BROKEN})


def in_words(places: Counter[duckdb_audits.Place], name: str) -> list[Place]:
    """The places of one run."""
    return [(place[1], place[3], place[5], place[6]) for place in places.elements() if place[0] == run_of(name)]


def test_sql_finds_nothing_in_a_good_trace(by_sql: Counter[duckdb_audits.Place]) -> None:
    assert in_words(by_sql, "good") == []
    assert in_words(by_sql, "turned") == []


@pytest.mark.parametrize("name", BROKEN)
def test_sql_finds_what_is_broken(by_sql: Counter[duckdb_audits.Place], name: str) -> None:
    assert BROKEN[name][1] in in_words(by_sql, name)


@pytest.mark.parametrize("name", EXCUSED)
def test_sql_excuses_what_is_beyond_an_end_that_is_being_agreed(
    by_sql: Counter[duckdb_audits.Place], name: str
) -> None:
    assert [place for place in in_words(by_sql, name) if place[0] in ("O4", "O7")] == []


@pytest.mark.parametrize("name", TURNED)
def test_sql_finds_what_is_broken_where_roles_change(by_sql: Counter[duckdb_audits.Place], name: str) -> None:
    assert TURNED[name][1] in in_words(by_sql, f"turned {name}")


def test_spark_finds_the_same(by_spark: Places, by_sql: Counter[duckdb_audits.Place]) -> None:
    runs = {run_of(name) for name in ("good", *BROKEN, *EXCUSED, "turned", *(f"turned {name}" for name in TURNED))}
    found = {place: count for place, count in by_spark.items() if place[0] in runs and place[1] in BROKEN}
    assert Counter(found) == by_sql
