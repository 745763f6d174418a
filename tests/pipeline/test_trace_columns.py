"""Tables by column and in pieces: the same rows and the same story, however they are cut."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from unisono.pipeline.pages import trace_columns
from unisono.pipeline.pages.evidence import About, Between, Positions, Repairs, answers
from unisono.pipeline.pages.story import story
from unisono.pipeline.pages.trace_columns import CLOCK, MOMENT, TRUTH, TraceTables, distinct
from unisono.properties.generator import good_trace
from unisono.properties.violation import moment
from unisono.trace.parquet import read_tables, write_tables
from unisono.trace.schema import FAMILIES, AnyRow, DeliverRow, RepairRow, SendRow, family_of


@pytest.fixture
def rows() -> list[AnyRow]:
    return good_trace(Random(11), events=120, groups=("market", "yard"))


@pytest.fixture
def tables(rows: list[AnyRow], tmp_path: Path) -> TraceTables:
    write_tables(tmp_path, rows)
    return TraceTables(tmp_path)


def test_pieces_have_the_values_of_the_rows(
    rows: list[AnyRow], tables: TraceTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_columns, "PIECE_ROWS", 7)
    for family in FAMILIES:
        mine = [row for row in rows if family_of(row) == family]
        found = []
        for piece in tables.pieces(family, ["process", "incarnation", "view", "position", MOMENT, CLOCK]):
            assert len(piece["process"]) <= 7
            columns = zip(*(piece[name].tolist() for name in piece), strict=True)
            found += [dict(zip(piece, values, strict=True)) for values in columns]
        assert [(tables.words[one["process"]], one["incarnation"], one["position"], one[MOMENT]) for one in found] == [
            (row.process, row.incarnation, row.position, moment(row)) for row in mine
        ]
        assert [None if one["view"] < 0 else tables.words[one["view"]] for one in found] == [row.view for row in mine]
        assert [one[CLOCK] == TRUTH for one in found] == [row.truth is not None for row in mine]


def test_the_story_does_not_depend_on_how_tables_are_cut(
    rows: list[AnyRow], tables: TraceTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = story(tables)
    monkeypatch.setattr(trace_columns, "PIECE_ROWS", 13)
    assert _plain(story(tables)) == _plain(whole)
    parts = tmp_path / "parts"
    for family in FAMILIES:
        mine = [row for row in rows if family_of(row) == family]
        for index, some in enumerate((mine[: len(mine) // 3], mine[len(mine) // 3 :])):
            folder = tmp_path / f"{family}-{index}"
            folder.mkdir()
            write_tables(folder, some)
            (parts / f"{family}.parquet").mkdir(parents=True, exist_ok=True)
            (folder / f"{family}.parquet").rename(parts / f"{family}.parquet" / f"part-{index}.parquet")
    assert read_tables(parts) == read_tables(tmp_path)
    assert _plain(story(TraceTables(parts))) == _plain(whole)


def _plain(told: object) -> object:
    """The same as dictionaries and lists, whose order within a dictionary does not count."""
    if isinstance(told, dict):
        return {str(key): _plain(value) for key, value in told.items()}
    if isinstance(told, list | tuple):
        return [_plain(value) for value in told]
    return _plain(msgspec.structs.asdict(told)) if isinstance(told, msgspec.Struct) else told


def test_the_story_counts_what_the_rows_say(rows: list[AnyRow], tables: TraceTables) -> None:
    told = story(tables)
    assert [group.name for group in told.groups] == ["market", "yard"]
    for group in told.groups:
        mine = [row for row in rows if row.group == group.name]
        sends = [row for row in mine if isinstance(row, SendRow)]
        heard = [row for row in mine if isinstance(row, DeliverRow)]
        assert (group.sent, group.sent_bytes) == (len(sends), sum(row.size for row in sends))
        assert (group.delivered, group.delivered_bytes) == (len(heard), sum(row.size for row in heard))
        for lane in group.lanes:
            counted = Counter(
                row.kind
                for row in rows
                if (row.process, row.incarnation) == (lane.process, lane.incarnation) and row.group in ("", group.name)
            )
            assert lane.counts == counted
        assert group.latencies is None or [group.latencies.least, *group.latencies.percentiles.values()] == _naive(
            sends, heard
        )


def _naive(sends: list[SendRow], heard: list[DeliverRow]) -> list[int]:
    """The least latency to the last member, and the percentiles, one message after the other."""
    found = []
    for send in {(row.process, row.incarnation, row.number): row for row in reversed(sends)}.values():
        name = (send.process, send.incarnation, send.number)
        last = [moment(row) for row in heard if (row.source, row.source_incarnation, row.number) == name]
        if last:
            found.append(max(last) - moment(send))
    found.sort()
    return [found[0], *(found[(len(found) * percent + 99) // 100 - 1] for percent in (50, 90, 99))]


def test_questions_get_the_rows_that_they_ask_for(rows: list[AnyRow], tables: TraceTables) -> None:
    delivery = next(row for row in rows if isinstance(row, DeliverRow))
    life = (delivery.process, delivery.incarnation)
    message = (delivery.source, delivery.source_incarnation, delivery.number)
    around = Positions(life, delivery.position - 3, delivery.position + 3)
    about = About(delivery.group, message)
    early = Between(0, moment(rows[len(rows) // 2]), most=5)
    released = next(row for row in rows if isinstance(row, RepairRow) and row.kind == "GC")
    source = (released.source, released.source_incarnation)
    gone = Repairs("GC", released.group, source, released.first, released.last, most=100)
    found = answers(tables, [around, about, early, gone])
    assert sorted(row.position for row in found[around]) == sorted(
        row.position
        for row in rows
        if (row.process, row.incarnation) == life and abs(row.position - delivery.position) <= 3
    )
    assert {row.kind for row in found[about]} == {"SEND", "DELIVER"}
    assert delivery in found[about]
    assert 0 < len(found[early]) <= 10
    assert released in found[gone]


def test_distinct_tells_rows_by_all_columns() -> None:
    columns = [np.array([3, 3, 3, 3]), np.array([1, 2, 1, 2]), np.array([7, 7, 8, 7])]
    keys, which = distinct(columns)
    assert [keys[place] for place in which.tolist()] == [(3, 1, 7), (3, 2, 7), (3, 1, 8), (3, 2, 7)]
    assert len(keys) == 3
