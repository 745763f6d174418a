"""Damages of timestamps: changed on the way, going back, or below what their sender knew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.reading import deliveries_in
from unisono.properties.promises import CLOCK_HELD, promised
from unisono.trace.schema import DeliverRow, GaugeRow, SendRow

if TYPE_CHECKING:
    from random import Random


def _grows(row: SendRow) -> bool:
    """Whether the timestamps of this sender are promised to grow."""
    return all(promised(row.service, property_id, "sender") for property_id in ("O3", "O8"))


def _sent_with(rows: Rows, index: int, timestamp: int) -> Rows:
    """A message has another timestamp from the beginning, and everywhere."""
    sent = rows[index]
    assert isinstance(sent, SendRow)
    rows[index] = replace(sent, timestamp=timestamp)
    name = (sent.group, sent.process, sent.incarnation, sent.number)
    for place, row in deliveries_in(rows):
        if (row.group, row.source, row.source_incarnation, row.number) == name:
            rows[place] = replace(row, timestamp=timestamp)
    return rows


@damage("One receiver sees another timestamp than the sender wrote.", "O8", "D1")
def forged_timestamp(rows: Rows, random: Random) -> Rows | None:
    found = one_of(random, [found for found in deliveries_in(rows) if promised(found[1].service, "O8", "receiver")])
    if found is None:
        return None
    index, row = found
    rows[index] = replace(row, timestamp=row.timestamp + random.choice((-1, 1)) * random.randint(1, 5))
    return rows


@damage("A source sends with a timestamp that is not above its last one.", "O8", "O3")
def decreasing_timestamp(rows: Rows, random: Random) -> Rows | None:
    last: dict[tuple[str, str, int], int] = {}
    candidates = []
    for index, row in enumerate(rows):
        if isinstance(row, SendRow) and _grows(row):
            member = (row.group, row.process, row.incarnation)
            if member in last:
                candidates.append((index, last[member]))
            last[member] = row.timestamp
    found = one_of(random, candidates)
    return None if found is None else _sent_with(rows, found[0], found[1] - random.randrange(3))


@damage("A process sends with a timestamp that is not above what it delivered.", "O3")
def sent_below_delivered(rows: Rows, random: Random) -> Rows | None:
    sent: dict[tuple[str, int], int] = {}
    heard: dict[tuple[str, int], int] = {}
    excused = set()
    candidates = []
    for index, row in enumerate(rows):
        life = (row.process, row.incarnation)
        if isinstance(row, GaugeRow) and row.name == CLOCK_HELD:
            excused.add(life)
        elif isinstance(row, DeliverRow):
            heard[life] = max(heard.get(life, 0), row.timestamp)
        elif isinstance(row, SendRow):
            if _grows(row) and life not in excused and heard.get(life, 0) > sent.get(life, 0):
                candidates.append((index, sent.get(life, 0), heard[life]))
            sent[life] = row.timestamp
    found = one_of(random, candidates)
    return None if found is None else _sent_with(rows, found[0], random.randint(found[1] + 1, found[2]))
