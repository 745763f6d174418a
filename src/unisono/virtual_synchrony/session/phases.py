"""How a process stands to a group of a session, what becomes of its sends, and what it takes along when it returns."""

from __future__ import annotations

from enum import Enum, auto

from unisono.identity import ProcessId


class Phase(Enum):
    """How a process stands to the group."""

    OUTSIDE = auto()
    MEMBER = auto()
    LEAVING = auto()


class Sends(Enum):
    """What becomes of the application's sends."""

    FREELY = auto()
    """They go out in the current view."""
    FINISHING = auto()
    """The application was asked to finish, and may still send what belongs into this view."""
    BLOCKED = auto()
    """This view is over for them: they wait, or go into the next one."""


class Resumption:
    """What a later stay of this life in the same group must go on from.

    `heard` is, of a weak group, the last number that was delivered of each source: what is sent again in a later view
    may have come before.
    """

    __slots__ = ("change", "heard", "number", "stretch")

    def __init__(
        self, number: int = 0, stretch: int = 0, change: int = 0, heard: dict[ProcessId, int] | None = None
    ) -> None:
        self.number = number
        self.stretch = stretch
        self.change = change
        self.heard = heard or {}


LEFT_LIMIT = 1024
"""Of so many groups that were left last it is known exactly what a later stay goes on from."""


class Resumptions:
    """What later stays in groups that were left go on from.

    Of groups that were left long ago only the highest numbers are kept, one for all of them: what comes after any of
    them begins above. What was delivered in weak ones is forgotten, as it is of sources that are gone.
    """

    __slots__ = ("_floor", "_left")

    def __init__(self) -> None:
        self._floor = Resumption()
        self._left: dict[str, Resumption] = {}

    def __len__(self) -> int:
        return len(self._left)

    def keep(self, group: str, resumption: Resumption) -> None:
        """A group was left."""
        self._left[group] = resumption
        if len(self._left) > LEFT_LIMIT:
            floor, old = self._floor, self._left.pop(next(iter(self._left)))
            self._floor = Resumption(
                max(floor.number, old.number), max(floor.stretch, old.stretch), max(floor.change, old.change)
            )

    def take(self, group: str) -> Resumption:
        """A group is joined, perhaps again."""
        floor = self._floor
        return self._left.pop(group, None) or Resumption(floor.number, floor.stretch, floor.change)
