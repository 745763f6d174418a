"""Senders in other views that are heard: when to merge with them (PForeign), and with whom rather not yet."""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.intergroup.membership.reluctance import Reluctance
from unisono.settings import Settings


class Merging:
    """The strangers of one sender: all of them merge at once, soon, and not too often with the same."""

    __slots__ = ("_settings", "_strangers", "due", "reluctance")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._strangers: dict[ProcessId, int] = {}
        """Senders in other views, and when each was last heard."""
        self.reluctance = Reluctance(settings.keep_alive)
        self.due: int | None = None
        """When to begin a merge."""

    def hear(self, stranger: ProcessId, now: int) -> None:
        self._strangers[stranger] = now

    def forget(self) -> None:
        """Another view stands: who is still a stranger is heard again."""
        self._strangers.clear()

    def plan(self, now: int) -> bool:
        """Decide when to merge; False when there is nobody to merge with."""
        timeout = self._settings.suspicion
        self._strangers = {one: at for one, at in self._strangers.items() if now - at < timeout}
        if not self._strangers:
            return False
        willing = min(self.reluctance.until(stranger, now) for stranger in self._strangers)
        due = max(willing, now + self._settings.merge_delay)
        if self.due is None or self.due > due:
            self.due = due
        return True

    def begin(self, now: int) -> list[ProcessId]:
        """It is time: with whom to merge."""
        self.due = None
        return sorted(one for one in self._strangers if not self.reluctance.refuses(one, now))
