"""Deliveries under timestamp order, each with what its process delivered before it.

All windows are over rows of one process, so that one shuffle serves them all.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.columns import MEMBER, PROCESS, SOURCE, held
from unisono.pipeline.tables import Tables

_UNIT = (*PROCESS, "domain")


def keyed(tables: Tables, deliver: DataFrame) -> DataFrame:
    """Each of these deliveries that is held to O3 (`timed`) or O6 (`ordered`), with its `key`.

    `previous` is the key of the delivery before in the stretch (O3), `horizon` the highest timestamp there (O8),
    `highest` the highest key since the order began (O6).
    """
    timed, ordered = held("O3", "receiver"), held("O6", "receiver")
    common = (*MEMBER, "position", "kind", "stretch")
    rows = (
        deliver.where("kind = 'DELIVER'")
        .where(timed | ordered)
        .select(
            *common,
            *SOURCE,
            "number",
            "timestamp",
            timed.alias("timed"),
            ordered.alias("ordered"),
        )
    )
    empty = [F.lit(None).alias(name) for name in (*SOURCE, "number", "timestamp")]
    views = (
        tables.view.where("kind = 'VIEW'")
        .where(ordered)
        .select(*common, *empty, F.lit(False).alias("timed"), F.lit(True).alias("ordered"))
    )
    nothing = [F.lit(False).alias("timed"), F.lit(False).alias("ordered")]
    joins = tables.membership.where("kind = 'JOIN'").select(*common, *empty, *nothing, "across")
    key = F.struct("timestamp", *SOURCE)
    joined = F.last(F.when(F.col("kind") == "JOIN", F.struct("across")), ignorenulls=True)
    placed = (
        rows.unionByName(views)
        .withColumn("across", F.lit(None).cast("string"))
        .unionByName(joins)
        .repartition(*PROCESS)
        .select("*", joined.over(_before(*MEMBER)).alias("joined"))
        .where("kind <> 'JOIN'")
        .select("*", F.struct(F.col("joined.across").alias("across"), _private().alias("group")).alias("domain"))
        .select("*", F.when(F.col("kind") == "DELIVER", key).alias("key"))
    )
    changes = F.lag("stretch").over(Window.partitionBy(*_UNIT, "group", "ordered").orderBy("position"))
    begins = F.col("ordered") & (changes.isNull() | (changes != F.col("stretch")))
    so_far = Window.partitionBy(*_UNIT).orderBy("position").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        placed.select("*", begins.alias("begins"))
        .select("*", F.count(F.when(F.col("begins"), 1)).over(so_far).alias("era"))
        .select(
            "*",
            F.max(F.when(F.col("ordered"), F.col("key"))).over(_before(*_UNIT, "era")).alias("highest"),
            F.last(F.when(F.col("timed"), F.col("key")), ignorenulls=True)
            .over(_before(*MEMBER, "stretch"))
            .alias("previous"),
            F.max(F.when(F.col("timed"), F.col("timestamp"))).over(_before(*MEMBER, "stretch")).alias("horizon"),
        )
        .where("kind = 'DELIVER'")
        .select(
            *MEMBER,
            "position",
            *SOURCE,
            "number",
            "timestamp",
            "timed",
            "ordered",
            "key",
            "highest",
            "previous",
            "horizon",
        )
    )


def _private() -> Column:
    return F.when(F.col("joined.across").isNull(), F.col("group"))


def _before(*key: str) -> WindowSpec:
    return Window.partitionBy(*key).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
