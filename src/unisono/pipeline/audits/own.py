"""Self delivery: a sender hears its own messages before its next view (D6), and before its end (D6, L3)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import told_by
from unisono.pipeline.audits.agreed import FRESH, GROUP
from unisono.pipeline.audits.intervals import merged, uncovered
from unisono.pipeline.audits.liveness import wants_source
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import (
    AGREED,
    MEMBER,
    PROCESS,
    SOURCE,
    held,
    hopes,
    in_sessions,
    message_name,
    moment,
    violations,
)
from unisono.properties.promises import SETTLING_NANOSECONDS, STRONG


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
    return trace.shared("unheard", lambda: _look(trace))


def _look(trace: Projections) -> DataFrame:
    """Strides of sends that a stride of own deliveries covers before the same view are heard; others are looked up."""
    own = trace.tables.deliver.where(_OWN).select(
        *MEMBER, *SOURCE, "number", "last_number", "position", "stretch", F.lit("HEARD").alias("kind")
    )
    sent = trace.tables.send.where(~hopes()).select(
        *_SENT, *(F.col(name).alias(own_name) for own_name, name in zip(SOURCE, PROCESS[1:], strict=True))
    )
    placed = _placed(trace, sent.withColumn("until", F.col("last_position")), own)
    segment = (*MEMBER, "stretch", "segment")
    heard = merged(placed.where("kind = 'HEARD'"), segment)
    members = trace.found(uncovered(_asked(trace, placed), heard, segment).select(*MEMBER).distinct())
    if members is None:
        return _asked(trace, placed).limit(0).withColumn("first_delivery", F.lit(None).cast("bigint"))
    asked = members.withColumnsRenamed({"process": "source", "incarnation": "source_incarnation"})
    single = (
        trace.first_sends(asked)
        .where(~hopes("sent_"))
        .select(
            *GROUP,
            *SOURCE,
            F.col("source").alias("process"),
            F.col("source_incarnation").alias("incarnation"),
            "number",
            F.col("number").alias("last_number"),
            F.col("sent_position").alias("until"),
            *(F.col(f"sent_{name}").alias(name) for name in ("position", "stretch", "service", "truth", "at", "host")),
        )
    )
    first = (
        trace.deliveries(members, MEMBER)
        .where(_OWN)
        .groupBy(*MEMBER, "stretch", "number")
        .agg(F.min("position").alias("first_delivery"))
    )
    return (
        _asked(trace, _placed(trace, single, None))
        .join(first, [*MEMBER, "stretch", "number"], "left")
        .where("coalesce(first_delivery >= next_view, first_delivery is null)")
    )


_OWN = "kind = 'DELIVER' and source = process and source_incarnation = incarnation"
_SENT = (*MEMBER, "number", "last_number", "position", "last_position", "stretch", "service", "truth", "at", "host")


def _placed(trace: Projections, sent: DataFrame, own: DataFrame | None) -> DataFrame:
    """First SENDs that their sender must hear itself, with what comes after them at it; and its own deliveries.

    `next_view` is the position of the next view of the stretch that begins an era, `next_turn` that of the next LEAVE
    or fresh start, `segment` the next view of any row.
    """
    tables = trace.tables
    sent = sent.where(held("D6") | held("L3")).select(
        *MEMBER,
        *SOURCE,
        "number",
        "last_number",
        "position",
        "until",
        "stretch",
        "service",
        moment().alias("moment"),
        told_by().alias("clock"),
        held(AGREED).alias("agreed"),
        F.lit("SEND").alias("kind"),
    )
    rows = sent if own is None else sent.unionByName(own, allowMissingColumns=True)
    excluded = (F.col("kind") == "EXCLUDED") & in_sessions(STRONG)
    moves = tables.membership.where(F.expr(f"kind in ('JOIN', 'LEAVE') or {FRESH}") | excluded).select(
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
    view_after = F.min(position_of("kind = 'VIEW'")).over(in_stretch.rowsBetween(Window.unboundedPreceding, -1))
    placed = (
        rows.unionByName(moves, allowMissingColumns=True)
        .unionByName(views, allowMissingColumns=True)
        .select(
            "*",
            view_after.alias("view_after"),
            F.min(position_of("kind not in ('SEND', 'HEARD', 'VIEW', 'JOIN')")).over(backwards).alias("next_turn"),
            wants.over(earlier)["reason"].alias("asked"),
        )
        .where("kind in ('SEND', 'HEARD')")
        .where(F.expr("kind = 'HEARD' or agreed") | wants_source(F.col("asked"), F.col("process")))
        .select(
            "*",
            F.expr("case when agreed then view_after end").alias("next_view"),
            F.coalesce("view_after", F.lit(-1)).alias("segment"),
        )
    )
    return trace.settle(placed)


def _asked(trace: Projections, placed: DataFrame) -> DataFrame:
    """What must be heard before the next view, or before an END that is late enough and in the same stretch."""
    settled = F.expr("clock = end_clock") & (F.col("moment") <= F.col("ended") - SETTLING_NANOSECONDS)
    unchanged = F.expr("coalesce(later_position < until, true)")
    before_view = "next_view is not null and coalesce(next_turn > next_view, true)"
    before_end = "next_view is null and next_turn is null and owed"
    return (
        placed.where("kind = 'SEND'")
        .join(F.broadcast(trace.ends), list(PROCESS), "left")
        .join(F.broadcast(trace.later_stretches), [*MEMBER, "stretch"], "left")
        .select("*", (F.coalesce(settled, F.lit(False)) & unchanged).alias("owed"))
        .where(f"({before_view}) or ({before_end})")
    )
