"""What sessions owe at the end of a run: what was sent is delivered (L2) and released (L4)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import told_by
from unisono.pipeline.audits.agreed import GROUP, member
from unisono.pipeline.audits.intervals import merged, uncovered
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.audits.session_streams import of_view, sent, single, told
from unisono.pipeline.columns import MEMBER, PROCESS, SOURCE, STREAM, in_sessions, message_name, moment, violations
from unisono.properties.promises import SETTLING_NANOSECONDS, STRONG

_SENDER = (*GROUP, *SOURCE)
_OWN = "source = process and source_incarnation = incarnation"


def _standing(trace: Projections) -> DataFrame:
    """Every session that is there at its end: how it joined, its last view, and its end."""
    return trace.shared("standing_sessions", lambda: _last_views(trace))


def _last_views(trace: Projections) -> DataFrame:
    tables = trace.tables
    move = F.struct("position", "kind", "service")
    moves = (
        tables.membership.where("kind in ('JOIN', 'LEAVE', 'EXCLUDED')")
        .where(in_sessions())
        .groupBy(*MEMBER)
        .agg(F.max(F.when(F.col("kind") != "EXCLUDED", move)).alias("moved"), F.max("position").alias("turned"))
        .where("moved.kind = 'JOIN'")
    )
    members = F.transform("start", lambda one: member(one["source"], one["incarnation"]))
    last = F.max(F.struct("position", "view", moment().alias("moment"), members.alias("members")))
    return (
        tables.view.where("kind = 'VIEW'")
        .where(in_sessions())
        .join(F.broadcast(moves), list(MEMBER))
        .where("position > turned")
        .groupBy(*MEMBER, F.col("moved.service").alias("joined_service"))
        .agg(last.alias("last"))
        .join(F.broadcast(trace.ends), list(PROCESS))
        .join(trace.cut_off.withColumnRenamed("name", "process"), ["run", "process"], "left_anti")
        .select(
            *MEMBER,
            (F.col("joined_service") == STRONG).alias("strong"),
            "last.*",
            "end_position",
            "ended",
            "end_clock",
        )
    )


def _others(trace: Projections) -> DataFrame:
    """The same, as sources."""
    parts = ("view", "moment", "ended", "end_clock")
    return _standing(trace).select(
        *GROUP,
        F.col("process").alias("source"),
        F.col("incarnation").alias("source_incarnation"),
        *(F.col(part).alias(f"source_{part}") for part in parts),
    )


def session_undelivered(trace: Projections) -> DataFrame:
    """L2 of sessions: pairs of two that are there; only where one lacks something are messages compared."""
    if not trace.has_sessions:
        return trace.nothing()
    pairs = (
        _standing(trace)
        .select("*", F.explode(F.array_distinct("members")).alias("one"))
        .select("*", F.col("one.process").alias("source"), F.col("one.incarnation").alias("source_incarnation"))
        .join(_others(trace), list(_SENDER))
        .where("end_clock = source_end_clock")
        .select("*", (F.least("ended", "source_ended") - SETTLING_NANOSECONDS).alias("due"))
    )
    together = pairs.where("view = source_view and greatest(moment, source_moment) <= due")
    columns = (*STREAM, "end_position", F.col("end_clock").alias("clock"), "due", of_view("view").alias("stream"))
    probes = trace.settle(together.select(*columns))
    asked = sent(trace).join(F.broadcast(probes), [*_SENDER, "stream", "clock"]).where("moment <= due")
    heard = merged(trace.tables.deliver.where("kind = 'DELIVER'").where(in_sessions()), STREAM)
    suspects = trace.found(uncovered(asked, heard, STREAM).select(*STREAM).distinct())
    if suspects is None:
        return trace.nothing()
    got = trace.deliveries(suspects, STREAM).where(in_sessions()).select(*STREAM, "number")
    found = (
        told(single(trace, suspects.select(*_SENDER).distinct()))
        .join(F.broadcast(probes), [*_SENDER, "stream", "clock"])
        .where("moment <= due")
        .join(F.broadcast(suspects), list(STREAM), "left_semi")
        .join(got, [*STREAM, "number"], "left_anti")
        .groupBy(*STREAM, F.col("end_position").alias("position"))
        .agg(F.min("number").alias("number"), F.count(F.lit(1)).alias("missing"))
    )
    text = F.concat(F.lit("never delivered; of this source "), F.col("missing").cast("string"), F.lit(" are missing"))
    return violations("L2", found, text, message_name())


def session_unreleased(trace: Projections) -> DataFrame:
    """L4 of sessions: what a source sent in its last view, where all who are in it have been there for long."""
    if not trace.has_sessions:
        return trace.nothing()
    tables = trace.tables
    heals = (
        tables.fault.where("kind = 'FAULT' and fault = 'heal'")
        .select("run", told_by().alias("end_clock"), moment().alias("at_time"))
        .groupBy("run", "end_clock")
        .agg(F.max("at_time").alias("healed"))
    )
    changes = tables.membership.where("kind = 'START_CHANGE'").where(in_sessions())
    changes = changes.groupBy(*MEMBER).agg(F.max("position").alias("changed"))
    settled = trace.settle(
        _standing(trace)
        .where("strong")
        .join(heals, ["run", "end_clock"])
        .join(changes, list(MEMBER), "left")
        .select("*", (F.col("ended") - SETTLING_NANOSECONDS).alias("due"))
        .where("healed <= due and moment <= due and coalesce(changed < position, true)")
        .select(*MEMBER, "view", "members", "end_position", "ended", "end_clock", "due")
    )
    near = F.col("source_ended") >= F.col("ended") - SETTLING_NANOSECONDS // 2
    there = near & F.expr("source_end_clock = end_clock and source_view = view and source_moment <= due")
    lonely = (
        settled.select("*", F.explode("members").alias("one"))
        .select("*", F.col("one.process").alias("source"), F.col("one.incarnation").alias("source_incarnation"))
        .where(f"not ({_OWN})")
        .join(_others(trace), list(_SENDER), "left")
        .where(~F.coalesce(there, F.lit(False)))
        .select(*MEMBER)
        .distinct()
    )
    released = (
        tables.repair.where("kind = 'GC'")
        .where(_OWN)
        .where(in_sessions())
        .groupBy(*MEMBER, "view")
        .agg(F.max("last").alias("released"))
    )
    asked = (
        settled.join(lonely, list(MEMBER), "left_anti")
        .join(released, [*MEMBER, "view"], "left")
        .select(
            *GROUP,
            F.col("process").alias("source"),
            F.col("incarnation").alias("source_incarnation"),
            of_view("view").alias("stream"),
            F.coalesce("released", F.lit(0)).alias("released"),
            "end_position",
            "due",
        )
    )
    asked = trace.settle(asked)

    def unreleased(rows: DataFrame) -> DataFrame:
        owed = rows.join(F.broadcast(asked), [*_SENDER, "stream"])
        return owed.where("moment <= due and last_sequence > released")

    suspects = trace.found(unreleased(sent(trace)).select(*_SENDER).distinct())
    if suspects is None:
        return trace.nothing()
    found = (
        unreleased(told(single(trace, suspects)))
        .groupBy(*_SENDER, F.col("end_position").alias("position"))
        .agg(F.min("number").alias("number"), F.count(F.lit(1)).alias("missing"))
        .withColumnsRenamed({"source": "process", "source_incarnation": "incarnation"})
    )
    text = F.concat(F.lit("not released; "), F.col("missing").cast("string"), F.lit(" are missing"))
    return violations("L4", found, text, message_name("process", "incarnation"))
