"""Multicast liveness (L2): at the end, who lives has what the living sources of its view sent.

Pairs of a listener and a source are few. Most are cleared at once: an interval of numbers was delivered that reaches
from the start of the spell to the last one due. Only the others are held against every message.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import TELLING, telling
from unisono.pipeline.audits.intervals import merged, uncovered
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.audits.session_ends import session_undelivered
from unisono.pipeline.columns import (
    COMMON,
    MEMBER,
    PROCESS,
    SOURCE,
    STREAM,
    clock,
    held,
    in_sessions,
    message_name,
    moment,
    process_name,
    stays_transitional,
    violations,
)
from unisono.pipeline.tables import Tables
from unisono.properties.promises import RIFTS, SETTLING_NANOSECONDS


def multicast_liveness(trace: Projections) -> DataFrame:
    """L2."""
    everybody = trace.settle(pairs(trace))
    return (
        undelivered(trace, within_reach(everybody.where("first is not null"), tables=trace.tables))
        .unionByName(left_out(trace, everybody.where("first is null")))
        .unionByName(session_undelivered(trace))
    )


def pairs(trace: Projections) -> DataFrame:
    """Every listener with every process whose end it can be compared with; `first` is where the spell began, if any."""
    tables = trace.tables
    ends = tables.membership.where("kind = 'END'").select(
        *PROCESS, "position", moment().alias("ended"), clock().alias("clock")
    )
    others = ends.select(
        "run", F.col("process").alias("source"), F.col("incarnation").alias("source_incarnation"), "clock"
    )
    same_clock = F.col("one.clock").eqNullSafe(F.col("other.clock"))
    return (
        trace.shared("members", lambda: members(tables))
        .where("(moved is null or moved <> 'LEAVE')")
        .where(held("L2") & ~in_sessions())
        .join(ends, list(PROCESS))
        .alias("one")
        .join(others.alias("other"), (F.col("one.run") == F.col("other.run")) & same_clock)
        .select("one.*", *(f"other.{name}" for name in SOURCE))
        .join(last_spells(trace), list(STREAM), "left")
        .join(last_stretches(trace), list(MEMBER), "left")
        .select(
            *STREAM,
            "position",
            (F.col("ended") - SETTLING_NANOSECONDS).alias("last_due"),
            "joined",
            "entered",
            "wants",
            "first",
        )
    )


def within_reach(pairs: DataFrame, tables: Tables) -> DataFrame:
    """The pairs that no lasting fault keeps apart, or of which somebody hears both."""
    begun = F.sum(F.when(F.col("edge") == "begin", 1).otherwise(-1))
    rifts = (
        tables.fault.where(F.col("fault").isin(*sorted(RIFTS)) & (F.col("kind") == "FAULT") & (F.size("sides") > 0))
        .groupBy("run", "fault", "sides")
        .agg(begun.alias("begun"))
        .where("begun > 0")
        .groupBy("run")
        .agg(F.collect_list("sides").alias("rifts"))
    )

    def beside(sides: Column, name: str) -> Column:
        return F.flatten(F.filter(sides, lambda side: F.array_contains(side, F.col(name))))

    parted = F.exists("rifts", lambda sides: ~F.arrays_overlap(beside(sides, "process"), beside(sides, "source")))
    apart = F.coalesce(parted, F.lit(False)) & (F.col("process") != F.col("source"))
    return pairs.join(F.broadcast(rifts), "run", "left").where(~apart).drop("rifts")


def members(tables: Tables) -> DataFrame:
    """Who joined a group or installed a view in it: the last service, the last JOIN, and whether a LEAVE came after.

    No row tells of a change of service, so that the last service is that of anything that the member did.
    """
    columns = (*MEMBER, "position", "kind", "service", "reason", "role", moment().alias("moment"))
    moves = tables.membership.where("kind in ('JOIN', 'LEAVE')").select(*columns)
    views = tables.view.where("kind = 'VIEW'").withColumn("reason", F.lit(None)).select(*columns)
    joins = F.when(F.col("kind") == "JOIN", F.col("position"))
    return (
        moves.unionByName(views)
        .groupBy(*MEMBER)
        .agg(
            F.max_by("moment", joins).alias("joined"),
            F.max_by("reason", joins).alias("wants"),
            F.max_by("role", joins).alias("joined_as"),
            F.max_by("kind", F.when(F.col("kind") != "VIEW", F.col("position"))).alias("moved"),
            F.count(F.when(F.col("kind") != "LEAVE", 1)).alias("present"),
        )
        .where("present > 0")
        .join(last_services(tables), list(MEMBER), "left")
        .select(*MEMBER, "service", "joined", "wants", "joined_as", "moved")
    )


def last_services(tables: Tables) -> DataFrame:
    """The service of each member, from its last JOIN, VIEW, SEND, DELIVER or GAUGE."""
    told = [
        telling(tables, family, kind)
        .where("service is not null")
        .groupBy(*MEMBER)
        .agg(F.max(F.struct("position", "service")).alias("last"))
        for family, kind in TELLING.items()
    ]
    together = reduce(DataFrame.unionByName, told).groupBy(*MEMBER).agg(F.max("last").alias("last"))
    return together.select(*MEMBER, "last.service")


def views_since_join(trace: Projections) -> DataFrame:
    """The views of each member since its last JOIN, with what stands between them and the views before."""
    return since_join(trace.tables, trace.turned_views)


def since_join(tables: Tables, rows: DataFrame) -> DataFrame:
    """What each member did since its last JOIN."""
    joins = tables.membership.where("kind = 'JOIN'").groupBy(*MEMBER).agg(F.max("position").alias("join_position"))
    return rows.join(joins, list(MEMBER), "left").where("join_position is null or position > join_position")


def last_stretches(trace: Projections) -> DataFrame:
    """When each member installed the first view of the stretch of its last one."""
    views = views_since_join(trace).select(*MEMBER, "position", "stretch", moment().alias("moment"))
    last = F.max(F.struct("position", "stretch")).over(Window.partitionBy(*MEMBER))["stretch"]
    return (
        views.select("*", last.alias("last_stretch"))
        .where("stretch = last_stretch")
        .groupBy(*MEMBER)
        .agg(F.min_by("moment", "position").alias("entered"))
    )


def last_spells(trace: Projections) -> DataFrame:
    """For each source in the era of a member's last view since its last JOIN, the number at which its spell began.

    Eras are counted: views that follow by the order in one stretch count as the one before, and a break counts as one
    more.
    """
    within = Window.partitionBy(*MEMBER)
    in_order = within.orderBy("position")
    later = F.col("stretch") - F.lag("stretch").over(in_order)
    breaks = ~later.isin(0, 1) | ~F.lag(held("O2")).over(in_order) | (F.col("last_fresh") > F.col("since"))
    views = (
        views_since_join(trace)
        .select(
            *MEMBER,
            "start",
            "service",
            "transitional",
            "position",
            (F.col("era").isNull() | F.coalesce(later == 1, F.lit(False))).alias("begins"),
            breaks.alias("breaks"),
        )
        .select("*", F.count(F.when(F.col("breaks"), 1)).over(in_order).alias("broken"))
        .select("*", (F.count(F.when(F.col("begins"), 1)).over(in_order) + F.col("broken")).alias("ordinal"))
        .select("*", F.max("ordinal").over(within).alias("last_ordinal"))
    )
    in_views = views.select("*", F.explode("start").alias("begin")).select(
        *MEMBER,
        "service",
        "transitional",
        F.col("begin.source").alias("source"),
        F.col("begin.incarnation").alias("source_incarnation"),
        F.col("begin.number").alias("number"),
        "position",
        "ordinal",
        "last_ordinal",
        F.when(F.col("begins"), F.col("ordinal") - 1).otherwise(F.col("ordinal")).alias("before"),
    )
    of_source = Window.partitionBy(*STREAM).orderBy("position")
    goes_on = stays_transitional() & (F.lag("ordinal").over(of_source) == F.col("before"))
    return (
        in_views.select("*", F.coalesce(goes_on, F.lit(False)).alias("goes_on"))
        .select("*", F.count(F.when(~F.col("goes_on"), 1)).over(of_source).alias("spell"))
        .groupBy(*STREAM, "spell", "last_ordinal")
        .agg(
            F.max("ordinal").alias("until"),
            F.max("position").alias("last_position"),
            F.min_by("number", "position").alias("first"),
        )
        .where("until = last_ordinal")
        .groupBy(*STREAM)
        .agg(F.max_by("first", "last_position").alias("first"))
        .select(*STREAM, "first")
    )


def undelivered(trace: Projections, pairs: DataFrame) -> DataFrame:
    """The first message that each listener lacks of a source in its last view.

    No stride of sends goes beyond the moment up to which it is due.
    """
    due = (
        _sends(trace.tables.send, F.col("last_number"))
        .join(F.broadcast(pairs), ["run", "group", *SOURCE])
        .where("moment <= last_due and last_number >= first")
    )
    asked = due.groupBy(*STREAM, "position", "last_due", "first").agg(F.max("last_number").alias("last_number"))
    heard = merged(trace.tables.deliver.where(held("L2")), STREAM)
    suspects = trace.found(
        uncovered(asked.withColumn("number", F.col("first")), heard, STREAM).select(
            *STREAM, "position", "last_due", "first"
        )
    )
    if suspects is None:
        return trace.nothing()
    delivered = trace.deliveries(suspects, STREAM).where(held("L2"))
    lacking = (
        _sends(trace.sends_of(suspects), F.col("number"))
        .join(F.broadcast(suspects), ["run", "group", *SOURCE])
        .where("moment <= last_due and number >= first")
        .join(
            delivered.select(*STREAM, "number"),
            [*STREAM, "number"],
            "left_anti",
        )
        .groupBy(*STREAM, "position")
        .agg(F.min("number").alias("number"), F.count(F.lit(1)).alias("missing"))
    )
    text = F.concat(F.lit("never delivered; of this source "), F.col("missing").cast("string"), F.lit(" are missing"))
    return violations("L2", lacking, text, message_name())


def left_out(trace: Projections, pairs: DataFrame) -> DataFrame:
    """Listeners without a living source in their last view that must have it there."""
    tables = trace.tables
    sources = (
        trace.shared("members", lambda: members(tables))
        .where("joined is not null and (moved is null or moved <> 'LEAVE')")
        .where(~in_sessions())
        .join(told_roles(trace), list(MEMBER), "left")
    )
    first_sends = (
        _sends(tables.send, F.col("last_number"))
        .groupBy("run", "group", *SOURCE)
        .agg(F.min("moment").alias("first_sent"))
    )
    known = sources.select(
        "run",
        "group",
        F.col("process").alias("source"),
        F.col("incarnation").alias("source_incarnation"),
        F.col("joined").alias("source_joined"),
        F.col("joined_as").alias("source_joined_as"),
        "told",
    ).join(first_sends, ["run", "group", *SOURCE])
    healed = tables.fault.where("kind = 'FAULT' and fault = 'heal'").select("run").distinct()
    gone = trace.cut_off
    found = (
        pairs.where("joined is not null")
        .where(wants_source(F.col("wants"), F.col("source")))
        .join(known, ["run", "group", *SOURCE])
        .where("greatest(joined, entered, source_joined, first_sent) <= last_due")
        .where(~only_receives(F.col("last_due"), F.col("source_joined_as")))
        .join(healed, "run", "left_semi")
        .join(gone.withColumnRenamed("name", "process"), ["run", "process"], "left_anti")
        .join(gone.withColumnRenamed("name", "source"), ["run", "source"], "left_anti")
    )
    name = process_name("source", "source_incarnation")
    return violations("L2", found, F.concat(name, F.lit(" lives and sends, but is not in the last view")))


def told_roles(trace: Projections) -> DataFrame:
    """What each member was at which time since its last JOIN, as agreed views and ROLE have `told`."""
    columns = (*MEMBER, F.struct("position", moment().alias("moment"), "role").alias("one"))
    roles = since_join(trace.tables, trace.tables.membership).where("kind = 'ROLE'").select(*columns)
    views = views_since_join(trace).where(held(COMMON)).select(*columns)
    return roles.unionByName(views).groupBy(*MEMBER).agg(F.collect_list("one").alias("told"))


def role_at(latest: Column) -> Column:
    """The last of what was `told` up to a time."""
    return F.array_max(F.filter("told", lambda one: one["moment"] <= latest))["role"]


def only_receives(due: Column, joined_as: Column | None = None) -> Column:
    """Whether a member is a receiver at last, by what was `told`, or was one when it should have been heard by all."""
    otherwise = F.lit("") if joined_as is None else F.coalesce(joined_as, F.lit(""))
    roles = (F.coalesce(role, otherwise) for role in (F.array_max("told")["role"], role_at(due)))
    return F.lit("receiver").isin(*roles)


def _sends(send: DataFrame, last: Column) -> DataFrame:
    return send.where("kind = 'SEND'").select(
        "run",
        "group",
        F.col("process").alias("source"),
        F.col("incarnation").alias("source_incarnation"),
        "number",
        last.alias("last_number"),
        moment().alias("moment"),
    )


def wants_source(wants: Column, name: Column) -> Column:
    """Whether a JOIN asked for this source: for all, or for a list with its name."""
    names = F.transform(F.split(wants, ","), F.trim)
    return wants.isNotNull() & (wants != "once") & ((wants == "all") | F.array_contains(names, name))
