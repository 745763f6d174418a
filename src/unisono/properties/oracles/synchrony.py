"""Delivery and agreed views: where it was sent (D3, D4), the same for all who go on together (D5, D9), in one order
(O5).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from unisono.properties.oracles.reading import (
    agreed_views,
    at,
    deliveries,
    era_at,
    era_of,
    first_sends,
    fresh_between,
    held,
    name_of,
    of,
    row_key,
    same_member,
    same_process,
    spans,
    start_in,
    start_of,
    view_before,
)
from unisono.properties.promises import STRONG
from unisono.properties.violation import Violation, message_name
from unisono.trace.schema import AnyRow, DeliverRow, RepairRow, SendRow, ViewRow

Message = tuple[str, int, int]
"""Source, incarnation, number."""


def sending_view(rows: Sequence[AnyRow]) -> list[Violation]:
    """D3."""
    violations = []
    for row in [row for row in of(rows, DeliverRow, "DELIVER") if held(row, "D3")]:
        sent = first_sends(rows, row.group, (row.source, row.source_incarnation)).get(row.number)
        if sent is not None and sent.agreed != era_at(rows, row):
            violations.append(at(row, "D3", name_of(row), f"sent in {sent.agreed}, delivered in {row.view}"))
    return violations


def same_view(rows: Sequence[AnyRow]) -> list[Violation]:
    """D4."""
    eras: dict[tuple[str, str, int, int], set[str | None]] = {}
    for row in deliveries(rows, "D4"):
        message = (row.group, row.source, row.source_incarnation, row.number)
        eras.setdefault(message, set()).add(era_at(rows, row))
    violations = []
    for message, found in sorted(eras.items()):
        if len(found) > 1:
            text = f"delivered in {len(found)} eras"
            violations.append(Violation("D4", message[0], "", 0, 0, message_name(*message[1:]), text))
    return violations


class Transition(Struct):
    """A process goes from one view to the next, and what it delivered in the one that it leaves, in order."""

    before: ViewRow
    after: ViewRow
    delivered: list[Message]


def transitions(rows: Sequence[AnyRow], property_id: str) -> list[Transition]:
    found = []
    for after in agreed_views(rows, property_id):
        before = view_before(rows, property_id, after)
        if before is None or before.view != after.previous or fresh_between(rows, before, after):
            continue
        inside = [
            (row.source, row.source_incarnation, row.number)
            for row in deliveries(rows, property_id)
            if same_member(row, before) and (row.stretch, row.view) == (before.stretch, before.view)
        ]
        found.append(Transition(before, after, list(dict.fromkeys(inside))))
    return sorted(found, key=lambda one: row_key(one.after))


def _reference(all_of_them: list[Transition], like: Transition, ordered: bool) -> Transition:
    """Of the transitions from the same view to the same view, the first of those that most are like.

    Those with a whole view come before all others.
    """
    wanted = (like.after.group, like.before.view, like.after.view)
    same_way = [one for one in all_of_them if (one.after.group, one.before.view, one.after.view) == wanted]
    counted = [one for one in same_way if one.before.whole] or same_way

    def like_it(one: Transition) -> int:
        if ordered:
            return len([other for other in counted if other.delivered == one.delivered])
        return len([other for other in counted if set(other.delivered) == set(one.delivered)])

    return min(counted, key=lambda one: (-like_it(one), row_key(one.after)))


def virtual_synchrony(rows: Sequence[AnyRow]) -> list[Violation]:
    """D5."""
    violations = []
    known = transitions(rows, "D5")
    for one in known:
        reference = _reference(known, one, ordered=False)
        if not reference.before.whole:
            continue
        mine, theirs = set(one.delivered), set(reference.delivered)
        if not one.before.whole:
            mine, theirs = _since_start(mine, one.before), _since_start(theirs, one.before)
        if mine != theirs:
            name = reference.after.process
            text = f"delivered {len(mine - theirs)} messages that {name} did not, and {len(theirs - mine)} less"
            violations.append(at(one.after, "D5", None, text))
    return violations


def _since_start(messages: set[Message], view: ViewRow) -> set[Message]:
    """The messages that a process that has this view must have: from its start points on."""
    found = set()
    for source, incarnation, number in messages:
        start = start_of(view, source, incarnation)
        if start is not None and number >= start.number:
            found.add((source, incarnation, number))
    return found


def weak_total_order(rows: Sequence[AnyRow]) -> list[Violation]:
    """O5."""
    violations = []
    known = transitions(rows, "O5")
    for one in known:
        reference = _reference(known, one, ordered=True).delivered
        common = [message for message in one.delivered if message in reference]
        if common != [message for message in reference if message in common]:
            violations.append(at(one.after, "O5", None, "delivered in another order"))
    return violations


def agreed_forward_set(rows: Sequence[AnyRow]) -> list[Violation]:
    """D9."""
    violations = []
    for one in transitions(rows, "D9"):
        if one.after.role != "sender" or one.after.era is not None or not one.before.whole:
            continue
        span = next(span for span in spans(rows, "D9", one.before) if one.before in span)
        era = era_of(one.before)
        delivered = {
            (row.source, row.source_incarnation, row.number)
            for row in deliveries(rows, "D9")
            if same_member(row, one.before) and row.stretch == one.before.stretch and era_at(rows, row) == era
        }
        promised: dict[tuple[str, int], int] = {}
        for cut in _cuts(rows, one.after):
            source = (cut.source, cut.source_incarnation)
            promised[source] = max(cut.last, promised.get(source, cut.last))
        for source, last in sorted(promised.items()):
            start = start_in(span, source)
            if not span[0].whole and start is None:
                continue
            first = 0 if span[0].whole or start is None else start.number
            sends = first_sends(rows, one.after.group, source).values()
            missing = [
                row.number
                for row in sends
                if row.agreed == era
                and (not _is_for_later(row) or _installed(rows, row))
                and row.sequence <= last
                and row.number >= first
                and (*source, row.number) not in delivered
            ]
            if missing:
                name = message_name(*source, min(missing))
                violations.append(at(one.after, "D9", name, f"not delivered, nor {len(missing) - 1} more"))
    return violations


def _is_for_later(send: SendRow) -> bool:
    """Whether a session sent a message for a view that it did not have yet."""
    return send.service == STRONG and send.agreed != send.view


def _installed(rows: Sequence[AnyRow], send: SendRow) -> bool:
    """Whether the sender of a message installed the view that it is for."""
    return any(same_member(view, send) and view.view == send.agreed for view in agreed_views(rows, "D9"))


def _cuts(rows: Sequence[AnyRow], after: ViewRow) -> list[RepairRow]:
    """What those who came along into a view had answered for."""
    found: list[RepairRow] = []
    for member in after.transitional or ():
        theirs = [
            view
            for view in agreed_views(rows, "D9")
            if (view.group, view.process, view.incarnation) == (after.group, member.process, member.incarnation)
            and (view.view, view.role, view.era) == (after.view, "sender", None)
        ]
        if not theirs:
            continue
        earlier = [
            view.position
            for view in of(rows, ViewRow, "VIEW")
            if same_member(view, theirs[-1]) and view.era is None and view.position < theirs[-1].position
        ]
        cuts = [
            row
            for row in of(rows, RepairRow, "CUT")
            if row.group == after.group
            and same_process(row, theirs[-1])
            and max(earlier, default=-1) < row.position < theirs[-1].position
        ]
        found.extend(row for row in cuts if row.peer == cuts[-1].peer)
    return found
