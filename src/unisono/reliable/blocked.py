"""How long an application's sends have waited, and for what: the window, or a view in which this process may send."""

from __future__ import annotations

from typing import Literal

For = Literal["window", "view"]


class Blocked:
    """Adds up the time of waiting; whoever knows says when it begins to wait for something, and when no more."""

    __slots__ = ("_since", "_spent", "_waits_for")

    def __init__(self) -> None:
        self._waits_for: For | None = None
        self._since = 0
        self._spent: dict[For, int] = {"window": 0, "view": 0}

    def note(self, waits_for: For | None, now: int) -> None:
        """From now on something waits for this, or nothing waits."""
        if waits_for == self._waits_for:
            return
        if self._waits_for is not None:
            self._spent[self._waits_for] += now - self._since
        self._waits_for, self._since = waits_for, now

    def take(self, now: int) -> dict[For, int]:
        """The nanoseconds of waiting since the last call."""
        waits_for = self._waits_for
        self.note(None, now)
        self.note(waits_for, now)
        spent, self._spent = self._spent, {"window": 0, "view": 0}
        return spent
