"""What members let others send for them: asked for, handed over once, in its order (D11)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import at, held, of, same_member
from unisono.properties.violation import Violation, message_name
from unisono.trace.schema import AnyRow, ProxyRow


def proxied_once(rows: Sequence[AnyRow]) -> list[Violation]:
    """D11."""
    handed = [row for row in of(rows, ProxyRow, "HANDED") if held(row, "D11")]
    asked = of(rows, ProxyRow, "ASKED")
    violations = []
    for row in handed:
        wrong = _why_not_asked(row, asked)
        earlier = [
            other
            for other in handed
            if same_member(row, other) and _origin(row) == _origin(other) and other.position < row.position
        ]
        if any(other.number == row.number for other in earlier):
            wrong = "handed over again"
        elif held(row, "O1") and any(other.number > row.number for other in earlier):
            wrong = "handed over after what was asked for later"
        if wrong is not None:
            name = message_name(row.origin, row.origin_incarnation, row.number)
            violations.append(at(row, "D11", name, wrong))
    return violations


def _origin(row: ProxyRow) -> tuple[str, int]:
    return (row.origin, row.origin_incarnation)


def _why_not_asked(row: ProxyRow, asked: Sequence[ProxyRow]) -> str | None:
    found = [
        other
        for other in asked
        if (other.group, other.process, other.incarnation, other.number) == (row.group, *_origin(row), row.number)
    ]
    if not found:
        return "handed over, but never asked for"
    if (found[0].size, found[0].body) != (row.size, row.body):
        return "handed over otherwise than asked for"
    if found[0].truth is not None and row.truth is not None and found[0].truth > row.truth:
        return "handed over before it was asked for"
    return None
