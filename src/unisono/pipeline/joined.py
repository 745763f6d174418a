"""The joined tables: one row a message with its deliveries and repairs, one row a view with its installers and phases.

Names of processes are in words ("alice~1f") and lists of them are sorted. Times are moments: the simulator's where it
is known, else the local clock; `clock` says which: null for the simulator's, else the host. A difference of times is
null where it would be one between two clocks.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.columns import AGREED, MEMBER, MESSAGE, SOURCE, clock, held, in_sessions, moment, process_name
from unisono.pipeline.tables import Tables
from unisono.properties.promises import STRONG

MESSAGES = (
    *MESSAGE,
    "sequence",
    "timestamp",
    "size",
    "origin",
    "service",
    "view",
    "era",
    "clock",
    "sent",
    "deliveries",
    "receivers",
    "first_delivered",
    "last_delivered",
    "latency",
    "requests",
    "repairs",
)
VIEW = ("run", "group", "view")
VIEWS = (
    *VIEW,
    "agreed",
    "era",
    "start_time",
    "leader",
    "previous",
    "members",
    "installers",
    "agreers",
    "came",
    "went",
    "clock",
    "joined",
    "ended",
    "began",
    "cut",
    "first_installed",
    "last_installed",
    "detection",
    "consensus",
    "recovery",
    "installation",
    "change",
)

_OUTGOING = ("run", "group", *SOURCE, "stream")
"""One count of sequences. Strong sessions count anew in every view."""
_NO_CLOCK = "\0"
"""Stands for the simulator's time where clocks are counted: no host has this name."""
_TWO_CLOCKS = "\1"


def messages(tables: Tables) -> DataFrame:
    """Every message that was sent or delivered, with what became of it."""
    content = ("sequence", "timestamp", "size", "origin")
    first = F.min(F.struct("position", *content, "service", "view", "agreed", "truth", "at", "host")).alias("send")
    sent = (
        tables.send.where("kind = 'SEND'")
        .select("*", F.col("process").alias("source"), F.col("incarnation").alias("source_incarnation"))
        .groupBy(*MESSAGE)
        .agg(first)
        .select(*MESSAGE, "send.*")
        .select(*MESSAGE, *content, "service", "view", "agreed", moment().alias("sent"), _clock_name().alias("where"))
    )
    delivered = (
        tables.deliver.where("kind = 'DELIVER'")
        .select(*MESSAGE, *content, process_name().alias("by"), moment().alias("moment"), _clock_name().alias("where"))
        .groupBy(*MESSAGE)
        .agg(
            F.min(F.struct(*content)).alias("told"),
            F.count(F.lit(1)).alias("deliveries"),
            F.sort_array(F.collect_set("by")).alias("receivers"),
            F.min("moment").alias("first"),
            F.max("moment").alias("last"),
            _one_clock("where").alias("heard_where"),
        )
    )
    whole = delivered.join(_with_repairs(sent, tables), list(MESSAGE), "full")
    compare = F.col("heard_where") != _TWO_CLOCKS
    return whole.select(
        *MESSAGE,
        *(F.coalesce(name, f"told.{name}").alias(name) for name in content),
        "service",
        "view",
        F.col("agreed").alias("era"),
        _named(F.coalesce("where", "heard_where")).alias("clock"),
        "sent",
        F.coalesce("deliveries", F.lit(0)).alias("deliveries"),
        F.coalesce("receivers", F.array().cast("array<string>")).alias("receivers"),
        F.when(compare, F.col("first")).alias("first_delivered"),
        F.when(compare, F.col("last")).alias("last_delivered"),
        F.when(F.col("where") == F.col("heard_where"), F.col("last") - F.col("sent")).alias("latency"),
        F.coalesce("requests", F.lit(0)).alias("requests"),
        F.coalesce("repairs", F.lit(0)).alias("repairs"),
    ).select(*MESSAGES)


def _with_repairs(sent: DataFrame, tables: Tables) -> DataFrame:
    """Sent messages with the requests and repairs whose range has their last sequence.

    A range adds one from its first sequence on and takes it away after its last: what has added up at a sequence is how
    many ranges have it, however long they are.
    """
    ranges = (
        tables.repair.where("kind in ('RTR', 'RTX') and first <= last")
        .withColumn("stream", F.when(in_sessions(STRONG), F.col("view")))
        .select(*_OUTGOING, "kind", F.col("first").alias("from"), F.col("last").alias("to"))
    )
    sent = sent.withColumn("stream", F.when(in_sessions(STRONG), F.col("agreed")))
    begins = ranges.select(*_OUTGOING, F.col("from").alias("sequence"), F.lit(0).alias("turn"), "kind", _step(1))
    ends = ranges.select(*_OUTGOING, F.col("to").alias("sequence"), F.lit(2).alias("turn"), "kind", _step(-1))
    probes = sent.select(
        *_OUTGOING,
        "sequence",
        F.lit(1).alias("turn"),
        F.lit("").alias("kind"),
        _step(0),
        F.struct(*[name for name in sent.columns if name not in (*_OUTGOING, "sequence")]).alias("message"),
    )
    nothing = F.lit(None).cast(probes.schema["message"].dataType).alias("message")
    so_far = (
        Window.partitionBy(*_OUTGOING)
        .orderBy("sequence", "turn")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )

    def open_ranges(kind: str) -> Column:
        return F.sum(F.when(F.col("kind") == kind, F.col("step")).otherwise(0)).over(so_far)

    return (
        reduce(DataFrame.unionByName, [begins.select("*", nothing), ends.select("*", nothing), probes])
        .select("*", open_ranges("RTR").alias("requests"), open_ranges("RTX").alias("repairs"))
        .where("turn = 1")
        .select("run", "group", *SOURCE, "sequence", "message.*", "requests", "repairs")
    )


def _step(value: int) -> Column:
    return F.lit(value).cast("bigint").alias("step")


def views(tables: Tables) -> DataFrame:
    """Every view that somebody installed: who was in it, who came and went, and how long its making took.

    `joined` and `ended` are when the first of those who came joined, and the first of those who went crashed or left;
    `began` is the first suspicion or repair at an installer, `cut` when the first of them had agreed who is in it.
    """
    rows = tables.view.where("kind = 'VIEW'")
    names = F.transform("start", lambda start: process_name(start["source"], start["incarnation"]))
    installed = (
        rows.select(
            *VIEW,
            held(AGREED).alias("agreed"),
            "era",
            "start_time",
            process_name("leader", "leader_incarnation").alias("leader"),
            "previous",
            F.array_sort(names).alias("members"),
            process_name().alias("installer"),
            moment().alias("moment"),
            _clock_name().alias("where"),
        )
        .groupBy(*VIEW)
        .agg(
            F.max("agreed").alias("agreed"),
            *(F.max(name).alias(name) for name in ("era", "start_time", "leader", "members")),
            F.sort_array(F.collect_set("previous")).alias("previous"),
            F.sort_array(F.collect_set("installer")).alias("installers"),
            F.min("moment").alias("first"),
            F.max("moment").alias("last"),
            _one_clock("where").alias("where"),
        )
    )
    changed = _changes(rows)
    made = _made(tables)
    told = installed.join(changed, list(VIEW), "left").join(made, list(VIEW), "left")
    bounds = F.struct(
        F.least("first", "first_agreed").alias("first"),
        F.greatest("last", "last_agreed").alias("last"),
        F.when(F.coalesce("made_where", "where") == F.col("where"), F.col("where")).otherwise(_TWO_CLOCKS).alias("one"),
    )
    timed = told.withColumn("bounds", bounds).select("*", (F.col("bounds.one") != _TWO_CLOCKS).alias("compares"))
    with_causes = timed.join(_causes(tables, timed), list(VIEW), "left")

    def when_one_clock(value: Column) -> Column:
        return F.when(F.col("compares"), value)

    first, last = F.col("bounds.first"), F.col("bounds.last")
    empty = F.array().cast(changed.schema["came"].dataType)
    return (
        with_causes.select(
            *VIEW,
            "agreed",
            "era",
            "start_time",
            "leader",
            "previous",
            "members",
            "installers",
            F.coalesce("agreers", F.array().cast("array<string>")).alias("agreers"),
            F.coalesce("came", empty).alias("came"),
            F.coalesce("went", empty).alias("went"),
            when_one_clock(_named(F.col("where"))).alias("clock"),
            "joined",
            "ended",
            when_one_clock(F.col("began")).alias("began"),
            when_one_clock(F.col("cut")).alias("cut"),
            when_one_clock(first).alias("first_installed"),
            when_one_clock(last).alias("last_installed"),
        )
        .select(
            "*",
            (F.col("began") - F.col("ended")).alias("detection"),
            (F.col("cut") - F.col("began")).alias("consensus"),
            (F.col("first_installed") - F.col("cut")).alias("recovery"),
            (F.col("last_installed") - F.col("first_installed")).alias("installation"),
            (F.col("last_installed") - F.col("began")).alias("change"),
        )
        .select(*VIEWS)
    )


def _changes(rows: DataFrame) -> DataFrame:
    """By view, who is in it anew and who is in it no more, with the reasons that its installers give."""
    names = F.transform("start", lambda start: process_name(start["source"], start["incarnation"]))
    reasons = rows.select(*VIEW, names.alias("members"), F.explode("reasons").alias("why"))
    told = reasons.select(
        *VIEW,
        F.struct(
            process_name(F.col("why.process"), F.col("why.incarnation")).alias("process"),
            F.col("why.reason").alias("reason"),
        ).alias("change"),
        F.array_contains("members", process_name(F.col("why.process"), F.col("why.incarnation"))).alias("stays"),
    )
    return told.groupBy(*VIEW).agg(
        F.sort_array(F.collect_set(F.when(F.col("stays"), F.col("change")))).alias("came"),
        F.sort_array(F.collect_set(F.when(~F.col("stays"), F.col("change")))).alias("went"),
    )


def _made(tables: Tables) -> DataFrame:
    """By agreed view, who agreed to it in silence, and what stands at its members between the view before and this one.

    Who starts afresh in between begins anew.
    """
    columns = (*MEMBER, "position", "kind", moment().alias("moment"), _clock_name().alias("where"))
    nothing = F.lit(None).cast("string")
    installs = (
        tables.view.where("kind = 'VIEW' and era is null")
        .where(held(AGREED))
        .select(*columns, F.struct(F.col("view")).alias("made"))
    )
    told = tables.membership.where(
        "kind in ('AGREED', 'MRA', 'JOIN', 'SELF_FAIL', 'BOOTSTRAP') or (kind = 'SUSPECT' and reason = 'accused')"
    ).select(
        *columns,
        F.when(F.col("kind") == "AGREED", F.struct(F.col("reason").alias("view")))
        .when(F.col("kind").isin("JOIN", "SELF_FAIL", "BOOTSTRAP"), F.struct(nothing.alias("view")))
        .alias("made"),
    )
    cuts = tables.repair.where("kind = 'CUT'").select(
        *columns, F.lit(None).cast(installs.schema["made"].dataType).alias("made")
    )
    onwards = Window.partitionBy(*MEMBER).orderBy("position").rowsBetween(Window.currentRow, Window.unboundedFollowing)
    following = F.first("made", ignorenulls=True).over(onwards)
    begins = F.col("kind").isin("MRA", "SUSPECT")
    agreed = F.col("kind") == "AGREED"
    by_member = (
        reduce(DataFrame.unionByName, [installs, told, cuts])
        .select(*MEMBER, "kind", "moment", "where", following["view"].alias("view"))
        .where("view is not null and kind <> 'VIEW'")
        .groupBy(*MEMBER, "view")
        .agg(
            F.min(F.when(begins, F.col("moment"))).alias("began"),
            F.max(F.when(F.col("kind") == "CUT", F.col("moment"))).alias("cut"),
            F.max(F.when(agreed, F.col("moment"))).alias("agreed_at"),
            _one_clock("where").alias("where"),
        )
    )
    return by_member.groupBy(*VIEW).agg(
        F.min("began").alias("began"),
        F.min("cut").alias("cut"),
        F.min("agreed_at").alias("first_agreed"),
        F.max("agreed_at").alias("last_agreed"),
        F.sort_array(F.collect_set(F.when(F.col("agreed_at").isNotNull(), process_name()))).alias("agreers"),
        _one_clock("where").alias("made_where"),
    )


def _causes(tables: Tables, views: DataFrame) -> DataFrame:
    """By view, the first JOIN of who came by joining, and the first CRASH or LEAVE of who went, on the view's clock.

    Of one process it is the last such row before the view was installed: it may have come and gone before.
    """
    rows = tables.membership.where("kind in ('JOIN', 'LEAVE', 'CRASH')").select(
        "run",
        F.when(F.col("kind") != "CRASH", F.col("group")).alias("of_group"),
        process_name().alias("process"),
        (F.col("kind") == "JOIN").alias("joins"),
        moment().alias("moment"),
        _clock_name().alias("one"),
    )
    came = F.filter("came", lambda change: change["reason"] == "joined")
    concerned = views.where("compares").select(
        *VIEW,
        F.col("bounds.one").alias("one"),
        F.col("bounds.last").alias("until"),
        F.explode(
            F.concat(
                F.transform(
                    came, lambda change: F.struct(change["process"].alias("process"), F.lit(True).alias("joins"))
                ),
                F.transform(
                    "went", lambda change: F.struct(change["process"].alias("process"), F.lit(False).alias("joins"))
                ),
            )
        ).alias("who"),
    )
    by_process = (
        concerned.select(*VIEW, "one", "until", "who.*")
        .join(rows, ["run", "process", "joins", "one"])
        .where(
            (F.col("of_group").isNull() | (F.col("of_group") == F.col("group"))) & (F.col("moment") <= F.col("until"))
        )
        .groupBy(*VIEW, "process", "joins")
        .agg(F.max("moment").alias("moment"))
    )
    return by_process.groupBy(*VIEW).agg(
        F.min(F.when(F.col("joins"), F.col("moment"))).alias("joined"),
        F.min(F.when(~F.col("joins"), F.col("moment"))).alias("ended"),
    )


def _clock_name() -> Column:
    return F.coalesce(clock(), F.lit(_NO_CLOCK))


def _one_clock(name: str) -> Column:
    """The clock of a group of rows, or that there are two."""
    return F.when(F.min(name) == F.max(name), F.min(name)).otherwise(F.lit(_TWO_CLOCKS))


def _named(clock_name: Column) -> Column:
    return F.when(~clock_name.isin(_NO_CLOCK, _TWO_CLOCKS), clock_name)
