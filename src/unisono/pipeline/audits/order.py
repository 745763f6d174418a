"""The order within one source: it never goes back (O1), and within a spell it skips nothing (O2)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.audits.session_streams import session_gaps
from unisono.pipeline.columns import held, in_sessions, message_name, violations


def fifo(trace: Projections) -> DataFrame:
    """O1."""
    loose = F.when(F.col("last_loose.stretch") == F.col("stretch"), F.col("last_loose.number"))
    found = (
        trace.streams.where("kind = 'DELIVER'")
        .where(held("O1"))
        .select("*", F.when(held("O2"), F.col("last")).otherwise(loose).alias("before"))
        .where("before >= number")
    )
    text = F.concat(F.lit("delivered after number "), F.col("before").cast("string"))
    return violations("O1", found, text, message_name())


def reliable_fifo(trace: Projections) -> DataFrame:
    """O2: a delivery, or the start point of a later view, has the number that is due if its source is in the view.

    Views of sessions give no numbers; their streams are looked at by themselves.
    """
    inside = F.col("view_position").isNotNull() & F.col("begin_position").eqNullSafe(F.col("view_position"))
    rows = trace.streams.where("kind in ('DELIVER', 'BEGIN')").where(held("O2"))
    judged = rows.where(~in_sessions() | (F.col("kind") == "DELIVER")).select("*", inside.alias("inside"))
    outside = trace.single(judged.where("not inside and kind = 'DELIVER'"))
    found = judged.where("inside and number <> due").where(~in_sessions()).unionByName(outside)
    due = F.concat(F.lit(" where number "), F.col("due").cast("string"), F.lit(" was due"))
    text = (
        F.when(~F.col("inside"), F.lit("delivered though its source is not in the view"))
        .when(F.col("kind") == "BEGIN", F.concat(F.lit("the view goes on from here"), due))
        .otherwise(F.concat(F.lit("delivered"), due))
    )
    return violations("O2", found, text, message_name()).unionByName(session_gaps(trace))
