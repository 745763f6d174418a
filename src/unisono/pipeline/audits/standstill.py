"""Progress of each (L9): the times in which nothing came to a member, against what others sent in them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import told_by
from unisono.pipeline.audits.agreed import FRESH
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import MEMBER, PROCESS, SOURCE, STREAM, held, message_name, moment, violations
from unisono.pipeline.tables import Tables
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS

_SENT = (*STREAM, "number", "sent_at", "sent_clock")
_UNTIL = F.col("sent_at") + STALL_LIMIT_NANOSECONDS


def progress_of_each(trace: Projections) -> DataFrame:
    """L9: strides of sends that are in a gap lead to single sends, and these are judged one by one."""
    tables = trace.tables
    gaps = trace.found(_gaps(trace))
    if gaps is None:
        return trace.nothing()
    strides = tables.send.where("kind = 'SEND'").select(
        "run",
        "group",
        F.col("process").alias("source"),
        F.col("incarnation").alias("source_incarnation"),
        moment().alias("sent_at"),
        F.coalesce("last_truth", "last_at").alias("last_sent_at"),
    )
    asked = trace.found(_in_gaps(gaps, strides, "last_sent_at").select("run", "group", *SOURCE).distinct())
    if asked is None:
        return trace.nothing()
    single = trace.sends_of(asked).select(
        "run", "group", *SOURCE, "number", moment().alias("sent_at"), told_by().alias("sent_clock")
    )
    waiting = trace.found(_in_gaps(gaps, single, "sent_at").select(*_SENT))
    if waiting is None:
        return trace.nothing()
    judged = _in_view(_not_away(trace, _staying(trace, waiting)), tables)
    first = F.min(F.struct("sent_at", *SOURCE, "number")).alias("first")
    found = judged.groupBy(*MEMBER, "position").agg(first).select(*MEMBER, "position", "first.*")
    return violations("L9", found, F.lit("since this was sent nothing came for longer than 10 s"), message_name())


def _gaps(trace: Projections) -> DataFrame:
    """The times in which nothing came to a member, `gap_begin` to `gap_end`, that are longer than the limit.

    Before its first view a member is not judged, so that no gap is without a begin. Of who is there to the end the
    last gap is bounded by that.
    """
    heard = trace.heartbeats.select(*MEMBER, F.explode(F.array("at", "last_at")).alias("gap_begin"))
    views = trace.tables.view.where("kind = 'VIEW'").select(*MEMBER, moment().alias("gap_begin"))
    stops = _stops(trace.tables).groupBy(*PROCESS).agg(F.max("stopped_at").alias("last_stop"))
    in_order = Window.partitionBy(*MEMBER).orderBy("gap_begin")
    return (
        heard.unionByName(views)
        .distinct()
        .select("*", F.lead("gap_begin").over(in_order).alias("gap_end"))
        .join(stops, list(PROCESS))
        .select("*", F.least(F.coalesce("gap_end", "last_stop"), "last_stop").alias("bound"))
        .where(F.col("bound") - F.col("gap_begin") > STALL_LIMIT_NANOSECONDS)
        .select(*MEMBER, "gap_begin", "bound")
    )


def _in_gaps(gaps: DataFrame, sent: DataFrame, last: str) -> DataFrame:
    """What others sent so long before the end of a gap; of a stride any part."""
    return gaps.join(sent, ["run", "group"]).where(
        (F.col("source") != F.col("process"))
        & (F.col(last) > F.col("gap_begin"))
        & (F.col("bound") > F.col("sent_at") + STALL_LIMIT_NANOSECONDS)
    )


def _stops(tables: Tables) -> DataFrame:
    return tables.membership.where("kind in ('CRASH', 'END')").select(
        *PROCESS, moment().alias("stopped_at"), told_by().alias("stopped_clock")
    )


def _staying(trace: Projections, waiting: DataFrame) -> DataFrame:
    """Where both are there all the time, and for longer."""
    tables = trace.tables
    moves = tables.membership.where("kind in ('JOIN', 'LEAVE')").select(*MEMBER, moment().alias("moved_at"))
    others = tables.gauge.where("kind = 'GAUGE'").where(~held("L9")).select(*MEMBER, moment().alias("moved_at"))
    told = waiting.join(others, list(MEMBER)).where(_is_within("moved_at")).select(*_SENT)
    waiting = waiting.join(told, list(_SENT), "left_anti")
    for life in (("process", "incarnation"), SOURCE):
        stops = _stops(tables).withColumnsRenamed(dict(zip(PROCESS[1:], life, strict=True)))
        mine = moves.withColumnsRenamed(dict(zip(PROCESS[1:], life, strict=True)))
        stopped = (
            waiting.join(stops, ["run", *life])
            .where("stopped_clock = sent_clock")
            .groupBy(*_SENT)
            .agg(F.max(F.col("stopped_at")).alias("last"), F.max(_is_within("stopped_at")).alias("soon"))
            .where((F.col("last") > _UNTIL) & ~F.col("soon"))
            .select(*_SENT)
        )
        stopped = trace.settle(stopped)
        moved = stopped.join(mine, ["run", "group", *life]).where(_is_within("moved_at")).select(*_SENT)
        waiting = trace.settle(stopped.join(moved, list(_SENT), "left_anti"))
    return waiting


def _is_within(time: str) -> Column:
    return (F.col(time) >= F.col("sent_at")) & (F.col(time) <= _UNTIL)


def _not_away(trace: Projections, waiting: DataFrame) -> DataFrame:
    """Where no fault has the name of one of the two."""
    faults = trace.tables.fault.where("kind = 'FAULT' and fault not in ('load', 'heal')").select(
        "run",
        F.explode(F.array_distinct("members")).alias("name"),
        moment().alias("fault_at"),
        F.when(F.col("edge") == "begin", 1).otherwise(-1).alias("step"),
    )
    for name in ("process", "source"):
        before = F.sum(F.when(F.col("fault_at") < F.col("sent_at"), F.col("step")).otherwise(0))
        away = (
            waiting.join(faults.withColumnRenamed("name", name), ["run", name])
            .groupBy(*_SENT)
            .agg(before.alias("open"), F.max(_is_within("fault_at")).alias("soon"))
            .where("open > 0 or soon")
        )
        waiting = trace.settle(waiting.join(away, list(_SENT), "left_anti"))
    return waiting


def _in_view(waiting: DataFrame, tables: Tables) -> DataFrame:
    """Where the source is in the view that the member has then; with the position of that."""
    columns = (*MEMBER, "position", "kind", moment().alias("turned_at"), told_by().alias("turned_clock"))
    sources = F.transform(
        "start", lambda one: F.struct(one["source"].alias("source"), one["incarnation"].alias("incarnation"))
    )
    views = tables.view.where("kind = 'VIEW'").select(*columns, held("L9").alias("held"), sources.alias("sources"))
    turns = tables.membership.where(f"kind in ('JOIN', 'LEAVE') or {FRESH}").select(*columns)
    others = tables.gauge.where("kind = 'GAUGE'").where(~held("L9")).select(*columns)
    latest = F.max_by(F.struct("position", "held", "sources"), "position").alias("turn")
    return (
        waiting.join(views.unionByName(turns.unionByName(others), allowMissingColumns=True), list(MEMBER))
        .where("turned_at <= sent_at and turned_clock = sent_clock")
        .groupBy(*_SENT)
        .agg(latest)
        .where("turn.held")
        .where(
            F.exists(
                "turn.sources",
                lambda one: (one["source"] == F.col("source")) & (one["incarnation"] == F.col("source_incarnation")),
            )
        )
        .select(*_SENT, "turn.position")
    )
