"""Connection: who was in a view when something was sent, and there for a time, with no fault that took it away."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import told_by
from unisono.pipeline.audits.agreed import FRESH
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import MEMBER, PROCESS, SOURCE, STREAM, held, moment
from unisono.pipeline.tables import Tables
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS

SENT = (*STREAM, "number", "sent_at", "sent_clock")
"""A message that was sent, for each of the members that it is judged for."""
_UNTIL = f"sent_at + {STALL_LIMIT_NANOSECONDS}"


def stops_of(tables: Tables) -> DataFrame:
    return tables.membership.where("kind in ('CRASH', 'END')").select(
        *PROCESS, moment().alias("stopped_at"), told_by().alias("stopped_clock")
    )


def staying(trace: Projections, property_id: str, waiting: DataFrame) -> DataFrame:
    """Where both are there all the time, and for longer."""
    tables = trace.tables
    moves = tables.membership.where("kind in ('JOIN', 'LEAVE')").select(*MEMBER, moment().alias("moved_at"))
    others = tables.gauge.where("kind = 'GAUGE'").where(~held(property_id)).select(*MEMBER, moment().alias("moved_at"))
    told = waiting.join(others, list(MEMBER)).where(_is_within("moved_at")).select(*SENT)
    waiting = waiting.join(told, list(SENT), "left_anti")
    for life in (("process", "incarnation"), SOURCE):
        stops = stops_of(tables).withColumnsRenamed(dict(zip(PROCESS[1:], life, strict=True)))
        mine = moves.withColumnsRenamed(dict(zip(PROCESS[1:], life, strict=True)))
        stopped = (
            waiting.join(stops, ["run", *life])
            .where("stopped_clock = sent_clock")
            .groupBy(*SENT)
            .agg(F.max(F.col("stopped_at")).alias("last"), F.max(_is_within("stopped_at")).alias("soon"))
            .where((F.col("last") > F.expr(_UNTIL)) & ~F.col("soon"))
            .select(*SENT)
        )
        stopped = trace.settle(stopped)
        moved = stopped.join(mine, ["run", "group", *life]).where(_is_within("moved_at")).select(*SENT)
        waiting = trace.settle(stopped.join(moved, list(SENT), "left_anti"))
    return waiting


def _is_within(time: str) -> Column:
    return (F.col(time) >= F.col("sent_at")) & (F.col(time) <= F.expr(_UNTIL))


def not_away(trace: Projections, waiting: DataFrame) -> DataFrame:
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
            .groupBy(*SENT)
            .agg(before.alias("open"), F.max(_is_within("fault_at")).alias("soon"))
            .where("open > 0 or soon")
        )
        waiting = trace.settle(waiting.join(away, list(SENT), "left_anti"))
    return waiting


def in_view(waiting: DataFrame, property_id: str, tables: Tables) -> DataFrame:
    """Where the member has a view then that promises this; with its position, stretch and sources."""
    columns = (*MEMBER, "position", "stretch", "kind", moment().alias("turned_at"), told_by().alias("turned_clock"))
    sources = F.transform(
        "start", lambda one: F.struct(one["source"].alias("source"), one["incarnation"].alias("incarnation"))
    )
    promise = held(property_id).alias("held")
    views = tables.view.where("kind = 'VIEW'").select(*columns, promise, sources.alias("sources"))
    turns = tables.membership.where(f"kind in ('JOIN', 'LEAVE') or {FRESH}").select(*columns)
    others = tables.gauge.where("kind = 'GAUGE'").where(~held(property_id)).select(*columns)
    latest = F.max_by(F.struct("position", "stretch", "held", "sources"), "position").alias("turn")
    return (
        waiting.join(views.unionByName(turns.unionByName(others), allowMissingColumns=True), list(MEMBER))
        .where("turned_at <= sent_at and turned_clock = sent_clock")
        .groupBy(*SENT)
        .agg(latest)
        .where("turn.held")
        .select(*SENT, "turn.position", "turn.stretch", "turn.sources")
    )


def is_source_of(sources: str) -> Column:
    """Whether the source is one of these."""
    return F.exists(
        sources,
        lambda one: (one["source"] == F.col("source")) & (one["incarnation"] == F.col("source_incarnation")),
    )
