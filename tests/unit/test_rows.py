"""Rows of a Spark query among the messages of a group: each is had once, however often its gateway repeats it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.events import Excluded, Message
from unisono.identity import ProcessId, ViewId
from unisono.rows import MAGIC, Row, RowFilter, check_query, decode, encode, rows, rows_of

GATEWAY = ProcessId("gateway", 1)


def message(data: bytes, source: ProcessId = GATEWAY) -> Message:
    return Message(source, 1, 1, 1, data, None, 0)


def row(batch: int, number: int, query: str = "counts", count: int = 10) -> Message:
    return message(encode(query, batch, number, count, f"{batch}.{number}".encode()))


def places(had: RowFilter, messages: list[Message]) -> list[tuple[int, int]]:
    return [(taken.batch, taken.number) for taken in rows_of(messages, had)]


@given(st.text(max_size=16), st.integers(0, 1 << 63), st.integers(0, 1 << 31), st.binary(max_size=40))
def test_a_row_is_read_back_from_its_message(query: str, batch: int, number: int, data: bytes) -> None:
    assert decode(encode(query, batch, number, number + 1, data)) == Row(query, batch, number, number + 1, data)


@given(st.binary(max_size=60))
def test_no_other_message_is_taken_for_a_row(data: bytes) -> None:
    assert decode(data) is None
    assert decode(MAGIC + data) is None


def test_a_damaged_header_is_no_row() -> None:
    whole = encode("counts", 3, 4, 10, b"data")
    for place in range(len(whole) - len(b"data")):
        broken = bytearray(whole)
        broken[place] ^= 1
        assert decode(bytes(broken)) is None
    assert decode(whole[:20]) is None


def test_what_a_gateway_repeats_is_dropped() -> None:
    had = RowFilter()
    first = [row(0, 0), row(0, 1), row(1, 0), row(1, 1)]
    again = [row(0, 1), row(1, 0), row(1, 1), row(1, 2), row(2, 0)]
    assert places(had, first + again) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert (had.taken, had.repeated) == (6, 3)


def test_the_rest_of_a_killed_gateway_may_come_after_its_next_life_began() -> None:
    had = RowFilter()
    late = [row(1, 2), row(1, 3)]
    assert places(had, [row(1, 0), row(1, 1), row(1, 0), row(1, 1), row(1, 2), *late, row(1, 3), row(2, 0)]) == [
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 0),
    ]


def test_what_a_member_missed_is_taken_when_it_is_repeated_also_after_later_rows() -> None:
    had = RowFilter()
    before = [row(0, number) for number in range(10)] + [row(1, 0), row(1, 1)]
    missed = [row(1, number) for number in range(2, 10)] + [row(2, number) for number in range(10)]
    later = [row(3, number) for number in range(4)]
    repeated = before + missed + later
    assert len(places(had, before + later)) == 16
    assert places(had, repeated) == [(1, number) for number in range(2, 10)] + [(2, number) for number in range(10)]
    assert places(had, repeated) == []


def test_what_is_remembered_is_bounded() -> None:
    had = RowFilter()
    for batch in range(0, 4000, 2):
        places(had, [row(batch, number) for number in range(0, 10, 2)])  # no batch is ever whole
    assert len(had.save()) < 10_000
    assert places(had, [row(0, 1), row(3998, 0), row(3998, 1)]) == [(3998, 1)]


def test_who_comes_in_the_middle_of_a_batch_gets_what_follows() -> None:
    had = RowFilter()
    repeated = [row(3, 0), row(4, 0), row(4, 6)]
    assert places(had, [row(4, 5), row(4, 6), *repeated, row(4, 7), row(5, 0)]) == [(4, 5), (4, 6), (4, 7), (5, 0)]


def test_rows_of_one_batch_may_come_in_another_order() -> None:
    numbers = list(range(1, 200))
    random.Random(5).shuffle(numbers)
    had = RowFilter()
    sent = [row(0, 0, count=200), *(row(0, number, count=200) for number in [*numbers, *numbers])]
    assert sorted(places(had, sent)) == [(0, number) for number in range(200)]


def test_queries_do_not_disturb_one_another_and_the_oldest_is_forgotten() -> None:
    had = RowFilter(queries_limit=2)
    assert len(list(rows_of([row(7, 0, "a"), row(0, 0, "b"), row(7, 0, "a"), row(0, 0, "c")], had))) == 3
    assert [found.query for found in rows_of([row(7, 0, "a"), row(0, 0, "c"), row(0, 0, "b")], had)] == ["b"]


def test_what_was_had_survives_in_what_was_saved() -> None:
    had = RowFilter()
    places(had, [row(2, 0), row(2, 1), row(0, 0, "other")])
    next_life = RowFilter()
    next_life.load(had.save())
    assert places(next_life, [row(2, 0), row(2, 1), row(2, 2), row(0, 0, "other"), row(1, 9)]) == [(2, 2)]


def test_rows_passes_over_what_is_none() -> None:
    async def group() -> AsyncIterator[object]:
        for event in (Excluded(ViewId(1, GATEWAY, 1)), message(b"hello"), row(0, 0), row(0, 0), row(0, 1)):
            yield event

    async def taken() -> list[Row]:
        return [found async for found in rows(group())]

    found = asyncio.run(taken())
    assert [(one.number, one.data, one.gateway) for one in found] == [(0, b"0.0", GATEWAY), (1, b"0.1", GATEWAY)]


def test_the_name_of_a_query_is_checked() -> None:
    assert check_query("counts") == "counts"
    with pytest.raises(ValueError, match="query: a name cannot be empty"):
        check_query("")
