"""All measures of one or many runs: plain values and distributions, put together into one long table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from itertools import chain

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline import joined
from unisono.pipeline.audit import read_to_the_end, sized_for
from unisono.pipeline.measures import delivery, members, sessions, views
from unisono.pipeline.measures.catalogue import MEASURES, PERCENTILES, SUMMARY
from unisono.pipeline.measures.value import LONG, Value, in_order
from unisono.pipeline.runs import Progress, as_tables, find_runs, stored_bytes
from unisono.pipeline.tables import Tables, read_tables


class Measured:
    """What measures are made from: the tables of a trace, and the joined tables, each made once."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._kept: list[DataFrame] = []

    @cached_property
    def messages(self) -> DataFrame:
        return self._keep(joined.messages(self.tables))

    @cached_property
    def views(self) -> DataFrame:
        return self._keep(joined.views(self.tables))

    def close(self) -> None:
        for table in self._kept:
            table.unpersist()
        self._kept.clear()

    def _keep(self, table: DataFrame) -> DataFrame:
        self._kept.append(table)
        return table.persist(StorageLevel.MEMORY_AND_DISK)


PLAIN: tuple[Callable[[Measured], DataFrame], ...] = (
    lambda run: delivery.counts(run.messages),
    lambda run: delivery.throughput(run.tables),
    lambda run: delivery.overhead(run.tables, run.messages),
    lambda run: delivery.repairs(run.tables),
    lambda run: views.view_changes(run.views),
)
"""Each gives run, group, measure, key and value."""

DISTRIBUTIONS: tuple[Callable[[Measured], DataFrame], ...] = (
    lambda run: delivery.latencies(run.messages),
    lambda run: views.phases(run.views),
    lambda run: views.silences(run.tables),
    lambda run: sessions.changes(run.tables),
    lambda run: sessions.overheads(run.tables),
    lambda run: members.rates(run.tables),
)
"""Each gives run, group, measure and value, a row for each value of the distribution."""


@contextmanager
def measured(tables: Tables) -> Iterator[Measured]:
    """The joined tables for a while."""
    run = Measured(tables)
    try:
        yield run
    finally:
        run.close()


def measures(run: Measured) -> DataFrame:
    """The long table of all measures."""
    values = [make(run) for make in PLAIN]
    spread = reduce(DataFrame.unionByName, [make(run) for make in DISTRIBUTIONS])
    units = F.create_map(*chain.from_iterable((F.lit(item.name), F.lit(item.unit)) for item in MEASURES.values()))
    return (
        reduce(DataFrame.unionByName, [*values, summaries(spread)])
        .where("value is not null")
        .select("run", "group", "measure", "key", F.col("value").cast("double"), units[F.col("measure")].alias("unit"))
        .select(*LONG)
    )


def measure(tables: Tables) -> list[Value]:
    """Compute every measure and bring the values here, run by run, in the order of the catalogue."""
    with measured(tables) as run:
        return in_order(Value(*row) for row in measures(run).collect())


def summaries(values: DataFrame) -> DataFrame:
    """Of every distribution its count, mean, percentiles and highest; percentiles are exact, by the nearest rank."""
    one = ("run", "group", "measure")
    distribution = Window.partitionBy(*one)
    ranked = values.where("value is not null").select(
        *one,
        "value",
        F.row_number().over(distribution.orderBy("value")).alias("rank"),
        F.count(F.lit(1)).over(distribution).alias("count"),
    )
    percentiles = {
        name: F.max(F.when(F.col("rank") == F.expr(f"(count * {percent} + 99) div 100"), F.col("value")))
        for name, percent in PERCENTILES.items()
    }
    summed = ranked.groupBy(*one, "count").agg(
        F.avg("value").alias("mean"),
        *(percentile.alias(name) for name, percentile in percentiles.items()),
        F.max("value").alias("max"),
    )
    entries = [F.struct(F.lit(name).alias("key"), F.col(name).cast("double").alias("value")) for name in SUMMARY]
    return summed.select(*one, F.inline(F.array(*entries)))


def measure_runs(
    session: SparkSession, directories: Sequence[str | os.PathLike[str]], progress: Progress = lambda *_: None
) -> list[Value]:
    """Every measure of every run below these paths."""
    with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
        folders = as_tables(find_runs(directories), folder, progress)
        progress("measuring", 0, 0)
        with sized_for(session, stored_bytes(folders)), read_to_the_end():
            return measure(read_tables(session, folders))
