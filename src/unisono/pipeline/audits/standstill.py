"""Progress of each (L9): the times in which nothing came to a member, against what others sent in them."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import told_by
from unisono.pipeline.audits.connected import SENT, in_view, is_source_of, not_away, staying, stops_of
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import MEMBER, PROCESS, SOURCE, message_name, moment, violations
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS


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
    waiting = trace.found(_in_gaps(gaps, single, "sent_at").select(*SENT))
    if waiting is None:
        return trace.nothing()
    there = not_away(trace, staying(trace, "L9", waiting))
    judged = in_view(there, "L9", tables).where(is_source_of("sources"))
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
    stops = stops_of(trace.tables).groupBy(*PROCESS).agg(F.max("stopped_at").alias("last_stop"))
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
