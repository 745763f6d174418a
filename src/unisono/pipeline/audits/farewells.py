"""Last sends (D13): who is told that another left has delivered all that it sent before."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import told_by
from unisono.pipeline.audits.agreed import FRESH
from unisono.pipeline.audits.intervals import merged, uncovered
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import (
    AGREED,
    MEMBER,
    SOURCE,
    STREAM,
    held,
    in_sessions,
    message_name,
    moment,
    violations,
)
from unisono.pipeline.tables import Tables

_TELLING = (*STREAM, "position")
_ROW = (*_TELLING, "stretch", "first", "agreed", "era", "told_at", "told_clock", "settled", "left_at")


def last_sends(trace: Projections) -> DataFrame:
    """D13: strides of sends against what was delivered before; single rows only of who lacks some."""
    told = trace.found(_told(trace.tables))
    if told is None:
        return trace.nothing()
    heard = merged(_heard(told, trace.tables.deliver.where("kind = 'DELIVER'")), _TELLING)
    owed = _owed(told, trace.tables.send.where("kind = 'SEND'"))
    lacking = trace.found(uncovered(owed, heard, _TELLING).select(*_ROW).distinct())
    if lacking is None:
        return trace.nothing()
    delivered = _heard(lacking, trace.deliveries(lacking, STREAM).withColumn("last_number", F.col("number")))
    missing = (
        _owed(lacking, _singly(trace, lacking))
        .join(delivered.select(*_TELLING, "number"), [*_TELLING, "number"], "left_anti")
        .groupBy(*_TELLING)
        .agg(F.min("number").alias("number"), F.count("*").alias("lost"))
    )
    text = F.concat(F.col("lost").cast("string"), F.lit(" messages that were sent before a leave are not delivered"))
    return violations("D13", missing, text, message_name())


def _told(tables: Tables) -> DataFrame:
    """Every VIEW that says of a member of the view before that it left, where it has one LEAVE, without a reason."""
    views = tables.view.where("kind = 'VIEW'")
    turns = tables.membership.where(f"kind = 'JOIN' or {FRESH}").select(*MEMBER, "position", "kind")
    in_order = Window.partitionBy(*MEMBER).orderBy("position")
    before = F.lag(
        F.struct("kind", "stretch", "start", held("D13").alias("held"), F.coalesce("era", "view").alias("era"))
    )
    pairs = (
        views.unionByName(turns, allowMissingColumns=True)
        .select("*", before.over(in_order).alias("before"), held(AGREED).alias("agreed"))
        .where("kind = 'VIEW' and before.kind = 'VIEW' and before.stretch = stretch and before.held")
        .where(held("D13"))
        .select(
            *MEMBER,
            "position",
            "stretch",
            "agreed",
            F.col("before.era").alias("era"),
            moment().alias("told_at"),
            told_by().alias("told_clock"),
            in_sessions().alias("in_sessions"),
            "before.start",
            F.explode(F.filter("reasons", lambda one: one["reason"] == "left")).alias("gone"),
        )
        .select("*", F.col("gone.process").alias("source"), F.col("gone.incarnation").alias("source_incarnation"))
        .where("source <> process or source_incarnation <> incarnation")
        .select(
            "*",
            F.try_element_at(
                F.filter(
                    "start",
                    lambda one: (
                        (one["source"] == F.col("source")) & (one["incarnation"] == F.col("source_incarnation"))
                    ),
                ),
                F.lit(-1),
            ).alias("begin"),
        )
        .where("begin is not null")
        .select("*", F.when(F.col("in_sessions"), 1).otherwise(F.col("begin.number")).alias("first"))
    )
    return pairs.join(_leavers(tables), ["run", "group", *SOURCE]).select(*_ROW).distinct()


def _leavers(tables: Tables) -> DataFrame:
    """Who left a group once, for no reason: where, and where it came into another agreed view last before that."""
    leaves = (
        tables.membership.where("kind = 'LEAVE'")
        .groupBy(*MEMBER)
        .agg(F.count("*").alias("times"), F.max("position").alias("left_at"), F.max("reason").alias("reason"))
        .where("times = 1 and reason is null")
    )
    moves = (
        tables.view.where("kind = 'VIEW' and era is null")
        .where(held(AGREED))
        .select(*MEMBER, "position")
        .unionByName(tables.membership.where("kind = 'AGREED'").select(*MEMBER, "position"))
    )
    return (
        leaves.join(moves, list(MEMBER), "left")
        .groupBy(*MEMBER, "left_at")
        .agg(F.max(F.expr("case when position < left_at then position end")).alias("settled"))
        .withColumnsRenamed({"process": "source", "incarnation": "source_incarnation"})
    )


def _heard(told: DataFrame, delivered: DataFrame) -> DataFrame:
    """What was delivered of the leaver in that stretch before the view."""
    rows = delivered.select(*STREAM, "stretch", F.col("position").alias("delivered_at"), "number", "last_number")
    return (
        told.select(*_TELLING, "stretch")
        .join(rows, [*STREAM, "stretch"])
        .where("delivered_at < position")
        .select(*_TELLING, "number", "last_number")
    )


def _owed(told: DataFrame, sent: DataFrame) -> DataFrame:
    """What the leaver had sent, as far as it is owed; a stride counts if its first message does."""
    rows = sent.select(
        "run",
        "group",
        F.col("process").alias("source"),
        F.col("incarnation").alias("source_incarnation"),
        F.col("position").alias("sent_at"),
        F.col("last_position").alias("sent_until"),
        moment().alias("sent_moment"),
        told_by().alias("sent_clock"),
        F.col("agreed").alias("sent_era"),
        "number",
        "last_number",
    )
    return (
        told.join(rows, ["run", "group", *SOURCE])
        .where("sent_at < left_at and sent_clock = told_clock and sent_moment <= told_at and last_number >= first")
        .where(F.expr("not agreed or coalesce(sent_until > settled, true)"))
        .where(~F.col("agreed") | F.col("sent_era").eqNullSafe(F.col("era")))
        .withColumn("number", F.greatest("number", "first"))
    )


def _singly(trace: Projections, told: DataFrame) -> DataFrame:
    """The first SENDs of the leavers, a row each."""
    first = trace.first_sends(told)
    return first.select(
        "run",
        "group",
        F.col("source").alias("process"),
        F.col("source_incarnation").alias("incarnation"),
        "number",
        F.col("number").alias("last_number"),
        F.col("sent_position").alias("last_position"),
        *(F.col(f"sent_{name}").alias(name) for name in ("position", "truth", "at", "host", "agreed")),
    )
