"""Damages in a ring: of three messages each of three processes delivers two, and no order fits all three."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, SendRow

if TYPE_CHECKING:
    from random import Random

GROUP = "ring"


def _ring(rows: Rows, random: Random, forged: bool) -> Rows | None:
    """Three that live to the end join one more group, send a message each, and disagree about them."""
    ends = [(index, row) for index, row in enumerate(rows) if row.kind == "END"]
    if len(ends) < 3:
        return None
    three = [row for _, row in random.sample(ends, 3)]
    place = ends[0][0]
    stamps = [row.timestamp for row in rows if isinstance(row, SendRow | DeliverRow)]
    latest = max(stamps, default=0)

    def common(row: AnyRow, kind: str) -> dict[str, Any]:
        shift = moment(rows[place]) - moment(row)
        here = {"run": row.run, "group": GROUP, "process": row.process, "incarnation": row.incarnation}
        when = {"at": row.at + shift, "host": row.host, "truth": None if row.truth is None else row.truth + shift}
        return {"kind": kind, "service": "UTO", "stretch": 1, **here, **when}

    content: dict[str, Any] = {"sequence": 1, "number": 1, "size": 0, "body": 0}
    added: Rows = [MembershipRow(**common(row, "JOIN"), reason="all") for row in three]
    sends = [SendRow(**common(row, "SEND"), timestamp=latest + 1 + at, **content) for at, row in enumerate(three)]
    added.extend(sends)
    for at, row in enumerate(three):
        for index, sent in enumerate((sends[at], sends[(at + 1) % 3])):
            whose: dict[str, Any] = {"source": sent.process, "source_incarnation": sent.incarnation, "index": index}
            heard = DeliverRow(**common(row, "DELIVER"), timestamp=sent.timestamp, **whose, **content)
            if forged and at == 2 and index == 1:
                heard = replace(heard, timestamp=latest + 4)
            added.append(heard)
    return [*rows[:place], *added, *rows[place:]]


@damage("Three processes disagree in a ring about the order of three messages.", "O6")
def ring(rows: Rows, random: Random) -> Rows | None:
    return _ring(rows, random, forged=False)


@damage("They do, and one changed a timestamp so that its own order looks right.", "O8", "D1")
def forged_ring(rows: Rows, random: Random) -> Rows | None:
    return _ring(rows, random, forged=True)
