"""Agreed views and what was delivered in them: small tables that the audits of membership compare."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.columns import AGREED, MEMBER, SOURCE, held, moment
from unisono.pipeline.tables import Tables

GROUP = ("run", "group")
VIEW = (*GROUP, "view")
STEP = (*GROUP, "previous", "view")
"""From one agreed view to the next."""
STAY = (*MEMBER, "stretch", "view")
"""One process in one agreed view."""

FRESH = "kind in ('SELF_FAIL', 'BOOTSTRAP')"
"""After such a row a process does not go on from the view that it had."""

BECAME_SENDER = "sends now"
"""The reason for which a receiver of a view is in the next one."""


def agreed_views(views: DataFrame, promise: str = AGREED) -> DataFrame:
    """Every agreed one of these VIEWs, with the one `before` it in its stretch, and whether a `fresh` start is between.

    With another promise those whose service keeps that.

    `members`, `transitional` and `merged` are sorted; `became` are those who became senders with it, `itself` is the
    process as a member, `place` its row, and `since` the position of its last VIEW before this one, under any service,
    that was agreed. `era_word` is the era of the view; `span` is the place of the first VIEW of that era in a row at
    this process, and whether that one is whole, `before_span` the same of the VIEW before.
    """
    in_stretch = Window.partitionBy(*MEMBER, "stretch").orderBy("position")
    members = F.transform("start", lambda start: member(start["source"], start["incarnation"]))
    transitional = F.transform("transitional", lambda one: member(one["process"], one["incarnation"]))
    identifier = F.struct("start_time", "leader", "leader_incarnation", "leader_sequence")
    before = F.lag(F.struct("position", "view", "identifier", "role", "whole", "start", "members", "era_word"))
    became = F.filter("reasons", lambda one: one["reason"] == BECAME_SENDER)
    goes_on = F.expr("era is not null and coalesce(before.era_word = era, false) and not fresh")
    span = F.max(F.when(~goes_on, F.struct("position", "whole"))).over(in_stretch)
    return (
        views.where(held(promise))
        .select(
            *MEMBER,
            "position",
            "stretch",
            "service",
            "view",
            "previous",
            "role",
            "whole",
            "primary",
            "era",
            F.coalesce("era", "view").alias("era_word"),
            F.col("since_agreed").alias("since"),
            "last_fresh",
            moment().alias("moment"),
            identifier.alias("identifier"),
            F.array_sort("start").alias("start"),
            F.array_sort("merged").alias("merged"),
            as_set(members).alias("members"),
            as_set(transitional).alias("transitional"),
            F.transform(became, lambda one: member(one["process"], one["incarnation"])).alias("became"),
            member(F.col("process"), F.col("incarnation")).alias("itself"),
            F.struct("process", "incarnation", "position").alias("place"),
        )
        .select("*", before.over(in_stretch).alias("before"))
        .select("*", F.expr("coalesce(last_fresh > before.position, false)").alias("fresh"))
        .select("*", span.alias("span"))
        .select("*", F.lag("span").over(in_stretch).alias("before_span"))
        .drop("last_fresh")
    )


def span_starts(agreed: DataFrame) -> DataFrame:
    """Where each source begins in each span of a member: in the first VIEW that has it."""
    return (
        agreed.select(*MEMBER, F.col("span.position").alias("span"), "position", F.explode("start").alias("begin"))
        .select(
            *MEMBER,
            "span",
            "position",
            F.col("begin.source").alias("source"),
            F.col("begin.incarnation").alias("source_incarnation"),
            F.col("begin.number").alias("number"),
        )
        .groupBy(*MEMBER, "span", *SOURCE)
        .agg(F.min(F.struct("position", F.negative("number").alias("number")))["number"].alias("number"))
        .select(*MEMBER, "span", *SOURCE, F.negative("number").alias("start"))
    )


def eras(tables: Tables) -> DataFrame:
    """Every installed view that followed by the order: its era, and the positions between which it stands."""
    following = F.lead("position").over(Window.partitionBy(*MEMBER).orderBy("position"))
    return (
        tables.view.where("kind = 'VIEW'")
        .select(*MEMBER, "view", "era", F.col("position").alias("stands_from"), following.alias("stands_until"))
        .where("era is not null and view is not null")
    )


def in_eras(rows: DataFrame, eras: DataFrame, position: str = "position") -> DataFrame:
    """Rows with the era that each was written in, as its own process has it."""
    where = f"{position} > stands_from and (stands_until is null or {position} < stands_until)"
    same = [F.col(f"one.{name}") == F.col(f"other.{name}") for name in (*MEMBER, "view")]
    condition = F.expr(where)
    for part in same:
        condition &= part
    return (
        rows.alias("one")
        .join(F.broadcast(eras.alias("other")), condition, "left")
        .select("one.*", F.coalesce("other.era", "one.view").alias("era"))
    )


def with_turns(tables: Tables) -> DataFrame:
    """Every VIEW with the positions of the VIEW before it, of the last agreed one, and of the last fresh start."""
    views = tables.view.where("kind = 'VIEW'")
    turns = tables.membership.where(FRESH).select(*MEMBER, "position", "kind")
    before = Window.partitionBy(*MEMBER).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)

    def last(condition: Column) -> Column:
        return F.max(F.when(condition, F.col("position"))).over(before)

    return (
        views.unionByName(turns, allowMissingColumns=True)
        .select(
            "*",
            last(F.col("kind") == "VIEW").alias("since"),
            last(F.expr("kind = 'VIEW' and era is null")).alias("since_agreed"),
            last(F.col("kind") != "VIEW").alias("last_fresh"),
        )
        .where("kind = 'VIEW'")
    )


def member(process: Column, incarnation: Column) -> Column:
    return F.struct(process.alias("process"), incarnation.alias("incarnation"))


def as_set(items: Column) -> Column:
    """An array that is equal to another if both have the same items."""
    return F.array_sort(F.array_distinct(items))


def transitions(agreed: DataFrame) -> DataFrame:
    """Every step of a process to an agreed view from the one before it, `full` where it had the whole of that one."""
    return agreed.where("before.view = previous and not fresh").withColumn("full", F.col("before.whole"))


def in_agreed_views(deliver: DataFrame, *more: str) -> DataFrame:
    """The deliveries of services with agreed views, by the view that each names; with `more` columns."""
    return (
        deliver.where("kind = 'DELIVER' and view is not null")
        .where(held(AGREED))
        .select(*STAY, F.col("position").alias("delivered_at"), *SOURCE, "number", *more)
    )
