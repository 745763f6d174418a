"""Damages of what a message is: delivered otherwise than sent, by nobody, or too early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.reading import deliveries_in, send_of
from unisono.properties.violation import moment

if TYPE_CHECKING:
    from random import Random


def _changed(rows: Rows, random: Random, part: str) -> Rows | None:
    found = one_of(random, deliveries_in(rows))
    if found is None:
        return None
    index, row = found
    rows[index] = replace(row, **{part: getattr(row, part) ^ 1})
    return rows


@damage("The body of a delivery is not what was sent.", "D1")
def changed_body(rows: Rows, random: Random) -> Rows | None:
    return _changed(rows, random, "body")


@damage("The timestamp of a delivery is not what was sent.", "D1")
def changed_timestamp(rows: Rows, random: Random) -> Rows | None:
    return _changed(rows, random, "timestamp")


@damage("The size of a delivery is not what was sent.", "D1")
def changed_size(rows: Rows, random: Random) -> Rows | None:
    return _changed(rows, random, "size")


@damage("The sequence of a delivery is not what was sent.", "D1")
def changed_sequence(rows: Rows, random: Random) -> Rows | None:
    return _changed(rows, random, "sequence")


@damage("A delivery names another life of its source.", "D1")
def wrong_incarnation(rows: Rows, random: Random) -> Rows | None:
    return _changed(rows, random, "source_incarnation")


@damage("A delivery has the number of another message.", "D1", "O2")
def wrong_number(rows: Rows, random: Random) -> Rows | None:
    found = one_of(random, deliveries_in(rows, ordered=True))
    if found is None:
        return None
    index, row = found
    rows[index] = replace(row, number=row.number + 1)
    return rows


@damage("A message reaches a group that it was not sent to.", "D1")
def wrong_group(rows: Rows, random: Random) -> Rows | None:
    found = one_of(random, deliveries_in(rows))
    if found is None:
        return None
    index, row = found
    rows[index] = replace(row, group="elsewhere")
    return rows


@damage("A message is delivered that nobody sent.", "D1")
def removed_send(rows: Rows, random: Random) -> Rows | None:
    found = one_of(random, deliveries_in(rows))
    index = None if found is None else send_of(rows, found[1])
    return None if index is None else rows[:index] + rows[index + 1 :]


@damage("A message is sent after it was delivered.", "D1")
def sent_too_late(rows: Rows, random: Random) -> Rows | None:
    found = one_of(random, [found for found in deliveries_in(rows) if found[1].truth is not None])
    index = None if found is None else send_of(rows, found[1])
    if found is None or index is None:
        return None
    sent, truth = rows[index], moment(found[1]) + 1
    late = replace(sent, truth=truth, at=sent.at + truth - moment(sent))
    before = [row for row in rows if row is not sent and moment(row) < truth]
    after = [row for row in rows if row is not sent and moment(row) >= truth]
    return [*before, late, *after]
