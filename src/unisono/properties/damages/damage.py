"""What a damage is: a named change of a valid trace, and the properties that must notice.

Positions and places in views stay dense and times stay in order, but where they are what is damaged: only the damage
itself is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from unisono.trace.schema import AnyRow, DeliverRow, ViewRow

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
    stands: bool = False
    """Whether the rows stay as the change made them."""

    def apply(self, rows: Rows, random: Random) -> Rows | None:
        """A damaged copy, or None where this damage does not fit the trace."""
        changed = self.change(list(rows), random)
        return changed if changed is None or self.stands else _renumbered(changed)


def damage(says: str, *breaks: str) -> Callable[[Change], Damage]:
    """Make a damage of a function that may change the list it is given, but not the rows in it."""

    def make(change: Change) -> Damage:
        return Damage(change.__name__, says, breaks, change)

    return make


def as_it_stands(says: str, *breaks: str) -> Callable[[Change], Damage]:
    """The same of a function that cares for positions and places itself."""

    def make(change: Change) -> Damage:
        return Damage(change.__name__, says, breaks, change, stands=True)

    return make


def _renumbered(rows: Rows) -> Rows:
    """Positions, and the places of deliveries in their views, dense again in the order of the list."""
    counts: dict[tuple[str, int], int] = {}
    places: dict[tuple[str, str, int], tuple[str | None, int, int]] = {}
    result: Rows = []
    for row in rows:
        process = (row.process, row.incarnation)
        position = counts.get(process, 0)
        counts[process] = position + 1
        row = row if row.position == position else replace(row, position=position)
        member = (row.group, row.process, row.incarnation)
        if isinstance(row, ViewRow):
            places.pop(member, None)
        elif isinstance(row, DeliverRow):
            view, stretch, index = places.get(member, (None, -1, 0))
            index = index + 1 if (view, stretch) == (row.view, row.stretch) else 0
            places[member] = (row.view, row.stretch, index)
            row = row if row.index == index else replace(row, index=index)
        result.append(row)
    return result


def one_of(random: Random, candidates: list[Item]) -> Item | None:
    """Any of the candidates, or None where there are none."""
    return random.choice(candidates) if candidates else None
