"""Everybody who is connected goes on: no member stands still while another one sends (L9)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.connected import are_connected, view_at, within
from unisono.properties.oracles.reading import of, start_of
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import AnyRow, DeliverRow, SendRow, ViewRow


def progress_of_each(rows: Sequence[AnyRow]) -> list[Violation]:
    """L9."""
    found: dict[tuple[str, str, int, int], list[SendRow]] = {}
    members = sorted({(row.group, row.process, row.incarnation) for row in of(rows, ViewRow, "VIEW")})
    for group, name, incarnation in members:
        mine = [row for row in rows if (row.process, row.incarnation) == (name, incarnation)]
        for sent in of(rows, SendRow, "SEND"):
            if sent.group != group or sent.process == name:
                continue
            view = view_at(mine, "L9", sent)
            if view is None or start_of(view, sent.process, sent.incarnation) is None:
                continue
            if are_connected(rows, mine, "L9", sent) and not _goes_on(mine, sent):
                found.setdefault((group, name, incarnation, view.position), []).append(sent)
    violations = []
    for place, sends in found.items():
        first = min(sends, key=lambda row: (moment(row), row.process, row.incarnation, row.number))
        message = message_name(first.process, first.incarnation, first.number)
        violations.append(Violation("L9", *place, message, f"nothing came for long, nor {len(sends)} messages"))
    return violations


def _goes_on(mine: Sequence[AnyRow], sent: SendRow) -> bool:
    """Whether a member delivers something from another, or installs a view, soon enough after a SEND."""
    heard = [row for row in of(mine, DeliverRow, "DELIVER") if row.source != row.process]
    came: list[AnyRow] = [*heard, *of(mine, ViewRow, "VIEW")]
    return any(row.group == sent.group and within(row, sent) for row in came)
