"""How long everything in timestamp order has waited for one source (000 5.2.2, PFailBlock)."""

from __future__ import annotations

from typing import NamedTuple

from unisono.identity import ProcessId


class Awaited(NamedTuple):
    """Nothing can be delivered before this source brings its next message, or says that its time has passed."""

    source: ProcessId
    sequence: int
    """Of its next message."""
    reached: int
    """How far its time has come."""
    exists: bool
    """Whether that message is known to have been sent."""


class Waiting:
    """The clock of a standstill: it begins anew with every message and every time that comes."""

    __slots__ = ("_awaited", "_since")

    def __init__(self) -> None:
        self._awaited: Awaited | None = None
        self._since = 0

    def look(self, awaited: Awaited | None, now: int) -> None:
        """See what is waited for now."""
        if awaited != self._awaited:
            self._awaited = awaited
            self._since = now

    def forgive(self, gap: int) -> None:
        """This process itself was stopped: nothing could come meanwhile."""
        self._since += gap

    def overdue(self, limit: int, now: int) -> Awaited | None:
        """What has been waited for, without any progress, for as long as that."""
        return self._awaited if now - self._since >= limit else None
