"""Everybody who is connected goes on: no member stands still while another one sends (L9)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import FRESH, comparable, held, of, start_of
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, GaugeRow, MembershipRow, SendRow, ViewRow


def progress_of_each(rows: Sequence[AnyRow]) -> list[Violation]:
    """L9."""
    found: dict[tuple[str, str, int, int], list[SendRow]] = {}
    members = sorted({(row.group, row.process, row.incarnation) for row in of(rows, ViewRow, "VIEW")})
    for group, name, incarnation in members:
        mine = [row for row in rows if (row.process, row.incarnation) == (name, incarnation)]
        for sent in of(rows, SendRow, "SEND"):
            if sent.group != group or sent.process == name:
                continue
            view = _view_at(mine, sent)
            if view is None or start_of(view, sent.process, sent.incarnation) is None:
                continue
            theirs = [row for row in rows if (row.process, row.incarnation) == (sent.process, sent.incarnation)]
            other = any(row.group == group and _within(row, sent) for row in _without_promise(mine))
            stays = not other and all(_stays(one, sent) for one in (mine, theirs))
            if stays and not _is_away(rows, {name, sent.process}, sent) and not _goes_on(mine, sent):
                found.setdefault((group, name, incarnation, view.position), []).append(sent)
    violations = []
    for place, sends in found.items():
        first = min(sends, key=lambda row: (moment(row), row.process, row.incarnation, row.number))
        message = message_name(first.process, first.incarnation, first.number)
        violations.append(Violation("L9", *place, message, f"nothing came for long, nor {len(sends)} messages"))
    return violations


def _view_at(mine: Sequence[AnyRow], sent: SendRow) -> ViewRow | None:
    """The view that a member is in when something is sent, if it is held to the property."""
    kinds = ("JOIN", "LEAVE", *FRESH)
    turns: list[AnyRow] = [*of(mine, ViewRow, "VIEW"), *of(mine, MembershipRow, *kinds), *_without_promise(mine)]
    before = [row for row in turns if row.group == sent.group and comparable(row, sent) and moment(row) <= moment(sent)]
    last = max(before, key=lambda row: row.position, default=None)
    return last if isinstance(last, ViewRow) and held(last, "L9") else None


def _without_promise(mine: Sequence[AnyRow]) -> list[GaugeRow]:
    """The rows that tell of a service that does not promise this."""
    return [row for row in of(mine, GaugeRow, "GAUGE") if not held(row, "L9")]


def _within(row: AnyRow, sent: SendRow) -> bool:
    return moment(sent) <= moment(row) <= moment(sent) + STALL_LIMIT_NANOSECONDS


def _stays(mine: Sequence[AnyRow], sent: SendRow) -> bool:
    """Whether a process is there all the time from a SEND on."""
    moves = [row for row in of(mine, MembershipRow, "JOIN", "LEAVE") if row.group == sent.group]
    ends = [row for row in of(mine, MembershipRow, "CRASH", "END") if comparable(row, sent)]
    there = any(moment(row) > moment(sent) + STALL_LIMIT_NANOSECONDS for row in ends)
    return there and not any(_within(row, sent) for row in (*moves, *ends))


def _is_away(rows: Sequence[AnyRow], names: set[str], sent: SendRow) -> bool:
    faults = [row for row in of(rows, FaultRow, "FAULT") if row.fault not in ("load", "heal")]
    for name in names:
        named = [row for row in faults if name in row.members]
        before = [row.edge for row in named if moment(row) < moment(sent)]
        if any(_within(row, sent) for row in named) or before.count("begin") > before.count("end"):
            return True
    return False


def _goes_on(mine: Sequence[AnyRow], sent: SendRow) -> bool:
    """Whether a member delivers something from another, or installs a view, soon enough after a SEND."""
    heard = [row for row in of(mine, DeliverRow, "DELIVER") if row.source != row.process]
    came: list[AnyRow] = [*heard, *of(mine, ViewRow, "VIEW")]
    return any(row.group == sent.group and _within(row, sent) for row in came)
