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
