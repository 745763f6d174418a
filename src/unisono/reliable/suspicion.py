"""Who has been silent for too long, where too long depends on the way each peer has been heard so far (000 5.6).

The least timeout is a setting. Above it the timeout of a peer follows the gaps between its packets: their mean and
deviation, so that a link that loses much is not taken for a dead process. A peer that says it was stopped for a while
gets more time too, for some minutes: it may be stopped again.
"""

from __future__ import annotations

from collections.abc import Collection

from unisono.identity import ProcessId
from unisono.settings import Settings
from unisono.units import SECOND

LEAST_KEEP_ALIVES = 3
"""Nobody is suspected before it was silent for so many keep-alive intervals."""
GAIN = 8
"""One part in so many of every new gap goes into the mean."""
DEVIATIONS = 6
"""A gap so many deviations above the mean is still believed to be one."""
MOST_TIMES = 8
"""No timeout is longer than so many times the least."""
REMEMBERED = 1024
"""Of how many peers it is remembered that they were stopped."""
LENIENCE = 300 * SECOND
"""How long a peer that was stopped is given more time."""


def least_silence(settings: Settings) -> int:
    """Before so much silence nobody is suspected."""
    return max(settings.suspicion, LEAST_KEEP_ALIVES * settings.keep_alive)


class _Link:
    __slots__ = ("deviation", "heard", "lenient_until", "mean", "pause")

    def __init__(self, now: int) -> None:
        self.heard = now
        self.mean = 0
        self.deviation = 0
        self.pause = 0
        self.lenient_until = 0


class Suspicion:
    """How long each watched peer may be silent, and who has been silent for longer."""

    __slots__ = ("_excuses", "_links", "least")

    def __init__(self, least: int) -> None:
        self.least = least
        """Nobody is suspected before so much silence."""
        self._links: dict[ProcessId, _Link] = {}
        self._excuses: dict[ProcessId, tuple[int, int]] = {}
        """For how long each was stopped, and until when that counts: also of those who are not watched now."""

    def watch(self, peer: ProcessId, now: int) -> None:
        """Expect to hear a peer from now on."""
        if peer not in self._links:
            self._links[peer] = link = _Link(now)
            link.pause, link.lenient_until = self._excuses.get(peer, (0, 0))

    def keep(self, peers: Collection[ProcessId]) -> None:
        """Expect nothing of anybody else any more."""
        self._links = {peer: link for peer, link in self._links.items() if peer in peers}

    def hear(self, peer: ProcessId, now: int) -> None:
        """A packet of a peer has come. Its gap counts, if the peer is watched and was not given up meanwhile."""
        link = self._links.get(peer)
        if link is None:
            return
        gap = now - link.heard
        link.heard = now
        if gap <= self._timeout(link, now):
            link.deviation += (abs(gap - link.mean) - link.deviation) // GAIN
            link.mean += (gap - link.mean) // GAIN

    def excuse(self, peer: ProcessId, pause: int, now: int) -> None:
        """A peer says that it was stopped for so long."""
        if pause <= self.least // 2:
            return
        known, until = self._excuses.pop(peer, (0, 0))
        excuse = max(pause, known if now < until else 0), now + LENIENCE
        self._excuses[peer] = excuse
        while len(self._excuses) > REMEMBERED:
            del self._excuses[next(iter(self._excuses))]
        link = self._links.get(peer)
        if link is not None:
            link.pause, link.lenient_until = excuse

    def forgive(self, gap: int) -> None:
        """This process itself was stopped: it could not hear anybody meanwhile."""
        for link in self._links.values():
            link.heard += gap

    def silence(self, peer: ProcessId, now: int) -> tuple[int, int]:
        """For how long a peer has been silent, and how long it may be."""
        link = self._links[peer]
        return now - link.heard, self._timeout(link, now)

    def suspects(self, now: int) -> list[ProcessId]:
        return sorted(peer for peer, link in self._links.items() if now - link.heard >= self._timeout(link, now))

    def next_due(self, now: int) -> int | None:
        """When the next of those who are not suspected yet will be, if it stays silent."""
        dues = (link.heard + self._timeout(link, now) for link in self._links.values())
        return min((due for due in dues if due > now), default=None)

    def next_look(self, now: int) -> int | None:
        """When to look for suspects again, whoever is watched and whatever is heard meanwhile: nobody who is heard
        from now on is due before the least timeout has passed."""
        due = self.next_due(now)
        return None if due is None else min(due, now + self.least)

    def _timeout(self, link: _Link, now: int) -> int:
        timeout = max(self.least, link.mean + DEVIATIONS * link.deviation)
        if now < link.lenient_until:
            timeout = max(timeout, 2 * link.pause)
        return min(timeout, MOST_TIMES * self.least)
