"""What all audits read: projections of a trace, each made by one shuffle and kept while the audits run.

A trace is mostly deliveries. They are shuffled once by process, and sorted there by position and then by source
(`streams`); and reduced once to one row a message (`suspects`). Only suspects are held against single deliveries again.
Where there is timestamp order, its deliveries are sorted once more for what stands before each (`keyed`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import later_stretches, standing, stretches
from unisono.pipeline.audits.agreed import FRESH, agreed_views, eras, in_eras, span_starts, stays
from unisono.pipeline.audits.keyed import keyed
from unisono.pipeline.columns import AGREED, MEMBER, MESSAGE, PROCESS, SOURCE, STREAM, held, stays_transitional
from unisono.pipeline.tables import Tables

CONTENT = ("sequence", "size", "body", "timestamp")
"""What a message is, beside its name."""


class Projections:
    """The shared projections of one or many runs; close it to give back what they take."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._kept: list[DataFrame] = []
        self._shared: dict[str, DataFrame] = {}

    def close(self) -> None:
        for table in self._kept:
            table.unpersist()
        self._kept.clear()
        self._shared.clear()

    def keep(self, table: DataFrame) -> DataFrame:
        """Compute a table once, at its first use, and have it until the end."""
        self._kept.append(table)
        return table.persist(StorageLevel.MEMORY_AND_DISK)

    def settle(self, table: DataFrame) -> DataFrame:
        """Compute a small table now, so that what reads it is planned without all that it was made from."""
        return table.localCheckpoint()

    def shared(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """A table that a few audits read, made by the first of them."""
        if name not in self._shared:
            self._shared[name] = self.keep(make())
        return self._shared[name]

    @cached_property
    def streams(self) -> DataFrame:
        """Sends, deliveries and start points of each source at each member, each with what came before it."""
        return self.keep(streams(timeline(self.tables)))

    @cached_property
    def keyed(self) -> DataFrame:
        """Deliveries under timestamp order, each with what its process delivered before it."""
        return self.keep(keyed(self.tables))

    @cached_property
    def suspects(self) -> DataFrame:
        """The messages of which some delivery may differ from the SEND."""
        return self.keep(suspects(in_eras(self.tables.deliver, self.eras), self.sends))

    @cached_property
    def sends(self) -> DataFrame:
        """The first SEND of every message."""
        return self.keep(sends(self.tables.send))

    @cached_property
    def agreed(self) -> DataFrame:
        """Every installed view that is agreed, with what its process installed before and after it."""
        return self.settle(agreed_views(self.tables))

    @cached_property
    def eras(self) -> DataFrame:
        """The views that followed others by the order, and where they stand."""
        return self.settle(eras(self.tables))

    @cached_property
    def span_starts(self) -> DataFrame:
        """Where each source begins in the views of one era in a row at one process."""
        return self.settle(span_starts(self.agreed))

    @cached_property
    def stays(self) -> DataFrame:
        """What each process delivered in each agreed view, as a fingerprint."""
        return self.settle(stays(self.tables.deliver))

    @cached_property
    def stretches(self) -> DataFrame:
        """Every stretch of every member, by the rows that tell of one."""
        return self.settle(stretches(self.tables))

    @cached_property
    def later_stretches(self) -> DataFrame:
        """Where the stretches of a member that come after each one end."""
        return later_stretches(self.stretches)

    @cached_property
    def standing(self) -> DataFrame:
        """Every member that reached an END, as it was there."""
        return self.settle(standing(self.tables, self.stretches))


def timeline(tables: Tables) -> DataFrame:
    """Sends, deliveries and the start points of views (BEGIN), each with the view that was installed before it.

    `view_position` is its place: of a delivery, where it is of the same stretch; of a start point, where the spell of
    its source goes on from it; null once the member joined anew, and of a start point once it started afresh. `named`
    and `installed` are the view that the row names and that view, where they are not the same (M3). `known_sent` and
    `known_heard` are the highest timestamps that its process sent and delivered before, in any group (O3).
    """
    common = (*MEMBER, "position", "kind", "service", "stretch", "view")
    nobody = [F.lit(None).alias(name) for name in (*SOURCE, "number", "timestamp")]
    own = [F.col("process").alias("source"), F.col("incarnation").alias("source_incarnation")]
    sent = tables.send.where("kind = 'SEND'").select(*common, *own, "number", "timestamp")
    delivered = tables.deliver.where("kind = 'DELIVER'").select(*common, *SOURCE, "number", "timestamp")
    turns = tables.membership.where("kind in ('JOIN', 'SELF_FAIL', 'BOOTSTRAP')").select(*common, *nobody)
    views = tables.view.where("kind = 'VIEW'")
    begins = (
        views.withColumn("kind", F.lit("BEGIN"))
        .select(*common, "transitional", F.lit(None).alias("timestamp"), F.inline(F.transform("start", _start_point)))
        .withColumn("stays", stays_transitional())
        .drop("transitional")
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
    at_process = Window.partitionBy(*PROCESS).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)

    def known(kind: str) -> Column:
        return F.max(F.when(F.col("kind") == kind, F.col("timestamp"))).over(at_process)

    return (
        rows.unionByName(begins)
        .repartition(*PROCESS)
        .select("*", installed["view"].alias("installed"), since.alias("view_position"))
        .select("*", known("SEND").alias("known_sent"), known("DELIVER").alias("known_heard"))
        .where("kind in ('SEND', 'DELIVER', 'BEGIN')")
        .select("*", F.expr("view is null or installed is null or view <> installed").alias("elsewhere"))
        .select(
            *STREAM,
            "position",
            "kind",
            "service",
            "stretch",
            "number",
            "timestamp",
            "view_position",
            "known_sent",
            "known_heard",
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
    `highest` (D2) and `highest_due` (L2) are the highest.
    """
    before = Window.partitionBy(*STREAM).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    begins, delivers, number = F.col("kind") == "BEGIN", F.col("kind") == "DELIVER", F.col("number")
    following = F.when(begins, number).when(delivers & held("O2"), number + 1)
    return timeline.select(
        *STREAM,
        "position",
        "kind",
        "service",
        "stretch",
        "number",
        "timestamp",
        "view_position",
        "known_sent",
        "known_heard",
        "named",
        "installed",
        F.last(following, ignorenulls=True).over(before).alias("due"),
        F.last(F.when(begins, F.col("position")), ignorenulls=True).over(before).alias("begin_position"),
        F.last(F.when(delivers & held("O1") & held("O2"), number), ignorenulls=True).over(before).alias("last"),
        F.last(F.when(delivers & held("O1") & ~held("O2"), F.struct("stretch", "number")), ignorenulls=True)
        .over(before)
        .alias("last_loose"),
        F.max(F.when(delivers & held("D2"), number)).over(before).alias("highest"),
        F.max(F.when(delivers & held("L2"), number)).over(before).alias("highest_due"),
    )


def _start_point(start: Column) -> Column:
    names = {"source": "source", "incarnation": "source_incarnation", "number": "number"}
    return F.struct(*(start[part].alias(name) for part, name in names.items()))


def sends(send: DataFrame) -> DataFrame:
    """The first SEND of every message, by the position at its source."""
    parts = ("position", *CONTENT, "truth", "at", "host", "stretch", "service", "agreed")
    first = F.min(F.struct(*parts)).alias("first")
    return (
        send.where("kind = 'SEND'")
        .select("*", F.col("process").alias("source"), F.col("incarnation").alias("source_incarnation"))
        .groupBy(*MESSAGE)
        .agg(first)
        .select(*MESSAGE, *(F.col(f"first.{part}").alias(f"sent_{part}") for part in parts))
    )


def suspects(deliver: DataFrame, sends: DataFrame) -> DataFrame:
    """Delivered messages without a SEND, or with a delivery that differs from it or came before it.

    So too where they came in two eras of agreed views, or in another than they were sent in.
    """
    view = F.when(held(AGREED, "receiver"), F.coalesce("era", F.lit("")))
    bounds = [
        bound(part).alias(f"{name}_{part}") for part in CONTENT for name, bound in (("least", F.min), ("most", F.max))
    ]
    delivered = (
        deliver.where("kind = 'DELIVER'")
        .where(held("D1"))
        .groupBy(*MESSAGE)
        .agg(
            *bounds,
            F.min("truth").alias("first_truth"),
            F.min(view).alias("least_era"),
            F.max(view).alias("most_era"),
        )
    )
    differs = F.col("sent_sequence").isNull()
    for part in CONTENT:
        sent = F.col(f"sent_{part}")
        differs |= (F.col(f"least_{part}") != sent) | (F.col(f"most_{part}") != sent)
    early = F.col("first_truth") < F.col("sent_truth")
    told = F.coalesce("sent_agreed", F.lit("none"))
    elsewhere = (F.col("least_era") != told) | (F.col("most_era") != told)
    return (
        delivered.join(sends, list(MESSAGE), "left")
        .where(differs | early | elsewhere)
        .select(
            *MESSAGE,
            *(f"sent_{part}" for part in (*CONTENT, "truth", "agreed")),
            elsewhere.alias("elsewhere"),
            (F.col("least_era") != F.col("most_era")).alias("in_two_eras"),
            (F.col("least_timestamp") != F.col("most_timestamp")).alias("with_two_timestamps"),
        )
    )
