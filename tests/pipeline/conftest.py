"""One Spark session for all tests of the pipeline; whatever needs it is slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.traces import Sample, sampled
from unisono.cli.main import run
from unisono.pipeline.session import start
from unisono.trace.parquet import write_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRACES = 2000

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
    return [sampled(seed) for seed in range(TRACES)]


@pytest.fixture(scope="session")
def stored(samples: list[Sample], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them in one folder of tables."""
    folder = tmp_path_factory.mktemp("samples")
    write_tables(folder, [row for sample in samples for row in sample.rows])
    return folder


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
