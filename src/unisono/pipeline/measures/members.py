"""Measures of members: what each sent and heard in a second, and for what share of its time its sends waited."""

from __future__ import annotations

from itertools import chain

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.columns import MEMBER, moment
from unisono.pipeline.measures.catalogue import BLOCKED_BY_VIEW, BLOCKED_BY_WINDOW, DATAGRAMS_SENT, RATES
from unisono.pipeline.measures.delivery import GROUP
from unisono.pipeline.tables import Tables

_SECOND = 1_000_000_000
_WAITS = (BLOCKED_BY_WINDOW, BLOCKED_BY_VIEW)


def rates(tables: Tables) -> DataFrame:
    """For each member what its gauges add up to, by its time in the group; nothing is written where nothing waited.

    Its time is from its first row of membership there to its last gauge. A gauge in nanoseconds becomes a share.
    """
    gauges = tables.gauge.where("kind = 'GAUGE'").select(*MEMBER, "name", "value", moment().alias("moment"))
    there = tables.membership.select(*MEMBER, moment().alias("moment"))
    lasted = (
        gauges.select(*MEMBER, "moment", F.lit(True).alias("gauged"))
        .unionByName(there.withColumn("gauged", F.lit(False)))
        .groupBy(*MEMBER)
        .agg((F.max(F.when(F.col("gauged"), F.col("moment"))) - F.min("moment")).alias("time"))
        .where("time > 0")
    )
    waited = [F.struct(F.lit(name).alias("name"), F.lit(0).cast("bigint").alias("value")) for name in _WAITS]
    none_waited = gauges.where(F.col("name") == DATAGRAMS_SENT).select(*MEMBER, F.inline(F.array(*waited)))
    measures = F.create_map(*chain.from_iterable((F.lit(name), F.lit(measure)) for name, measure in RATES.items()))
    unit = F.when(F.col("name").isin(*_WAITS), F.lit(1)).otherwise(F.lit(_SECOND))
    return (
        gauges.where(F.col("name").isin(*RATES))
        .select(*MEMBER, "name", "value")
        .unionByName(none_waited)
        .groupBy(*MEMBER, "name")
        .agg(F.sum("value").alias("total"))
        .join(lasted, list(MEMBER))
        .select(
            *GROUP,
            measures[F.col("name")].alias("measure"),
            (F.col("total") * unit / F.col("time")).cast("double").alias("value"),
        )
    )
