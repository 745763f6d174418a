"""The state of applications: one at a point (D10)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import held, violations

_PLACE = ("run", "group", "view", "sequence", "reason")


def one_state(trace: Projections) -> DataFrame:
    """D10."""
    told = trace.tables.membership.where("kind in ('STATE', 'SAVED', 'LOADED')").where(held("D10"))
    first = F.first(F.struct("process", "number")).over(
        Window.partitionBy(*_PLACE).orderBy("process", "incarnation", "position")
    )
    found = told.select("*", first.alias("first")).where("not number <=> first.number")
    text = F.concat(F.lit("not the state that "), F.col("first.process"), F.lit(" has there"))
    return violations("D10", found, text)
