"""Self delivery: a sender hears its own messages, before the view changes (D6) and before the end (L3)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import (
    FRESH,
    TELLING,
    agreed_views,
    at,
    comparable,
    first_sends,
    held,
    of,
    same_member,
    same_process,
)
from unisono.properties.promises import SETTLING_NANOSECONDS, STRONG
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, SendRow, ViewRow


def self_delivery(rows: Sequence[AnyRow]) -> list[Violation]:
    """D6."""
    violations = []
    for send in _own(rows, "D6"):
        following = _next_view(rows, send)
        got = _own_deliveries(rows, send)
        if following is None:
            if _owed_at_end(rows, send) and not got:
                violations.append(at(send, "D6", _name(send), "never delivered to its own sender"))
        elif not _gave_up(rows, send, following) and not any(row.position < following.position for row in got):
            violations.append(at(send, "D6", _name(send), f"not delivered to its own sender before {following.view}"))
    return violations


def self_delivery_liveness(rows: Sequence[AnyRow]) -> list[Violation]:
    """L3."""
    return [
        at(send, "L3", _name(send), "never delivered to its own sender")
        for send in _own(rows, "L3")
        if _next_view(rows, send) is None and _owed_at_end(rows, send) and not _own_deliveries(rows, send)
    ]


def _name(send: SendRow) -> str:
    return message_name(send.process, send.incarnation, send.number)


def _own(rows: Sequence[AnyRow], property_id: str) -> list[SendRow]:
    """The messages that their senders must hear themselves."""
    found = []
    for send in of(rows, SendRow, "SEND"):
        first = first_sends(rows, send.group, (send.process, send.incarnation))[send.number]
        hoping = send.service == STRONG and send.agreed != send.view  # D12 follows what is for a view to come
        if send is first and held(send, property_id) and (held(send, "M5") or _listens(rows, send)) and not hoping:
            found.append(send)
    return found


def _listens(rows: Sequence[AnyRow], send: SendRow) -> bool:
    """Whether a sender asked for its own messages when it joined."""
    joins = [row for row in of(rows, MembershipRow, "JOIN") if same_member(row, send) and row.position < send.position]
    reason = joins[-1].reason if joins else None
    return reason is not None and (reason == "all" or send.process in [name.strip() for name in reason.split(",")])


def _next_view(rows: Sequence[AnyRow], send: SendRow) -> ViewRow | None:
    """The agreed view that ends the era in which a message was sent."""
    after = [
        view
        for view in agreed_views(rows, "M5")
        if same_member(view, send)
        and view.era is None
        and view.stretch == send.stretch
        and view.position > send.position
    ]
    return after[0] if after and held(send, "M5") else None


def _own_deliveries(rows: Sequence[AnyRow], send: SendRow) -> list[DeliverRow]:
    return [
        row
        for row in of(rows, DeliverRow, "DELIVER")
        if same_member(row, send)
        and row.stretch == send.stretch
        and (row.source, row.source_incarnation, row.number) == (send.process, send.incarnation, send.number)
    ]


def _gave_up(rows: Sequence[AnyRow], send: SendRow, until: AnyRow) -> bool:
    """Whether the sender left or began anew between the two rows."""
    return any(
        same_member(row, send) and send.position < row.position < until.position and _gives_up(row) for row in rows
    )


def _gives_up(row: AnyRow) -> bool:
    return row.kind in ("LEAVE", *FRESH) or (row.kind == "EXCLUDED" and row.service == STRONG)


def _owed_at_end(rows: Sequence[AnyRow], send: SendRow) -> bool:
    """Whether the sender reached its end, long enough after it sent, as it was then."""
    ends = [row for row in of(rows, MembershipRow, "END") if same_process(row, send)]
    if not ends or not comparable(send, ends[-1]) or moment(send) > moment(ends[-1]) - SETTLING_NANOSECONDS:
        return False
    later = [row for row in rows if same_member(row, send) and row.position > send.position]
    if any(_gives_up(row) for row in later):
        return False
    return not any(row.kind in TELLING and row.stretch > send.stretch for row in later)
