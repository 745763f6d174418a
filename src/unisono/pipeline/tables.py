"""Traces as DataFrames: one table a family, its columns those of the trace schema, any number of runs in each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from unisono.pipeline.audits.coded import TableFile
from unisono.pipeline.runs import Progress, as_tables, find_runs, run_names
from unisono.trace.parquet import arrow_schema, table_files, table_path
from unisono.trace.schema import FAMILIES


class Tables(Struct, frozen=True):
    """The families of one or many runs; the column `run` tells the runs apart."""

    send: DataFrame
    deliver: DataFrame
    view: DataFrame
    membership: DataFrame
    repair: DataFrame
    proxy: DataFrame
    gauge: DataFrame
    statistic: DataFrame
    fault: DataFrame
    files: dict[str, tuple[TableFile, ...]] = {}
    """By family, where the rows are stored."""

    def family(self, name: str) -> DataFrame:
        table: DataFrame = getattr(self, name)
        return table

    @property
    def session(self) -> SparkSession:
        return self.deliver.sparkSession


def schema_of(family: str) -> StructType:
    """The columns of one family as Spark has them."""
    return from_arrow_schema(arrow_schema(family))


def read_runs(
    session: SparkSession,
    paths: Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    progress: Progress = lambda *_: None,
) -> Tables:
    """The runs that these paths name. Spools are first written as tables below `folder`, which must outlive them."""
    return read_tables(session, as_tables(find_runs(paths), folder, progress))


def read_tables(session: SparkSession, directories: Sequence[Path], elsewhere: Collection[str] = ()) -> Tables:
    """The tables in these folders; where two runs have one name, here or `elsewhere`, the folder is added to it."""
    for directory in directories:
        # A table that somebody in this session keeps must not stand for a run that was made anew in its place.
        session.catalog.refreshByPath(str(directory.resolve()))
    clashing = _clashing(directories, elsewhere)
    files = {family: _files(directories, clashing, family) for family in FAMILIES}
    return Tables(**{family: _read(session, directories, family, files[family]) for family in FAMILIES}, files=files)


def _clashing(directories: Sequence[Path], elsewhere: Collection[str]) -> set[Path]:
    """The folders with a run whose name another has too, as far as the ends of the files tell."""
    if len(directories) + len(elsewhere) < 2:
        return set()
    names = {directory: run_names(directory) for directory in directories}
    count = Counter([*(name for found in names.values() for name in found or ()), *elsewhere])
    return {directory for directory, found in names.items() if found is None or any(count[name] > 1 for name in found)}


def _files(directories: Sequence[Path], clashing: set[Path], family: str) -> tuple[TableFile, ...]:
    return tuple(
        TableFile(str(file.resolve()), f" in {directory}" if directory in clashing else "")
        for directory in directories
        for file in table_files(directory, family)
    )


def _read(session: SparkSession, directories: Sequence[Path], family: str, files: Sequence[TableFile]) -> DataFrame:
    """One scan of all folders: a plan that grew with their number would be planned for longer than it runs."""
    reader = session.read.schema(schema_of(family)).option("pathGlobFilter", "*.parquet")
    table = reader.parquet(*(_location(directory, family) for directory in directories))
    if not any(file.suffix for file in files):
        return table
    suffixes = {file.path: file.suffix for file in files}
    # Rows know the file that they are from by an address with one slash, the list of files has three.
    places = [
        (place.replace("file:///", "file:/", 1), suffixes[unquote(urlsplit(place).path)])
        for place in table.inputFiles()
    ]
    added = session.createDataFrame(places, "place string, suffix string")
    together = table.select("*", F.col("_metadata.file_path").alias("place")).join(F.broadcast(added), "place", "left")
    unknown = F.raise_error(F.concat(F.lit("no run is at "), "place"))
    return together.withColumn("run", F.concat("run", F.coalesce("suffix", unknown))).select(*schema_of(family).names)


def _location(directory: Path, family: str) -> str:
    """The address of a file or of a folder of parts, such that Spark does not take it for a pattern."""
    path = str(table_path(directory.resolve(), family))
    return "".join(f"\\{letter}" if letter in "\\*?[]{}" else letter for letter in path)
