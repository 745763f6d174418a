"""Reports: rows come back as they were; whatever else comes is refused by name."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pyarrow
import pytest
from msgspec import structs

from tests.unit.trace_samples import LARGEST, sample_rows
from unisono.errors import BadReport
from unisono.trace import reports
from unisono.trace.columns import COLUMNS, Plain, Runs, Spans, unpack
from unisono.trace.parquet import arrow_schema
from unisono.trace.reports import REPORT_LIMIT_BYTES, decode, encode, make_report, record_batches, rows
from unisono.trace.schema import FAMILIES, SCHEMA_VERSION, AnyRow, family_of


def stamped(count: int = 3) -> list[AnyRow]:
    """Rows of one life of one process."""
    found = sample_rows(count)
    for position, row in enumerate(found):
        row.run, row.process, row.incarnation, row.host, row.position = "r", "a", LARGEST, "h", position
    return found


def plain(count: int = 3) -> list[Any]:
    """A report as it is on the wire, to be spoiled."""
    found: list[Any] = msgspec.msgpack.decode(encode(make_report(stamped(count), 7)))
    return found


def test_rows_come_back_in_their_order() -> None:
    report = decode(encode(make_report(stamped(50), 7)))
    assert str(report.id) == f"report 7 of a~{LARGEST:x} in run 'r'"
    assert (report.host, report.count) == ("h", len(stamped(50)))
    assert rows(report) == stamped(50)


def test_every_family_is_among_them() -> None:
    assert set(make_report(stamped(), 0).tables) == set(FAMILIES)


def test_what_repeats_is_there_once() -> None:
    kinds = make_report(stamped(1000), 0).tables["deliver"].columns[COLUMNS["deliver"].index("kind")]
    assert kinds == Runs(["DELIVER"], [1000])
    assert len(encode(make_report(stamped(1000), 0))) < 1000 * 60


def test_columns_of_every_form_are_equal() -> None:
    assert unpack(Plain([1, 2, 3])) == unpack(Spans([1, 3], [2, 1])) == unpack(Runs([1, 2, 3], [1, 1, 1]))
    assert unpack(Runs(["a", "b"], [2, 1])) == ["a", "a", "b"]


def test_batches_have_the_columns_of_the_tables() -> None:
    report = make_report(stamped(20), 7)
    report.tables["send"].columns = [
        Spans([2, 100], [15, 5]) if name == "number" else column
        for name, column in zip(COLUMNS["send"], report.tables["send"].columns, strict=True)
    ]
    batches = record_batches(decode(encode(report)))
    assert list(batches) == list(report.tables)
    for family, batch in batches.items():
        assert batch.schema.equals(arrow_schema(family), check_metadata=True)
        kept = [row for row in rows(report) if family_of(row) == family]
        assert [row["position"] for row in batch.to_pylist()] == [row.position for row in kept]
    assert isinstance(batches["view"], pyarrow.RecordBatch)
    assert batches["view"].to_pylist()[0]["start"][1] == {"source": "ä\0", "incarnation": 2, "sequence": 7, "number": 3}
    assert batches["send"].column("number").to_pylist()[14:16] == [16, 100]
    statistic = batches["statistic"].to_pylist()[0]
    assert statistic["values"][:2] == [
        {"name": "open", "number": 3.0, "text": None},
        {"name": "state", "number": None, "text": "busy"},
    ]


def spoil(change: Any) -> bytes:
    report = plain()
    change(report)
    return msgspec.msgpack.encode(report)


def put(*path: Any) -> Any:
    """Put the last of these at the place that the others say."""

    def change(report: Any) -> None:
        for key in path[:-2]:
            report = report[key]
        report[path[-2]] = path[-1]

    return change


SEQUENCE = COLUMNS["send"].index("sequence")
KIND = COLUMNS["send"].index("kind")
POSITION = COLUMNS["send"].index("position")
START = COLUMNS["view"].index("start")
VALUES = COLUMNS["statistic"].index("values")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put(0, 4), "other schema"),
        (put(0, "x"), "unreadable"),
        (put(1, ""), "bad run"),
        (put(1, "a\nb"), "bad run"),
        (put(1, "x" * 200), "bad run"),
        (put(2, "x" * 65), "bad process"),
        (put(3, 0), "bad incarnation"),
        (put(3, 1 << 63), "bad incarnation"),
        (put(4, "h" * 65), "bad host"),
        (put(5, -1), "bad number"),
        (put(5, 1.5), "unreadable"),
        (put(6, {}), "empty"),
        (put(6, "oracle", [1, []]), "unknown family"),
        (put(6, "send", 0, 0), "too many rows"),
        (put(6, "send", 0, 10**9), "too many rows"),
        (put(6, "send", 0, 2), "columns do not match"),
        (put(6, "send", 1, []), "columns do not match"),
        (put(6, "send", 1, SEQUENCE, [0, [1, 2]]), "columns do not match"),
        (put(6, "send", 1, SEQUENCE, [0, [1, 2, "3"]]), "bad value"),
        (put(6, "send", 1, SEQUENCE, [0, [1, 2, None]]), "bad value"),
        (put(6, "send", 1, SEQUENCE, [0, [1, 2, 1 << 63]]), "bad value"),
        (put(6, "send", 1, SEQUENCE, [9, [1, 2, 3]]), "unreadable"),
        (put(6, "send", 1, SEQUENCE, [1, [1, 2], [3]]), "columns do not match"),
        (put(6, "send", 1, SEQUENCE, [1, [1, 2], [2, 10**6]]), "columns do not match"),
        (put(6, "send", 1, SEQUENCE, [1, [1, 2], [2, -1]]), "unreadable"),
        (put(6, "send", 1, SEQUENCE, [2, [1, 5], [3]]), "columns do not match"),
        (put(6, "send", 1, SEQUENCE, [2, [(1 << 63) - 1], [3]]), "bad value"),
        (put(6, "send", 1, KIND, [2, [1], [3]]), "bad value"),
        (put(6, "send", 1, KIND, [0, [1, 2, 3]]), "bad value"),
        (put(6, "send", 1, POSITION, [0, [5, 4, 6]]), "positions"),
        (put(6, "send", 1, POSITION, [0, [-5, 4, 6]]), "positions"),
        (put(6, "send", 1, POSITION, [0, [0, 100, 101]]), "positions"),
        (put(6, "view", 1, START, [1, [[["a", (1 << 64) - 1, 1, 1]]], [2]]), "bad value"),
        (put(6, "view", 1, START, [1, [[["a"]]], [2]]), "bad value"),
        (put(6, "statistic", 1, VALUES, [0, [[["a", float("nan"), None]]]]), "bad value"),
    ],
)
def test_what_is_no_report_is_refused_by_name(change: Any, reason: str) -> None:
    with pytest.raises(BadReport) as refused:
        decode(spoil(change))
    assert refused.value.reason == reason
    assert reason in str(refused.value)


def test_a_short_report_may_not_become_a_long_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "EXPANDED_LIMIT_BYTES", 10_000)
    report = make_report(stamped(2000), 7)
    decode(encode(make_report(stamped(100), 7)))
    with pytest.raises(BadReport, match="as rows it takes more"):
        decode(encode(report))
    with pytest.raises(BadReport, match="too large"):
        decode(bytes(REPORT_LIMIT_BYTES + 1))


def test_what_a_process_wrote_itself_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "ROWS_LIMIT", 10)
    monkeypatch.setattr(reports, "REPORT_LIMIT_BYTES", 100)
    monkeypatch.setattr(reports, "EXPANDED_LIMIT_BYTES", 100)
    data = encode(make_report(stamped(50), 7))
    with pytest.raises(BadReport, match="too large"):
        decode(data)
    assert rows(decode(data, limited=False)) == stamped(50)


def test_other_versions_are_told_apart_whatever_they_hold() -> None:
    with pytest.raises(BadReport, match=f"version 99, this collector takes {SCHEMA_VERSION}"):
        decode(msgspec.msgpack.encode([99, {"who": "knows"}]))


def test_bytes_of_any_kind_are_refused_or_taken_whole() -> None:
    draw = random.Random(3)
    data = encode(make_report(stamped(20), 7))
    taken = 0
    for _ in range(700):
        spoiled = bytearray(data)
        for _ in range(draw.randint(1, 3)):
            spoiled[draw.randrange(len(spoiled))] = draw.randrange(256)
        if draw.random() < 0.2:
            del spoiled[draw.randrange(len(spoiled)) :]
        try:
            report = decode(bytes(spoiled))
        except BadReport:
            continue
        taken += 1
        assert len(rows(report)) == report.count
        assert sum(batch.num_rows for batch in record_batches(report).values()) == report.count
    assert taken, "some damage only changes a value"
    for nested in (b"\x91" * 100_000, b"\x81\xa1a" * 100_000):
        with pytest.raises(BadReport, match="unreadable"):
            decode(nested)


def test_a_report_is_a_view_of_its_rows() -> None:
    row = stamped()[0]
    assert rows(make_report([row], 0)) == [row]
    assert structs.asdict(rows(make_report([row], 0))[0])["host"] == "h"
