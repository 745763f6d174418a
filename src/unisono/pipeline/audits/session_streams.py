"""What sessions deliver, stream by stream: nothing is left out of one (O2).

A stream is what a source sent for one view: a strong session hears it in that view, a weak one in a spell of the
source, where it may come in late. Strides of sends and deliveries are held against each other as intervals; messages
one by one only where these differ.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import told_by
from unisono.pipeline.audits.agreed import GROUP
from unisono.pipeline.audits.intervals import merged, uncovered
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import (
    MEMBER,
    MESSAGE,
    SOURCE,
    STREAM,
    in_sessions,
    message_name,
    moment,
    violations,
)
from unisono.properties.promises import STRONG, WEAK

_SENDER = (*GROUP, *SOURCE)
_LINE = (*STREAM, "place")
"""What a process hears of a source in one view of a strong session, or in one spell of a weak one."""


def of_view(view: str) -> Column:
    return F.concat(F.lit("view "), F.coalesce(view, F.lit("")))


def sent(trace: Projections) -> DataFrame:
    """What sessions sent, first SENDs only, in strides: `stream` is the one that each belongs to."""
    return trace.shared("sent_in_sessions", lambda: _strides(trace))


def _strides(trace: Projections) -> DataFrame:
    own = {"source": F.col("process"), "source_incarnation": F.col("incarnation")}
    strides = told(trace.tables.send.withColumns(own))
    again = trace.found(trace.repeated)
    if again is None:
        return strides
    return strides.join(F.broadcast(again), list(_SENDER), "left_anti").unionByName(told(single(trace, again)))


def told(rows: DataFrame) -> DataFrame:
    return rows.where(in_sessions()).select(
        *_SENDER,
        "number",
        "last_number",
        "sequence",
        "last_sequence",
        of_view("agreed").alias("stream"),
        moment().alias("moment"),
        told_by().alias("clock"),
    )


def single(trace: Projections, sources: DataFrame) -> DataFrame:
    """The first SEND of every message of these sources, as strides of one."""
    parts = ("sequence", "truth", "at", "host", "service", "agreed")
    return (
        trace.first_sends(sources)
        .select(*MESSAGE, *(F.col(f"sent_{part}").alias(part) for part in parts))
        .select("*", *(F.col(name).alias(f"last_{name}") for name in ("number", "sequence")))
    )


def session_gaps(trace: Projections) -> DataFrame:
    """O2 of sessions: of each stream that a process hears, what is missing below the highest that it delivered."""
    if not trace.has_sessions:
        return trace.nothing()
    heard = trace.settle(_heard(trace))
    streams = sent(trace).select(
        *_SENDER, "stream", F.col("number").alias("from_number"), F.col("last_number").alias("to_number")
    )
    strong = heard.where("not weak").withColumn("stream", F.col("place")).join(streams, [*_SENDER, "stream"])
    both = (
        strong.unionByName(heard.where("weak").join(streams, list(_SENDER)))
        .where("from_number <= last_number and number <= to_number")
        .groupBy(*_LINE, "stream", "weak")
        .agg(
            F.max(F.least("last_number", "to_number")).alias("top"),
            F.min(F.greatest("number", "from_number")).alias("low"),
        )
        .select(*_LINE, "stream", "weak", "top", F.when(F.col("weak"), F.col("low")).otherwise(0).alias("low"))
    )
    bounds = trace.settle(both)
    asked = (
        streams.join(F.broadcast(bounds), [*_SENDER, "stream"])
        .where("from_number < top and to_number >= low")
        .select(
            *_LINE,
            "stream",
            "weak",
            F.greatest("from_number", "low").alias("number"),
            F.least("to_number", "top").alias("last_number"),
        )
    )
    suspects = trace.found(uncovered(asked, merged(heard, _LINE), _LINE))
    if suspects is None:
        return trace.nothing()
    lines = suspects.select(*_LINE).distinct()
    got = heard.join(F.broadcast(lines), list(_LINE), "left_semi")
    returned = trace.tables.membership.where("kind = 'RETURNED'").where(in_sessions(STRONG))
    returned = returned.select(
        *GROUP,
        F.col("process").alias("source"),
        F.col("incarnation").alias("source_incarnation"),
        F.lit(False).alias("weak"),
        "number",
    )
    found = (
        suspects.select(*_LINE, "stream", "weak", _numbers())
        .join(got.select(*_LINE, _numbers()), [*_LINE, "number"], "left_anti")
        .join(returned, [*_SENDER, "weak", "number"], "left_anti")
        .groupBy(*_LINE, "stream")
        .agg(F.min("number").alias("number"))
        .join(got.groupBy(*_LINE).agg(F.min("position").alias("position")), list(_LINE))
    )
    return violations("O2", found, F.lit("left out, though a later one of its stream was delivered"), message_name())


def _numbers() -> Column:
    return F.explode(F.sequence("number", "last_number")).alias("number")


def _heard(trace: Projections) -> DataFrame:
    """What sessions delivered, in strides, by line; of weak ones what came while the source was in the view."""
    columns = (*STREAM, "position", "number", "last_number")
    strong = trace.tables.deliver.where("kind = 'DELIVER'").where(in_sessions(STRONG))
    inside = trace.streams.where("kind = 'DELIVER' and view_position is not null and begin_position = view_position")
    weak = (
        inside.where(in_sessions(WEAK))
        .select(*columns, "view_position")
        .join(_spells(trace).withColumnRenamed("position", "view_position"), [*STREAM, "view_position"])
    )
    return strong.select(*columns, of_view("view").alias("place"), F.lit(False).alias("weak")).unionByName(
        weak.select(
            *columns, F.concat(F.lit("spell "), F.col("begin").cast("string")).alias("place"), F.lit(True).alias("weak")
        )
    )


def _spells(trace: Projections) -> DataFrame:
    """For every source in a view of a session where its run of views began."""
    tables = trace.tables
    joins = tables.membership.where("kind = 'JOIN'").select(*MEMBER, "position", "kind")
    in_order = Window.partitionBy(*MEMBER).orderBy("position")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    views = (
        tables.view.where("kind = 'VIEW'")
        .where(in_sessions())
        .unionByName(joins, allowMissingColumns=True)
        .select("*", F.count(F.when(F.col("kind") == "JOIN", 1)).over(so_far).alias("stay"))
        .where("kind = 'VIEW'")
        .select("*", F.row_number().over(in_order).alias("ordinal"))
    )
    of_source = Window.partitionBy(*STREAM, "stay", "stretch").orderBy("position")
    run = Window.partitionBy(*STREAM, "stay", "stretch", "island")
    return (
        views.select(*MEMBER, "position", "stay", "stretch", "ordinal", F.explode("start").alias("one"))
        .select("*", F.col("one.source").alias("source"), F.col("one.incarnation").alias("source_incarnation"))
        .dropDuplicates([*STREAM, "position"])
        .select("*", (F.col("ordinal") - F.row_number().over(of_source)).alias("island"))
        .select(*STREAM, "position", F.min("position").over(run).alias("begin"))
    )
