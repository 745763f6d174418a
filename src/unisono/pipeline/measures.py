"""What a run achieved: throughput, group delivery latency, bytes and packets, and repairs.

Times are taken where clocks compare: by the simulator's time, else on one host. A measure whose rows a trace does not
have is null, and `what_is_missing` says which rows it needs.
"""

from __future__ import annotations

from msgspec import Struct
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.projections import sends
from unisono.pipeline.audits.repair import ranges
from unisono.pipeline.columns import MEMBER, MESSAGE, clock, moment
from unisono.pipeline.tables import Tables

DATAGRAMS_SENT = "datagrams sent"
DATAGRAM_BYTES_SENT = "datagram bytes sent"
"""Gauges without a cap that a driver writes: each row has what was sent since the last one."""

PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}

THROUGHPUT = ("run", "group", "size", "members", "messages", "seconds", "messages_per_second", "bytes_per_second")
LATENCY = ("run", "group", "messages", "p50", "p90", "p99", "max")
TRAFFIC = ("run", "datagrams", "datagram_bytes", "payload_bytes")
REPAIRS = (
    "run",
    "group",
    "messages",
    "requests",
    "repairs",
    "repairs_per_message",
    "losses",
    "requests_per_loss",
    "repaired_ranges",
    "repairs_per_range",
)

_SECOND = 1_000_000_000


class Throughput(Struct, frozen=True):
    """Messages of one size in one group, at the member that delivered the fewest a second."""

    run: str
    group: str
    size: int
    members: int
    messages: int
    seconds: float
    messages_per_second: float | None
    bytes_per_second: float | None


class Latency(Struct, frozen=True):
    """From SEND to the delivery at the last member that delivered it, in nanoseconds."""

    run: str
    group: str
    messages: int
    p50: int
    p90: int
    p99: int
    max: int


class Traffic(Struct, frozen=True):
    """What a run put on the network, and what of it was payload that applications sent."""

    run: str
    datagrams: int | None
    datagram_bytes: int | None
    payload_bytes: int


class Repairs(Struct, frozen=True):
    """How many requests for repair, and repairs, there were for the messages of a group, and for each loss.

    A loss is a range of sequences of one source that was asked for; ranges that overlap are one loss. What was repaired
    has ranges of its own, since one loss may be many datagrams.
    """

    run: str
    group: str
    messages: int
    requests: int
    repairs: int
    repairs_per_message: float
    losses: int
    requests_per_loss: float | None
    repaired_ranges: int
    repairs_per_range: float | None


class Measures(Struct, frozen=True):
    """All measures of one or many runs."""

    throughput: list[Throughput]
    latency: list[Latency]
    traffic: list[Traffic]
    repairs: list[Repairs]


def measure(tables: Tables) -> Measures:
    """Compute every measure and bring the results here."""
    return Measures(
        throughput=[Throughput(*row) for row in throughput(tables).collect()],
        latency=[Latency(*row) for row in latency(tables).collect()],
        traffic=[Traffic(*row) for row in traffic(tables).collect()],
        repairs=[Repairs(*row) for row in repairs(tables).collect()],
    )


def what_is_missing(measures: Measures) -> list[str]:
    """Which measures a trace does not allow, and the rows that they need."""
    found = []
    if not measures.latency:
        found.append("latency needs the simulator's time, or a sender and receivers on one host")
    if any(traffic.datagrams is None for traffic in measures.traffic):
        found.append(f'packets need GAUGE rows named "{DATAGRAMS_SENT}"')
    if any(traffic.datagram_bytes is None for traffic in measures.traffic):
        found.append(f'bytes need GAUGE rows named "{DATAGRAM_BYTES_SENT}"')
    return found


def throughput(tables: Tables) -> DataFrame:
    """Per group and message size, the rate at the slowest member; it is null where all came at one moment.

    A member's time is from its first to its last delivery of that size, so that the first message is not counted.
    """
    seconds = (F.max("moment") - F.min("moment")) / _SECOND
    members = (
        tables.deliver.where("kind = 'DELIVER'")
        .select(*MEMBER, "size", moment().alias("moment"))
        .groupBy(*MEMBER, "size")
        .agg(F.count(F.lit(1)).alias("messages"), seconds.alias("seconds"))
        .select("*", F.when(F.col("seconds") > 0, (F.col("messages") - 1) / F.col("seconds")).alias("rate"))
    )
    slowest = F.min(F.struct(F.col("rate").isNull(), "rate", "messages", "seconds")).alias("slowest")
    rate = F.col("slowest.rate")
    return (
        members.groupBy("run", "group", "size")
        .agg(F.count(F.lit(1)).alias("members"), slowest)
        .select(
            "*",
            F.col("slowest.messages").alias("messages"),
            F.col("slowest.seconds").alias("seconds"),
            rate.alias("messages_per_second"),
            (rate * F.col("size")).alias("bytes_per_second"),
        )
        .orderBy("run", "group", "size")
        .select(*THROUGHPUT)
    )


def latencies(tables: Tables) -> DataFrame:
    """For each message that somebody delivered, the time until the last one did, where clocks compare."""
    delivered = (
        tables.deliver.where("kind = 'DELIVER'")
        .select(*MESSAGE, moment().alias("moment"), clock().alias("clock"))
        .groupBy(*MESSAGE, "clock")
        .agg(F.max("moment").alias("last"))
    )
    clocks = F.count(F.lit(1)).alias("clocks")
    together = delivered.groupBy(*MESSAGE).agg(clocks, F.max("last").alias("last"), F.max("clock").alias("clock"))
    sent_clock = F.when(F.col("sent_truth").isNull(), F.col("sent_host"))
    sent = sends(tables.send).select(*MESSAGE, moment("sent_truth", "sent_at").alias("sent"), sent_clock.alias("where"))
    return (
        together.where("clocks = 1")
        .join(sent, list(MESSAGE))
        .where(F.col("clock").eqNullSafe(F.col("where")))
        .select(*MESSAGE, (F.col("last") - F.col("sent")).alias("latency"))
    )


def latency(tables: Tables) -> DataFrame:
    """Percentiles of the group delivery latency, exact: each is the latency of some message."""
    one_group = Window.partitionBy("run", "group")
    ranked = latencies(tables).select(
        "run",
        "group",
        "latency",
        F.row_number().over(one_group.orderBy("latency")).alias("rank"),
        F.count(F.lit(1)).over(one_group).alias("messages"),
    )

    def percentile(percent: int) -> Column:
        rank = F.expr(f"(messages * {percent} + 99) div 100")
        return F.max(F.when(F.col("rank") == rank, F.col("latency")))

    return (
        ranked.groupBy("run", "group", "messages")
        .agg(
            *(percentile(percent).alias(name) for name, percent in PERCENTILES.items()),
            F.max("latency").alias("max"),
        )
        .orderBy("run", "group")
        .select(*LATENCY)
    )


def traffic(tables: Tables) -> DataFrame:
    """Datagrams and their bytes, null where the trace has no such gauges, and the payload that was sent."""
    gauges = (
        tables.gauge.where("kind = 'GAUGE'")
        .groupBy("run")
        .agg(
            F.sum(F.when(F.col("name") == DATAGRAMS_SENT, F.col("value"))).alias("datagrams"),
            F.sum(F.when(F.col("name") == DATAGRAM_BYTES_SENT, F.col("value"))).alias("datagram_bytes"),
        )
    )
    payload = tables.send.where("kind = 'SEND'").groupBy("run").agg(F.sum("size").alias("payload_bytes"))
    return (
        payload.join(gauges, "run", "full")
        .select("run", "datagrams", "datagram_bytes", F.coalesce("payload_bytes", F.lit(0)).alias("payload_bytes"))
        .orderBy("run")
        .select(*TRAFFIC)
    )


def repairs(tables: Tables) -> DataFrame:
    """Rows of requests and repairs for each message sent, and for each loss; a row may ask for a range."""
    messages = tables.send.where("kind = 'SEND'").groupBy("run", "group").agg(F.count(F.lit(1)).alias("messages"))
    asked, repaired = F.col("kind") == "RTR", F.col("kind") == "RTX"
    counted = (
        ranges(tables.repair)
        .groupBy("run", "group")
        .agg(
            F.sum(F.when(asked, F.col("rows"))).alias("requests"),
            F.sum(F.when(repaired, F.col("rows"))).alias("repairs"),
            F.sum(F.when(asked, F.col("ranges"))).alias("losses"),
            F.sum(F.when(repaired, F.col("ranges"))).alias("repaired_ranges"),
        )
    )
    nothing = F.lit(0)
    return (
        messages.join(counted, ["run", "group"], "left")
        .select(
            "run",
            "group",
            "messages",
            F.coalesce("requests", nothing).alias("requests"),
            F.coalesce("repairs", nothing).alias("repairs"),
            (F.coalesce("repairs", nothing) / F.col("messages")).alias("repairs_per_message"),
            F.coalesce("losses", nothing).alias("losses"),
            (F.col("requests") / F.col("losses")).alias("requests_per_loss"),
            F.coalesce("repaired_ranges", nothing).alias("repaired_ranges"),
            (F.col("repairs") / F.col("repaired_ranges")).alias("repairs_per_range"),
        )
        .orderBy("run", "group")
        .select(*REPAIRS)
    )
