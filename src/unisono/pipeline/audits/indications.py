"""Stable indication (D7): who goes on without more of a source has all that it released while it counted them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import told_by
from unisono.pipeline.audits.agreed import FRESH
from unisono.pipeline.audits.intervals import merged, uncovered
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import AGREED, MEMBER, SOURCE, STREAM, held, message_name, moment, violations
from unisono.pipeline.tables import Tables

_SENDER = ("run", "group", *SOURCE)
_PASSED = (*STREAM, "position")
_ROW = (*_PASSED, "stretch", "first", "agreed", "era", "told_at", "told_clock")
_AS_SOURCE = {"process": "source", "incarnation": "source_incarnation"}


def stable_indication(trace: Projections) -> DataFrame:
    """D7: strides of sends below the highest release against what was delivered; then message by message."""
    tables = trace.tables
    passed = trace.found(_passed(tables))
    if passed is None:
        return trace.nothing()
    released = (
        tables.repair.where("kind = 'GC' and source = process and source_incarnation = incarnation")
        .select(
            *_SENDER,
            F.col("position").alias("released_at"),
            F.col("first").alias("low"),
            F.col("last").alias("high"),
            moment().alias("release_moment"),
            told_by().alias("release_clock"),
        )
        .join(F.broadcast(passed.select(*_SENDER).distinct()), list(_SENDER), "left_semi")
    )
    most = released.groupBy(*_SENDER).agg(F.max("high").alias("most"))
    heard = merged(_heard(passed, tables.deliver.where("kind = 'DELIVER'")), _PASSED)
    strides = tables.send.where("kind = 'SEND'").withColumnsRenamed(_AS_SOURCE)
    due = _due(passed, strides.select(*_SENDER, "number", "last_number", "sequence", F.col("agreed").alias("sent_era")))
    due = due.join(F.broadcast(most), list(_SENDER)).where("sequence <= most")
    lacking = trace.found(uncovered(due, heard, _PASSED).select(*_ROW).distinct())
    if lacking is None:
        return trace.nothing()
    missing = _received(tables, _undelivered(trace, lacking), released)
    missing = missing.groupBy(*_PASSED).agg(F.min("number").alias("number"), F.count("*").alias("lost"))
    text = F.concat(F.col("lost").cast("string"), F.lit(" messages that their source had released are not delivered"))
    return violations("D7", missing, text, message_name())


def _passed(tables: Tables) -> DataFrame:
    """Every VIEW with each source of the view before of which nothing more can come."""
    views = tables.view.where("kind = 'VIEW'")
    turns = tables.membership.where(f"kind = 'JOIN' or {FRESH}").select(*MEMBER, "position", "kind")
    in_order = Window.partitionBy(*MEMBER).orderBy("position")
    told = ("kind", "stretch", "start", "role", held("D7").alias("held"), held(AGREED).alias("agreed"))
    before = F.lag(F.struct(*told, F.coalesce("era", "view").alias("era")))
    return (
        views.unionByName(turns, allowMissingColumns=True)
        .select("*", before.over(in_order).alias("before"))
        .where("kind = 'VIEW' and before.kind = 'VIEW' and before.stretch = stretch and before.held")
        .where(held("D7"))
        .where("not before.agreed or (era is null and before.role = 'sender')")
        .select(
            *MEMBER,
            "position",
            "stretch",
            F.col("before.agreed").alias("agreed"),
            F.col("before.era").alias("era"),
            moment().alias("told_at"),
            told_by().alias("told_clock"),
            "before.start",
            _names("start").alias("stay"),
            F.explode(F.array_distinct(_names("before.start"))).alias("gone"),
        )
        .where("agreed or not array_contains(stay, gone)")
        .select("*", F.col("gone.source").alias("source"), F.col("gone.incarnation").alias("source_incarnation"))
        .where("source <> process or source_incarnation <> incarnation")
        .select(
            "*",
            F.expr(
                "element_at(filter(start, s -> s.source = gone.source and s.incarnation = gone.incarnation), -1).number"
            ).alias("first"),
        )
        .select(*_ROW)
    )


def _names(start: str) -> Column:
    return F.transform(start, lambda one: F.struct(one["source"], one["incarnation"]))


def _heard(passed: DataFrame, delivered: DataFrame) -> DataFrame:
    """What was delivered of the source in that stretch before the view."""
    rows = delivered.select(*STREAM, "stretch", F.col("position").alias("delivered_at"), "number", "last_number")
    return (
        passed.select(*_PASSED, "stretch")
        .join(rows, [*STREAM, "stretch"])
        .where("delivered_at < position")
        .select(*_PASSED, "number", "last_number")
    )


def _due(passed: DataFrame, sent: DataFrame) -> DataFrame:
    """What was sent from the start number on, in the era of the view where it is agreed."""
    return (
        passed.join(sent, list(_SENDER))
        .where("last_number >= first")
        .where(~F.col("agreed") | F.col("sent_era").eqNullSafe(F.col("era")))
        .withColumn("number", F.greatest("number", "first"))
    )


def _undelivered(trace: Projections, lacking: DataFrame) -> DataFrame:
    """Single messages of a source that one did not deliver."""
    delivered = _heard(lacking, trace.deliveries(lacking, STREAM).withColumn("last_number", F.col("number")))
    columns = (F.col(f"sent_{name}") for name in ("position", "sequence"))
    sent = trace.first_sends(lacking).select(
        *_SENDER, "number", F.col("number").alias("last_number"), *columns, F.col("sent_agreed").alias("sent_era")
    )
    return _due(lacking, sent).join(delivered.select(*_PASSED, "number"), [*_PASSED, "number"], "left_anti")


def _received(tables: Tables, missing: DataFrame, released: DataFrame) -> DataFrame:
    """Those of which a release says that they were received, each once."""
    counted = tables.membership.where("kind in ('GRANT', 'SUSPECT', 'LEAVE')").select(
        "run",
        "group",
        F.col("process").alias("source"),
        F.col("incarnation").alias("source_incarnation"),
        F.when(F.col("kind") != "LEAVE", F.col("peer")).alias("counted"),
        F.when(F.col("kind") != "LEAVE", F.col("peer_incarnation")).alias("counted_incarnation"),
        F.col("position").alias("counted_at"),
        F.col("kind").alias("counts"),
        F.when(F.col("kind") == "GRANT", F.col("sequence")).alias("granted"),
    )
    agreed = tables.view.where("kind = 'VIEW' and era is null").where(held(AGREED))
    moves = (
        agreed.select(*MEMBER, "position")
        .unionByName(tables.membership.where("kind = 'AGREED'").select(*MEMBER, "position"))
        .withColumnsRenamed({**_AS_SOURCE, "position": "moved_at"})
    )
    told = (
        missing.join(released, list(_SENDER))
        .where("release_clock = told_clock and release_moment <= told_at and sent_position < released_at")
        .where("sent_sequence between low and high")
        .join(counted, list(_SENDER))
        .where("counted_at < released_at")
        .where("counts = 'LEAVE' or (counted = process and counted_incarnation = incarnation)")
        .groupBy(*_PASSED, "number", "agreed", "sent_position", "sent_sequence", "released_at")
        .agg(F.max(F.struct("counted_at", "granted"))["granted"].alias("granted"))
        .where("granted <= sent_sequence")
    )
    key = [F.col(f"told.{name}") == F.col(f"moves.{name}") for name in _SENDER]
    between = F.expr("agreed and moved_at > sent_position and moved_at < released_at")
    return (
        told.alias("told")
        .join(moves.alias("moves"), [*key, between], "left_anti")
        .select(*_PASSED, "number")
        .distinct()
    )
