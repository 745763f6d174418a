"""The peers of a group that were heard lately: their newest lives, and since when each is silent."""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.reliable.silence import Silence

PEER_LIMIT = 10_000


class Peers:
    """Who is there, by name. Of two lives of one name the newer counts, until it has been silent for long."""

    __slots__ = ("_newest", "_silence")

    def __init__(self) -> None:
        self._newest: dict[str, ProcessId] = {}
        self._silence = Silence()

    def __bool__(self) -> bool:
        """Whether anybody was heard lately."""
        return bool(self._newest)

    def __len__(self) -> int:
        return len(self._newest)

    @property
    def full(self) -> bool:
        return len(self._newest) >= PEER_LIMIT

    def next_silent(self, timeout: int) -> int:
        """When the first of them will have been silent for so long; there is one."""
        return self._silence.next_silent(timeout)

    def newest(self, name: str) -> ProcessId | None:
        return self._newest.get(name)

    def hear(self, peer: ProcessId, now: int) -> ProcessId | None:
        """Note that a peer lives; its earlier life, when this is the first word of a new one."""
        earlier = self._newest.get(peer.name)
        self._newest[peer.name] = peer
        self._silence.hear(peer, now)
        if earlier is None or earlier == peer:
            return None
        self._silence.forget(earlier)
        return earlier

    def silence(self, peer: ProcessId, now: int) -> int | None:
        """For how long a peer has been silent, if it is one."""
        return self._silence.lasts(peer, now)

    def forget_silent(self, now: int, timeout: int, leniently: bool) -> list[ProcessId]:
        """Who has been silent for so long, or leniently for longer than it uses to be."""
        silent = self._silence.silent(now, timeout, leniently)
        for peer in silent:
            self._silence.forget(peer)
            del self._newest[peer.name]
        return silent

    def forgive(self, gap: int) -> None:
        self._silence.forgive(gap)
