"""Whom this process cannot work with: members that it does not hear, or that hold it up, are accused at the servers.

An accusation stands until the member is heard again, or takes what it is sent again, and not for less than the time
that views need to settle.
"""

from __future__ import annotations

from collections.abc import Collection

from unisono.identity import ProcessId
from unisono.reliable.step import Step
from unisono.reliable.suspicion import Suspicion, least_silence
from unisono.settings import Settings
from unisono.trace.schema import MembershipRow

ACCUSED_LIMIT = 1024
"""The most members that are accused; the oldest accusation, most likely of a process that has ended, gives way."""


class _Accusation:
    __slots__ = ("heard", "since", "slow")

    def __init__(self, since: int, slow: bool) -> None:
        self.since = since
        self.slow = slow
        self.heard = False


class Watching:
    """Who is accused by this process in one group."""

    __slots__ = ("_accused", "_settings", "_suspicion", "changed")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._suspicion = Suspicion(least_silence(settings))
        self._accused: dict[ProcessId, _Accusation] = {}
        self.changed = False
        """Who is accused has changed since the servers were told."""

    @property
    def accused(self) -> tuple[ProcessId, ...]:
        return tuple(sorted(self._accused))

    def expect(self, members: Collection[ProcessId], now: int) -> None:
        """These are to be heard from now on, and nobody else."""
        self._suspicion.keep(members)
        for member in members:
            self._suspicion.watch(member, now)

    def forgive(self, gap: int) -> None:
        """This process itself was stopped."""
        self._suspicion.forgive(gap)

    def on_heard(self, peer: ProcessId, now: int) -> None:
        self._suspicion.hear(peer, now)
        accusation = self._accused.get(peer)
        if accusation is not None and not accusation.slow:
            accusation.heard = True

    def on_reading(self, peer: ProcessId) -> None:
        """A member says that its application takes what comes."""
        accusation = self._accused.get(peer)
        if accusation is not None:
            accusation.heard = True

    def accuse(self, step: Step, peer: ProcessId, slow: bool) -> None:
        if peer in self._accused:
            return
        while len(self._accused) >= ACCUSED_LIMIT:
            del self._accused[next(iter(self._accused))]
        self._accused[peer] = _Accusation(step.now, slow)
        self.changed = True
        step.mark("vs-accused")
        reason = "slow" if slow else "silent"
        step.record(MembershipRow(kind="SUSPECT", peer=peer.name, peer_incarnation=peer.incarnation, reason=reason))

    def look(self, step: Step) -> None:
        """Accuse who has been silent for too long, and withdraw what no longer holds."""
        for peer in self._suspicion.suspects(step.now):
            self.accuse(step, peer, slow=False)
        for peer, accusation in list(self._accused.items()):
            if accusation.heard and step.now - accusation.since >= self._settings.merge_delay:
                del self._accused[peer]
                self._suspicion.hear(peer, step.now)
                self.changed = True
                step.mark("vs-withdrawn")
