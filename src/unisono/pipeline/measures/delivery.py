"""Measures of messages: how many and how fast, what they cost on the network, and what was repaired."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.repair import ranges
from unisono.pipeline.columns import MEMBER, moment
from unisono.pipeline.measures.catalogue import DATAGRAM_BYTES_SENT, DATAGRAMS_SENT
from unisono.pipeline.tables import Tables

GROUP = ("run", "group")

_SECOND = 1_000_000_000


def named(columns: dict[str, Column], key: Column | None = None) -> Column:
    """The columns of one row as rows of measures, by name; what is null goes later."""
    told = F.lit("") if key is None else key
    entries = [
        F.struct(F.lit(name).alias("measure"), told.alias("key"), value.cast("double").alias("value"))
        for name, value in columns.items()
    ]
    return F.inline(F.array(*entries))


def counts(messages: DataFrame) -> DataFrame:
    """How many messages there were, and what they weighed."""
    was_sent = F.col("sent").isNotNull()
    return (
        messages.groupBy(*GROUP)
        .agg(
            F.count_if(was_sent).alias("sent"),
            F.sum("deliveries").alias("deliveries"),
            F.coalesce(F.sum(F.when(was_sent, F.col("size"))), F.lit(0)).alias("payload"),
        )
        .select(
            *GROUP,
            named({"messages": F.col("sent"), "deliveries": F.col("deliveries"), "payload": F.col("payload")}),
        )
    )


def throughput(tables: Tables) -> DataFrame:
    """Per group and class of sizes, the rate at the slowest member; there is none where all came at one moment.

    A member's time is from its first to its last delivery of that class, so that the first message is not counted.
    """
    seconds = (F.max("moment") - F.min("moment")) / _SECOND
    following = (F.col("messages") - 1) / F.col("messages")
    return (
        tables.deliver.where("kind = 'DELIVER'")
        .select(*MEMBER, "size", moment().alias("moment"), F.explode(F.array(F.lit("all"), _class())).alias("key"))
        .groupBy(*MEMBER, "key")
        .agg(F.count(F.lit(1)).alias("messages"), F.sum("size").alias("bytes"), seconds.alias("seconds"))
        .where("seconds > 0")
        .groupBy(*GROUP, "key")
        .agg(
            F.min(F.col("messages") * following / F.col("seconds")).alias("rate"),
            F.min(F.col("bytes") * following / F.col("seconds")).alias("byte_rate"),
        )
        .select(
            *GROUP,
            named({"throughput": F.col("rate"), "throughput in bytes": F.col("byte_rate")}, F.col("key")),
        )
    )


def _class() -> Column:
    """A size by the power of two that it does not exceed."""
    return F.expr("concat('up to ', shiftleft(1L, if(size <= 1, 0, length(bin(size - 1)))))")


def latencies(messages: DataFrame) -> DataFrame:
    """For each message that somebody delivered, the time until the last one did, where clocks compare."""
    return messages.where("latency is not null").select(
        *GROUP, F.lit("latency").alias("measure"), F.col("latency").cast("double").alias("value")
    )


def overhead(tables: Tables, messages: DataFrame) -> DataFrame:
    """Datagrams and their bytes, for each message and for each byte of payload."""

    def total(name: str) -> Column:
        return F.sum(F.when(F.col("name") == name, F.col("value")))

    traffic = (
        tables.gauge.where("kind = 'GAUGE'")
        .where(F.col("name").isin(DATAGRAMS_SENT, DATAGRAM_BYTES_SENT))
        .groupBy(*GROUP)
        .agg(total(DATAGRAMS_SENT).alias("datagrams"), total(DATAGRAM_BYTES_SENT).alias("bytes"))
    )
    sent = (
        messages.where("sent is not null")
        .groupBy(*GROUP)
        .agg(F.count(F.lit(1)).alias("sent"), F.sum("size").alias("payload"))
    )
    return traffic.join(sent, list(GROUP), "left").select(
        *GROUP,
        named(
            {
                "datagrams": F.col("datagrams"),
                "datagram bytes": F.col("bytes"),
                "datagrams per message": F.col("datagrams") / F.col("sent"),
                "bytes per message": F.col("bytes") / F.col("sent"),
                "bytes per payload byte": F.try_divide("bytes", "payload"),
            }
        ),
    )


def repairs(tables: Tables) -> DataFrame:
    """Requests and repairs, for each loss and for each message; a row may ask for a range."""
    messages = tables.send.where("kind = 'SEND'").groupBy(*GROUP).agg(F.count(F.lit(1)).alias("messages"))
    asked, repaired = F.col("kind") == "RTR", F.col("kind") == "RTX"
    counted = (
        ranges(tables.repair)
        .groupBy(*GROUP)
        .agg(
            F.sum(F.when(asked, F.col("rows"))).alias("requests"),
            F.sum(F.when(repaired, F.col("rows"))).alias("repairs"),
            F.sum(F.when(asked, F.col("ranges"))).alias("losses"),
        )
    )
    nothing = F.lit(0)
    return (
        messages.join(counted, list(GROUP), "left")
        .select(
            *GROUP, "messages", *(F.coalesce(name, nothing).alias(name) for name in ("requests", "repairs", "losses"))
        )
        .select(
            *GROUP,
            named(
                {
                    "losses": F.col("losses"),
                    "requests": F.col("requests"),
                    "repairs": F.col("repairs"),
                    "requests per loss": F.try_divide("requests", "losses"),
                    "repairs per loss": F.try_divide("repairs", "losses"),
                    "repairs per message": F.col("repairs") / F.col("messages"),
                }
            ),
        )
    )
