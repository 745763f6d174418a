"""Single deliveries: sent as delivered (D1), delivered once (D2), written in a view (M3)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import at, comparable, deliveries, held, last_view, name_of, of, same_stream
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import AnyRow, DeliverRow, SendRow


def delivery_integrity(rows: Sequence[AnyRow]) -> list[Violation]:
    """D1."""
    violations = []
    for delivery in deliveries(rows, "D1"):
        sends = [
            row
            for row in of(rows, SendRow, "SEND")
            if (row.group, row.process, row.incarnation, row.number)
            == (delivery.group, delivery.source, delivery.source_incarnation, delivery.number)
        ]
        if not sends:
            violations.append(at(delivery, "D1", name_of(delivery), "delivered, but never sent"))
            continue
        sent = sends[0]
        wrong = [
            part
            for part in ("sequence", "size", "body", "timestamp", "origin")
            if getattr(sent, part) != getattr(delivery, part)
        ]
        if comparable(sent, delivery) and moment(sent) > moment(delivery):
            wrong.append("time")
        if wrong:
            violations.append(
                at(delivery, "D1", name_of(delivery), f"delivered otherwise than sent: {', '.join(wrong)}")
            )
    return violations


def no_duplication(rows: Sequence[AnyRow]) -> list[Violation]:
    """D2: of two reliable deliveries, or two others of one stretch, the later one is wrong."""
    once = deliveries(rows, "D2")
    return [
        at(row, "D2", name_of(row), "delivered again")
        for row in once
        if any(
            same_stream(row, other)
            and row.number == other.number
            and other.position < row.position
            and held(row, "O2") == held(other, "O2")
            and (held(row, "O2") or row.stretch == other.stretch)
            for other in once
        )
    ]


def in_a_view(rows: Sequence[AnyRow]) -> list[Violation]:
    """M3."""
    violations = []
    written: list[SendRow | DeliverRow] = [*of(rows, SendRow, "SEND"), *of(rows, DeliverRow, "DELIVER")]
    for row in written:
        if not held(row, "M3"):
            continue
        view = last_view(rows, row)
        if row.view is None or view is None or view.view != row.view:
            name = (
                name_of(row) if isinstance(row, DeliverRow) else message_name(row.process, row.incarnation, row.number)
            )
            current = None if view is None else view.view
            violations.append(at(row, "M3", name, f"written in view {row.view}, installed is {current}"))
    return violations
