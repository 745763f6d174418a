"""The order of all messages by their keys: causal (O3), total (O6), and the keys themselves (O8)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import MEMBER, PROCESS, held, message_name, violations
from unisono.properties.promises import CLOCK_HELD


def causal(trace: Projections) -> DataFrame:
    """O3: a SEND against the highest timestamps before it at its process, a DELIVER against the one before it."""
    delivered = trace.keyed.where("timed and previous >= key")
    above = F.concat(F.lit("delivered after timestamp "), F.col("previous.timestamp").cast("string"))
    found = violations("O3", delivered, above, message_name())
    processes = trace.spoken_below
    if processes is None:
        return found
    held_clocks = (
        trace.tables.gauge.where("kind = 'MARK'")
        .where(F.col("name") == CLOCK_HELD)
        .groupBy(*PROCESS)
        .agg(F.min("position").alias("held_position"))
    )
    sent = (
        _spoken(trace, processes)
        .where(held("O3", "sender"))
        .where("timestamp <= known_sent or timestamp <= known_heard")
        .join(F.broadcast(held_clocks), list(PROCESS), "left")
        .where("timestamp <= known_sent or held_position is null or held_position > position")
        .select("*", F.greatest("known_sent", "known_heard").alias("known"))
    )
    known = F.concat(F.lit("sent where timestamp "), F.col("known").cast("string"), F.lit(" was known"))
    return found.unionByName(violations("O3", sent, known, message_name()))


def _spoken(trace: Projections, processes: DataFrame) -> DataFrame:
    """What these processes sent, with the highest timestamps that each had sent and delivered before, in any group."""
    columns = (*MEMBER, "position", "kind", "service", "number", "timestamp")
    rows = (
        trace.rows("send", processes, PROCESS)
        .select(*columns)
        .unionByName(trace.deliveries(processes, PROCESS).select(*columns))
    )
    before = Window.partitionBy(*PROCESS).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)

    def known(kind: str) -> Column:
        return F.max(F.when(F.col("kind") == kind, F.col("timestamp"))).over(before)

    return (
        rows.select("*", known("SEND").alias("known_sent"), known("DELIVER").alias("known_heard"))
        .where("kind = 'SEND'")
        .select("*", F.col("process").alias("source"), F.col("incarnation").alias("source_incarnation"))
    )


def total_order(trace: Projections) -> DataFrame:
    """O6."""
    found = trace.keyed.where("ordered and highest >= key")
    text = F.concat(F.lit("delivered after timestamp "), F.col("highest.timestamp").cast("string"))
    return violations("O6", found, text, message_name())


def key_discipline(trace: Projections) -> DataFrame:
    """O8: deliveries that differ from their SEND, sends that do not grow, and deliveries below the horizon."""
    changed = trace.differing.where(held("O8", "receiver")).where("timestamp <> sent_timestamp")
    sent_with = F.concat(F.lit("sent with timestamp "), F.col("sent_timestamp").cast("string"))
    before = Window.partitionBy(*MEMBER).orderBy("position")
    sends = (
        trace.tables.send.where("kind = 'SEND'")
        .where(held("O8", "sender"))
        .select(
            *MEMBER,
            "position",
            F.col("process").alias("source"),
            F.col("incarnation").alias("source_incarnation"),
            "number",
            _step("number", before).alias("step"),
            _step("timestamp", before).alias("growth"),
        )
        .where("step <> growth")
    )
    below = trace.keyed.where("timed and timestamp < horizon")
    horizon = F.concat(F.lit("delivered below the horizon of "), F.col("horizon").cast("string"))
    return (
        violations("O8", changed, sent_with, message_name())
        .unionByName(violations("O8", sends, F.lit("its timestamp does not grow with its number"), message_name()))
        .unionByName(violations("O8", below, horizon, message_name()))
    )


def _step(column: str, window: WindowSpec) -> Column:
    """Whether a column grew, stayed or fell since the row before; within a stride it grows."""
    return F.signum(F.col(column) - F.lag(f"last_{column}").over(window))
