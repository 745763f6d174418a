"""Measures of runs small enough to reckon by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unisono.pipeline.measures import Latency, Repairs, Throughput, Traffic, measure, what_is_missing
from unisono.pipeline.tables import read_tables
from unisono.trace.parquet import write_tables
from unisono.trace.schema import AnyRow, DeliverRow, GaugeRow, RepairRow, SendRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000_000


def message(process: str, number: int, time: float, **columns: Any) -> dict[str, Any]:
    """The columns of a message at one process; in simulation unless told otherwise."""
    return {
        "run": "r",
        "group": "g",
        "process": process,
        "incarnation": 1,
        "truth": int(time * SECOND),
        "host": process,
        "sequence": number,
        "number": number,
        "timestamp": number,
        "size": 100,
        "body": number,
        **columns,
    }


def send(number: int, time: float, **columns: Any) -> SendRow:
    return SendRow(kind="SEND", position=number, **message("a", number, time, **columns))


def deliver(process: str, number: int, time: float, **columns: Any) -> DeliverRow:
    place: dict[str, Any] = {"source": "a", "source_incarnation": 1, "index": number, "position": 100 + number}
    return DeliverRow(kind="DELIVER", **place, **message(process, number, time, **columns))


def two_receivers() -> Iterable[AnyRow]:
    """Ten messages, one a second; bob takes n/10 s for the n-th, carol is there at once and late with the last."""
    for number in range(1, 11):
        yield send(number, number)
        yield deliver("b", number, number + number / 10)
        yield deliver("c", number, number if number < 10 else 19)


def on(host: str, time: float) -> dict[str, Any]:
    return {"run": f"on {host}", "truth": None, "host": host, "at": int(time * SECOND)}


def real_runs() -> Iterable[AnyRow]:
    """One message between processes of one host, and one between two hosts, whose clocks tell nothing."""
    yield send(1, 0, **on("here", 5))
    yield deliver("b", 1, 0, **on("here", 7))
    yield send(1, 0, **on("there", 5))
    yield deliver("b", 1, 0, **{**on("there", 7), "host": "elsewhere"})


def test_measures(spark: SparkSession, tmp_path: Path) -> None:
    repairs = [
        RepairRow(kind=kind, run="r", group="g", process="b", source="a", source_incarnation=1, first=first, last=last)
        for kind, first, last in (
            ("RTR", 1, 4),
            ("RTR", 4, 6),
            ("RTR", 2, 2),
            ("RTR", 7, 7),
            ("RTX", 1, 4),
            ("RTX", 5, 6),
            ("GC", 1, 1),
        )
    ]
    gauges = [
        GaugeRow(kind="GAUGE", run="r", process="a", name=name, value=value)
        for name, value in (("datagrams sent", 3), ("datagrams sent", 4), ("datagram bytes sent", 900), ("other", 5))
    ]
    write_tables(tmp_path, [*two_receivers(), *real_runs(), *repairs, *gauges])
    measures = measure(read_tables(spark, [tmp_path]))
    assert measures.latency == [
        Latency("on here", "g", 1, *(4 * [2 * SECOND])),
        Latency("r", "g", 10, SECOND // 2, 9 * SECOND // 10, 9 * SECOND, 9 * SECOND),
    ]
    ours = [one for one in measures.throughput if one.run == "r"]
    assert ours == [Throughput("r", "g", 100, 2, 10, 18.0, 0.5, 50.0)]
    alone = [one for one in measures.throughput if one.run == "on here"]
    assert alone == [Throughput("on here", "g", 100, 1, 1, 0.0, None, None)]
    assert measures.traffic == [
        Traffic("on here", None, None, 100),
        Traffic("on there", None, None, 100),
        Traffic("r", 7, 900, 1000),
    ]
    assert [one for one in measures.repairs if one.run == "r"] == [Repairs("r", "g", 10, 4, 2, 0.2, 2, 2.0, 2, 1.0)]
    assert what_is_missing(measures) == [
        'packets need GAUGE rows named "datagrams sent"',
        'bytes need GAUGE rows named "datagram bytes sent"',
    ]
