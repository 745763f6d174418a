"""After the last fault: everybody has the same last view with the right members (L1) and all its messages (L5)."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import servers, told_by
from unisono.pipeline.audits.agreed import FRESH, GROUP, member
from unisono.pipeline.audits.intervals import merged, uncovered
from unisono.pipeline.audits.liveness import only_receives, role_at, told_roles
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import (
    MEMBER,
    PROCESS,
    SOURCE,
    STREAM,
    held,
    in_sessions,
    message_name,
    moment,
    violations,
)
from unisono.pipeline.tables import Tables
from unisono.properties.promises import PRECISION_NANOSECONDS, SETTLING_NANOSECONDS

_SENDER = (*GROUP, *SOURCE)
_NEAR_NANOSECONDS = SETTLING_NANOSECONDS // 2
"""Ends that are no further apart than this are the end of one run."""


def membership_precision(trace: Projections) -> DataFrame:
    """L1."""
    joined = trace.settle(
        _not_cut_off(trace, trace.standing.where("joined is not null and moved.kind = 'JOIN'")).join(
            _last_views(trace), list(MEMBER), "left"
        )
    )
    settled = (
        _healed(trace.tables, joined.where(held("L1")))
        .where("joined.moment <= due and coalesce(entered <= due, true)")
        .join(unserved(trace), "run", "left")
        .where(~(in_sessions() & F.coalesce("unserved", F.lit(False))))
        .withColumnRenamed("end_position", "position")
    )
    demanded = trace.settle(_demanded(trace, settled, joined))
    judged = trace.settle(settled.join(demanded.select(*MEMBER).distinct(), list(MEMBER), "left_semi"))
    wrong = (_missing(judged, demanded), _too_many(trace, judged), _apart(judged))
    found = reduce(DataFrame.unionByName, wrong).groupBy(*MEMBER, "position").agg(F.min("wrong").alias("wrong"))
    return violations("L1", found, F.concat(F.lit("the last view: "), "wrong"))


def unserved(trace: Projections) -> DataFrame:
    """The runs of sessions with servers of a kind of which none is there at the end."""
    living = trace.ends.select("run", F.col("process").alias("name"), F.lit(True).alias("living")).distinct()
    cut = trace.cut_off.select("run", "name", F.lit(True).alias("cut"))
    return (
        servers(trace.tables)
        .join(living, ["run", "name"], "left")
        .join(cut, ["run", "name"], "left")
        .groupBy("run", "sort")
        .agg(F.max(F.expr("living is not null and cut is null")).alias("there"))
        .where("not there")
        .select("run", F.lit(True).alias("unserved"))
        .distinct()
    )


def _last_views(trace: Projections) -> DataFrame:
    """The last agreed view of each member since its last JOIN, and when it installed the first of that stretch."""
    since_join = trace.common.join(trace.moves.select(*MEMBER, "joined"), list(MEMBER), "left").where(
        "position > coalesce(joined.position, -1)"
    )
    last = F.max(F.struct("position", "stretch", "view", "era_word", "moment", "members")).over(
        Window.partitionBy(*MEMBER)
    )
    return (
        since_join.select(*MEMBER, "position", "stretch", "moment", last.alias("last"))
        .where("stretch = last.stretch")
        .groupBy(*MEMBER, "last")
        .agg(F.min_by("moment", "position").alias("entered"))
        .select(*MEMBER, "last.view", "last.era_word", F.col("last.moment").alias("since"), "last.members", "entered")
    )


def _demanded(trace: Projections, settled: DataFrame, joined: DataFrame) -> DataFrame:
    """The senders that each process must have in its last view, since they were there for long enough."""
    sent = (
        trace.tables.send.where("kind = 'SEND' and agreed is not null")
        .select(*MEMBER, "position", moment().alias("moment"))
        .join(F.broadcast(joined.select(*MEMBER, "joined")), list(MEMBER))
        .where("position > joined.position")
        .groupBy(*MEMBER)
        .agg(F.min("moment").alias("first_sent"))
    )
    senders = joined.join(sent, list(MEMBER), "left").join(told_roles(trace), list(MEMBER), "left")
    senders = senders.select(
        *GROUP,
        "end_clock",
        member(F.col("process"), F.col("incarnation")).alias("wanted"),
        F.col("ended").alias("other_ended"),
        F.col("joined.moment").alias("other_joined"),
        F.col("joined.role").alias("joined_as"),
        "first_sent",
        F.when(held("L1"), F.col("entered")).alias("other_entered"),
        "told",
    )
    due = F.col("due")
    sends = F.coalesce(role_at(due), "joined_as") == "sender"
    return (
        settled.join(senders, [*GROUP, "end_clock"])
        .where(F.col("other_ended") >= F.col("ended") - _NEAR_NANOSECONDS)
        .where(F.col("other_joined") <= due)
        .where((F.col("first_sent") <= due) | (sends & (F.col("other_entered") <= due)))
        .where(~only_receives(due))
        .select(*MEMBER, "wanted")
    )


def _missing(judged: DataFrame, demanded: DataFrame) -> DataFrame:
    """Who lacks a sender."""
    return (
        judged.join(demanded, list(MEMBER))
        .where("not coalesce(array_contains(members, wanted), false)")
        .select(*MEMBER, "position", F.concat("wanted.process", F.lit(" is missing")).alias("wrong"))
    )


def _too_many(trace: Projections, judged: DataFrame) -> DataFrame:
    """Who still has somebody that was gone for long."""
    tables = trace.tables
    itself = member(F.col("process"), F.col("incarnation")).alias("member")
    inside = judged.select(*MEMBER, "position", "end_clock", "due", F.explode("members").alias("member"))
    crashed = tables.membership.where("kind = 'CRASH'").select(
        "run", itself, moment().alias("gone_at"), told_by().alias("end_clock")
    )
    left = trace.moves.where("moved.kind = 'LEAVE'").select(
        *GROUP, itself, F.col("moved.moment").alias("gone_at"), F.col("moved.clock").alias("end_clock")
    )
    away = (
        tables.fault.where("kind = 'FAULT' and fault not in ('load', 'heal') and edge = 'begin'")
        .select("run", F.explode("members").alias("name"), moment().alias("moment"), told_by().alias("clock"))
        .join(trace.cut_off, ["run", "name"], "left_semi")
        .groupBy("run", "name")
        .agg(F.max("moment").alias("gone_at"), F.min("clock").alias("end_clock"), F.max("clock").alias("other_clock"))
        .where("end_clock = other_clock")
    )
    gone = (
        inside.join(crashed, ["run", "member", "end_clock"]),
        inside.join(left, [*GROUP, "member", "end_clock"]),
        inside.withColumn("name", F.col("member.process")).join(away, ["run", "name", "end_clock"]),
    )
    text = F.concat("member.process", F.lit(" was gone")).alias("wrong")
    return reduce(
        DataFrame.unionByName, (one.where("gone_at <= due").select(*MEMBER, "position", text) for one in gone)
    )


def _apart(judged: DataFrame) -> DataFrame:
    """Who has another last view than the first one that is judged in its group."""
    first = F.min(F.struct("process", "incarnation", "ended", "end_clock", "view", "era_word", "since")).over(
        Window.partitionBy(*GROUP)
    )
    return (
        judged.select("*", first.alias("first"))
        .where("first.end_clock = end_clock")
        .where("not era_word <=> first.era_word or (view <> first.view and greatest(since, first.since) <= due)")
        .where(F.abs(F.col("ended") - F.col("first.ended")) <= _NEAR_NANOSECONDS)
        .select(*MEMBER, "position", F.concat(F.lit("not that of "), "first.process").alias("wrong"))
    )


def termination(trace: Projections) -> DataFrame:
    """L5: pairs of a listener and a sender in one last era; only where one lacks something are messages compared.

    No stride of sends goes beyond the moment up to which it is due.
    """
    probes = trace.settle(_listeners(trace))
    line = (*STREAM, "view", "position")

    def owed(sent: DataFrame) -> DataFrame:
        return (
            _unanswered(trace, sent)
            .join(F.broadcast(probes), [*_SENDER, "view", "end_clock"])
            .where("last_number >= start and moment <= due")
            .select(*line, F.greatest("number", "start").alias("number"), "last_number")
        )

    strides = trace.tables.send.drop("view").withColumnRenamed("agreed", "view")
    heard = merged(trace.tables.deliver, STREAM)
    suspects = trace.found(uncovered(owed(strides), heard, STREAM).select(*line).distinct())
    if suspects is None:
        return trace.nothing()
    single = trace.first_sends(suspects).select(
        *GROUP,
        *(F.col(name).alias(own) for name, own in zip(SOURCE, ("process", "incarnation"), strict=True)),
        "number",
        *(F.col(name).alias(f"last_{own}") for name, own in (("number", "number"), ("sent_position", "position"))),
        F.col("sent_agreed").alias("view"),
        *(F.col(f"sent_{name}").alias(name) for name in ("position", "stretch", "service", "truth", "at", "host")),
    )
    found = (
        owed(single)
        .join(F.broadcast(suspects), list(line), "left_semi")
        .join(trace.deliveries(suspects, STREAM).select(*STREAM, "number"), [*STREAM, "number"], "left_anti")
        .groupBy(*STREAM, "position")
        .agg(F.min("number").alias("number"))
    )
    return violations("L5", found, F.lit("never delivered, though sent in the last view"), message_name())


def _listeners(trace: Projections) -> DataFrame:
    """Who must have heard whom in which era, from where on and until when."""
    whole = _not_cut_off(trace, trace.standing.where("moved is null or moved.kind <> 'LEAVE'").where(held("L5")))
    last_of_era = F.max(F.struct("position", "stretch", "members", F.col("span.position").alias("span"))).alias("last")
    return (
        trace.agreed.where(held("L5"))
        .groupBy(*MEMBER, "era_word", "itself")
        .agg(last_of_era)
        .select(*MEMBER, F.col("era_word").alias("view"), "itself", "last.stretch", "last.members", "last.span")
        .join(_healed(trace.tables, whole), list(MEMBER))
        .where("stretch = last_stretch and array_contains(members, itself)")
        .select(*MEMBER, "view", "span", F.col("end_position").alias("position"), "end_clock", "due")
        .join(trace.span_starts, [*MEMBER, "span"])
        .select(*MEMBER, "view", "position", "end_clock", "due", *SOURCE, "start")
        .where("not (source = process and source_incarnation = incarnation)")
        .join(trace.cut_off.withColumnRenamed("name", "source"), ["run", "source"], "left_anti")
    )


def _unanswered(trace: Projections, sent: DataFrame) -> DataFrame:
    """Of what was sent, its era as `view`, what senders that reached an END sent in the era that they have there."""
    tables = trace.tables
    turns = (
        tables.view.where("kind = 'VIEW' and era is null")
        .select(*MEMBER, "position")
        .unionByName(tables.membership.where(f"kind = 'LEAVE' or {FRESH}").select(*MEMBER, "position"))
        .groupBy(*MEMBER)
        .agg(F.max("position").alias("turned"))
    )
    crashed = tables.membership.where("kind = 'CRASH'").select(*PROCESS).distinct()
    alive = trace.ends.select(*PROCESS).join(crashed, list(PROCESS), "left_anti")
    return (
        sent.where("view is not null")
        .where(held("L5"))
        .join(F.broadcast(alive), list(PROCESS), "left_semi")
        .join(F.broadcast(turns), list(MEMBER), "left")
        .join(F.broadcast(trace.later_stretches), [*MEMBER, "stretch"], "left")
        .where("coalesce(turned < position, true) and coalesce(later_position < last_position, true)")
        .select(
            *GROUP,
            F.col("process").alias("source"),
            F.col("incarnation").alias("source_incarnation"),
            "number",
            "last_number",
            "view",
            moment().alias("moment"),
            told_by().alias("end_clock"),
        )
    )


def _not_cut_off(trace: Projections, members: DataFrame) -> DataFrame:
    names = trace.cut_off.withColumnRenamed("name", "process")
    return members.join(names, ["run", "process"], "left_anti")


def _healed(tables: Tables, members: DataFrame) -> DataFrame:
    """Those whose end, by PRECISION_NANOSECONDS before which all must be `due`, is late enough after the last fault."""
    heals = (
        tables.fault.where("kind = 'FAULT' and fault = 'heal'")
        .select("run", told_by().alias("end_clock"), moment().alias("moment"))
        .groupBy("run", "end_clock")
        .agg(F.max("moment").alias("healed"))
    )
    return (
        members.join(heals, ["run", "end_clock"])
        .select("*", (F.col("ended") - PRECISION_NANOSECONDS).alias("due"))
        .where("healed <= due")
    )
