"""Measures of view changes: how long they took, phase by phase, and how long nothing was delivered around them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.columns import AGREED, MEMBER, held, moment
from unisono.pipeline.measures.delivery import GROUP, named
from unisono.pipeline.tables import Tables

PHASES = {
    "view change": "change",
    "view change: consensus": "consensus",
    "view change: recovery": "recovery",
    "detection": "detection",
}
"""By measure, the column of the joined views."""


def view_changes(views: DataFrame) -> DataFrame:
    """How many agreed views were made by a change."""
    return (
        views.groupBy(*GROUP)
        .agg(F.count_if(F.col("began").isNotNull()).alias("changes"))
        .select(*GROUP, named({"view changes": F.col("changes")}))
    )


def phases(views: DataFrame) -> DataFrame:
    """A row for each phase of each view that had it."""
    others = F.size("members") > 1
    entries = {
        **{name: F.col(column) for name, column in PHASES.items()},
        "view change: installation": F.when(F.col("began").isNotNull(), F.col("installation")),
        "end to view": F.col("last_installed") - F.col("ended"),
        "join to view": F.when(others, F.col("last_installed") - F.col("joined")),
    }
    return views.select(*GROUP, named(entries)).where("value is not null").select(*GROUP, "measure", "value")


def silences(tables: Tables) -> DataFrame:
    """For each agreed view that a member came into from another, the time without a delivery around it."""
    delivered = (
        tables.deliver.where("kind = 'DELIVER'")
        .select(*MEMBER, "view", moment().alias("moment"))
        .groupBy(*MEMBER, "view")
        .agg(F.min("moment").alias("first"), F.max("moment").alias("last"))
    )
    before = delivered.select(*MEMBER, F.col("view").alias("previous"), "last")
    after = delivered.select(*MEMBER, "view", "first")
    return (
        tables.view.where("kind = 'VIEW' and previous is not null")
        .where(held(AGREED))
        .select(*MEMBER, "view", "previous")
        .distinct()
        .join(before, [*MEMBER, "previous"])
        .join(after, [*MEMBER, "view"])
        .where("first >= last")
        .select(
            *GROUP,
            F.lit("silence around a view").alias("measure"),
            (F.col("first") - F.col("last")).cast("double").alias("value"),
        )
    )
