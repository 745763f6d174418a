"""Word counts over a live group: members say lines, Spark counts their words and says the counts in another group.

Run it with `python examples/word_counts.py`; it takes about half a minute, most of it Spark's start. Two gateways stand
between: one keeps what is said in the group `lines` for Spark to read, the other sends Spark's rows into the group
`counts`, where a member takes each of them once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows
from pyspark.sql.streaming.query import StreamingQuery

import unisono.sync
from unisono.pipeline.source.datasource import register
from unisono.pipeline.spark.session import running
from unisono.rows import rows_of

LINES = {
    "anna": ("the sea is calm", "the sea is wide", "and nobody is at the pier"),
    "bert": ("the boat is small", "the sea is not", "and the boat is gone"),
}
PATIENCE_SECONDS = 120.0
SUSPICION = "20s"
"""Nobody is taken for dead while Spark keeps this machine busy."""


def word_counts(events: DataFrame) -> DataFrame:
    """How often each word was said in the messages of a group."""
    lines = events.where("kind = 'message'").select(F.col("data").cast("string").alias("line"))
    words = lines.select(F.explode(F.split("line", " ")).alias("word"))
    return words.groupBy("word").count()


def main(spark: SparkSession | None = None) -> dict[str, int]:
    realm = f"word-counts-{os.getpid()}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="word-counts-")))
        about = {"realm": realm, "service": "timestamp", "suspicion": SUSPICION}
        lines = stack.enter_context(gateway("lines", folder, realm))
        counts = stack.enter_context(gateway("counts", folder, realm))
        listener = stack.enter_context(unisono.sync.join("counts", name="listener", **about))
        until(lambda: len(listener.members) == 2)
        session = spark or stack.enter_context(running("test"))
        register(session)
        events = session.readStream.format("unisono").option("gateway", lines).option("group", "lines").load()
        query = (
            word_counts(events)
            .writeStream.format("unisono")
            .outputMode("complete")
            .option("gateway", counts)
            .option("group", "counts")
            .option("encode", "json")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        stack.callback(query.stop)
        speaking = threading.Thread(target=speak, args=(about,))
        speaking.start()
        stack.callback(speaking.join)
        found = listen(listener, query)
        query.processAllAvailable()
    for word, count in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:5]:
        print(f"{count} {word}")
    return found


def speak(about: dict[str, str]) -> None:
    """Two members say their lines in turn."""
    with (
        unisono.sync.join("lines", name="anna", **about) as anna,
        unisono.sync.join("lines", name="bert", **about) as bert,
    ):
        until(lambda: len(anna.members) == len(bert.members) == 3)
        for hers, his in zip(*LINES.values(), strict=True):
            anna.send(hers.encode())
            bert.send(his.encode())


def listen(group: unisono.sync.SyncGroup, query: StreamingQuery) -> dict[str, int]:
    """Take the counts that come until every word that was said is counted; the newest count of a word stands."""
    wanted = sum(len(line.split()) for lines in LINES.values() for line in lines)
    found: dict[str, int] = {}
    for row in rows_of(events_of(group, query)):
        told: dict[str, Any] = json.loads(row.data)
        found[told["word"]] = told["count"]
        if sum(found.values()) == wanted:
            return found
    raise SystemExit(f"only {sum(found.values())} of {wanted} words were counted in time")


def events_of(group: unisono.sync.SyncGroup, query: StreamingQuery) -> Iterator[object]:
    """What is said in a group, for some time at most, and while the query is well."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if (failure := query.exception()) is not None:
            raise failure
        yield from group.receive_many(timeout_seconds=0.5)


@contextmanager
def gateway(group: str, folder: Path, realm: str) -> Iterator[str]:
    """A gateway of a group in a process of its own, and its address."""
    command = [sys.executable, "-m", "unisono", "gateway", group, "--data", str(folder / group), "--realm", realm]
    command += ["--listen", "127.0.0.1:0", "--set", f"suspicion={SUSPICION}", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, process.stdout as said:
        try:
            yield json.loads(said.readline())["address"]
        finally:
            process.terminate()
            said.read()


def until(condition: Any) -> None:
    """Wait until everybody is there."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("the members did not find each other; `unisono doctor lines` says why")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
