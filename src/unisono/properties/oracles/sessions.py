"""Sessions: blocked in time (M8), each change by its start-change (M10), optimistic messages once (D12)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import (
    at,
    comparable,
    first_sends,
    members_of,
    name_of,
    of,
    same_member,
    same_process,
)
from unisono.properties.promises import SETTLING_NANOSECONDS, STRONG
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, RepairRow, SendRow, ViewRow

ANEW = ("JOIN", "LEAVE", "EXCLUDED")
"""The rows after which a session has no view to go on from."""


def _earlier(rows: Sequence[AnyRow], row: AnyRow, *kinds: str) -> list[AnyRow]:
    """What the process of a row wrote before it in its group, under strong sessions, in order."""
    found = [
        one
        for one in rows
        if same_member(one, row) and one.service == STRONG and one.kind in kinds and one.position < row.position
    ]
    return sorted(found, key=lambda one: one.position)


def _start_changes(rows: Sequence[AnyRow], row: AnyRow) -> list[MembershipRow]:
    """The start-changes since the last view before a row."""
    turns = _earlier(rows, row, "VIEW", *ANEW)
    since = turns[-1].position if turns else -1
    return [one for one in _all_start_changes(rows, row) if one.position > since]


def _all_start_changes(rows: Sequence[AnyRow], row: AnyRow) -> list[MembershipRow]:
    return [one for one in _earlier(rows, row, "START_CHANGE") if isinstance(one, MembershipRow)]


def _strong_views(rows: Sequence[AnyRow]) -> list[ViewRow]:
    return [view for view in of(rows, ViewRow, "VIEW") if view.service == STRONG]


def block_discipline(rows: Sequence[AnyRow]) -> list[Violation]:
    """M8."""
    violations = []
    for send in of(rows, SendRow, "SEND"):
        turns = _earlier(rows, send, "BLOCK_OK", "VIEW", *ANEW)
        blocked = bool(turns) and turns[-1].kind == "BLOCK_OK"
        if send.service == STRONG and send.agreed == send.view and blocked:
            name = message_name(send.process, send.incarnation, send.number)
            violations.append(at(send, "M8", name, "sent after the session agreed to block"))
    for view in _strong_views(rows):
        changes = _start_changes(rows, view)
        if not changes:
            if view.previous is not None:
                violations.append(at(view, "M8", None, "there was no start-change"))
        elif not members_of(view) <= {(one.process, one.incarnation) for one in changes[-1].members or ()}:
            violations.append(at(view, "M8", None, "has members that were not expected"))
    return violations


def start_change_discipline(rows: Sequence[AnyRow]) -> list[Violation]:
    """M10."""
    violations = []
    for change in of(rows, MembershipRow, "START_CHANGE"):
        before = _all_start_changes(rows, change)
        if change.service == STRONG and before and (change.number or 0) <= (before[-1].number or 0):
            violations.append(at(change, "M10", None, f"comes after {before[-1].number}"))
    cuts = [row for row in of(rows, RepairRow, "CUT") if row.service == STRONG]
    for cut in cuts:
        turns = _earlier(rows, cut, "VIEW", *ANEW)
        changes = _start_changes(rows, cut)
        in_view = bool(turns) and turns[-1].kind == "VIEW" and turns[-1].view is not None
        if not in_view or not changes or cut.view != turns[-1].view or cut.peer != str(changes[-1].number or 0):
            violations.append(at(cut, "M10", None, f"a cut of {cut.view} for {cut.peer} is not due"))
    for view in _strong_views(rows):
        changes = _all_start_changes(rows, view)
        if view.change != ((changes[-1].number or 0) if changes else None):
            violations.append(at(view, "M10", None, f"{view.change} is not the last start-change"))
        elif view.previous is not None and _with_other_cuts(view, cuts):
            violations.append(at(view, "M10", None, "somebody came along by the cut of another change"))
    return violations


def _with_other_cuts(view: ViewRow, cuts: Sequence[RepairRow]) -> bool:
    """Whether one who came along has cuts of the view before, but none for this change."""
    for one in view.transitional or ():
        theirs = [
            cut.peer
            for cut in cuts
            if (cut.group, cut.view, cut.process, cut.incarnation)
            == (view.group, view.previous, one.process, one.incarnation)
        ]
        itself = (one.process, one.incarnation) == (view.process, view.incarnation)
        if theirs and not itself and str(view.change) not in theirs:
            return True
    return False


def _is_optimistic(send: SendRow | None) -> bool:
    return send is not None and send.service == STRONG and send.agreed is not None and send.agreed != send.view


def _strong_sends(rows: Sequence[AnyRow], row: AnyRow, source: tuple[str, int]) -> dict[int, SendRow]:
    return first_sends([one for one in rows if one.service == STRONG], row.group, source)


def optimistic_once(rows: Sequence[AnyRow]) -> list[Violation]:
    """D12."""
    violations = []
    deliveries = [row for row in of(rows, DeliverRow, "DELIVER") if row.service == STRONG]
    for delivery in deliveries:
        sent = _strong_sends(rows, delivery, (delivery.source, delivery.source_incarnation)).get(delivery.number)
        if sent is not None and _is_optimistic(sent) and sent.agreed != delivery.view:
            violations.append(at(delivery, "D12", name_of(delivery), f"sent for {sent.agreed}"))
    returns = [row for row in of(rows, MembershipRow, "RETURNED") if row.service == STRONG]
    for back in returns:
        number = back.number or 0
        sent = _strong_sends(rows, back, (back.process, back.incarnation)).get(number)
        again = any(same_member(row, back) and (row.number or 0) == number for row in returns[: returns.index(back)])
        delivered = any(
            row.group == back.group
            and (row.source, row.source_incarnation, row.number) == (back.process, back.incarnation, number)
            for row in deliveries
        )
        known = sent is not None and _is_optimistic(sent) and sent.position < back.position
        if not known or again or delivered:
            name = message_name(back.process, back.incarnation, number)
            violations.append(at(back, "D12", name, "it may not be returned"))
    for send in of(rows, SendRow, "SEND"):
        mine = _strong_sends(rows, send, (send.process, send.incarnation))
        if _is_optimistic(send) and mine[send.number] is send and _is_lost(rows, send):
            name = message_name(send.process, send.incarnation, send.number)
            violations.append(at(send, "D12", name, f"neither delivered in {send.agreed} nor returned"))
    return violations


def _is_lost(rows: Sequence[AnyRow], send: SendRow) -> bool:
    """Whether the sender went on, and neither heard a message in its view nor took it back."""
    mine = [row for row in rows if same_member(row, send) and row.service == STRONG and row.position > send.position]
    mine.sort(key=lambda row: row.position)
    turns = [row for row in mine if row.kind in ("VIEW", *ANEW)][:2]
    if not turns or any(row.kind != "VIEW" for row in turns):
        return False
    until = turns[1] if len(turns) == 2 else _settled_end(rows, turns[0])
    if until is None:
        return False
    if turns[0].view != send.agreed:
        back = of(mine, MembershipRow, "RETURNED")
        return not any((row.number or 0) == send.number and row.position < until.position for row in back)
    own = [row for row in of(mine, DeliverRow, "DELIVER") if (row.source, row.source_incarnation) == _life(send)]
    return not any(row.number == send.number and turns[0].position < row.position < until.position for row in own)


def _life(row: AnyRow) -> tuple[str, int]:
    return (row.process, row.incarnation)


def _settled_end(rows: Sequence[AnyRow], view: AnyRow) -> MembershipRow | None:
    """The end of the process of a view, if that is long enough after it."""
    ends = [row for row in of(rows, MembershipRow, "END") if same_process(row, view)]
    if not ends or not comparable(view, ends[-1]) or moment(view) > moment(ends[-1]) - SETTLING_NANOSECONDS:
        return None
    return ends[-1]
