"""Connection: who was in a view when something was sent, and there for a time from then on, with no fault of it."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import FRESH, comparable, held, of
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, FaultRow, GaugeRow, MembershipRow, SendRow, ViewRow


def view_at(mine: Sequence[AnyRow], property_id: str, sent: SendRow) -> ViewRow | None:
    """The view that a member is in when something is sent, if it is held to the property."""
    kinds = ("JOIN", "LEAVE", *FRESH)
    others = _without_promise(mine, property_id)
    turns: list[AnyRow] = [*of(mine, ViewRow, "VIEW"), *of(mine, MembershipRow, *kinds), *others]
    before = [row for row in turns if row.group == sent.group and comparable(row, sent) and moment(row) <= moment(sent)]
    last = max(before, key=lambda row: row.position, default=None)
    return last if isinstance(last, ViewRow) and held(last, property_id) else None


def are_connected(rows: Sequence[AnyRow], mine: Sequence[AnyRow], property_id: str, sent: SendRow) -> bool:
    """Whether a member and a source stay, with no fault of either, from a SEND on for as long as the limit."""
    theirs = [row for row in rows if (row.process, row.incarnation) == (sent.process, sent.incarnation)]
    changes = _without_promise(mine, property_id)
    stays = not any(row.group == sent.group and within(row, sent) for row in changes)
    stays = stays and all(_stays(one, sent) for one in (mine, theirs))
    return stays and not _is_away(rows, {mine[0].process, sent.process}, sent)


def within(row: AnyRow, sent: SendRow) -> bool:
    return moment(sent) <= moment(row) <= moment(sent) + STALL_LIMIT_NANOSECONDS


def _without_promise(mine: Sequence[AnyRow], property_id: str) -> list[GaugeRow]:
    """The rows that tell of a service that does not promise this."""
    return [row for row in of(mine, GaugeRow, "GAUGE") if not held(row, property_id)]


def _stays(mine: Sequence[AnyRow], sent: SendRow) -> bool:
    """Whether a process is there all the time from a SEND on."""
    moves = [row for row in of(mine, MembershipRow, "JOIN", "LEAVE") if row.group == sent.group]
    ends = [row for row in of(mine, MembershipRow, "CRASH", "END") if comparable(row, sent)]
    there = any(moment(row) > moment(sent) + STALL_LIMIT_NANOSECONDS for row in ends)
    return there and not any(within(row, sent) for row in (*moves, *ends))


def _is_away(rows: Sequence[AnyRow], names: set[str], sent: SendRow) -> bool:
    faults = [row for row in of(rows, FaultRow, "FAULT") if row.fault not in ("load", "heal")]
    for name in names:
        named = [row for row in faults if name in row.members]
        before = [row.edge for row in named if moment(row) < moment(sent)]
        if any(within(row, sent) for row in named) or before.count("begin") > before.count("end"):
            return True
    return False
