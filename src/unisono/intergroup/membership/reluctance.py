"""Who was left out of a view lately is not taken in again at once: merges back off from one another (E8, N3).

The document blocks such a process for a fixed time (`blockSet`). Here the time doubles while a process keeps failing
soon after it came, and begins anew when it has stayed.
"""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.units import SECOND

MOST = 5 * SECOND
STAYED = 10 * SECOND
"""Who has been in the view for so long fails as if for the first time."""
REMEMBERED = 4096


class _Past:
    __slots__ = ("failures", "joined", "until")

    def __init__(self) -> None:
        self.failures = 0
        self.joined: int | None = None
        self.until = 0


class Reluctance:
    """Until when each process that failed is kept off."""

    __slots__ = ("_first", "_past")

    def __init__(self, first: int) -> None:
        self._first = first
        self._past: dict[ProcessId, _Past] = {}

    def on_failed(self, process: ProcessId, now: int) -> None:
        past = self._past.pop(process, None) or _Past()
        if past.joined is not None and now - past.joined >= STAYED:
            past.failures = 0
        past.failures += 1
        past.joined = None
        past.until = now + min(self._first << min(past.failures - 1, 10), MOST)
        self._past[process] = past
        while len(self._past) > REMEMBERED:
            del self._past[next(iter(self._past))]

    def on_joined(self, process: ProcessId, now: int) -> None:
        past = self._past.get(process)
        if past is not None and past.joined is None:
            past.joined = past.until = now  # if it goes by its own word, it may come back at once

    def refuses(self, process: ProcessId, now: int) -> bool:
        return now < self.until(process, now)

    def until(self, process: ProcessId, now: int) -> int:
        """When to think of a process again: now, for one that did not fail."""
        past = self._past.get(process)
        return now if past is None else past.until
