"""Every type of statistics that document 000 reserves is written by the engines, in the family that is said."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.worlds import run_world, scenario
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.trace.schema import AnyRow, StatisticRow, family_of
from unisono.trace.statistics import DOCUMENT_TYPES
from unisono.units import SECOND


def rows() -> Iterator[AnyRow]:
    """Senders that come and go while messages are lost, and control processes."""
    yield from run_world(draw(load("role-churn", ["duration=5s", "settle=5s"]), 3)).rows
    yield from run_world(scenario(members=4, duration=8 * SECOND, settle=SECOND, control=True)).rows


def test_every_reserved_type_is_written_where_it_is_said() -> None:
    found: dict[str, set[str]] = {}
    statistics: dict[str, StatisticRow] = {}
    for row in rows():
        if row.kind in DOCUMENT_TYPES:
            found.setdefault(row.kind, set()).add(family_of(row))
            if isinstance(row, StatisticRow):
                statistics[row.kind] = row
    assert found == {kind: {family} for kind, family in DOCUMENT_TYPES.items()}
    named = {kind: {value.name for value in row.values} for kind, row in statistics.items()}
    assert named == {
        "P_INIT": {"service", "role", "protocol"},
        "COORD_MEMB": {"coordinators"},
        "LOCAL_MEMB": {"children"},
        "NO_MRA": {"phase"},
        "MC": {"view", "members", "leader"},
        "SPONSOR": {"sponsor", "tries"},
        "SENT_RTR": {"source", "sequences", "tries"},
    }
    assert all((value.number is None) != (value.text is None) for row in statistics.values() for value in row.values)
