"""Failure detection from the message flow: who has been silent for how long.

A process that was itself stopped hears nothing meanwhile; `forgive` keeps it from blaming the others for that.
"""

from __future__ import annotations

from unisono.identity import ProcessId


class Silence:
    """When each peer was last heard."""

    __slots__ = ("_heard",)

    def __init__(self) -> None:
        self._heard: dict[ProcessId, int] = {}

    def hear(self, peer: ProcessId, now: int) -> None:
        self._heard[peer] = now

    def forget(self, peer: ProcessId) -> None:
        self._heard.pop(peer, None)

    def silent(self, now: int, timeout: int) -> list[ProcessId]:
        """The peers not heard for `timeout`."""
        return sorted(peer for peer, heard in self._heard.items() if now - heard >= timeout)

    @property
    def longest(self) -> int:
        """Since when the one has been silent that has been so for longest."""
        return min(self._heard.values())

    def forgive(self, gap: int) -> None:
        """This process was stopped for `gap`: nobody could be heard in that time."""
        for peer in self._heard:
            self._heard[peer] += gap
