"""The data source reads a retained log: offsets, limits, what is gone, and what its options may say."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from unisono.errors import LogError, LogGone, SettingError, TraceError
from unisono.pipeline.source.datasource import UnisonoDataSource
from unisono.pipeline.source.grouped import GroupColumns
from unisono.pipeline.source.logs import LogBatchReader, LogStreamReader, Range
from unisono.pipeline.source.options import Options, ReadOptions
from unisono.trace.group_log import Entry, encode


class FakeLog:
    """A log in memory that begins at an offset, and loses its beginning when it is told to."""

    def __init__(self, payloads: list[bytes], begin: int = 0) -> None:
        self.payloads = payloads
        self.begin = begin
        self.trim_at_read: int | None = None

    def __call__(self, address: str) -> FakeLog:
        return self

    def __enter__(self) -> FakeLog:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def bounds(self) -> tuple[int, int]:
        return self.begin, len(self.payloads)

    def read(self, offset: int, limit_bytes: int) -> list[bytes]:
        if self.trim_at_read is not None:
            self.begin, self.trim_at_read = self.trim_at_read, None
        if offset < self.begin:
            raise LogGone(offset, self.begin)
        found: list[bytes] = []
        for payload in self.payloads[offset:]:
            if found and sum(map(len, found)) + len(payload) > limit_bytes:
                break
            found.append(payload)
        return found


class Lengths:
    """Columns that stand for themselves: an offset and a length a payload."""

    def schema(self) -> Any:
        raise NotImplementedError

    def batches(self, offset: int, payloads: list[bytes]) -> Iterator[Any]:
        yield from ((offset + place, len(payload)) for place, payload in enumerate(payloads))


def stream(log: FakeLog, **options: Any) -> LogStreamReader:
    return LogStreamReader(Lengths(), ReadOptions("here:1", **options), log)


def sizes(*counts: int) -> list[bytes]:
    return [b"x" * count for count in counts]


def test_a_stream_begins_where_the_log_does_or_where_it_is_told_to() -> None:
    log = FakeLog(sizes(1, 1, 1, 1), begin=2)
    assert stream(log).initialOffset() == {"offset": 2}
    assert stream(log, starting="latest").initialOffset() == {"offset": 4}
    assert stream(log, starting=3).initialOffset() == {"offset": 3}
    with pytest.raises(LogError, match="startingOffset is 1, and the log at here:1 has offsets 2 to 4"):
        stream(log, starting=1).initialOffset()


def test_a_batch_keeps_to_its_limits_and_all_available_to_none() -> None:
    log = FakeLog(sizes(4, 4, 4, 4, 100, 4))
    rows = stream(log, offsets_limit=2)
    assert rows.getDefaultReadLimit() == ReadMaxRows(2)
    assert rows.latestOffset({"offset": 1}, ReadMaxRows(2)) == {"offset": 3}
    assert rows.latestOffset({"offset": 1}, ReadAllAvailable()) == {"offset": 6}
    small = stream(log, bytes_limit=10)
    assert small.getDefaultReadLimit() == ReadMaxBytes(10)
    assert small.latestOffset({"offset": 0}, ReadMaxBytes(10)) == {"offset": 2}
    assert small.latestOffset({"offset": 4}, ReadMaxBytes(10)) == {"offset": 5}, "a large payload comes alone"
    both = stream(log, offsets_limit=3, bytes_limit=10)
    assert both.latestOffset({"offset": 0}, ReadMaxRows(3)) == {"offset": 2}
    assert stream(log).latestOffset({"offset": 6}, ReadAllAvailable()) == {"offset": 6}


def test_available_now_ends_at_what_was_there_when_it_began() -> None:
    log = FakeLog(sizes(1, 1))
    reader = stream(log, offsets_limit=1)
    reader.prepareForTriggerAvailableNow()
    log.payloads = sizes(1, 1, 1, 1)
    assert reader.latestOffset({"offset": 0}, ReadMaxRows(1)) == {"offset": 1}
    assert reader.latestOffset({"offset": 1}, ReadMaxRows(1)) == {"offset": 2}
    assert reader.latestOffset({"offset": 2}, ReadMaxRows(1)) == {"offset": 2}
    assert reader.reportLatestOffset() == {"offset": 4}


def test_a_range_is_split_and_read_whole() -> None:
    log = FakeLog(sizes(1, 2, 3, 4, 5, 6, 7))
    reader = stream(log, partitions=3)
    parts = reader.partitions({"offset": 1}, {"offset": 6})
    assert [part.value for part in parts] == [(1, 2), (2, 4), (4, 6)]
    rows: list[Any] = [row for part in parts for row in reader.read(part)]
    assert rows == [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert reader.partitions({"offset": 6}, {"offset": 6}) == []
    batch = LogBatchReader(Lengths(), ReadOptions("here:1", starting=5), log)
    assert [part.value for part in batch.partitions()] == [(5, 7)]


def test_what_was_trimmed_before_it_was_read_is_an_error_or_passed_over_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = FakeLog(sizes(1, 1, 1, 1, 1), begin=3)
    with pytest.raises(LogError, match=r"offsets 1 to 2 of the log at here:1 are gone.*failOnDataLoss"):
        stream(log).latestOffset({"offset": 1}, ReadAllAvailable())
    with pytest.raises(LogError, match="are gone"):
        stream(log).partitions({"offset": 1}, {"offset": 5})
    careless = stream(log, fail_on_data_loss=False)
    assert careless.latestOffset({"offset": 1}, ReadAllAvailable()) == {"offset": 5}
    assert [part.value for part in careless.partitions({"offset": 1}, {"offset": 5})] == [(3, 5)]
    assert "going on at 3 without them" in caplog.text
    log.trim_at_read = 4
    assert list(careless.read(Range(3, 5))) == [(4, 1)], "trimmed between planning and reading"
    log.begin, log.trim_at_read = 3, 4
    with pytest.raises(LogError, match="offsets 3 to 3"):
        list(stream(log).read(Range(3, 5)))


def test_a_log_that_ends_before_the_checkpoint_is_another_log() -> None:
    with pytest.raises(LogError, match="another log; start the query with a new checkpoint"):
        stream(FakeLog(sizes(1))).latestOffset({"offset": 5}, ReadAllAvailable())
    with pytest.raises(LogError, match="ends before offset 5"):
        list(stream(FakeLog(sizes(1))).read(Range(0, 5)))


def test_a_reader_goes_to_the_workers_without_its_connection() -> None:
    reader = stream(FakeLog(sizes(1, 1)))
    reader.initialOffset()
    again = pickle.loads(pickle.dumps(reader))
    assert again._log is None
    assert list(again.read(Range(0, 2))) == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "say what to read"),
        ({"gateway": "a:1", "collector": "b:2"}, "not both"),
        ({"gateway": "a:1"}, r"group: this option is needed: .option\('group', 'orders'\)"),
        ({"gateway": "a:1", "group": "g", "family": "deliver"}, "family: unknown option for reading a group"),
        ({"gateway": "a:1", "group": "g", "partition": "2"}, 'did you mean "partitions"'),
        ({"gateway": "a:1", "group": "g", "startingOffset": "soon"}, "expected earliest, latest or a number"),
        ({"gateway": "a:1", "group": "g", "maxBytesPerTrigger": "much"}, "expected a number above 0 such as 8MiB"),
        ({"gateway": "a:1", "group": "g", "partitions": "0"}, "expected a number above 0"),
        ({"gateway": "a:1", "group": "g", "failOnDataLoss": "perhaps"}, "expected true or false"),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_do(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        UnisonoDataSource(given).schema()


def test_options_are_read_whatever_their_case() -> None:
    given = {"GATEWAY": "a:1", "group": "g", "maxbytespertrigger": "1MiB", "MAXOFFSETSPERTRIGGER": "7", "path": "x"}
    assert Options(given).reading("gateway") == ReadOptions("a:1", offsets_limit=7, bytes_limit=1 << 20)


def test_an_event_of_a_group_is_a_row() -> None:
    told = Entry("message", "g", "anna", 7, 3, 99, "1/anna~7/1", b"hello")
    (batch,) = GroupColumns("g").batches(41, [encode(told)])
    assert batch.to_pylist() == [
        {
            "offset": 41,
            "kind": "message",
            "group": "g",
            "source": "anna",
            "incarnation": 7,
            "number": 3,
            "timestamp": 99,
            "view": "1/anna~7/1",
            "data": b"hello",
            "query": None,
            "batch": None,
            "row": None,
        }
    ]
    with pytest.raises(TraceError, match="this gateway is in group 'g', not 'other'"):
        list(GroupColumns("other").batches(0, [encode(told)]))
    with pytest.raises(TraceError, match="not the log of a gateway"):
        list(GroupColumns("g").batches(0, [b"something else"]))
