"""Damages of what rows say of their own member, or of others, against other rows: counts, views, roles, origins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, as_it_stands, one_of
from unisono.properties.promises import STRONG
from unisono.trace.schema import DeliverRow, MembershipRow, RepairRow, SendRow, Start, StatisticRow, ViewRow

if TYPE_CHECKING:
    from random import Random

COMMON = ("RTO", "VS", "VS-weak")
"""The services whose views are the same for all."""


@as_it_stands("A repair is of a source that never was.", "W3")
def source_that_never_was(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index, row in enumerate(rows) if isinstance(row, RepairRow)])
    if index is None:
        return None
    row = rows[index]
    assert isinstance(row, RepairRow)
    rows[index] = replace(row, source_incarnation=row.source_incarnation + 1)
    return rows


@as_it_stands("A message is sent for a process that asked for nothing.", "W3")
def origin_that_never_asked(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index, row in enumerate(rows) if isinstance(row, SendRow)])
    if index is None:
        return None
    rows[index] = replace(rows[index], origin="nobody~1")
    return rows


@as_it_stands("A message is delivered as another one's than it was sent for.", "D1")
def delivered_as_of_another(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index, row in enumerate(rows) if isinstance(row, DeliverRow)])
    if index is None:
        return None
    rows[index] = replace(rows[index], origin="nobody~1")
    return rows


@as_it_stands("A delivery has another place in its view than comes next.", "W4")
def wrong_index(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index, row in enumerate(rows) if isinstance(row, DeliverRow)])
    if index is None:
        return None
    row = rows[index]
    assert isinstance(row, DeliverRow)
    rows[index] = replace(row, index=row.index + 1)
    return rows


@as_it_stands("A sender leaves out a number.", "W4")
def skipped_number(rows: Rows, random: Random) -> Rows | None:
    """In its own rows and in those of all who deliver what it sent."""
    sent = one_of(random, [row for row in rows if isinstance(row, SendRow)])
    if sent is None:
        return None
    source = (sent.group, sent.process, sent.incarnation)
    for index, row in enumerate(rows):
        of_it = isinstance(row, SendRow) and (row.group, row.process, row.incarnation) == source
        if isinstance(row, DeliverRow) and (row.group, row.source, row.source_incarnation) == source:
            of_it = True
        if of_it and isinstance(row, SendRow | DeliverRow) and row.number >= sent.number:
            rows[index] = replace(row, number=row.number + 1)
    return rows


@as_it_stands("A row says that it was written in a view that its process had not installed.", "W5")
def other_view_column(rows: Rows, random: Random) -> Rows | None:
    index = one_of(
        random,
        [
            index
            for index, row in enumerate(rows)
            if row.group
            and not isinstance(row, ViewRow | StatisticRow)
            and row.kind not in ("STATE", "SAVED", "LOADED")
        ],
    )
    if index is None:
        return None
    rows[index] = replace(rows[index], view="0/nobody~1/1")
    return rows


@as_it_stands("A view is said to follow one that its process had not installed.", "W5")
def other_previous(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index, row in enumerate(rows) if isinstance(row, ViewRow)])
    if index is None:
        return None
    rows[index] = replace(rows[index], previous="0/nobody~1/1")
    return rows


@as_it_stands("The identifier of a view is not that of its parts.", "W5")
def other_leader(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index, row in enumerate(rows) if isinstance(row, ViewRow)])
    if index is None:
        return None
    rows[index] = replace(rows[index], leader="nobody")
    return rows


@as_it_stands("Somebody is twice in a view.", "W5")
def twice_a_member(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index, row in enumerate(rows) if isinstance(row, ViewRow) and row.start])
    if index is None:
        return None
    row = rows[index]
    assert isinstance(row, ViewRow)
    start: list[Start] = [*row.start[:1], *row.start]
    rows[index] = replace(row, start=start)
    return rows


@as_it_stands("A process is a receiver in a view that has it as a sender.", "W5")
def receiver_that_sends(rows: Rows, random: Random) -> Rows | None:
    index = one_of(
        random,
        [
            index
            for index, row in enumerate(rows)
            if isinstance(row, ViewRow) and row.role == "sender" and row.previous is not None and row.service in COMMON
        ],
    )
    if index is None:
        return None
    rows[index] = replace(rows[index], role="receiver")
    return rows


@as_it_stands("A process says that it has another role than its view says.", "W5")
def other_role(rows: Rows, random: Random) -> Rows | None:
    found = [
        index
        for index, row in enumerate(rows)
        if isinstance(row, MembershipRow) and row.kind == "ROLE" and row.view is not None and row.service in COMMON
    ]
    index = one_of(random, found)
    if index is None:
        return None
    row = rows[index]
    assert isinstance(row, MembershipRow)
    rows[index] = replace(row, role="receiver" if row.role == "sender" else "sender")
    return rows


def _followers(rows: Rows) -> list[int]:
    """Rows that come right after another one of the same member, within a stretch."""
    found = []
    last: dict[tuple[str, str, int], int] = {}
    for index, row in enumerate(rows):
        if not row.group or isinstance(row, StatisticRow) or row.kind in ("STATE", "SAVED", "LOADED"):
            continue
        member = (row.group, row.process, row.incarnation)
        if member in last and rows[last[member]].stretch == row.stretch:
            found.append(index)
        last[member] = index
    return found


@as_it_stands("The stretches of a member go back.", "W5")
def stretch_back(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, _followers(rows))
    if index is None:
        return None
    rows[index] = replace(rows[index], stretch=rows[index].stretch - 1)
    return rows


@as_it_stands("The service of a member changes within a stretch.", "W5")
def service_within_a_stretch(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, _followers(rows))
    if index is None:
        return None
    row = rows[index]
    rows[index] = replace(row, service="VS-weak" if row.service == STRONG else "USO" if row.service != "USO" else "UU")
    return rows
