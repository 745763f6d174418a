"""The Spark session of a command: as large as its runs need, and not before they are known to be whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unisono.pipeline.runs import SMALL_BYTES, Progress, disk_bytes, find_runs, refuse_damaged
from unisono.pipeline.spark.session import Profile, is_on_this_machine, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_for(directories: Sequence[Path], master: str | None, progress: Progress) -> Iterator[SparkSession]:
    """A session for these runs; what is no whole run is refused before anything starts."""
    runs = find_runs(directories)
    refuse_damaged(runs)
    progress("starting Spark", 0, 0)
    little = disk_bytes(runs) < SMALL_BYTES and master is None
    profile: Profile = "test" if little else "local" if is_on_this_machine(master) else "cluster"
    with running(profile, master) as session:
        yield session
