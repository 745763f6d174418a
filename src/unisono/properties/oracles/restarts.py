"""A process that starts again is heard by those who knew an earlier life of it (L11)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.connected import are_connected, view_at
from unisono.properties.oracles.reading import at, held, members_of, of
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import AnyRow, DeliverRow, SendRow, ViewRow


def heard_again(rows: Sequence[AnyRow]) -> list[Violation]:
    """L11."""
    violations = []
    firsts: dict[tuple[str, str, int], SendRow] = {}
    for row in of(rows, SendRow, "SEND"):
        firsts.setdefault((row.group, row.process, row.incarnation), row)
    members = sorted({(row.group, row.process, row.incarnation) for row in of(rows, ViewRow, "VIEW")})
    for sent in firsts.values():
        for group, name, incarnation in members:
            if group != sent.group or name == sent.process:
                continue
            mine = [row for row in rows if (row.process, row.incarnation) == (name, incarnation)]
            view = view_at(mine, "L11", sent)
            if view is None or not _knew_another(mine, view, sent) or _is_heard(mine, sent):
                continue
            if are_connected(rows, mine, "L11", sent):
                message = message_name(sent.process, sent.incarnation, sent.number)
                violations.append(at(view, "L11", message, f"the new life of {sent.process} is not heard"))
    return violations


def _knew_another(mine: Sequence[AnyRow], view: ViewRow, sent: SendRow) -> bool:
    """Whether another life of who sent was in a view of that stretch, up to this one."""
    return any(
        process == sent.process and incarnation != sent.incarnation
        for row in of(mine, ViewRow, "VIEW")
        if (row.group, row.stretch) == (view.group, view.stretch) and row.position <= view.position and held(row, "L11")
        for process, incarnation in members_of(row)
    )


def _is_heard(mine: Sequence[AnyRow], sent: SendRow) -> bool:
    life = (sent.process, sent.incarnation)
    views: list[AnyRow] = [row for row in of(mine, ViewRow, "VIEW") if life in members_of(row)]
    delivered = [row for row in of(mine, DeliverRow, "DELIVER") if (row.source, row.source_incarnation) == life]
    latest = moment(sent) + STALL_LIMIT_NANOSECONDS
    return any(row.group == sent.group and moment(row) <= latest for row in (*views, *delivered))
