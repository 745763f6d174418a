"""A run that must go on: no standstill under load (L6), no buffer above its cap (L7)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import servers
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import held, in_sessions, moment, violations
from unisono.pipeline.tables import Tables
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS

_ORDER = ("time", "process", "incarnation", "position")
"""The order of the rows of a run; what holds at a time is what holds after its last row."""


def no_deadlock(trace: Projections) -> DataFrame:
    """L6: moments at which progress is due or made, in order, and the gaps between those that count."""
    moments = due_moments(trace.tables).unionByName(progress_moments(trace))
    by_time = Window.partitionBy("run").orderBy("time")
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    times = (
        moments.groupBy("run", "time")
        .agg(F.max("due").alias("due"), F.max("progress").alias("progress"))
        .select(
            "run",
            "time",
            "progress",
            F.coalesce(F.last("due", ignorenulls=True).over(so_far), F.lit(False)).alias("due"),
        )
    )
    begins = ~F.coalesce(F.lag("due").over(by_time), F.lit(False)) | F.col("progress")
    found = (
        times.select(
            "*",
            begins.alias("begins"),
            F.lead("time").over(by_time).alias("following"),
            (F.lead("progress").over(by_time) | ~F.lead("due").over(by_time)).alias("gap_ends"),
            F.lead("time", 2).over(by_time).isNull().alias("last"),
        )
        .select(
            "*",
            F.last(F.when(F.col("due") & F.col("begins"), F.col("time")), ignorenulls=True).over(so_far).alias("since"),
        )
        .where("due and following is not null and (gap_ends or last)")
        .where(F.col("following") - F.col("since") > STALL_LIMIT_NANOSECONDS)
    )
    text = F.concat(
        F.lit("under load there is no progress from "),
        F.col("since").cast("string"),
        F.lit(" to "),
        F.col("following").cast("string"),
    )
    whole_run = found.select(
        "run",
        F.lit("").alias("group"),
        F.lit("").alias("process"),
        F.lit(0).cast("bigint").alias("incarnation"),
        F.lit(0).cast("bigint").alias("position"),
        "since",
        "following",
    )
    return violations("L6", whole_run, text)


def progress_moments(trace: Projections) -> DataFrame:
    """Moments of progress as far as they can bound a standstill, and the last moment of deliveries and views."""
    unknown = F.lit(None).cast("boolean").alias("due")
    delivered = trace.moments.select(
        "run", F.explode(F.array("at", "last_at")).alias("time"), unknown, F.col("remarkable").alias("progress")
    )
    views = trace.tables.view.where("kind = 'VIEW'")
    return delivered.unionByName(views.select("run", moment().alias("time"), unknown, F.lit(True).alias("progress")))


def due_moments(tables: Tables) -> DataFrame:
    """At every row of membership and faults, whether progress is due from then on."""
    rows = turns(tables)
    named = presence(rows).join(F.broadcast(servers(tables)), ["run", "name"], "left")
    members = named.join(F.broadcast(_not_counted(tables)), ["run", "name"], "left_anti")
    changes = (
        members.select("run", *_ORDER, "known", "present", "load")
        .unionByName(load(rows))
        .unionByName(_without(rows, "known", "present", "load"))
        .withColumn("unserved", F.lit(0))
        .unionByName(_unserved(named.where("sort is not null")), allowMissingColumns=True)
        .groupBy("run", "time")
        .agg(
            F.sum("unserved").alias("unserved"),
            F.sum("known").alias("known"),
            F.sum("present").alias("present"),
            F.max_by("load", F.when(F.col("load").isNotNull(), F.struct(*_ORDER[1:]))).alias("load"),
        )
    )
    so_far = Window.partitionBy("run").orderBy("time").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known, present = F.sum("known").over(so_far), F.sum("present").over(so_far)
    loaded = F.coalesce(F.last("load", ignorenulls=True).over(so_far), F.lit(0)) > 0
    due = loaded & (present >= 2) & (2 * present > known) & (F.sum("unserved").over(so_far) == 0)
    return changes.select("run", "time", due.alias("due"), F.lit(False).alias("progress"))


def _not_counted(tables: Tables) -> DataFrame:
    """In runs with sessions, the names that never join."""
    joins = tables.membership.where("kind = 'JOIN'")
    return (
        tables.membership.where("kind = 'START'")
        .select("run", F.col("process").alias("name"))
        .distinct()
        .join(joins.where(in_sessions()).select("run").distinct(), "run", "left_semi")
        .join(joins.select("run", F.col("process").alias("name")).distinct(), ["run", "name"], "left_anti")
    )


def _unserved(named: DataFrame) -> DataFrame:
    """By how much the number of kinds of servers changes of which some started and none is present."""
    by_time = Window.partitionBy("run", "sort").orderBy("time")
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    without = F.expr("known > 0 and present = 0").cast("int")
    return (
        named.groupBy("run", "sort", "time")
        .agg(F.sum("known").alias("known"), F.sum("present").alias("present"))
        .select("run", "sort", "time", *(F.sum(name).over(so_far).alias(name) for name in ("known", "present")))
        .select("run", "sort", "time", without.alias("without"))
        .select(
            "run", "time", (F.col("without") - F.coalesce(F.lag("without").over(by_time), F.lit(0))).alias("unserved")
        )
    )


def turns(tables: Tables) -> DataFrame:
    """The rows that can begin or end a stretch of time in which progress is due, and those that only tell the time."""
    columns = ("run", moment().alias("time"), "process", "incarnation", "position", "kind", "group")
    step = F.when(F.col("edge") == "begin", 1).otherwise(-1)
    moves = tables.membership.where("kind in ('START', 'JOIN', 'LEAVE', 'CRASH', 'END')").select(
        *columns,
        F.lit(0).alias("step"),
        F.lit(None).cast("array<string>").alias("members"),
    )
    faults = tables.fault.where("kind = 'FAULT'").select(
        *columns[:5], F.col("fault").alias("kind"), "group", step.alias("step"), "members"
    )
    return moves.unionByName(faults)


def presence(turns: DataFrame) -> DataFrame:
    """By how much each row changes the number of names started so far (`known`), and of those that are present."""
    moves = turns.where("kind in ('START', 'JOIN', 'LEAVE', 'CRASH')").select(
        "*", F.col("process").alias("name"), F.lit(False).alias("takes")
    )
    taken = turns.where("members is not null and kind not in ('load', 'heal')").select(
        "*", F.explode("members").alias("name"), F.lit(True).alias("takes")
    )
    name = ("run", "name")
    kind, moved = F.col("kind"), ~F.col("takes")
    joins, leaves = moved & (kind == "JOIN"), moved & (kind == "LEAVE")
    starts, crashes = moved & (kind == "START"), moved & (kind == "CRASH")

    def so_far(*key: str) -> WindowSpec:
        return Window.partitionBy(*key).orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, Window.currentRow)

    in_group = Window.partitionBy(*name, "life", "takes", "group").orderBy(*_ORDER)
    before = in_group.rowsBetween(Window.unboundedPreceding, -1)
    was_in = F.coalesce(F.last(F.when(joins | leaves, joins), ignorenulls=True).over(before), F.lit(False))
    change = F.when(joins | leaves, joins.cast("int") - was_in.cast("int")).otherwise(0)
    level = clamped("faults", so_far(*name))
    states = (
        moves.unionByName(taken)
        .select("*", F.count(F.when(crashes, 1)).over(so_far(*name)).alias("life"))
        .select("*", change.alias("change"))
        .select("*", F.sum("change").over(so_far(*name, "life")).alias("groups"))
        .select(
            "*",
            F.sum(F.when(F.col("takes"), F.col("step")).otherwise(0)).over(so_far(*name)).alias("faults"),
            F.max(starts).over(so_far(*name)).alias("known"),
            F.last(F.when(starts | crashes, starts), ignorenulls=True).over(so_far(*name)).alias("alive"),
            F.last(F.when(joins | leaves, leaves & (F.col("groups") == 0)), ignorenulls=True)
            .over(so_far(*name))
            .alias("left"),
        )
        .select("*", level.alias("away"))
        .select("*", (F.expr("known and alive and not coalesce(left, false)") & (F.col("away") == 0)).alias("present"))
    )
    in_order = Window.partitionBy(*name).orderBy(*_ORDER)

    def difference(column: str) -> Column:
        now = F.col(column).cast("int")
        return (now - F.coalesce(F.lag(now).over(in_order), F.lit(0))).alias(column)

    return states.select(
        "run", "name", *_ORDER, difference("known"), difference("present"), F.lit(None).cast("bigint").alias("load")
    )


def load(turns: DataFrame) -> DataFrame:
    """How many loads are active after each row that begins or ends one."""
    so_far = Window.partitionBy("run").orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = (
        turns.where("kind = 'load' and members is not null")
        .select("*", F.sum("step").over(so_far).alias("loads"))
        .select("*", clamped("loads", so_far).alias("load"))
    )
    return _without(counted, "known", "present").select("run", *_ORDER, "known", "present", "load")


def clamped(total: str, so_far: WindowSpec) -> Column:
    """A running count that never falls below zero: what ends without having begun is forgotten."""
    return F.col(total) - F.least(F.lit(0), F.min(total).over(so_far))


def _without(rows: DataFrame, *columns: str) -> DataFrame:
    """The rows with nothing in these columns."""
    for column in columns:
        rows = rows.withColumn(column, F.lit(None).cast("bigint"))
    return rows.select("run", *_ORDER, *(name for name in ("known", "present", "load") if name in rows.columns))


def bounded_resources(trace: Projections) -> DataFrame:
    """L7."""
    found = trace.tables.gauge.where("kind = 'GAUGE' and value > cap").where(held("L7"))
    text = F.format_string("%s is %d, its cap is %d", "name", "value", "cap")
    return violations("L7", found, text)
