"""What is left out of a total order: within an era (O7), and within a spell of a source (O4).

A span is the views of one era in a row at a member, a line a source in consecutive spans of it. Most lines are dense,
so that a count tells what comes next, and where something does, one lookup among the sends tells its key. Only lines
that are not dense are held against every message.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.agreed import GROUP, member
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import MEMBER, SOURCE, STREAM, held, message_name, violations
from unisono.pipeline.tables import Tables

_SENDER = ("run", "group", *SOURCE)
_LINE = (*STREAM, "line")


def reliable_causal(trace: Projections) -> DataFrame:
    """O4: a line is as long as consecutive spans of a stretch have the source, and it came along into each."""
    in_order = Window.partitionBy(*STREAM, "stretch").orderBy("ordinal")
    goes_on = F.col("stays") & (F.lag("ordinal").over(in_order) == F.col("ordinal") - 1)
    spell = Window.partitionBy(*STREAM, "stretch", "spell")
    lines = (
        trace.shared("in_spans", lambda: in_spans(trace))
        .select("*", F.coalesce(goes_on, F.lit(False)).alias("goes_on"))
        .select("*", F.count(F.when(~F.col("goes_on"), 1)).over(in_order).alias("spell"))
        .select(
            *STREAM,
            "span",
            F.min("span").over(spell).alias("line"),
            F.min(F.struct("ordinal", "start")).over(spell)["start"].alias("first"),
            ((F.max("ordinal").over(spell) < F.col("spans")) | F.col("answered")).alias("ended"),
        )
    )
    return gaps(trace, "O4", trace.settle(in_views(trace, lines)))


def without_gaps(trace: Projections) -> DataFrame:
    """O7: a line is one span."""
    in_order = Window.partitionBy(*STREAM, "stretch").orderBy("ordinal")
    comes_along = F.lead("stays").over(in_order) & (F.lead("ordinal").over(in_order) == F.col("ordinal") + 1)
    lines = trace.shared("in_spans", lambda: in_spans(trace)).select(
        *STREAM,
        "span",
        F.col("span").alias("line"),
        F.col("start").alias("first"),
        F.when(F.col("ordinal") < F.col("spans"), ~F.coalesce(comes_along, F.lit(False)))
        .otherwise(F.col("answered"))
        .alias("ended"),
    )
    return gaps(trace, "O7", trace.settle(in_views(trace, lines)))


def in_spans(trace: Projections) -> DataFrame:
    """Every source of every span, the place of the span among the `spans` of its stretch, and whether it came along.

    The end of the last span may have been agreed (`answered`) although no other one followed that its process saw.
    """
    stretch = Window.partitionBy(*MEMBER, "stretch")
    ends = trace.agreed.groupBy(*MEMBER, "stretch").agg(F.max("position").alias("last_view"))
    answered = ends.join(_last_cuts(trace.tables), [*MEMBER, "stretch"]).select(
        *MEMBER, "stretch", (F.col("last_view") < F.col("last_cut")).alias("answered")
    )
    firsts = (
        trace.agreed.where("span.position = position")
        .join(answered, [*MEMBER, "stretch"], "left")
        .select(
            *MEMBER,
            "stretch",
            F.coalesce("answered", F.lit(False)).alias("answered"),
            F.col("position").alias("span"),
            "start",
            "transitional",
            "itself",
            "fresh",
            F.row_number().over(stretch.orderBy("position")).alias("ordinal"),
            F.count(F.lit(1)).over(stretch).alias("spans"),
        )
        .join(trace.span_starts.withColumnRenamed("start", "number"), [*MEMBER, "span"])
    )
    source = member(F.col("source"), F.col("source_incarnation"))
    inside = F.exists(
        "start",
        lambda one: (one["source"] == F.col("source")) & (one["incarnation"] == F.col("source_incarnation")),
    )
    came = F.col("transitional").isNull() | (source == F.col("itself")) | F.array_contains("transitional", source)
    return firsts.select(
        *STREAM,
        "stretch",
        "span",
        "ordinal",
        "spans",
        "answered",
        F.col("number").alias("start"),
        (inside & came & ~F.col("fresh")).alias("stays"),
    )


def in_views(trace: Projections, lines: DataFrame) -> DataFrame:
    """The lines in every view of theirs, with the number that it gives as start, where it has the source."""
    views = trace.agreed.select(
        *MEMBER, F.col("span.position").alias("span"), F.col("position").alias("view_position"), "view", "era_word"
    )
    starts = (
        trace.agreed.select(*MEMBER, F.col("position").alias("view_position"), F.explode("start").alias("begin"))
        .select(
            *MEMBER,
            "view_position",
            F.col("begin.source").alias("source"),
            F.col("begin.incarnation").alias("source_incarnation"),
            F.col("begin.number").alias("start"),
        )
        .groupBy(*STREAM, "view_position")
        .agg(F.max("start").alias("start"))
    )
    return lines.join(views, [*MEMBER, "span"]).join(starts, [*STREAM, "view_position"], "left")


def _last_cuts(tables: Tables) -> DataFrame:
    """Where each member last said, in a stretch, what it brings to the end of its view."""
    cuts = tables.repair.where("kind = 'CUT'")
    return cuts.groupBy(*MEMBER, "stretch").agg(F.max("position").alias("last_cut"))


def gaps(trace: Projections, property_id: str, lines: DataFrame) -> DataFrame:
    """Lines whose next message, undelivered, is below something that was delivered in their views."""
    delivered = heard_in_views(trace, property_id)
    out_of_step = F.coalesce(F.col("number") != F.col("due"), F.lit(True)) | ~F.col("begin_position").eqNullSafe(
        F.col("view_position")
    )
    heard = trace.settle(
        delivered.groupBy(*STREAM, "view_position").agg(
            F.sum("got").alias("got"),
            F.max("last_number").alias("top"),
            F.count(F.when(out_of_step, 1)).alias("odd"),
            F.max("last_timestamp").alias("latest"),
        )
    )
    highest = heard.groupBy(*MEMBER, "view_position").agg(F.max(F.struct("latest", *SOURCE)).alias("highest"))
    earlier = Window.partitionBy(*_LINE).orderBy("view_position").rowsBetween(Window.unboundedPreceding, -1)
    expected = F.col("first") + F.coalesce(F.sum("got").over(earlier), F.lit(0))
    repeated = trace.repeated.select(*_SENDER, F.lit(1).alias("repeated"))
    judged = trace.settle(
        lines.join(heard, [*STREAM, "view_position"], "left")
        .join(highest, [*MEMBER, "view_position"], "left")
        .join(F.broadcast(repeated), list(_SENDER), "left")
        .select("*", F.coalesce(F.col("start") != expected, F.lit(False)).alias("jumps"))
        .groupBy(*_LINE, "first", "ended")
        .agg(
            F.coalesce(F.sum("got"), F.lit(0)).alias("got"),
            F.coalesce(F.max("top"), F.lit(0)).alias("top"),
            (F.coalesce(F.sum("odd"), F.lit(0)) + F.count(F.when(F.col("jumps"), 1)) + F.count("repeated")).alias(
                "odd"
            ),
            F.max("highest").alias("highest"),
        )
        .where("highest is not null")
    )
    found = trace.found(
        _next_of_dense(trace, judged.where("odd = 0"), lines)
        .unionByName(_next_of_odd(trace, judged.where("odd > 0"), lines, property_id))
        .where("not (ended and number > top)")
        .where(F.struct("sent_timestamp", *SOURCE) < F.col("highest"))
        .select("*", F.col("line").alias("position"))
    )
    if found is None:
        return trace.nothing()
    text = F.concat(F.lit("not delivered, though timestamp "), F.col("highest.latest").cast("string"), F.lit(" was"))
    return violations(property_id, found, text, message_name())


def _words(views: DataFrame) -> DataFrame:
    """The views and eras of each line, in words."""
    return views.select(*_LINE, F.explode(F.array("view", "era_word")).alias("view")).distinct()


_FOUND = (*_LINE, "ended", "top", "highest", "number", "sent_timestamp")


def _next_of_dense(trace: Projections, lines: DataFrame, views: DataFrame) -> DataFrame:
    """The first message from where a dense line ends that was sent in a view or era of it, where there is one.

    The strides of sends tell its number; its timestamp is looked up, unless it begins a stride.
    """
    own = [F.col("process").alias("source"), F.col("incarnation").alias("source_incarnation")]
    sent = trace.tables.send.where("agreed is not null").select(
        *GROUP, *own, F.col("agreed").alias("view"), F.col("number").alias("begin"), "last_number"
    )
    following = F.greatest("begin", F.col("first") + F.col("got"))
    probes = trace.found(
        lines.join(_words(views), list(_LINE))
        .join(sent, [*_SENDER, "view"])
        .where("last_number >= first + got")
        .groupBy(*_LINE, "ended", "top", "highest")
        .agg(F.min(following).alias("number"))
        .where("not (ended and number > top)")
    )
    if probes is None:
        return _none(lines)
    return trace.first_sends(probes, "number").join(F.broadcast(probes), [*_SENDER, "number"]).select(*_FOUND)


def _none(lines: DataFrame) -> DataFrame:
    """No message of these lines."""
    number = F.lit(None).cast("bigint")
    return lines.select("*", number.alias("number"), number.alias("sent_timestamp")).select(*_FOUND).limit(0)


def _next_of_odd(trace: Projections, lines: DataFrame, views: DataFrame, property_id: str) -> DataFrame:
    """The lowest number of each other line that was sent in a view of it, and not delivered in any."""
    odd = trace.found(lines)
    if odd is None:
        return _none(lines)
    places = views.join(odd, list(_LINE), "left_semi").select(*_LINE, "view_position", "view", "era_word")
    mine = F.broadcast(places.select(*STREAM).distinct())
    delivered = trace.single(heard_in_views(trace, property_id).join(mine, list(STREAM), "left_semi"))
    got = delivered.join(F.broadcast(places), [*STREAM, "view_position"]).select(*_LINE, "number")
    asked = odd.join(_words(places), list(_LINE))
    return (
        trace.first_sends(odd)
        .select(*_SENDER, F.col("sent_agreed").alias("view"), "number", "sent_timestamp")
        .join(F.broadcast(asked), [*_SENDER, "view"])
        .where("number >= first")
        .join(got, [*_LINE, "number"], "left_anti")
        .groupBy(*_LINE, "ended", "top", "highest")
        .agg(F.min(F.struct("number", "sent_timestamp")).alias("sent"))
        .select(*_LINE, "ended", "top", "highest", "sent.*")
        .select(*_FOUND)
    )


def heard_in_views(trace: Projections, property_id: str) -> DataFrame:
    """The deliveries in views that are held to this property."""
    return trace.streams.where("kind = 'DELIVER' and view_position is not null").where(held(property_id, "receiver"))
