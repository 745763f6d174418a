"""What is delivered in agreed views: where it was sent (D3, D4), by all alike (D5, D9), in one order (O5).

Sets are compared by fingerprint; only where these differ is one message held against another.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.agreed import (
    FINGERPRINT,
    GROUP,
    STEP,
    VIEW,
    fingerprint,
    in_agreed_views,
    in_eras,
    transitions,
)
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import AGREED, MEMBER, MESSAGE, SOURCE, held, message_name, violations

_SENDER = (*GROUP, *SOURCE)
_IN_PREVIOUS = (*MEMBER, "stretch", "previous")
_PARTY = (*_IN_PREVIOUS, "view")
_JUDGED = (*GROUP, "place", "full", "start", *SOURCE, "number")


def sending_view(trace: Projections) -> DataFrame:
    """D3."""
    found = _of_suspects(trace, "sent_sequence is not null and elsewhere").where("not era <=> sent_agreed")
    text = F.concat(
        F.lit("delivered in "),
        F.coalesce("view", F.lit("no view")),
        F.lit(", sent in "),
        F.coalesce("sent_agreed", F.lit("none")),
    )
    return violations("D3", found, text, message_name())


def same_view(trace: Projections) -> DataFrame:
    """D4."""
    nobody = [
        F.lit("").alias("process"),
        *(F.lit(0).cast("bigint").alias(name) for name in ("incarnation", "position")),
    ]
    found = trace.suspects.where("in_two_eras").select(*MESSAGE, *nobody)
    return violations("D4", found, F.lit("delivered in more than one era"), message_name())


def _of_suspects(trace: Projections, condition: str) -> DataFrame:
    """Deliveries under agreed views of suspect messages of which this is true."""
    suspects = trace.suspects.where(condition).select(*MESSAGE, "sent_agreed")
    delivered = (
        trace.tables.deliver.where("kind = 'DELIVER'")
        .where(held(AGREED))
        .join(F.broadcast(suspects.select(*_SENDER).distinct()), list(_SENDER), "left_semi")
        .select(*MEMBER, "position", "view", *SOURCE, "number")
    )
    return in_eras(delivered, trace.eras).join(suspects, list(MESSAGE))


def virtual_synchrony(trace: Projections) -> DataFrame:
    """D5: all against the first who had the whole view, by fingerprint, and message by message where it may differ.

    Of one that came into the middle of the view, and of the first, only what is after its start points counts.
    """
    before = trace.stays.withColumnRenamed("view", "previous")
    fingerprint_of = F.struct(*(F.coalesce(part, F.lit(0)).alias(part) for part in FINGERPRINT))
    first = F.min(F.when(F.col("full"), F.struct("place", "stretch", "set"))).over(Window.partitionBy(*STEP))
    judged = trace.settle(
        transitions(trace.agreed)
        .join(before, list(_IN_PREVIOUS), "left")
        .select(*_PARTY, "place", "full", F.col("before.start").alias("start"), fingerprint_of.alias("set"))
        .select("*", first.alias("first"))
        .where("first.place <> place and (not full or set <> first.set)")
        .drop("set")
    )
    delivered = in_agreed_views(trace.tables.deliver).withColumnRenamed("view", "previous")
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


def _of_first() -> list[Column]:
    """The process that others are held against, in columns of their own."""
    places = [F.col(f"first.place.{name}").alias(f"first_{name}") for name in ("process", "incarnation")]
    return [*places, F.col("first.stretch").alias("first_stretch")]


def weak_total_order(trace: Projections) -> DataFrame:
    """O5: where all deliver by ascending keys, and a message has one key, there is one order.

    Only else is the order of a process held against that of the first one.
    """
    changed = trace.suspects.where("with_two_timestamps").select(*MESSAGE)
    doubtful = (
        trace.keyed.where("timed and previous >= key")
        .select(*MEMBER)
        .unionByName(trace.keyed.join(F.broadcast(changed), list(MESSAGE), "left_semi").select(*MEMBER))
        .distinct()
        .withColumn("doubtful", F.lit(True))
    )
    steps = transitions(trace.agreed).select(*_PARTY, "place", "full").join(doubtful, list(MEMBER), "left")
    first = F.min(F.struct(~F.col("full"), "place", "stretch", "doubtful")).over(Window.partitionBy(*STEP))
    judged = trace.settle(
        steps.select("*", first.alias("first"))
        .where("first.place <> place and (doubtful or first.doubtful)")
        .drop("doubtful")
    )
    delivered = in_agreed_views(trace.tables.deliver).withColumnRenamed("view", "previous")
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
    """D9: what the cuts of those who came along cover, against what was delivered; one by one where they differ."""
    cuts = trace.settle(_cuts(trace))
    line = (*MEMBER, "stretch", "era", *SOURCE)
    limits = ("first", "bound")
    asked = cuts.select(*_SENDER, "era", *limits).distinct()
    sent = trace.sends.select(*MESSAGE, F.col("sent_agreed").alias("era"), F.col("sent_sequence").alias("sequence"))
    due = [part.alias(f"due_{name}") for part, name in zip(fingerprint("number"), FINGERPRINT, strict=True)]
    within = "sequence <= bound and number >= first"
    expected = (
        sent.join(F.broadcast(asked), [*_SENDER, "era"]).where(within).groupBy(*_SENDER, "era", *limits).agg(*due)
    )
    delivered = in_eras(in_agreed_views(trace.tables.deliver), trace.eras, "delivered_at")
    got = (
        delivered.join(F.broadcast(cuts), list(line))
        .where(within)
        .groupBy(*line, "position", *limits)
        .agg(*fingerprint("number"))
    )
    suspects = trace.settle(
        cuts.join(expected, [*_SENDER, "era", *limits])
        .join(got, [*line, "position", *limits], "left")
        .where(" or ".join(f"not {name} <=> due_{name}" for name in FINGERPRINT))
        .select(*line, "position", *limits)
    )
    found = (
        sent.join(F.broadcast(suspects), [*_SENDER, "era"])
        .where(within)
        .join(
            delivered.join(F.broadcast(suspects.select(*line)), list(line), "left_semi").select(*line, "number"),
            [*line, "number"],
            "left_anti",
        )
        .groupBy(*MEMBER, "position", *SOURCE, "era")
        .agg(F.min("number").alias("number"))
    )
    return violations("D9", found, F.concat(F.lit("below a cut, but not delivered in "), "era"), message_name())


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
