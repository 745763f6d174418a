"""Repair and release: nobody asks for what was released (D8), all is released (L4), few ask (L8)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.audits.session_ends import session_unreleased
from unisono.pipeline.columns import MEMBER, PROCESS, SOURCE, held, in_sessions, message_name, moment, violations
from unisono.pipeline.tables import Tables
from unisono.properties.promises import (
    LEAST_LOSSES,
    REPAIR_LIMIT,
    SETTLING_NANOSECONDS,
    STALL_LIMIT_NANOSECONDS,
    STRONG,
)

_SENDER = ("run", "group", *SOURCE)
_LEFT = (*_SENDER, "clock")
_PEER = ("peer", "peer_incarnation")
_OWN = "source = process and source_incarnation = incarnation"


def release_safety(trace: Projections) -> DataFrame:
    """D8: the highest release before each request tells whether it can be wrong; then the releases, one by one."""
    tables = trace.tables
    released = (
        tables.repair.where("kind = 'GC'")
        .where(_OWN)
        .select(
            *_SENDER,
            F.col("position").alias("release_position"),
            "last",
            moment().alias("moment"),
            _clock().alias("clock"),
        )
    )
    asked = asked_while_counted(tables)
    stands = F.struct(*asked.columns)
    probes = asked.select(*_SENDER, "clock", "moment", stands.alias("asked"))
    in_time = Window.partitionBy(*_SENDER, "clock").orderBy("moment", F.col("asked").isNull())
    so_far = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    suspects = (
        released.select(*_SENDER, "clock", "moment", "last")
        .withColumn("asked", F.lit(None).cast(probes.schema["asked"].dataType))
        .unionByName(probes.withColumn("last", F.lit(None).cast("bigint")))
        .select("asked", F.max("last").over(so_far).alias("most"))
        .where("least(asked.asked_last, most) >= greatest(asked.first, asked.sequence)")
        .select("asked.*")
    )
    exact = (
        released.withColumnRenamed("moment", "released_at")
        .join(F.broadcast(suspects), [*_SENDER, "clock"])
        .where("release_position > grant_position and released_at < moment")
        .groupBy(*MEMBER, "position", "first", "asked_last", "sequence")
        .agg(F.max("last").alias("most"))
        .where("least(asked_last, most) >= greatest(first, sequence)")
    )
    text = F.concat(F.lit("asks for what was released up to "), F.col("most").cast("string"))
    return violations("D8", exact, text)


def asked_while_counted(tables: Tables) -> DataFrame:
    """Requests of receivers that count at the source, with the activation point that it granted."""
    names = F.transform("start", lambda start: F.struct(start["source"], start["incarnation"]))
    views = tables.view.where("kind = 'VIEW'").select(
        *MEMBER, "position", F.struct("stretch", names.alias("names")).alias("view")
    )
    requests = (
        tables.repair.where("kind = 'RTR'")
        .where(held("D8"))
        .select(
            *MEMBER,
            "position",
            *SOURCE,
            "first",
            F.col("last").alias("asked_last"),
            moment().alias("moment"),
            _clock().alias("clock"),
            "stretch",
        )
    )
    before = Window.partitionBy(*MEMBER).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    known = F.last("view", ignorenulls=True).over(before)
    following = (
        requests.withColumn("view", F.lit(None).cast(views.schema["view"].dataType))
        .unionByName(views, allowMissingColumns=True)
        .select("*", known.alias("known"))
        .where("first is not null")
        .select("*", F.struct("source", F.col("source_incarnation").alias("incarnation")).alias("named"))
        .where("known is null or known.stretch <> stretch or array_contains(known.names, named)")
        .drop("view", "known", "named")
    )
    counted = tables.membership.where("kind in ('GRANT', 'SUSPECT')").select(
        "run",
        "group",
        F.col("process").alias("source"),
        F.col("incarnation").alias("source_incarnation"),
        F.col("peer").alias("process"),
        F.col("peer_incarnation").alias("incarnation"),
        F.struct(
            F.col("position").alias("grant_position"),
            F.when(F.col("kind") == "GRANT", F.col("sequence")).alias("sequence"),
        ).alias("grant"),
        moment().alias("granted_at"),
        _clock().alias("clock"),
    )
    left = tables.membership.where("kind = 'LEAVE'").select(
        "run",
        "group",
        F.col("process").alias("source"),
        F.col("incarnation").alias("source_incarnation"),
        F.col("position").alias("left_position"),
        moment().alias("left_at"),
        _clock().alias("clock"),
    )
    gone = [F.col("left_position") > F.col("grant_position"), F.col("left_at") <= F.col("moment")]
    kept = [name for name in following.columns if name not in counted.columns]
    key = [name for name in following.columns if name in counted.columns]
    return (
        following.join(counted, key)
        .where("granted_at <= moment")
        .groupBy(*key, *kept)
        .agg(F.max("grant").alias("grant"))
        .select(*key, *kept, "grant.*")
        .where("sequence is not null")
        .alias("asked")
        .join(
            left.alias("left"), [F.col(f"asked.{name}") == F.col(f"left.{name}") for name in _LEFT] + gone, "left_anti"
        )
    )


def _clock() -> Column:
    """What times may be compared with, never null: empty for the global time."""
    return F.when(F.col("truth").isNull(), F.concat(F.lit("on "), "host")).otherwise("")


def stability(trace: Projections) -> DataFrame:
    """L4: of each member that is there at its end, the sends above its highest release, if nobody holds it back.

    No stride of sends goes beyond that release, or beyond the moment up to which it is due.
    """
    tables = trace.tables
    moves = trace.settle(moved(tables))
    ends = tables.membership.where("kind = 'END'").select(
        *PROCESS, F.col("position").alias("end_position"), moment().alias("ended"), _clock().alias("clock")
    )
    heals = (
        tables.fault.where("kind = 'FAULT' and fault = 'heal'")
        .select("run", _clock().alias("clock"), moment().alias("moment"))
        .groupBy("run", "clock")
        .agg(F.max("moment").alias("healed"))
    )
    away = trace.cut_off
    asked = trace.settle(
        moves.where("join_position is not null and moved <> 'LEAVE'")
        .join(ends, list(PROCESS))
        .join(heals, ["run", "clock"])
        .where(F.col("healed") <= F.col("ended") - SETTLING_NANOSECONDS)
        .join(away.withColumnRenamed("name", "process"), ["run", "process"], "left_anti")
        .select(*MEMBER, "join_position", "end_position", "ended", "clock")
    )
    released = (
        tables.repair.where("kind = 'GC'")
        .where(_OWN)
        .join(F.broadcast(asked.select(*MEMBER, "join_position")), list(MEMBER))
        .where("position > join_position")
        .groupBy(*MEMBER)
        .agg(F.max("last").alias("released"))
    )
    lacking = (
        tables.send.where("kind = 'SEND'")
        .select(*MEMBER, "position", "sequence", "number", "got", moment().alias("moment"))
        .join(F.broadcast(asked), list(MEMBER))
        .where("position > join_position")
        .where(F.col("moment") <= F.col("ended") - SETTLING_NANOSECONDS)
        .join(released, list(MEMBER), "left")
        .where("sequence > coalesce(released, 0)")
        .groupBy(*MEMBER, F.col("end_position").alias("position"))
        .agg(F.min("number").alias("number"), F.sum("got").alias("missing"))
        .join(held_back(tables, asked, ends, moves, away), list(MEMBER), "left_anti")
    )
    text = F.concat(F.lit("not released; "), F.col("missing").cast("string"), F.lit(" are missing"))
    found = violations("L4", lacking, text, message_name("process", "incarnation"))
    return found.unionByName(session_unreleased(trace))


def moved(tables: Tables) -> DataFrame:
    """For each member its last JOIN and its last move; where that is a LEAVE, when it was."""
    return (
        tables.membership.where("kind in ('JOIN', 'LEAVE')")
        .where(~in_sessions())
        .groupBy(*MEMBER)
        .agg(
            F.max(F.when(F.col("kind") == "JOIN", F.col("position"))).alias("join_position"),
            F.max(F.struct("position", "kind", moment().alias("moment"), _clock().alias("clock"))).alias("last"),
        )
        .select(
            *MEMBER,
            "join_position",
            F.col("last.kind").alias("moved"),
            F.col("last.moment").alias("moved_at"),
            F.col("last.clock").alias("moved_clock"),
        )
    )


def held_back(tables: Tables, asked: DataFrame, ends: DataFrame, moves: DataFrame, away: DataFrame) -> DataFrame:
    """The members with a receiver that counts and may be why something is not released."""
    counted = (
        tables.membership.where("kind in ('GRANT', 'SUSPECT')")
        .select(*MEMBER, "position", "kind", *_PEER)
        .join(F.broadcast(asked), list(MEMBER))
        .where("position > join_position")
        .groupBy(*MEMBER, *_PEER, "ended", "clock")
        .agg(F.max_by("kind", "position").alias("kind"))
        .where("kind = 'GRANT'")
    )
    as_peer = {"process": "peer", "incarnation": "peer_incarnation"}
    their_moves = moves.withColumnsRenamed(as_peer).drop("join_position")
    their_ends = ends.withColumnsRenamed({**as_peer, "ended": "their_end", "clock": "their_clock"}).select(
        "run", *_PEER, "their_end", "their_clock"
    )
    names = F.transform("start", lambda start: F.struct(start["source"], start["incarnation"]))
    their_views = (
        tables.view.where("kind = 'VIEW'")
        .groupBy(*MEMBER)
        .agg(F.max_by(names, "position").alias("names"))
        .withColumnsRenamed(as_peer)
    )
    themselves = F.struct(F.col("process").alias("source"), "incarnation")
    gone = (F.col("moved_clock") == F.col("clock")) & (F.col("moved_at") <= F.col("ended") - STALL_LIMIT_NANOSECONDS)
    there = (
        F.col("cut").isNull()
        & (F.col("their_clock") == F.col("clock"))
        & (F.col("their_end") >= F.col("ended") - SETTLING_NANOSECONDS // 2)
        & F.array_contains("names", themselves)
    )
    left = F.coalesce(F.col("moved") == "LEAVE", F.lit(False))
    return (
        counted.join(their_moves, ["run", "group", *_PEER], "left")
        .join(their_ends, ["run", *_PEER], "left")
        .join(their_views, ["run", "group", *_PEER], "left")
        .join(away.select("run", F.col("name").alias("peer"), F.lit(True).alias("cut")), ["run", "peer"], "left")
        .where(~F.coalesce(F.when(left, gone).otherwise(there), F.lit(False)))
        .select(*MEMBER)
        .distinct()
    )


def late_repairs(tables: Tables) -> DataFrame:
    """Requests and repairs in the second half of each group's sending, where one clock tells them all."""
    columns = ("run", "group", "kind", "service", "view", moment().alias("moment"), _clock().alias("clock"))
    until = moment("last_truth", "last_at").alias("until")
    nobody = [
        F.lit(None).cast(kind).alias(name)
        for name, kind in (
            ("source", "string"),
            ("source_incarnation", "bigint"),
            ("first", "bigint"),
            ("last", "bigint"),
        )
    ]
    rows = (
        tables.send.where("kind = 'SEND'")
        .select(*columns, until, *nobody)
        .unionByName(
            tables.repair.where("kind in ('RTR', 'RTX')").select(*columns, *SOURCE, "first", "last"),
            allowMissingColumns=True,
        )
    )
    spans = (
        rows.groupBy("run", "group")
        .agg(
            F.min(F.when(F.col("kind") == "SEND", F.col("moment"))).alias("begin"),
            F.max("until").alias("end"),
            F.min("clock").alias("one"),
            F.max("clock").alias("other"),
        )
        .where("begin is not null and one = other")
        .select("run", "group", F.expr("(begin + end) div 2").alias("middle"))
    )
    return rows.where("kind <> 'SEND'").join(F.broadcast(spans), ["run", "group"]).where("moment > middle")


def ranges(repairs: DataFrame) -> DataFrame:
    """Per group and kind of row (RTR, RTX): the rows, and their ranges, those that overlap taken as one.

    Strong sessions count sequences anew in every view.
    """
    stream = F.when(in_sessions(STRONG), F.col("view"))
    in_order = Window.partitionBy(*_SENDER, stream, "kind").orderBy("first", "last")
    reached = F.max("last").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    return (
        repairs.where("kind in ('RTR', 'RTX')")
        .select("run", "group", "kind", (reached.isNull() | (F.col("first") > reached)).alias("new"))
        .groupBy("run", "group", "kind")
        .agg(F.count(F.lit(1)).alias("rows"), F.count(F.when(F.col("new"), 1)).alias("ranges"))
    )


def repair_efficiency(trace: Projections) -> DataFrame:
    """L8."""
    disturbed = trace.tables.fault.where("kind = 'FAULT' and fault not in ('load', 'heal')").select("run").distinct()
    found = (
        ranges(late_repairs(trace.tables))
        .where((F.col("ranges") >= LEAST_LOSSES) & (F.col("rows") > REPAIR_LIMIT * F.col("ranges")))
        .join(disturbed, "run", "left_anti")
        .select(
            "run",
            "group",
            F.lit("").alias("process"),
            F.lit(0).cast("bigint").alias("incarnation"),
            F.lit(0).cast("bigint").alias("position"),
            "rows",
            "kind",
            "ranges",
        )
    )
    return violations("L8", found, F.format_string("%d %s for %d ranges", "rows", "kind", "ranges"))
