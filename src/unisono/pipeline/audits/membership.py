"""Agreed views: who is in them (M1), how they follow each other (M2, M7, M9), and that all see the same (M4, M5).

What is delivered in them is in `synchrony` and `own`, what must hold at the end in `precision`; all are named here.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.agreed import GROUP, STEP, VIEW, member
from unisono.pipeline.audits.own import self_delivery, self_delivery_liveness
from unisono.pipeline.audits.precision import membership_precision, termination
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.audits.synchrony import (
    agreed_forward_set,
    same_view,
    sending_view,
    virtual_synchrony,
    weak_total_order,
)
from unisono.pipeline.columns import MEMBER, violations

__all__ = [
    "agreed_forward_set",
    "membership_precision",
    "monotone_views",
    "primary_component",
    "receiver_chain",
    "same_view",
    "self_delivery",
    "self_delivery_liveness",
    "self_inclusion",
    "sending_view",
    "termination",
    "transitional_set",
    "view_identity",
    "virtual_synchrony",
    "weak_total_order",
]


def self_inclusion(trace: Projections) -> DataFrame:
    """M1. Views of weak sessions are judged here, and for M2 and M4, too."""
    found = trace.common.where("role = 'sender' and not array_contains(members, itself)")
    return violations("M1", found, F.concat(F.lit("this sender is not in its view "), "view"))


def monotone_views(trace: Projections) -> DataFrame:
    """M2: who starts afresh may come back into the same view."""
    found = trace.common.where("identifier < before.identifier or (identifier = before.identifier and not fresh)")
    return violations("M2", found, F.concat(F.lit("installed after "), "before.view", F.lit(", which is not lower")))


def view_identity(trace: Projections) -> DataFrame:
    """M4: every row of a view against the first one; what only whole rows tell, against the first whole one."""
    one_view = Window.partitionBy(*VIEW)
    common = F.struct("identifier", "members", "era")
    told = F.struct("start", "merged", "primary")
    found = (
        trace.common.select(*MEMBER, "place", "position", "view", "whole", common.alias("common"), told.alias("told"))
        .select(
            "*",
            F.min(F.struct("place", "common")).over(one_view)["common"].alias("first_common"),
            F.min(F.when(F.col("whole"), F.struct("place", "told"))).over(one_view)["told"].alias("first_told"),
        )
        .where("not common <=> first_common or (whole and not told <=> first_told)")
    )
    wrong = F.when(F.expr("not common <=> first_common"), F.lit("members or era")).otherwise(
        F.lit("start, origin or rank")
    )
    return violations("M4", found, F.concat(F.lit("others have other "), wrong, F.lit(" of "), "view"))


def transitional_set(trace: Projections) -> DataFrame:
    """M5: each set against the two views; and against those who installed the view, by where they came from."""
    latest = F.max("position").over(Window.partitionBy(*MEMBER, "view", "role"))
    whole = trace.agreed.where("whole").select("*", (latest == F.col("position")).alias("latest"))
    senders = whole.where("latest and role = 'sender'")
    installers = senders.groupBy(*VIEW).agg(F.collect_set("itself").alias("installers"))
    companions = (
        senders.where("previous is not null")
        .groupBy(*STEP)
        .agg(
            F.collect_set("itself").alias("companions"),
            F.collect_set(F.coalesce("transitional", _nobody())).alias("theirs"),
        )
    )
    known = F.coalesce(F.array_union("earlier_members", "became"), F.array("itself"))
    seen = F.array_sort(F.array_intersect("transitional", "installers"))
    due = F.array_sort(F.array_union(F.coalesce("companions", _nobody()), F.array("itself")))
    found = (
        whole.join(_earlier_members(trace.agreed), [*MEMBER, "position"], "left")
        .join(installers, list(VIEW), "left")
        .join(companions, list(STEP), "left")
        .select(
            *MEMBER,
            "position",
            "view",
            F.when(F.col("transitional").isNull(), F.lit("there is none"))
            .when(F.size(F.array_except("transitional", F.array_intersect("members", known))) > 0, F.lit(_STRANGERS))
            .when(F.expr("latest and role = 'sender'") & (seen != due), F.lit("it is not those who came along"))
            .when(
                F.expr("latest and role <> 'sender'") & F.exists("theirs", lambda one: one != F.col("transitional")),
                F.lit("it is not that of the senders"),
            )
            .alias("wrong"),
        )
        .where("wrong is not null")
    )
    return violations("M5", found, F.concat(F.lit("transitional set of "), "view", F.lit(": "), "wrong"))


def _nobody() -> Column:
    return F.array().cast("array<struct<process:string,incarnation:bigint>>")


_STRANGERS = "somebody in it was not in both views"


def _earlier_members(agreed: DataFrame) -> DataFrame:
    """The members of the last view before each that its process installed in that stretch as its `previous`."""
    earlier = agreed.select(
        *MEMBER, "stretch", F.col("view").alias("previous"), F.struct("position", "members").alias("earlier")
    )
    return (
        agreed.select(*MEMBER, "stretch", "previous", "position")
        .join(earlier, [*MEMBER, "stretch", "previous"])
        .where("earlier.position < position")
        .groupBy(*MEMBER, "position")
        .agg(F.max("earlier")["members"].alias("earlier_members"))
    )


def primary_component(trace: Projections) -> DataFrame:
    """M7: primary views in the order of their identifiers, as the first row of each has it."""
    names = F.transform("members", lambda one: one["process"])
    primaries = trace.settle(
        trace.agreed.where("primary")
        .groupBy(*VIEW)
        .agg(F.min(F.struct("place", "identifier", names.alias("names"))).alias("first"))
        .select(*VIEW, "first.*", F.struct("first.identifier", "view").alias("rank"))
        .select("*", F.col("identifier.start_time").alias("start_time"))
    )
    in_order = Window.partitionBy(*GROUP).orderBy("rank")
    chain = primaries.select(
        "*", F.lag("view").over(in_order).alias("other"), F.lag("names").over(in_order).alias("other_names")
    )
    rivals = primaries.select(
        *GROUP,
        "start_time",
        F.col("rank").alias("other_rank"),
        F.col("view").alias("other"),
        F.col("names").alias("other_names"),
    )
    together = primaries.join(rivals, [*GROUP, "start_time"]).where("other_rank < rank")
    columns = (*VIEW, "place", "names", "other", "other_names")
    found = (
        chain.select(*columns)
        .unionByName(together.select(*columns))
        .where("not arrays_overlap(names, other_names)")
        .groupBy(*VIEW, "place")
        .agg(F.min("other").alias("other"))
        .select(*VIEW, "place.*", "other")
    )
    return violations("M7", found, F.concat(F.lit("primary like "), "other", F.lit(", with no member in common")))


def receiver_chain(trace: Projections) -> DataFrame:
    """M9: the steps of receivers against those of senders; a receiver that began anew only needs a senders' view.

    Views that follow by the order of messages are not judged.

    Senders with another service do not tell of the views that they install.
    """
    senders = trace.agreed.where("role = 'sender'")
    installed = senders.select(*VIEW).distinct().withColumn("installed", F.lit(True))
    steps = (
        senders.where("before.role = 'sender' and not fresh")
        .select(*VIEW, F.col("before.view").alias("from_view"))
        .distinct()
        .withColumn("taken", F.lit(True))
    )
    apart = (
        trace.stretches.where("apart")
        .select(*GROUP, member(F.col("process"), F.col("incarnation")).alias("member"))
        .distinct()
    )
    receivers = trace.agreed.where("role = 'receiver' and era is null").select(
        *MEMBER, "position", "view", "members", F.expr(_CAME_FROM).alias("from_view")
    )
    beside = (
        receivers.select(*MEMBER, "position", F.explode("members").alias("member"))
        .join(apart, [*GROUP, "member"], "left_semi")
        .select(*MEMBER, "position")
        .distinct()
    )
    found = (
        receivers.join(beside, [*MEMBER, "position"], "left_anti")
        .join(installed, list(VIEW), "left")
        .join(steps, [*VIEW, "from_view"], "left")
        .where("(from_view is null and installed is null) or (from_view is not null and taken is null)")
    )
    text = F.when(F.col("from_view").isNull(), F.concat(F.lit("no sender installed "), "view")).otherwise(
        F.concat(F.lit("no sender went from "), "from_view", F.lit(" to "), "view")
    )
    return violations("M9", found, text)


_CAME_FROM = "case when before.role = 'receiver' and not fresh then before.view end"
