"""Restarts (L11): the first message of each life, against what those had who knew another life of its process."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import told_by
from unisono.pipeline.audits.connected import SENT, in_view, not_away, staying
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import MEMBER, SOURCE, STREAM, held, message_name, moment, violations
from unisono.pipeline.tables import Tables
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS


def heard_again(trace: Projections) -> DataFrame:
    """L11: few lives are new ones of a known process, and only these are judged."""
    tables = trace.tables
    met = _met(tables)
    asked = trace.found(_unheard(_asked(met, _firsts(tables)), met, tables))
    if asked is None:
        return trace.nothing()
    judged = in_view(not_away(trace, staying(trace, "L11", asked)), "L11", tables)
    known = met.where("held").select(
        *MEMBER, "source", "stretch", F.col("source_incarnation").alias("other"), F.col("position").alias("met_at")
    )
    found = (
        judged.join(known, [*MEMBER, "source", "stretch"])
        .where("other <> source_incarnation and met_at <= position")
        .select(*STREAM, "position", "number")
        .distinct()
    )
    return violations("L11", found, F.lit("a new life sent this first, and was not heard for 10 s"), message_name())


def _met(tables: Tables) -> DataFrame:
    """Every member of every view."""
    views = tables.view.where("kind = 'VIEW'")
    columns = (*MEMBER, "position", "stretch", moment().alias("heard_at"), held("L11").alias("held"))
    return views.select(*columns, F.explode("start").alias("one")).select(
        "*", F.col("one.source").alias("source"), F.col("one.incarnation").alias("source_incarnation")
    )


def _firsts(tables: Tables) -> DataFrame:
    """What each life sent first to each group."""
    first = F.min_by(F.struct("number", moment().alias("sent_at"), told_by().alias("sent_clock")), "position")
    return (
        tables.send.where("kind = 'SEND'")
        .groupBy(*MEMBER)
        .agg(first.alias("first"))
        .withColumnsRenamed({"process": "source", "incarnation": "source_incarnation"})
        .select("run", "group", *SOURCE, "first.*")
    )


def _asked(met: DataFrame, firsts: DataFrame) -> DataFrame:
    """The first messages, for each member that had another life of their source in a view."""
    others = met.select(*MEMBER, "source", F.col("source_incarnation").alias("other")).distinct()
    return (
        others.where("source <> process")
        .join(firsts, ["run", "group", "source"])
        .where("other <> source_incarnation")
        .select(*SENT)
        .distinct()
    )


def _unheard(asked: DataFrame, met: DataFrame, tables: Tables) -> DataFrame:
    """Where the life came into no view, and nothing of it was delivered, soon enough."""
    delivered = tables.deliver.where("kind = 'DELIVER'").select(*STREAM, moment().alias("heard_at"))
    heard = (
        met.select(*STREAM, "heard_at").unionByName(delivered).groupBy(*STREAM).agg(F.min("heard_at").alias("heard_at"))
    )
    return (
        asked.join(heard, list(STREAM), "left")
        .where(F.col("heard_at").isNull() | (F.col("heard_at") > F.col("sent_at") + STALL_LIMIT_NANOSECONDS))
        .select(*SENT)
    )
