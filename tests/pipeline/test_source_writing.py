"""What the sink sends of a row, what it calls a query, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow
from pyspark.sql.types import StructType

from tests.gateways import logged, running, until
from unisono.errors import SettingError, UnisonoError
from unisono.pipeline.source.datasource import UnisonoDataSource
from unisono.pipeline.source.sink import GroupWriter, SinkOptions, StagedRows, identify

DATA = StructType().add("data", "string")
PAIR = StructType().add("word", "string").add("count", "long")


def writer(address: str, schema: StructType = DATA, **options: str) -> GroupWriter:
    given = {"gateway": address, "group": "g", "query": "counts", "patience": "5s", **options}
    return UnisonoDataSource(given).streamWriter(schema, False)


def text(*values: str | None) -> pyarrow.RecordBatch:
    return pyarrow.RecordBatch.from_pydict({"data": list(values)}, pyarrow.schema([("data", pyarrow.string())]))


def test_a_batch_goes_out_in_the_order_of_its_partitions_and_once(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        sink = writer(gateway.address)
        first = sink.write(iter([text("a", "b"), text("c")]))
        second = sink.write(iter([text("d")]))
        first.partition, second.partition = 1, 0
        sink.commit([first, None, second], 0)
        sink.commit([sink.write(iter([text("another order of the same batch")]))], 0)
        thrown_away = sink.write(iter([text("never sent")]))
        sink.abort([thrown_away, None], 1)
        sink.commit([sink.write(iter([text("e")])), StagedRows(1, *_empty(sink))], 1)
        until(lambda: len(logged(gateway.address)) == 6)
        rows = [(entry.batch, entry.row, entry.data) for entry in logged(gateway.address) if entry.query == "counts"]
        assert rows == [(0, 0, b"d"), (0, 1, b"a"), (0, 2, b"b"), (0, 3, b"c"), (1, 0, b"e")]
        assert list((tmp_path / "staging").iterdir()) == []


def _empty(sink: GroupWriter) -> tuple[str, int]:
    staged = sink.write(iter([]))
    return staged.name, staged.count


def test_columns_are_sent_as_json_where_that_is_asked_for(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        sink = writer(gateway.address, PAIR, encode="json")
        rows = pyarrow.RecordBatch.from_pylist([{"word": "grün", "count": 3}, {"word": None, "count": 1}])
        sink.commit([sink.write(iter([rows]))], 0)
        until(lambda: len(logged(gateway.address)) == 3)
        sent = [json.loads(entry.data) for entry in logged(gateway.address) if entry.query]
        assert sent == [{"word": "grün", "count": 3}, {"word": None, "count": 1}]


def test_a_row_without_data_or_too_large_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        with pytest.raises(UnisonoError, match="a row has no `data`"):
            writer(gateway.address).write(iter([text("a", None)]))
        gateway.gateway._sink._welcome = type(gateway.gateway._sink._welcome)("gateway", 3)
        with pytest.raises(UnisonoError, match="row 1 of this task has 4 bytes and 'g' takes 3"):
            writer(gateway.address).write(iter([text("abc", "abcd")]))


@pytest.mark.parametrize(
    ("schema", "options", "complaint"),
    [
        (PAIR, {}, "a row is sent as the bytes of its column `data`, and there are word, count"),
        (StructType().add("data", "long"), {}, "the column is binary or string, not bigint"),
        (StructType().add("data", "string").add("x", "long"), {}, "only the column `data` is sent"),
        (DATA, {"encode": "xml"}, "expected data or json, got 'xml'"),
        (DATA, {"patience": "long"}, "patience: expected a number with a unit"),
        (DATA, {"family": "deliver"}, "unknown option for writing rows into a group"),
        (DATA, {"gateway": "nowhere"}, "expected host:port"),
        (DATA, {"query": "x" * 65}, "query: a name has at most 64 bytes"),
        (DATA, {"group": ""}, "group: this option is needed"),
    ],
)
def test_a_wrong_option_is_refused(schema: StructType, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(UnisonoError, match=complaint):
        writer("127.0.0.1:1", schema, **options)


def test_a_query_has_a_name_that_stays_the_same(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id": "4f7a"}')

    def options(query: str | None, checkpoint: str | None) -> SinkOptions:
        return SinkOptions("a:1", "g", False, 1.0, query, checkpoint)

    assert identify(options(None, str(tmp_path))) == ("4f7a", "4f7a")
    assert identify(options(None, tmp_path.as_uri())) == ("4f7a", "4f7a")
    assert identify(options("counts", str(tmp_path))) == ("counts", "4f7a")
    assert identify(options("counts", "hdfs://somewhere/checkpoint")) == ("counts", "")
    with pytest.raises(SettingError, match="the identifier of the checkpoint at hdfs://somewhere cannot be read"):
        identify(options(None, "hdfs://somewhere"))
    with pytest.raises(SettingError, match="a query that starts again must be known as the same"):
        UnisonoDataSource({"gateway": "a:1", "group": "g"}).streamWriter(DATA, False)


def test_rows_are_written_as_a_stream_alone() -> None:
    with pytest.raises(UnisonoError, match=r"use df\.writeStream"):
        UnisonoDataSource({}).writer(DATA, False)
