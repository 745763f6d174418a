"""The state of applications: one at a point, wherever it came from (D10)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import at, held, of
from unisono.properties.violation import Violation
from unisono.trace.schema import AnyRow, MembershipRow


def one_state(rows: Sequence[AnyRow]) -> list[Violation]:
    """D10."""
    told = [row for row in of(rows, MembershipRow, "STATE", "SAVED", "LOADED") if held(row, "D10")]
    violations = []
    for row in told:
        alike = [other for other in told if _place(other) == _place(row)]
        first = min(alike, key=lambda other: (other.process, other.incarnation, other.position))
        if row.number != first.number:
            violations.append(at(row, "D10", None, f"not the state that {first.process} has there"))
    return violations


def _place(row: MembershipRow) -> tuple[object, ...]:
    """What two rows have in common that must tell the same state."""
    return (row.group, row.view, row.sequence, row.reason)
