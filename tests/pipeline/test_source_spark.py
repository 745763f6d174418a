"""Spark reads a group and writes into another, through gateways: every event once, every batch once."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from examples import word_counts
from tests.gateways import Running, logged, running, until
from unisono.identity import ProcessId
from unisono.pipeline.source.datasource import register
from unisono.rows import RowFilter, decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]
ANNA = ProcessId("anna", 1)


def say(gateway: Running, first: int, *lines: str) -> None:
    """Let somebody say something in the group, and wait until the gateway has it."""
    for number, line in enumerate(lines, first):
        gateway.say(ANNA, number, line.encode())
    until(lambda: any(entry.number == first + len(lines) - 1 for entry in logged(gateway.address)))


def sent(gateway: Running) -> list[tuple[int, int, object]]:
    """The rows that went into the group, as a member has them."""
    found = [decode(data) for data in gateway.group.sent]
    had = RowFilter()
    return [(row.batch, row.number, json.loads(row.data)) for row in found if row is not None and had.is_new(row)]


def lines_of(spark: SparkSession, gateway: Running, **options: str) -> DataFrame:
    reader = spark.readStream.format("unisono").option("gateway", gateway.address).option("group", "g")
    return reader.options(**options).load().where("kind = 'message'")


def run_once(lines: DataFrame, gateway: Running, checkpoint: Path, **options: str) -> None:
    """Send what is there now, and end."""
    query = (
        lines.select(F.col("data").cast("string").alias("line"), "number")
        .writeStream.format("unisono")
        .option("gateway", gateway.address)
        .option("group", "g")
        .option("encode", "json")
        .option("checkpointLocation", str(checkpoint))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_query_from_group_to_group_sends_each_row_once_although_it_is_tried_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    with running(tmp_path / "from") as source, running(tmp_path / "to") as target:
        say(source, 1, "one", "two", "three")
        lines = lines_of(spark, source, partitions="2")
        run_once(lines, target, tmp_path / "checkpoint")
        first = [(0, place, {"line": line, "number": place + 1}) for place, line in enumerate(("one", "two", "three"))]
        assert sent(target) == first
        # As if the query had been killed after the batch was sent and before Spark noted it.
        (tmp_path / "checkpoint" / "commits" / "0").unlink()
        (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink()
        say(source, 4, "four")
        run_once(lines, target, tmp_path / "checkpoint")
        assert sent(target) == [*first, (1, 0, {"line": "four", "number": 4})]
        assert len(target.group.sent) == 4, "the gateway itself did not send the batch again"
        until(lambda: len(logged(target.address)) == 5)
        queries = {entry.query for entry in logged(target.address) if entry.query}
        assert queries == {json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]}
        whole = spark.read.format("unisono").option("gateway", target.address).option("group", "g").load()
        told = whole.where("query is not null").select("offset", "batch", "row", "source").collect()
        assert sorted(tuple(row) for row in told) == [
            (1, 0, 0, "gateway"),
            (2, 0, 1, "gateway"),
            (3, 0, 2, "gateway"),
            (4, 1, 0, "gateway"),
        ]


def test_the_example_counts_the_words_of_a_live_group(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UNISONO_INTERFACE", "lo")
    counted = word_counts.main(spark)
    spoken = Counter(word for lines in word_counts.LINES.values() for line in lines for word in line.split())
    assert counted == spoken
    shown = re.findall(r"```text\n(.*?)```", (ROOT / "docs" / "spark.md").read_text("utf-8"), re.DOTALL)
    assert capsys.readouterr().out == shown[0]
