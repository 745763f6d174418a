"""Partings (L10): whom a process leaves out of its next view, against what took these away or kept them apart."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.agreed import as_set, member
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import MEMBER, held, process_name, violations
from unisono.pipeline.tables import Tables
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS

_PARTING = (*MEMBER, "position", "parted_at")
_MEMBERS = "array<struct<process:string,incarnation:bigint>>"
_SAME_LIFE = "its_run = run and its_name = source and its_life = source_incarnation"
_IN_TIME = f"moved_at between parted_at - {STALL_LIMIT_NANOSECONDS} and parted_at"
_ABOUT_THEN = f"abs(moved_at - parted_at) <= {STALL_LIMIT_NANOSECONDS}"


def kept_together(trace: Projections) -> DataFrame:
    """L10: few views lack somebody of the one before, and most of those had gone; faults matter for the others."""
    tables = trace.tables
    partings = trace.found(_partings(tables))
    if partings is None:
        return trace.nothing()
    apart = trace.found(_left_out(partings, tables))
    if apart is None:
        return trace.nothing()
    faults = F.coalesce("faults", F.array().cast("array<array<array<string>>>"))

    def could_stay(one: Column) -> Column:
        return F.forall(faults, lambda sides: F.exists(sides, lambda side: _has_all(side, one)))

    found = (
        apart.join(_felt(apart, tables), ["run", "parted_at"], "left")
        .select(*MEMBER, "position", F.array_min(F.filter("left_out", could_stay)).alias("one"))
        .where("one is not null")
    )
    text = F.concat(
        F.lit("goes on without "), process_name("one.process", "one.incarnation"), F.lit(", whom no fault keeps away")
    )
    return violations("L10", found, text)


def _has_all(side: Column, one: Column) -> Column:
    """True where a side of a fault has all the company that is judged for one that was left out."""
    return (F.size(F.array_except("company", side)) == 0) & F.array_contains(side, one["process"])


def _partings(tables: Tables) -> DataFrame:
    """Each VIEW without some of the members of the VIEW directly before it.

    `together` counts those who stay, `names` has their names and those of the new ones. `excluded` says that the
    process was told in between that others went on without it, `failed` that it could not follow them, and `behind`
    has the names of those that left it behind.
    """
    in_order = Window.partitionBy(*MEMBER).orderBy("position")
    columns = ("kind", "position", "truth", "stretch", "held", "of_era", "era", "role", "members")
    members = F.transform("start", lambda one: member(one["source"], one["incarnation"]))
    news = tables.membership.where("kind in ('JOIN', 'LEAVE', 'SELF_FAIL', 'EXCLUDED', 'LEFT_BEHIND')").select(
        *MEMBER, "position", "kind", "truth", "stretch", "peer"
    )
    turns = (
        tables.view.where("kind = 'VIEW'")
        .select(
            *(*MEMBER, "position", "kind", "truth", "stretch", "role", "era"),
            F.coalesce("era", "view").alias("of_era"),
            held("L10").alias("held"),
            as_set(F.coalesce(members, F.array().cast(_MEMBERS))).alias("members"),
        )
        .unionByName(news, allowMissingColumns=True)
        .where("truth is not null")
        .withColumn("turn", F.count_if(F.expr("kind in ('VIEW', 'JOIN', 'LEAVE')")).over(in_order))
        .groupBy(*MEMBER, "turn")
        .agg(
            F.min_by(F.struct(*columns), "position").alias("view"),
            F.bool_or(F.expr("kind = 'EXCLUDED'")).alias("excluded"),
            F.bool_or(F.expr("kind = 'SELF_FAIL'")).alias("failed"),
            F.collect_set(F.expr("case when kind = 'LEFT_BEHIND' then peer end")).alias("behind"),
        )
    )
    since = F.struct("view.*", "excluded", "failed", "behind")
    return (
        turns.select(*MEMBER, "view.*", F.lag(since).over(Window.partitionBy(*MEMBER).orderBy("turn")).alias("before"))
        .where("kind = 'VIEW' and held and era is null and before.kind = 'VIEW' and before.held")
        .where("stretch = before.stretch or (before.failed and stretch = before.stretch + 1)")
        .select(
            *MEMBER,
            "position",
            F.col("truth").alias("parted_at"),
            "before.of_era",
            F.expr("before.role <=> 'receiver' and role <=> 'receiver'").alias("receiver"),
            "before.excluded",
            "before.failed",
            "before.behind",
            F.transform("members", lambda one: one["process"]).alias("names"),
            F.size(F.array_intersect("before.members", "members")).alias("together"),
            F.array_except(
                F.array_except("before.members", "members"), F.array(member(F.col("process"), F.col("incarnation")))
            ).alias("missing"),
        )
        .where(F.size("missing") > 0)
        .where("receiver or not failed")
    )


def _left_out(partings: DataFrame, tables: Tables) -> DataFrame:
    """The partings from those who are there, with these and with the company that all of them must be able to hear."""
    missing = (
        partings.select("*", F.explode("missing").alias("one"))
        .drop("missing")
        .select("*", F.col("one.process").alias("source"), F.col("one.incarnation").alias("source_incarnation"))
    )
    whose = (
        F.col("run").alias("its_run"),
        F.col("group").alias("its_group"),
        F.col("process").alias("its_name"),
        F.col("incarnation").alias("its_life"),
    )
    moves = tables.membership.where("truth is not null")
    gone = moves.where(
        "kind in ('CRASH', 'END', 'LEAVE', 'SELF_FAIL', 'PLEAVE') or (kind = 'ROLE' and role = 'receiver')"
    ).select(*whose, F.col("kind").alias("move"), F.col("truth").alias("moved_at"))
    told = tables.view.where("kind = 'VIEW' and truth is not null")
    views = told.select(*whose, F.coalesce("era", "view").alias("its_era"))
    common = told.where(held("L10")).select(
        *whose,
        F.col("truth").alias("seen_at"),
        F.col("position").alias("seen_as"),
        F.transform(F.coalesce("start", F.array()), lambda one: one["source"]).alias("beside"),
    )
    agreed = moves.where("kind = 'AGREED'").select(*whose, F.col("reason").alias("its_era"))
    is_gone = (
        f"case when move = 'CRASH' then moved_at <= parted_at + {STALL_LIMIT_NANOSECONDS}"
        " when move = 'END' then moved_at <= parted_at when its_group <> `group` then false"
        f" when move in ('LEAVE', 'SELF_FAIL') then {_ABOUT_THEN} else {_IN_TIME} end"
    )
    has_it = "excluded and its_group = `group` and its_era <=> of_era"
    smaller = F.expr("receiver and size(left_out) > together")
    there = missing.join(gone, F.expr(f"{_SAME_LIFE} and {is_gone}"), "left_anti").join(
        views.unionByName(agreed), F.expr(f"{_SAME_LIFE} and {has_it}"), "left_anti"
    )
    lately = "its_group = `group` and seen_at <= parted_at"
    beside = (
        there.where("receiver")
        .join(common, F.expr(f"{_SAME_LIFE} and {lately}"))
        .groupBy(*_PARTING, "one")
        .agg(F.max_by("beside", "seen_as").alias("beside"))
        .groupBy(*_PARTING)
        .agg(F.flatten(F.collect_list("beside")).alias("beside"))
    )
    return (
        there.groupBy(*_PARTING, "receiver", "failed", "behind", "together", "names")
        .agg(F.collect_set("one").alias("left_out"))
        .where(smaller | ~F.col("failed"))
        .join(beside, list(_PARTING), "left")
        .withColumn(
            "others",
            F.when(
                smaller,
                F.array_union(
                    F.transform("left_out", lambda one: one["process"]),
                    F.array_except(F.coalesce("beside", F.array().cast("array<string>")), F.col("names")),
                ),
            ).otherwise(F.col("names")),
        )
        .select(
            *_PARTING, "left_out", F.array_union(F.array_union(F.array("process"), "behind"), "others").alias("company")
        )
    )


def _felt(apart: DataFrame, tables: Tables) -> DataFrame:
    """The sides of each fault that is felt at the moment of a parting."""
    begun = F.count_if(F.expr("edge = 'begin' and fault_at <= parted_at"))
    ended = F.count_if(F.expr(f"edge = 'end' and fault_at < parted_at - {STALL_LIMIT_NANOSECONDS}"))
    return (
        tables.fault.where("kind = 'FAULT' and fault not in ('load', 'heal') and truth is not null")
        .where(F.size("sides") > 0)
        .select("run", "fault", "sides", "edge", F.col("truth").alias("fault_at"))
        .join(apart.select("run", "parted_at").distinct(), ["run"])
        .groupBy("run", "parted_at", "fault", "sides")
        .agg(begun.alias("begun"), ended.alias("ended"))
        .where("begun > ended")
        .groupBy("run", "parted_at")
        .agg(F.collect_list("sides").alias("faults"))
    )
