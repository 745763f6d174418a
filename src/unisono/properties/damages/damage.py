"""What a damage is: a named change of a valid trace, and the properties that must notice.

Positions stay dense and times stay in order: only the damage itself is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from unisono.trace.schema import AnyRow

if TYPE_CHECKING:
    from random import Random

Rows = list[AnyRow]
Change = Callable[[Rows, "Random"], Rows | None]
Item = TypeVar("Item")


class Damage(Struct, frozen=True):
    """One way to break a trace; every property in `breaks` must be reported."""

    name: str
    says: str
    breaks: tuple[str, ...]
    change: Change

    def apply(self, rows: Rows, random: Random) -> Rows | None:
        """A damaged copy, or None where this damage does not fit the trace."""
        changed = self.change(list(rows), random)
        return None if changed is None else _renumbered(changed)


def damage(says: str, *breaks: str) -> Callable[[Change], Damage]:
    """Make a damage of a function that may change the list it is given, but not the rows in it."""

    def make(change: Change) -> Damage:
        return Damage(change.__name__, says, breaks, change)

    return make


def _renumbered(rows: Rows) -> Rows:
    """Positions dense again, in the order of the list."""
    counts: dict[tuple[str, int], int] = {}
    result: Rows = []
    for row in rows:
        process = (row.process, row.incarnation)
        position = counts.get(process, 0)
        counts[process] = position + 1
        result.append(row if row.position == position else replace(row, position=position))
    return result


def one_of(random: Random, candidates: list[Item]) -> Item | None:
    """Any of the candidates, or None where there are none."""
    return random.choice(candidates) if candidates else None
