"""Sends, deliveries and the start points of views in the order of each member, with what stands before each."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.agreed import FRESH
from unisono.pipeline.columns import MEMBER, SOURCE, STREAM, held, stays_transitional
from unisono.pipeline.tables import Tables

STRIDE = ("last_position", "number", "last_number", "last_timestamp", "got")
"""What is said of the messages that one row stands for."""


def timeline(tables: Tables) -> DataFrame:
    """Sends, deliveries and the start points of views (BEGIN), each with the view that was installed before it.

    `view_position` is its place: of a delivery, where it is of the same stretch; of a start point, where the spell of
    its source goes on from it; null once the member joined anew, and of a start point once it started afresh. `named`
    and `installed` are the view that the row names and that view, where they are not the same (M3).
    """
    common = (*MEMBER, "position", "kind", "service", "stretch", "view")
    nobody = [F.lit(None).alias(name) for name in (*SOURCE, *STRIDE)]
    own = [F.col("process").alias("source"), F.col("incarnation").alias("source_incarnation")]
    sent = tables.send.where("kind = 'SEND'").select(*common, *own, *STRIDE)
    delivered = tables.deliver.where("kind = 'DELIVER'").select(*common, *SOURCE, *STRIDE)
    turns = tables.membership.where("kind in ('JOIN', 'SELF_FAIL', 'BOOTSTRAP')").select(*common, *nobody)
    views = tables.view.where("kind = 'VIEW'")
    begins = (
        views.withColumn("kind", F.lit("BEGIN"))
        .select(*common, "transitional", F.inline(F.transform("start", _start_point)))
        .select(
            *common,
            *SOURCE,
            F.col("position").alias("last_position"),
            "number",
            F.col("number").alias("last_number"),
            F.lit(None).alias("last_timestamp"),
            F.lit(1).alias("got"),
            stays_transitional().alias("stays"),
        )
    )
    rows = sent.unionByName(delivered).unionByName(turns).unionByName(views.select(*common, *nobody))
    rows = rows.withColumn("stays", F.lit(True))
    # The kind settles that the start points of a view come before it, so that they see the view before.
    before = Window.partitionBy(*MEMBER).orderBy("position", "kind").rowsBetween(Window.unboundedPreceding, -1)
    view = F.struct("view", "position", "stretch", held("O2").alias("reliable"))
    installed = F.last(F.when(F.col("kind") == "VIEW", view), ignorenulls=True).over(before)
    joined = F.last(F.when(F.col("kind") == "JOIN", F.col("position")), ignorenulls=True).over(before)
    started = F.last(F.when(F.expr(FRESH), F.col("position")), ignorenulls=True).over(before)
    later = F.col("stretch") - installed["stretch"]
    goes_back = started.isNull() | (started < installed["position"])
    spell_goes_on = later.isin(0, 1) & installed["reliable"] & F.col("stays") & goes_back
    goes_on = F.when(F.col("kind") == "BEGIN", spell_goes_on).otherwise(later == 0)
    since = F.when((joined.isNull() | (joined < installed["position"])) & goes_on, installed["position"])
    return (
        rows.unionByName(begins)
        .select("*", installed["view"].alias("installed"), since.alias("view_position"))
        .where("kind in ('SEND', 'DELIVER', 'BEGIN')")
        .select("*", F.expr("view is null or installed is null or view <> installed").alias("elsewhere"))
        .select(
            *STREAM,
            "position",
            "kind",
            "service",
            "stretch",
            *STRIDE,
            "view_position",
            *(
                F.when(F.col("elsewhere"), F.coalesce(view, F.lit("none"))).alias(name)
                for name, view in (("named", "view"), ("installed", "installed"))
            ),
        )
    )


def streams(timeline: DataFrame) -> DataFrame:
    """What stands before each row in its stream; each column counts the deliveries that its reader holds.

    `due` is the number that comes next (O2) and `begin_position` the last view with the source; `last` is the number
    delivered last under a reliable service and `last_loose` stretch and number of the last one that was not (O1);
    `highest` is the highest (D2).
    """
    before = Window.partitionBy(*STREAM).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    begins, delivers, last = F.col("kind") == "BEGIN", F.col("kind") == "DELIVER", F.col("last_number")
    following = F.when(begins, F.col("number")).when(delivers & held("O2"), last + 1)
    return timeline.select(
        *STREAM,
        "position",
        "kind",
        "service",
        "stretch",
        *STRIDE,
        "view_position",
        "named",
        "installed",
        F.last(following, ignorenulls=True).over(before).alias("due"),
        F.last(F.when(begins, F.col("position")), ignorenulls=True).over(before).alias("begin_position"),
        F.last(F.when(delivers & held("O1") & held("O2"), last), ignorenulls=True).over(before).alias("last"),
        F.last(F.when(delivers & held("O1") & ~held("O2"), F.struct("stretch", last.alias("number"))), ignorenulls=True)
        .over(before)
        .alias("last_loose"),
        F.max(F.when(delivers & held("D2"), last)).over(before).alias("highest"),
    )


def _start_point(start: Column) -> Column:
    names = {"source": "source", "incarnation": "source_incarnation", "number": "number"}
    return F.struct(*(start[part].alias(name) for part, name in names.items()))
