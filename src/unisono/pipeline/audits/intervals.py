"""Sets of numbers as few intervals, so that what is delivered is held against what is due without a row for each."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows


def merged(strides: DataFrame, key: Sequence[str]) -> DataFrame:
    """The numbers of each key as intervals `low` to `high` that neither touch nor overlap."""
    in_order = Window.partitionBy(*key).orderBy("number", "last_number")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    begins = F.coalesce(F.col("number") > F.max("last_number").over(before) + 1, F.lit(True))
    return (
        strides.select(*key, "number", "last_number")
        .select("*", begins.alias("begins"))
        .select("*", F.count(F.when(F.col("begins"), 1)).over(so_far).alias("interval"))
        .groupBy(*key, "interval")
        .agg(F.min("number").alias("low"), F.max("last_number").alias("high"))
        .drop("interval")
    )


def uncovered(due: DataFrame, intervals: DataFrame, key: Sequence[str]) -> DataFrame:
    """Of what is due, `number` to `last_number` a row, the rows that no interval of the same key contains whole."""
    return due.join(
        intervals.select(*(F.col(name).alias(f"{name}_of") for name in key), "low", "high"),
        [F.col(name) == F.col(f"{name}_of") for name in key]
        + [F.col("low") <= F.col("number"), F.col("last_number") <= F.col("high")],
        "left_anti",
    )
