"""Single deliveries: sent as delivered (D1), delivered once (D2), written in a view (M3)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.projections import CONTENT, Projections
from unisono.pipeline.columns import MEMBER, SOURCE, STREAM, held, message_name, violations


def delivery_integrity(trace: Projections) -> DataFrame:
    """D1: what the scan found to differ from its SEND, or without one."""
    together = trace.differing.where(held("D1"))
    wrong = F.array_compact(
        F.array(
            *(F.when(F.col(part) != F.col(f"sent_{part}"), F.lit(part)) for part in CONTENT),
            F.when(~F.col("origin").eqNullSafe(F.col("sent_origin")), F.lit("origin")),
            F.when(
                F.coalesce("truth", F.when(F.expr(_ON_ONE_HOST), F.col("at"))) < F.expr(_SENT_MOMENT), F.lit("time")
            ),
        )
    )
    never = ~F.col("sent")
    found = together.select("*", never.alias("never"), wrong.alias("wrong")).where("never or size(wrong) > 0")
    text = F.when(F.col("never"), F.lit("delivered, but nobody sent it")).otherwise(
        F.concat(F.lit("not delivered as sent: "), F.array_join("wrong", ", "))
    )
    return violations("D1", found, text, message_name())


_ON_ONE_HOST = "sent_truth is null and host = sent_host"
_SENT_MOMENT = "case when truth is null and sent_truth is null then sent_at else sent_truth end"


def no_duplication(trace: Projections) -> DataFrame:
    """D2: only a stream that went back, or stood still, can have repeated something.

    What is not reliable is held against its own stretch alone.
    """
    delivered = trace.streams.where("kind = 'DELIVER'").where(held("D2"))
    suspects = trace.found(delivered.where("number <= highest").select(*STREAM).distinct())
    if suspects is None:
        return trace.nothing()
    first = F.min("position").over(Window.partitionBy(*STREAM, "lane", "number"))
    found = (
        trace.deliveries(suspects, STREAM)
        .where(held("D2"))
        .select("*", F.when(~held("O2"), F.col("stretch")).alias("lane"))
        .select(*MEMBER, "position", *SOURCE, "number", first.alias("first_position"))
        .where("first_position < position")
    )
    text = F.concat(F.lit("delivered before, at position "), F.col("first_position").cast("string"))
    return violations("D2", found, text, message_name())


def in_a_view(trace: Projections) -> DataFrame:
    """M3."""
    found = trace.streams.where("kind in ('SEND', 'DELIVER') and named is not null").where(held("M3"))
    text = F.concat(F.lit("written in view "), "named", F.lit(", installed is "), "installed")
    return violations("M3", trace.single(found), text, message_name())
