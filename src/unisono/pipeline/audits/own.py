"""Self delivery: a sender hears its own messages before its next view (D6), and before its end (D6, L3)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import ends, told_by
from unisono.pipeline.audits.agreed import FRESH, GROUP
from unisono.pipeline.audits.liveness import wants_source
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import AGREED, MEMBER, PROCESS, SOURCE, held, message_name, moment, violations
from unisono.properties.promises import SETTLING_NANOSECONDS


def self_delivery(trace: Projections) -> DataFrame:
    """D6."""
    text = F.when(F.col("next_view").isNull(), F.lit("before its end")).otherwise(F.lit("before its next view"))
    found = _unheard(trace).where(held("D6"))
    return violations("D6", found, F.concat(F.lit("its own sender did not deliver it "), text), message_name())


def self_delivery_liveness(trace: Projections) -> DataFrame:
    """L3."""
    found = _unheard(trace).where(held("L3")).where("next_view is null")
    return violations("L3", found, F.lit("its own sender never delivered it"), message_name())


def _unheard(trace: Projections) -> DataFrame:
    """What a sender did not deliver before the next agreed view of the stretch, or before its end where there is none.

    It is not asked for where the sender left or started afresh before that.
    """
    before_view = "next_view is not null and coalesce(next_turn > next_view, true)"
    before_end = "next_view is null and next_turn is null and owed"
    late = "coalesce(first_delivery >= next_view, first_delivery is null)"
    return trace.shared("unheard", lambda: _own_sends(trace).where(f"(({before_view}) or ({before_end})) and {late}"))


def _own_sends(trace: Projections) -> DataFrame:
    """First SENDs that their sender must hear itself, with what comes after them at it and when it heard them.

    `next_view` is the position of the next view of the stretch that begins an era, `next_turn` that of the next LEAVE
    or fresh start; `owed` says that its END is late enough, with no other stretch before it.
    """
    tables = trace.tables
    sent = (
        trace.sends.select(
            *GROUP,
            *SOURCE,
            F.col("source").alias("process"),
            F.col("source_incarnation").alias("incarnation"),
            "number",
            *(F.col(f"sent_{name}").alias(name) for name in ("position", "stretch", "service", "truth", "at", "host")),
        )
        .where(held("D6") | held("L3"))
        .select(
            *MEMBER,
            *SOURCE,
            "number",
            "position",
            "stretch",
            "service",
            moment().alias("moment"),
            told_by().alias("clock"),
            held(AGREED).alias("agreed"),
            F.lit("SEND").alias("kind"),
        )
    )
    moves = tables.membership.where(f"kind in ('JOIN', 'LEAVE') or {FRESH}").select(
        *MEMBER, "position", "stretch", "kind", F.struct("reason").alias("wants")
    )
    views = trace.agreed.where("era is null").select(*MEMBER, "position", "stretch", F.lit("VIEW").alias("kind"))
    # Backwards, since a frame that ends with the last row is computed anew for every row.
    earlier = Window.partitionBy(*MEMBER).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    backwards = Window.partitionBy(*MEMBER).orderBy(F.desc("position")).rowsBetween(Window.unboundedPreceding, -1)
    in_stretch = Window.partitionBy(*MEMBER, "stretch").orderBy(F.desc("position"))

    def position_of(condition: str) -> Column:
        return F.when(F.expr(condition), F.col("position"))

    wants = F.last(F.when(F.col("kind") == "JOIN", F.col("wants")), ignorenulls=True)
    placed = (
        sent.unionByName(moves, allowMissingColumns=True)
        .unionByName(views, allowMissingColumns=True)
        .repartition(*MEMBER)
        .select(
            "*",
            F.min(position_of("kind = 'VIEW'"))
            .over(in_stretch.rowsBetween(Window.unboundedPreceding, -1))
            .alias("view_after"),
            F.min(position_of("kind not in ('SEND', 'VIEW', 'JOIN')")).over(backwards).alias("next_turn"),
            wants.over(earlier)["reason"].alias("asked"),
        )
        .where("kind = 'SEND'")
        .where(F.col("agreed") | wants_source(F.col("asked"), F.col("process")))
        .select("*", F.expr("case when agreed then view_after end").alias("next_view"))
    )
    heard = (
        tables.deliver.where("kind = 'DELIVER' and source = process and source_incarnation = incarnation")
        .groupBy(*MEMBER, "stretch", "number")
        .agg(F.min("position").alias("first_delivery"))
    )
    settled = F.expr("clock = end_clock") & (F.col("moment") <= F.col("ended") - SETTLING_NANOSECONDS)
    unchanged = F.expr("coalesce(later_position < position, true)")
    return (
        placed.join(heard, [*MEMBER, "stretch", "number"], "left")
        .join(F.broadcast(ends(tables)), list(PROCESS), "left")
        .join(F.broadcast(trace.later_stretches), [*MEMBER, "stretch"], "left")
        .select("*", (F.coalesce(settled, F.lit(False)) & unchanged).alias("owed"))
    )
