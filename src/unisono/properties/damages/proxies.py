"""Messages that others sent for a process, handed over otherwise than they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.trace.schema import ProxyRow

if TYPE_CHECKING:
    from random import Random


def _rows_of(rows: Rows, kind: str) -> list[tuple[int, ProxyRow]]:
    return [(place, row) for place, row in enumerate(rows) if isinstance(row, ProxyRow) and row.kind == kind]


@damage("An application gets a second copy of what was sent for another.", "D11")
def handed_twice(rows: Rows, random: Random) -> Rows | None:
    chosen = one_of(random, _rows_of(rows, "HANDED"))
    if chosen is None:
        return None
    place, row = chosen
    rows.insert(place + 1, replace(row))
    return rows


@damage("What was handed over for a process was never asked for.", "D11")
def never_asked(rows: Rows, random: Random) -> Rows | None:
    handed = {(row.group, row.origin, row.origin_incarnation, row.number) for _, row in _rows_of(rows, "HANDED")}
    asked = [
        place
        for place, row in _rows_of(rows, "ASKED")
        if (row.group, row.process, row.incarnation, row.number) in handed
    ]
    chosen = one_of(random, asked)
    if chosen is None:
        return None
    del rows[chosen]
    return rows


@damage("What was handed over for a process is not what it asked for.", "D11")
def handed_otherwise(rows: Rows, random: Random) -> Rows | None:
    chosen = one_of(random, _rows_of(rows, "HANDED"))
    if chosen is None:
        return None
    place, row = chosen
    rows[place] = replace(row, body=row.body ^ 1)
    return rows


@damage("Two messages of one who asked are handed over in the wrong order.", "D11")
def handed_out_of_order(rows: Rows, random: Random) -> Rows | None:
    found = _rows_of(rows, "HANDED")
    pairs = [
        (place, other)
        for place, row in found
        for other, later in found
        if _stream(row) == _stream(later) and place < other and later.service not in ("UU", "ALF")
    ]
    chosen = one_of(random, pairs)
    if chosen is None:
        return None
    first, second = chosen
    one, other = rows[first], rows[second]
    assert isinstance(one, ProxyRow)
    assert isinstance(other, ProxyRow)
    rows[first] = replace(one, number=other.number, size=other.size, body=other.body)
    rows[second] = replace(other, number=one.number, size=one.size, body=one.body)
    return rows


def _stream(row: ProxyRow) -> tuple[object, ...]:
    return (row.group, row.process, row.incarnation, row.origin, row.origin_incarnation)
