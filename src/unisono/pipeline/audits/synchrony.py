"""What is delivered in agreed views: where it was sent (D3, D4), by all alike (D5, D9), in one order (O5).

Sets are compared as intervals of numbers; only where these differ is one message held against another.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.agreed import (
    GROUP,
    STAY,
    STEP,
    VIEW,
    in_agreed_views,
    in_eras,
    transitions,
)
from unisono.pipeline.audits.intervals import merged, uncovered
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import AGREED, MEMBER, MESSAGE, SOURCE, STREAM, held, hopes, message_name, violations

_SENDER = (*GROUP, *SOURCE)
_IN_PREVIOUS = (*MEMBER, "stretch", "previous")
_PARTY = (*_IN_PREVIOUS, "view")
_NAMED = (*SOURCE, "number")
_JUDGED = (*GROUP, "place", "full", "start", *SOURCE, "number")


def sending_view(trace: Projections) -> DataFrame:
    """D3."""
    found = trace.differing.where(held(AGREED)).where("sent and not era <=> sent_agreed")
    text = F.concat(
        F.lit("delivered in "),
        F.coalesce("view", F.lit("no view")),
        F.lit(", sent in "),
        F.coalesce("sent_agreed", F.lit("none")),
    )
    return violations("D3", found, text, message_name())


def same_view(trace: Projections) -> DataFrame:
    """D4: only a message that somebody delivered in another era than it was sent in can have come in two."""
    agreed = held(AGREED, "receiver")
    era = F.coalesce("era", F.lit("")).alias("era")
    elsewhere = trace.found(trace.differing.where(agreed).select(*MESSAGE, era))
    if elsewhere is None:
        return trace.nothing()
    asked = elsewhere.select(*_SENDER, F.col("number").alias("asked")).distinct()
    others = (
        in_eras(trace.tables.deliver.where("not remarkable").where(agreed), trace.eras)
        .join(F.broadcast(asked), list(_SENDER))
        .where("asked between number and last_number")
        .select(*_SENDER, F.col("asked").alias("number"), era)
    )
    nobody = [
        F.lit("").alias("process"),
        *(F.lit(0).cast("bigint").alias(name) for name in ("incarnation", "position")),
    ]
    found = (
        elsewhere.unionByName(others)
        .groupBy(*MESSAGE)
        .agg(F.min("era").alias("least"), F.max("era").alias("most"))
        .where("least <> most")
        .select(*MESSAGE, *nobody)
    )
    return violations("D4", found, F.lit("delivered in more than one era"), message_name())


def virtual_synchrony(trace: Projections) -> DataFrame:
    """D5: all against one who had the whole view, set by set, and message by message where sets differ.

    That one is the first of those whose set most others have, too. Of it and of one that came into the middle of the
    view only what is after the start points of the latter counts.
    """
    sets = trace.settle(_sets(trace).withColumnRenamed("view", "previous"))
    like_it = F.negative(F.count(F.when(F.col("full"), 1)).over(Window.partitionBy(*STEP, "set"))).alias("like_it")
    model = F.when(F.col("full"), F.struct("like_it", "place", "stretch", "set"))
    first = F.min(model).over(Window.partitionBy(*STEP))
    empty = F.expr("cast(array() as array<struct<source:string,source_incarnation:bigint,low:bigint,high:bigint>>)")
    judged = trace.found(
        transitions(trace.agreed)
        .join(sets, list(_IN_PREVIOUS), "left")
        .select(*_PARTY, "place", "full", F.col("before.start").alias("start"), F.coalesce("set", empty).alias("set"))
        .select("*", like_it)
        .select("*", first.alias("first"))
        .where("first.place <> place")
        .where(_after_start(F.col("set")) != _after_start(F.col("first.set")))
        .select(*_PARTY, "place", "full", "start", F.struct("first.place", "first.stretch").alias("first"))
    )
    if judged is None:
        return trace.nothing()
    delivered = _in_steps(trace, judged)
    mine = delivered.join(F.broadcast(judged), list(_IN_PREVIOUS)).select(*_JUDGED, F.lit(True).alias("mine"))
    models = judged.select("*", *_of_first()).drop("process", "incarnation", "stretch")
    theirs = delivered.withColumnsRenamed(
        {name: f"first_{name}" for name in ("process", "incarnation", "stretch")}
    ).join(F.broadcast(models), [*GROUP, "previous", "first_process", "first_incarnation", "first_stretch"])
    found = (
        mine.unionByName(theirs.select(*_JUDGED, F.lit(False).alias("mine")))
        .where(
            "full or number >= try_element_at(filter(start, one -> one.source = source"
            " and one.incarnation = source_incarnation), -1).number"
        )
        .groupBy("run", "group", "place", *SOURCE, "number")
        .agg(F.max("mine").alias("mine"), F.min("mine").alias("only_mine"))
        .where("not mine or only_mine")
        .groupBy("run", "group", "place")
        .agg(F.min(F.struct(*SOURCE, "number", "mine")).alias("example"))
        .select("run", "group", "place.*", "example.*")
    )
    wrong = F.when(F.col("mine"), F.lit(" was delivered here alone")).otherwise(F.lit(" was not delivered here"))
    text = F.concat(F.lit("of two that came from one view, "), message_name(), wrong)
    return violations("D5", found, text)


def _sets(trace: Projections) -> DataFrame:
    """What each process delivered in each agreed view: the numbers of each source as intervals, sorted."""
    delivered = in_agreed_views(trace.tables.deliver, "last_number")
    return (
        merged(delivered, (*STAY, *SOURCE))
        .groupBy(*STAY)
        .agg(F.array_sort(F.collect_list(F.struct(*SOURCE, "low", "high"))).alias("set"))
    )


def _after_start(intervals: Column) -> Column:
    """Of a set what counts for who had the `full` view, or only what comes after its `start`."""

    def begin(one: Column) -> Column:
        mine = F.filter(
            "start",
            lambda point: (point["source"] == one["source"]) & (point["incarnation"] == one["source_incarnation"]),
        )
        return F.try_element_at(mine, F.lit(-1))["number"]

    def clipped(one: Column) -> Column:
        return one.withField("low", F.greatest(one["low"], begin(one)))

    counted = F.transform(F.filter(intervals, lambda one: one["high"] >= begin(one)), clipped)
    return F.when(F.col("full"), intervals).otherwise(counted)


def _in_steps(trace: Projections, judged: DataFrame) -> DataFrame:
    """What was delivered before these steps by who is judged, and by who it is held against."""
    first = [F.col(f"first.place.{name}").alias(name) for name in ("process", "incarnation")]
    models = judged.select(*GROUP, *first, F.col("first.stretch").alias("stretch"), F.col("previous").alias("view"))
    asked = judged.select(*MEMBER, "stretch", F.col("previous").alias("view")).unionByName(models)
    return in_agreed_views(trace.deliveries(asked, STAY)).withColumnRenamed("view", "previous")


def _of_first() -> list[Column]:
    """The process that others are held against, in columns of their own."""
    places = [F.col(f"first.place.{name}").alias(f"first_{name}") for name in ("process", "incarnation")]
    return [*places, F.col("first.stretch").alias("first_stretch")]


def weak_total_order(trace: Projections) -> DataFrame:
    """O5: where all deliver by ascending keys, and a message has one key, there is one order.

    Only else is the order of a process held against that of another one: of the first whose order most others have.
    """
    changed = trace.differing.where("not sent or timestamp <> sent_timestamp")
    same = trace.tables.deliver.join(
        F.broadcast(changed.select(*_SENDER, F.col("number").alias("changed")).distinct()), list(_SENDER)
    ).where("changed between number and last_number")
    doubtful = trace.found(
        trace.keyed.where("timed and previous >= key")
        .select(*MEMBER)
        .unionByName(same.select(*MEMBER))
        .distinct()
        .withColumn("doubtful", F.lit(True))
    )
    if doubtful is None:
        return trace.nothing()
    steps = (
        transitions(trace.agreed.where(held("O5")))
        .select(*_PARTY, "place", "full")
        .join(doubtful, list(MEMBER), "left")
    )
    one_way = Window.partitionBy(*STEP)
    concerned = trace.settle(
        steps.select(
            "*", F.max("doubtful").over(one_way).alias("concerned"), F.max("full").over(one_way).alias("any_full")
        )
        .where("concerned")
        .select(*_PARTY, "place", "full", (F.col("full") | ~F.col("any_full")).alias("counted"))
    )
    asked = concerned.select(*MEMBER, "stretch", F.col("previous").alias("view"))
    delivered = trace.settle(in_agreed_views(trace.deliveries(asked, STAY)).withColumnRenamed("view", "previous"))
    lines = (
        delivered.groupBy(*_IN_PREVIOUS, *SOURCE, "number")
        .agg(F.min("delivered_at").alias("at"))
        .groupBy(*_IN_PREVIOUS)
        .agg(F.array_sort(F.collect_list(F.struct("at", *SOURCE, "number"))).alias("line"))
        .select(*_IN_PREVIOUS, F.transform("line", lambda one: F.struct(*(one[name] for name in _NAMED))).alias("line"))
    )
    like_it = F.negative(F.count(F.when(F.col("counted"), 1)).over(Window.partitionBy(*STEP, "line"))).alias("like_it")
    first = F.min(F.when(F.col("counted"), F.struct("like_it", "place", "stretch"))).over(one_way)
    judged = trace.settle(
        concerned.join(lines, list(_IN_PREVIOUS), "left")
        .select("*", like_it)
        .select(*_PARTY, "place", "full", first.alias("first"))
        .where("first.place <> place")
    )
    message = ("run", "group", "place", *SOURCE, "number")
    mine = (
        delivered.join(F.broadcast(judged), list(_IN_PREVIOUS))
        .groupBy(*message)
        .agg(F.min("delivered_at").alias("delivered_at"))
    )
    models = judged.select("*", *_of_first()).drop("process", "incarnation", "stretch")
    theirs = (
        delivered.withColumnsRenamed({name: f"first_{name}" for name in ("process", "incarnation", "stretch")})
        .join(F.broadcast(models), [*GROUP, "previous", "first_process", "first_incarnation", "first_stretch"])
        .groupBy(*message)
        .agg(F.min("delivered_at").alias("first_at"))
    )
    in_order = Window.partitionBy("run", "group", "place").orderBy("first_at")
    found = (
        mine.join(theirs, list(message))
        .select("*", F.lag("delivered_at").over(in_order).alias("lower"))
        .where("delivered_at < lower")
        .groupBy("run", "group", "place")
        .agg(F.min(F.struct("first_at", *SOURCE, "number")).alias("example"))
        .select("run", "group", "place.*", "example.*")
    )
    return violations("O5", found, F.concat(F.lit("others delivered in another order: "), message_name()))


def agreed_forward_set(trace: Projections) -> DataFrame:
    """D9: what the cuts of those who came along cover, against what was delivered; one by one where they differ.

    No stride of sends goes beyond a cut, so that it is covered as a whole or not at all.
    """
    cuts = trace.settle(_cuts(trace))
    line = (*MEMBER, "stretch", "era", *SOURCE)
    own = [F.col("process").alias("source"), F.col("incarnation").alias("source_incarnation")]
    sent = trace.tables.send.select(
        *GROUP, *own, F.col("agreed").alias("era"), "last_sequence", "number", "last_number", hopes().alias("hopes")
    )
    due = (
        _in_time(trace, sent)
        .join(F.broadcast(cuts), [*_SENDER, "era"])
        .where("last_sequence <= bound and last_number >= first")
        .select(*line, "position", "first", "bound", F.greatest("number", "first").alias("number"), "last_number")
    )
    delivered = in_eras(in_agreed_views(trace.tables.deliver, "last_number"), trace.eras, "delivered_at")
    suspects = trace.found(
        uncovered(due, merged(delivered, line), line).select(*line, "position", "first", "bound").distinct()
    )
    if suspects is None:
        return trace.nothing()
    single = trace.first_sends(suspects).select(
        *MESSAGE,
        F.col("sent_agreed").alias("era"),
        F.col("sent_sequence").alias("sequence"),
        hopes("sent_").alias("hopes"),
    )
    single = _in_time(trace, single)
    heard = in_eras(in_agreed_views(trace.deliveries(suspects, STREAM)), trace.eras, "delivered_at")
    found = (
        single.join(F.broadcast(suspects), [*_SENDER, "era"])
        .where("sequence <= bound and number >= first")
        .join(
            heard.join(F.broadcast(suspects.select(*line).distinct()), list(line), "left_semi").select(*line, "number"),
            [*line, "number"],
            "left_anti",
        )
        .groupBy(*MEMBER, "position", *SOURCE, "era")
        .agg(F.min("number").alias("number"))
    )
    return violations("D9", found, F.concat(F.lit("below a cut, but not delivered in "), "era"), message_name())


def _in_time(trace: Projections, sent: DataFrame) -> DataFrame:
    """Without what a session sent for a view that it never had."""
    installed = trace.agreed.select(
        *GROUP,
        F.col("process").alias("source"),
        F.col("incarnation").alias("source_incarnation"),
        F.col("view").alias("era"),
        F.lit(True).alias("installed"),
    ).distinct()
    return sent.join(F.broadcast(installed), [*_SENDER, "era"], "left").where("not hopes or installed")


def _cuts(trace: Projections) -> DataFrame:
    """For every step of a sender out of an era and every source, how far those who came along with it answered for.

    `first` is where the source began for who came into the middle of the era, else 0.
    """
    senders = trace.agreed.where("role = 'sender' and era is null")
    rows = trace.tables.repair.where("kind = 'CUT'").select(
        *MEMBER, F.col("position").alias("cut_position"), *SOURCE, "last", "peer"
    )
    batch = Window.partitionBy(*MEMBER, "position")
    answered = (
        senders.groupBy(*MEMBER, "view", "itself")
        .agg(F.max(F.struct("position", "since")).alias("latest"))
        .select(*MEMBER, "view", "itself", "latest.*")
        .join(rows, list(MEMBER))
        .where("cut_position < position and cut_position > coalesce(since, -1)")
        .select("*", F.max(F.struct("cut_position", "peer")).over(batch)["peer"].alias("last_peer"))
        .where("peer <=> last_peer")
        .select(*VIEW, F.col("itself").alias("companion"), *SOURCE, "last")
    )
    before = (F.col("before.era_word").alias("era"), F.col("before_span.position").alias("span"))
    return (
        transitions(senders)
        .where("full")
        .select(
            *_PARTY,
            "position",
            *before,
            F.col("before_span.whole").alias("from_its_start"),
            F.explode("transitional").alias("companion"),
        )
        .join(answered, [*VIEW, "companion"])
        .groupBy(*MEMBER, "stretch", "era", "span", "from_its_start", "position", *SOURCE)
        .agg(F.max("last").alias("bound"))
        .join(trace.span_starts, [*MEMBER, "span", *SOURCE], "left")
        .where("from_its_start or start is not null")
        .select(
            *MEMBER,
            "stretch",
            "era",
            "position",
            *SOURCE,
            "bound",
            F.when(F.col("from_its_start"), 0).otherwise(F.col("start")).cast("bigint").alias("first"),
        )
    )
