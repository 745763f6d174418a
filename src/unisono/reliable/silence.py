"""Failure detection from the message flow: who has been silent for how long.

A process that was itself stopped hears nothing meanwhile; `forgive` keeps it from blaming the others for that.
"""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.units import SECOND

SELDOM = SECOND
"""Who lets so much time pass between two packets speaks seldom."""


class Silence:
    """When each peer was last heard, and how long before that, of those who speak seldom."""

    __slots__ = ("_heard", "_rests")

    def __init__(self) -> None:
        self._heard: dict[ProcessId, int] = {}
        self._rests: dict[ProcessId, int] = {}

    def hear(self, peer: ProcessId, now: int) -> None:
        rest = now - self._heard.get(peer, now)
        if rest > SELDOM:
            self._rests[peer] = rest
        elif self._rests:
            self._rests.pop(peer, None)
        self._heard[peer] = now

    def forget(self, peer: ProcessId) -> None:
        self._heard.pop(peer, None)
        self._rests.pop(peer, None)

    def lasts(self, peer: ProcessId, now: int) -> int | None:
        """For how long a peer has been silent, if it was ever heard."""
        heard = self._heard.get(peer)
        return None if heard is None else now - heard

    def silent(self, now: int, timeout: int, leniently: bool = False) -> list[ProcessId]:
        """The peers not heard for `timeout`; leniently, who speaks seldom is given time to have done so twice."""
        return sorted(
            peer for peer, heard in self._heard.items() if now - heard >= self._limit(peer, timeout, leniently)
        )

    def is_silent(self, peer: ProcessId, now: int, timeout: int) -> bool:
        """Whether a peer that was heard once has been silent for so long, and for longer than it uses to be."""
        return now - self._heard[peer] >= self._limit(peer, timeout, leniently=True)

    def next_silent(self, timeout: int, leniently: bool = False) -> int:
        """When the first of them will be silent, if it stays so; there is one."""
        return min(heard + self._limit(peer, timeout, leniently) for peer, heard in self._heard.items())

    def _limit(self, peer: ProcessId, timeout: int, leniently: bool) -> int:
        return max(timeout, 5 * self._rests.get(peer, 0) // 2) if leniently and self._rests else timeout

    def forgive(self, gap: int) -> None:
        """This process was stopped for `gap`: nobody could be heard in that time."""
        for peer in self._heard:
            self._heard[peer] += gap
