"""Where two disagree: the first message that one delivered and the other did not, or rows that contradict another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from msgspec import Struct

from unisono.pipeline.pages.evidence import Heard, Life, Message, message_of
from unisono.pipeline.pages.trace_columns import TraceTables
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, RepairRow, SendRow, ViewRow

_LOOKED_AT = 5000
"""Beyond the first difference so many messages are looked at."""
_STATES = ("STATE", "SAVED", "LOADED")


class Disagreement(Struct, frozen=True):
    """What the first of two lacks, what the second lacks, or two messages in the order in which the first has them."""

    kind: Literal["first lacks", "second lacks", "order"]
    messages: list[Message]


def first_disagreement(tables: TraceTables, first: Heard, second: Heard, order: bool) -> Disagreement | None:
    """The first one about order, or about what is there at all."""
    length = min(len(first.number), len(second.number))
    same = (
        (first.source[:length] == second.source[:length])
        & (first.incarnation[:length] == second.incarnation[:length])
        & (first.number[:length] == second.number[:length])
    )
    begin = length if bool(same.all()) else int(np.argmin(same))
    mine = first.messages(tables, begin, begin + _LOOKED_AT)
    others = second.messages(tables, begin, begin + _LOOKED_AT)
    if not order:
        for message in others:
            if not first.has(tables, message):
                return Disagreement("first lacks", [message])
        for message in mine:
            if not second.has(tables, message):
                return Disagreement("second lacks", [message])
        return None
    places = {message: place for place, message in reversed(list(enumerate(others)))}
    common = [message for message in dict.fromkeys(mine) if message in places]
    for earlier, later in pairwise(common):
        if places[earlier] > places[later]:
            return Disagreement("order", [earlier, later])
    return None


def most_asked(tables: TraceTables, group: str) -> tuple[Life, int, int] | None:
    """The source and the range of sequences in a group that most requests for repair name."""
    counts: dict[tuple[int, int, int, int], int] = {}
    asking = tables.code("RTR")
    for piece in tables.pieces("repair", ["kind", "group", "source", "source_incarnation", "first", "last"]):
        mine = (piece["kind"] == asking) & (piece["group"] == tables.code(group))
        columns = [piece[name][mine] for name in ("source", "source_incarnation", "first", "last")]
        keys, found = np.unique(np.column_stack(columns), axis=0, return_counts=True)
        for (source, incarnation, first, last), count in zip(keys.tolist(), found.tolist(), strict=True):
            key = (source, incarnation, first, last)
            counts[key] = counts.get(key, 0) + count
    if not counts:
        return None
    source, incarnation, first, last = max(counts, key=lambda key: (counts[key], -key[2]))
    return (tables.words[source], incarnation), first, last


def identifier(row: ViewRow) -> tuple[int, str, int, int]:
    """What orders agreed views."""
    return (row.start_time, row.leader, row.leader_incarnation, row.leader_sequence)


def life_of(row: AnyRow) -> Life:
    return (row.process, row.incarnation)


def once(rows: Sequence[AnyRow]) -> list[AnyRow]:
    return list({(row.process, row.incarnation, row.position, row.kind): row for row in rows}.values())


def above(row: AnyRow | None, before: Sequence[AnyRow]) -> list[Message]:
    """The message among these rows with the highest key, if the row has no higher one."""
    if not isinstance(row, SendRow | DeliverRow):
        return []
    sent = isinstance(row, SendRow)
    others = [one for one in before if isinstance(one, SendRow | DeliverRow) and (sent or isinstance(one, DeliverRow))]
    highest = max(others, key=_key, default=None)
    message = None if highest is None or _key(highest)[0] < _key(row)[0] else message_of(highest)
    return [] if message is None or message == message_of(row) else [message]


def _key(row: SendRow | DeliverRow) -> tuple[int, str, int]:
    source = life_of(row) if isinstance(row, SendRow) else (row.source, row.source_incarnation)
    return (row.timestamp, *source)


def in_rare_views(rows: Sequence[AnyRow]) -> list[AnyRow]:
    """The deliveries in other views than most."""
    deliveries = [row for row in rows if isinstance(row, DeliverRow)]
    views = Counter(row.view for row in deliveries).most_common()
    return [row for row in deliveries if row.view != views[0][0]]


def same_point(one: MembershipRow, other: MembershipRow) -> bool:
    return other.kind in _STATES and (one.group, one.view, one.sequence, one.reason) == (
        other.group,
        other.view,
        other.sequence,
        other.reason,
    )


def covers(row: AnyRow, asked: RepairRow) -> bool:
    return isinstance(row, RepairRow) and row.last >= asked.first and moment(row) <= moment(asked)
