"""What members let others send for them: asked for, handed over once, in its order (D11)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import MEMBER, held, message_name, violations

_ORIGIN = ("origin", "origin_incarnation")
_MESSAGE = ("run", "group", *_ORIGIN, "number")


def proxied_once(trace: Projections) -> DataFrame:
    """D11."""
    rows = trace.tables.proxy
    first = F.min_by(F.struct("size", "body", "truth"), "position").alias("asked")
    asked = (
        rows.where("kind = 'ASKED'")
        .select(
            "run",
            "group",
            F.col("process").alias("origin"),
            F.col("incarnation").alias("origin_incarnation"),
            "number",
            "size",
            "body",
            "truth",
            "position",
        )
        .groupBy(*_MESSAGE)
        .agg(first)
    )
    stream = Window.partitionBy(*MEMBER, *_ORIGIN)
    before = stream.orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    handed = (
        rows.where("kind = 'HANDED'")
        .where(held("D11"))
        .select(
            "*",
            F.max("number").over(before).alias("highest"),
            F.min("position").over(Window.partitionBy(*MEMBER, *_ORIGIN, "number")).alias("first_position"),
        )
    )
    together = handed.join(asked, list(_MESSAGE), "left")
    text = (
        F.when(F.col("first_position") < F.col("position"), F.lit("handed over before"))
        .when(held("O1") & (F.col("number") < F.col("highest")), F.lit("handed over after a later one"))
        .when(F.col("asked").isNull(), F.lit("handed over, but never asked for"))
        .when(
            (F.col("size") != F.col("asked.size")) | (F.col("body") != F.col("asked.body")),
            F.lit("not handed over as asked for"),
        )
        .when(F.col("asked.truth") > F.col("truth"), F.lit("handed over before it was asked for"))
    )
    found = together.select("*", text.alias("wrong")).where("wrong is not null")
    return violations("D11", found, F.col("wrong"), message_name("origin", "origin_incarnation"))
