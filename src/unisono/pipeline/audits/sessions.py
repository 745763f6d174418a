"""How sessions change their views: blocked in time (M8), by their start-changes (M10); what they hope for (D12).

All but deliveries are small tables here; deliveries are looked at in strides, none of which goes beyond a view.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import told_by
from unisono.pipeline.audits.agreed import GROUP, VIEW, member
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import (
    MEMBER,
    MESSAGE,
    PROCESS,
    SOURCE,
    hopes,
    in_sessions,
    message_name,
    moment,
    violations,
)
from unisono.properties.promises import SETTLING_NANOSECONDS, STRONG

_SENDER = (*GROUP, *SOURCE)
_ANEW = "kind in ('JOIN', 'LEAVE', 'EXCLUDED')"
_OWN_MESSAGE = {"source": "process", "source_incarnation": "incarnation"}


def _turns(trace: Projections, *kinds: str) -> DataFrame:
    """Views of strong sessions, where they begin anew, and rows of membership of these kinds."""
    tables = trace.tables
    views = tables.view.where("kind = 'VIEW'").where(in_sessions(STRONG))
    moves = tables.membership.where(F.expr(_ANEW) | F.col("kind").isin(*kinds)).where(in_sessions(STRONG))
    parts = ("start", "previous", "transitional", "change")
    views = views.select(
        *MEMBER, "position", "kind", "view", moment().alias("moment"), told_by().alias("clock"), *parts
    )
    moves = moves.select(*MEMBER, "position", "kind", "number", "members")
    return views.unionByName(moves, allowMissingColumns=True)


def _before() -> WindowSpec:
    return Window.partitionBy(*MEMBER).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)


def _last(condition: str, value: Column) -> Column:
    return F.last(F.when(F.expr(condition), value), ignorenulls=True).over(_before())


def block_discipline(trace: Projections) -> DataFrame:
    """M8. No stride of sends goes beyond a BLOCK_OK or a view."""
    if not trace.has_sessions:
        return trace.nothing()
    sent = trace.tables.send.where(in_sessions(STRONG)).where("kind = 'SEND' and agreed <=> view")
    sent = sent.select(*MEMBER, "position", "last_position", "kind")
    turn = _last("kind in ('VIEW', 'BLOCK_OK') or " + _ANEW, F.col("kind"))
    blocked = trace.found(
        sent.unionByName(_turns(trace, "BLOCK_OK").select(*MEMBER, "position", "kind"), allowMissingColumns=True)
        .select("*", turn.alias("turn"))
        .where("kind = 'SEND' and turn = 'BLOCK_OK'")
        .select(*MEMBER, F.col("position").alias("begin"), "last_position")
    )
    changes = _changes(trace)
    found = violations("M8", changes.where("wrong is not null"), F.col("wrong"))
    if blocked is None:
        return found
    single = (
        trace.rows("send", blocked.select(*MEMBER).distinct(), MEMBER)
        .select(*MEMBER, "position", "number")
        .join(F.broadcast(blocked), list(MEMBER))
        .where("position between begin and last_position")
    )
    name = message_name("process", "incarnation")
    return found.unionByName(violations("M8", single, F.lit("sent after the session agreed to block"), name))


def _changes(trace: Projections) -> DataFrame:
    """Every view, with what is wrong about the start-change since the last turn before it."""
    since = _last(f"kind = 'VIEW' or {_ANEW}", F.col("position"))
    change = _last("kind = 'START_CHANGE'", F.struct("position", "members"))
    members = F.transform("start", lambda one: member(one["source"], one["incarnation"]))
    expected = F.transform(
        F.coalesce("expected.members", F.array()), lambda one: member(one["process"], one["incarnation"])
    )
    strangers = F.size(F.array_except(members, expected)) > 0
    return (
        _turns(trace, "START_CHANGE")
        .select("*", since.alias("since"), change.alias("last_change"))
        .where("kind = 'VIEW'")
        .select(
            "*", F.expr("case when last_change.position > coalesce(since, -1) then last_change end").alias("expected")
        )
        .select(
            *MEMBER,
            "position",
            F.when(F.col("expected").isNotNull(), F.when(strangers, F.lit("somebody in this view was not expected")))
            .when(F.col("previous").isNotNull(), F.lit("this view came without a start-change"))
            .alias("wrong"),
        )
    )


def start_change_discipline(trace: Projections) -> DataFrame:
    """M10."""
    if not trace.has_sessions:
        return trace.nothing()
    tables = trace.tables
    cuts = tables.repair.where("kind = 'CUT'").where(in_sessions(STRONG))
    cuts = cuts.select(*MEMBER, "position", "kind", "view", "peer")
    number = F.coalesce("number", F.lit(0))
    rows = trace.settle(
        _turns(trace, "START_CHANGE")
        .unionByName(cuts, allowMissingColumns=True)
        .select(
            "*",
            _last("kind = 'START_CHANGE'", F.struct("position", number.alias("number"))).alias("last_change"),
            _last(f"kind = 'VIEW' or {_ANEW}", F.struct("position", "kind", "view")).alias("turn"),
        )
    )
    falling = rows.where("kind = 'START_CHANGE' and coalesce(number, 0) <= last_change.number")
    due = F.expr(
        "turn.kind = 'VIEW' and turn.view = view and last_change.position > turn.position"
        " and peer = cast(last_change.number as string)"
    )
    strange = rows.where("kind = 'CUT'").where(~F.coalesce(due, F.lit(False)))
    views = rows.where("kind = 'VIEW'")
    other = views.where("not change <=> last_change.number")
    answered = (
        cuts.groupBy(*VIEW, member(F.col("process"), F.col("incarnation")).alias("companion"))
        .agg(F.collect_set("peer").alias("peers"))
        .withColumnRenamed("view", "previous")
    )
    along = views.where("change <=> last_change.number and previous is not null").select(
        *MEMBER, "position", "previous", "change", F.explode("transitional").alias("one")
    )
    old = (
        along.select("*", member(F.col("one.process"), F.col("one.incarnation")).alias("companion"))
        .where("not (companion.process = process and companion.incarnation = incarnation)")
        .join(answered, [*GROUP, "previous", "companion"])
        .where("not coalesce(array_contains(peers, cast(change as string)), false)")
        .select(*MEMBER, "position")
        .distinct()
    )
    parts = (
        (falling, F.lit("the number of this start-change is not above the one before")),
        (strange, F.lit("this cut is not for the last start-change, or not of the view")),
        (other, F.lit("this view names another start-change than the last")),
        (old, F.lit("somebody came along whose cuts are for other start-changes")),
    )
    found = trace.nothing()
    for part, text in parts:
        found = found.unionByName(violations("M10", part, text))
    return found


def optimistic_once(trace: Projections) -> DataFrame:
    """D12."""
    if not trace.has_sessions:
        return trace.nothing()
    sources = trace.tables.send.where("agreed is not null").where(hopes())
    sources = sources.select(
        *GROUP, F.col("process").alias("source"), F.col("incarnation").alias("source_incarnation")
    ).distinct()
    sent = trace.settle(
        trace.first_sends(sources)
        .where("sent_agreed is not null")
        .where(hopes("sent_"))
        .select(*MESSAGE, F.col("sent_position").alias("position"), F.col("sent_agreed").alias("agreed"))
    )
    elsewhere = (
        trace.differing.where(in_sessions(STRONG))
        .join(F.broadcast(sent.select(*MESSAGE, "agreed")), list(MESSAGE))
        .where("not view <=> agreed")
    )
    found = violations("D12", elsewhere, F.concat(F.lit("sent for "), "agreed"), message_name())
    returns = _returns(trace)
    wrong = _wrong_returns(trace, returns, sent)
    name = message_name("process", "incarnation")
    found = found.unionByName(violations("D12", wrong, F.lit("it may not be returned"), name))
    lost = _lost(trace, sent, returns)
    text = F.concat(F.lit("neither delivered in "), "agreed", F.lit(" nor returned"))
    return found.unionByName(violations("D12", lost, text, name))


def _returns(trace: Projections) -> DataFrame:
    rows = trace.tables.membership.where("kind = 'RETURNED'").where(in_sessions(STRONG))
    return trace.settle(rows.select(*MEMBER, "position", F.coalesce("number", F.lit(0)).alias("number")))


def _wrong_returns(trace: Projections, returns: DataFrame, sent: DataFrame) -> DataFrame:
    """What was returned again, or was not for a view to come, or was delivered by somebody."""
    again = F.row_number().over(Window.partitionBy(*MEMBER, "number").orderBy("position")) > 1
    own = sent.select(
        *GROUP,
        F.col("source").alias("process"),
        F.col("source_incarnation").alias("incarnation"),
        "number",
        F.col("position").alias("sent_position"),
    )
    delivered = (
        trace.tables.deliver.where("kind = 'DELIVER'")
        .where(in_sessions(STRONG))
        .select(*_SENDER, F.col("number").alias("low"), F.col("last_number").alias("high"))
        .withColumnsRenamed(_OWN_MESSAGE)
        .join(F.broadcast(returns.select(*MEMBER, "number")), list(MEMBER))
        .where("number between low and high")
        .select(*MEMBER, "number", F.lit(True).alias("delivered"))
        .distinct()
    )
    return (
        returns.select("*", again.alias("again"))
        .join(own, [*MEMBER, "number"], "left")
        .join(delivered, [*MEMBER, "number"], "left")
        .where("again or delivered or not coalesce(sent_position < position, false)")
        .select(*MEMBER, "position", "number")
    )


def _lost(trace: Projections, sent: DataFrame, returns: DataFrame) -> DataFrame:
    """What its sender neither heard in the view that it was for, nor took back where another one came."""
    turn = F.struct(
        F.col("position").alias("at"), (F.col("kind") == "VIEW").alias("is_view"), "view", "moment", "clock"
    )
    turns = _turns(trace).select(*MEMBER, turn.alias("turn"))
    following = F.slice(F.array_sort(F.collect_list("turn")), 1, 2)
    hoped = (
        sent.withColumnsRenamed(_OWN_MESSAGE)
        .join(turns, list(MEMBER))
        .where("turn.at > position")
        .groupBy(*MEMBER, "number", "position", "agreed")
        .agg(following.alias("turns"))
        .select("*", F.col("turns")[0].alias("first"), F.try_element_at("turns", F.lit(2)).alias("second"))
        .where("first.is_view and coalesce(second.is_view, true)")
        .join(F.broadcast(trace.ends), list(PROCESS), "left")
    )
    settled = F.expr("first.clock = end_clock") & (F.col("first.moment") <= F.col("ended") - SETTLING_NANOSECONDS)
    judged = trace.settle(
        hoped.where(F.col("second").isNotNull() | F.coalesce(settled, F.lit(False))).select(
            *MEMBER,
            "number",
            "position",
            "agreed",
            F.col("first.at").alias("entered"),
            F.col("first.view").eqNullSafe(F.col("agreed")).alias("fulfilled"),
            F.coalesce("second.at", "end_position").alias("until"),
        )
    )
    heard = (
        trace.tables.deliver.where("kind = 'DELIVER' and source = process and source_incarnation = incarnation")
        .where(in_sessions(STRONG))
        .select(
            *MEMBER, F.col("position").alias("at"), F.col("number").alias("low"), F.col("last_number").alias("high")
        )
        .join(F.broadcast(judged), list(MEMBER))
        .where("fulfilled and number between low and high and at > entered and at < until")
    )
    taken_back = (
        returns.withColumnRenamed("position", "at")
        .join(judged, [*MEMBER, "number"])
        .where("not fulfilled and at > position and at < until")
    )
    answered = heard.select(*MEMBER, "number").unionByName(taken_back.select(*MEMBER, "number")).distinct()
    return judged.join(answered, [*MEMBER, "number"], "left_anti")
