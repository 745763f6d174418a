"""Traces as DataFrames: one table a family, its columns those of the trace schema, any number of runs in each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from unisono.pipeline.runs import Progress, as_tables, find_runs, run_names
from unisono.trace.parquet import arrow_schema, table_path
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

    def family(self, name: str) -> DataFrame:
        table: DataFrame = getattr(self, name)
        return table


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


def read_tables(session: SparkSession, directories: Sequence[Path]) -> Tables:
    """The tables in these folders; where two folders have a run of the same name, the folder is added to it."""
    names = {directory: run_names(directory) for directory in directories}
    count = Counter(name for found in names.values() for name in found or ())
    clashing = [
        directory
        for directory, found in names.items()
        if len(names) > 1 and (found is None or any(count[name] > 1 for name in found))
    ]
    plain = [directory for directory in directories if directory not in clashing]

    def read(family: str) -> DataFrame:
        reader = session.read.schema(schema_of(family)).option("pathGlobFilter", "*.parquet")
        parts = [reader.parquet(*(_location(directory, family) for directory in plain))] if plain else []
        for directory in clashing:
            where = F.concat(F.col("run"), F.lit(f" in {directory}"))
            parts.append(reader.parquet(_location(directory, family)).withColumn("run", where))
        return reduce(DataFrame.unionByName, parts).select(*schema_of(family).names)

    return Tables(**{family: read(family) for family in FAMILIES})


def _location(directory: Path, family: str) -> str:
    """The address of a file or of a folder of parts, such that Spark does not take it for a pattern."""
    path = str(table_path(directory.resolve(), family))
    return "".join(f"\\{letter}" if letter in "\\*?[]{}" else letter for letter in path)
