"""The life of each member of a group: the stretches it had, its service, its joins and leaves, and its end."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.columns import MEMBER, PROCESS, clock, held, in_sessions, moment
from unisono.pipeline.tables import Tables

TELLING = {"membership": "JOIN", "view": "VIEW", "send": "SEND", "deliver": "DELIVER", "gauge": "GAUGE"}
"""No row tells of a change of service: these do by their service and their stretch."""


def told_by() -> Column:
    """What times may be compared with, never null: empty for the global time."""
    return F.coalesce(F.concat(F.lit("on "), clock()), F.lit(""))


def stretches(tables: Tables) -> DataFrame:
    """Every stretch of every member: the position of its last row that tells, and the last service told in it.

    `apart` says that a row tells of a service whose receivers follow no senders (M9).
    """
    served = F.max(F.when(F.col("service").isNotNull(), F.struct("position", "service"))).alias("served")
    told = [
        telling(tables, family, kind)
        .groupBy(*MEMBER, "stretch")
        .agg(F.max("position").alias("last_position"), served, F.max(~held("M9")).alias("apart"))
        for family, kind in TELLING.items()
    ]
    return (
        reduce(DataFrame.unionByName, told)
        .groupBy(*MEMBER, "stretch")
        .agg(*(F.max(name).alias(name) for name in ("last_position", "served", "apart")))
    )


def telling(tables: Tables, family: str, kind: str) -> DataFrame:
    """The rows of one kind; of a stride the last one tells."""
    last = "last_position" if family in ("send", "deliver") else "position"
    columns = (*MEMBER, "stretch", "service", F.col(last).alias("position"))
    return tables.family(family).where(F.col("kind") == kind).select(*columns)


def later_stretches(stretches: DataFrame) -> DataFrame:
    """For every stretch of a member the last position of any later one."""
    later = Window.partitionBy(*MEMBER).orderBy(F.desc("stretch")).rowsBetween(Window.unboundedPreceding, -1)
    return stretches.select(*MEMBER, "stretch", F.max("last_position").over(later).alias("later_position"))


def ends(tables: Tables) -> DataFrame:
    """The END of every process that has one: position, time, and what its time compares with."""
    last = F.max(F.struct("position", moment().alias("ended"), told_by().alias("end_clock"))).alias("last")
    return (
        tables.membership.where("kind = 'END'")
        .groupBy(*PROCESS)
        .agg(last)
        .select(*PROCESS, F.col("last.position").alias("end_position"), "last.ended", "last.end_clock")
    )


def moves(tables: Tables) -> DataFrame:
    """The last JOIN or LEAVE of every member, and its last JOIN."""
    step = F.struct("position", "kind", moment().alias("moment"), told_by().alias("clock"), "role")
    return (
        tables.membership.where("kind in ('JOIN', 'LEAVE')")
        .groupBy(*MEMBER)
        .agg(F.max(step).alias("moved"), F.max(F.when(F.col("kind") == "JOIN", step)).alias("joined"))
    )


def standing(stretches: DataFrame, ends: DataFrame, moves: DataFrame) -> DataFrame:
    """Every member that reached an END: its last service and stretch, how it moved last, and its end."""
    return (
        stretches.groupBy(*MEMBER)
        .agg(F.max("served")["service"].alias("service"), F.max("stretch").alias("last_stretch"))
        .join(ends, list(PROCESS))
        .join(moves, list(MEMBER), "left")
    )


def servers(tables: Tables) -> DataFrame:
    """Who serves sessions, and its `sort`: names with a colon that start and never join, in runs with sessions."""
    joins = tables.membership.where("kind = 'JOIN'")
    return (
        tables.membership.where("kind = 'START' and process like '%:%'")
        .select("run", F.col("process").alias("name"), F.substring_index("process", ":", 1).alias("sort"))
        .distinct()
        .join(joins.select("run", F.col("process").alias("name")).distinct(), ["run", "name"], "left_anti")
        .join(joins.where(in_sessions()).select("run").distinct(), "run", "left_semi")
    )


def cut_off(fault: DataFrame) -> DataFrame:
    """Names in a fault that began and never ended."""
    return (
        fault.where("kind = 'FAULT' and fault not in ('load', 'heal')")
        .select("run", "edge", F.explode("members").alias("name"))
        .groupBy("run", "name")
        .agg(F.sum(F.when(F.col("edge") == "begin", 1).otherwise(-1)).alias("open"))
        .where("open > 0")
        .select("run", "name")
    )
