"""One Spark session for all tests of the pipeline; whatever needs it is slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.agreed_traces import agreed_traces
from tests.pipeline.traces import Sample, counter_example, of_run, sampled, sampled_session
from tests.properties.test_each_property import OUT_OF_REACH, WITHIN_REACH
from tests.properties.test_promises_kept import DRAGGED, LURED_AWAY, LURED_FOR_NOTHING
from unisono.cli.main import run
from unisono.pipeline.spark.session import start
from unisono.properties.registry import PROPERTIES
from unisono.trace.parquet import write_tables
from unisono.trace.schema import AnyRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRACES = 1200
SESSION_TRACES = 400

Places = Counter[tuple[object, ...]]
"""How often a run breaks a property at a place."""
Call = Callable[..., tuple[int, str, str]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start("test")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def samples() -> list[Sample]:
    """Small traces, good and damaged, each a run of its own."""
    sessions = [sampled_session(seed) for seed in range(SESSION_TRACES)]
    partings = [
        Sample(f"parted {index}", of_run(trace.rows, f"parted {index}"), good=False)
        for index, trace in enumerate([*LURED_AWAY, *LURED_FOR_NOTHING, *DRAGGED, *OUT_OF_REACH, *WITHIN_REACH])
    ]
    return [sampled(seed) for seed in range(TRACES)] + sessions + partings


@pytest.fixture(scope="session")
def stored(samples: list[Sample], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them in one folder of tables."""
    folder = tmp_path_factory.mktemp("samples")
    write_tables(folder, [row for sample in samples for row in sample.rows])
    return folder


@pytest.fixture(scope="session")
def by_spark(spark: SparkSession, samples: list[Sample], tmp_path_factory: pytest.TempPathFactory) -> Places:
    """What the Spark forms find in all small traces of these tests: they are runs of one audit, since each costs."""
    # Without Spark these cannot be imported, and the tests that need none go on.
    from unisono.pipeline.audit import sized_for
    from unisono.pipeline.audits.forms import spark_form
    from unisono.pipeline.audits.projections import Projections
    from unisono.pipeline.tables import read_tables

    rows: list[AnyRow] = agreed_traces()
    for property_id in PROPERTIES:
        rows += counter_example(property_id)
    for sample in samples:
        rows += sample.rows
    folder = tmp_path_factory.mktemp("small")
    write_tables(folder, rows)
    with sized_for(spark, 0), closing(Projections(read_tables(spark, [folder]))) as trace:

        def judged(property_id: str) -> list[tuple[object, ...]]:
            return [tuple(row) for row in spark_form(property_id)(trace).drop("text").collect()]

        with ThreadPoolExecutor(2) as threads:  # as an audit does
            return Counter(place for places in threads.map(judged, PROPERTIES) for place in places)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """The command in this process: exit code, stdout, stderr."""

    def calling(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return calling
