"""Measures of virtual synchrony sessions: how long views take to change, and what a message costs (002 6).

Each change is told by a member that comes from one view into the next; who joins has nothing to synchronise.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.columns import MEMBER, in_sessions, moment
from unisono.pipeline.measures.catalogue import OVERHEAD
from unisono.pipeline.measures.delivery import GROUP, named
from unisono.pipeline.tables import Tables
from unisono.properties.promises import STRONG

_KINDS = ("START_CHANGE", "NEW_VIEW", "SYNCHRONIZED", "BLOCK_OK")


def changes(tables: Tables) -> DataFrame:
    """For each view that a member came into from another one, how long each part of the change took there."""
    columns = (*MEMBER, "position", "kind", moment().alias("moment"))
    installs = (
        tables.view.where("kind = 'VIEW' and change is not null")
        .where(in_sessions(STRONG))
        .select(*columns, F.col("change").alias("number"), F.struct("position", "change", "previous").alias("view"))
    )
    nothing = F.lit(None).cast(installs.schema["view"].dataType).alias("view")
    told = (
        tables.membership.where(in_sessions(STRONG))
        .where(F.col("kind").isin(*_KINDS))
        .select(*columns, "number", nothing)
    )
    onwards = Window.partitionBy(*MEMBER).orderBy("position").rowsBetween(Window.currentRow, Window.unboundedFollowing)

    def first(kind: str, of_the_view: bool) -> Column:
        wanted = F.col("kind") == kind
        if of_the_view:
            wanted &= F.col("number") == F.col("view.change")
        return F.min(F.when(wanted, F.col("moment")))

    timed = (
        reduce(DataFrame.unionByName, [installs, told])
        .withColumn("view", F.first("view", ignorenulls=True).over(onwards))
        .where("view.previous is not null")
        .groupBy(*MEMBER, "view")
        .agg(
            first("START_CHANGE", of_the_view=False).alias("began"),
            first("BLOCK_OK", of_the_view=False).alias("blocked"),
            first("START_CHANGE", of_the_view=True).alias("started"),
            first("NEW_VIEW", of_the_view=True).alias("agreed"),
            first("SYNCHRONIZED", of_the_view=True).alias("synchronized"),
            first("VIEW", of_the_view=True).alias("installed"),
        )
    )
    membership = F.col("agreed") - F.col("started")
    synchronisation = F.col("synchronized") - F.col("began")
    whole = F.col("installed") - F.col("began")
    entries = {
        "session change": whole,
        "session change: membership": membership,
        "session change: synchronisation": synchronisation,
        "session change: membership after synchronisation": membership - synchronisation,
        "session change: view after membership": whole - membership,
        "session change: blocked": F.col("installed") - F.col("blocked"),
    }
    return timed.select(*GROUP, named(entries)).where("value is not null").select(*GROUP, "measure", "value")


def overheads(tables: Tables) -> DataFrame:
    """What a benchmark says that a session took for each of its messages."""
    return (
        tables.statistic.where(F.col("kind") == OVERHEAD)
        .select(*GROUP, F.inline("values"))
        .where("name = 'nanoseconds' and number is not null")
        .select(*GROUP, F.lit("session overhead").alias("measure"), F.col("number").alias("value"))
    )
