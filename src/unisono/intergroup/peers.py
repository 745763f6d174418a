"""The peers of a group that were heard lately: the life of each that counts, and since when it is silent.

A restart has another incarnation, and a higher one as a rule: a life that was never heard takes the place of a lower
one at once. Where the clock was set back and the disk lost it is lower (ADR 2), and looks like an old packet of a life
before. So a lower life, or one that another has replaced, takes the place of the one that counts only when that is
silent: soon if it speaks of a later time than the other did, and otherwise after a longer silence.
"""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.reliable.silence import Silence

PEER_LIMIT = 10_000
REPLACED_LIMIT = 1024
"""Of so many lives it is remembered that another took their place."""
WITHOUT_PROOF = 2
"""So many times the least silence, and a life gives way to any other of its name."""


class Peers:
    """Who is there, by name: of each name one life, the last one as far as can be told."""

    __slots__ = ("_last", "_replaced", "_said", "_silence")

    def __init__(self) -> None:
        self._last: dict[str, ProcessId] = {}
        self._said: dict[str, int] = {}
        """The latest time that each of them spoke of."""
        self._replaced: dict[ProcessId, None] = {}
        self._silence = Silence()

    def __bool__(self) -> bool:
        """Whether anybody was heard lately."""
        return bool(self._last)

    def __len__(self) -> int:
        return len(self._last)

    @property
    def full(self) -> bool:
        return len(self._last) >= PEER_LIMIT

    def next_silent(self, timeout: int) -> int:
        """When the first of them will have been silent for so long; there is one."""
        return self._silence.next_silent(timeout)

    def last(self, name: str) -> ProcessId | None:
        return self._last.get(name)

    def may_follow(self, peer: ProcessId, said: int | None, now: int, least: int) -> bool:
        """Whether a life may take the place of the last one of its name, or is that; `said` is the time it speaks of,
        and nobody is silent before `least`."""
        last = self._last.get(peer.name)
        if last is None or peer == last or (peer.incarnation > last.incarnation and peer not in self._replaced):
            return True
        later = said is not None and said > self._said.get(peer.name, 0)
        return self._silence.is_silent(last, now, least if later else WITHOUT_PROOF * least)

    def hear(self, peer: ProcessId, now: int, said: int | None = None) -> ProcessId | None:
        """Note that a peer lives; its earlier life, when this is the first word of another one."""
        earlier = self._last.get(peer.name)
        self._last[peer.name] = peer
        self._silence.hear(peer, now)
        if earlier != peer:
            self._said.pop(peer.name, None)
        if said is not None:
            self._said[peer.name] = max(said, self._said.get(peer.name, said))
        if earlier is None or earlier == peer:
            return None
        self._silence.forget(earlier)
        self._replaced.pop(peer, None)
        self._replaced[earlier] = None
        if len(self._replaced) > REPLACED_LIMIT:
            del self._replaced[next(iter(self._replaced))]
        return earlier

    def silence(self, peer: ProcessId, now: int) -> int | None:
        """For how long a peer has been silent, if it is one."""
        return self._silence.lasts(peer, now)

    def forget_silent(self, now: int, timeout: int, leniently: bool) -> list[ProcessId]:
        """Who has been silent for so long, or leniently for longer than it uses to be."""
        silent = self._silence.silent(now, timeout, leniently)
        for peer in silent:
            self._silence.forget(peer)
            del self._last[peer.name]
            self._said.pop(peer.name, None)
        return silent

    def forgive(self, gap: int) -> None:
        self._silence.forgive(gap)
