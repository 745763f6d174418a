"""States that are not what they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.trace.schema import MembershipRow

if TYPE_CHECKING:
    from random import Random


@damage("a process has another state than the others after the same messages", "D10")
def changed_state(rows: Rows, random: Random) -> Rows | None:
    told = [(place, row) for place, row in enumerate(rows) if isinstance(row, MembershipRow) and row.kind == "STATE"]
    alike = [
        (place, row)
        for place, row in told
        if any(_where(other) == _where(row) and other.process != row.process for _, other in told)
    ]
    chosen = one_of(random, alike)
    if chosen is None:
        return None
    place, row = chosen
    rows[place] = replace(row, number=(row.number or 0) ^ 1)
    return rows


def _where(row: MembershipRow) -> tuple[object, ...]:
    return (row.group, row.view, row.sequence, row.reason)
