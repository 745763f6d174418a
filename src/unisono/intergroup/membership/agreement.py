"""Whom the senders want in the next view, as each of them says it (000 figure 5.5).

In the document whoever is accused by anybody is out (E8: one sick observer expels the healthy). Here an accusation
counts where enough others join in it; one that stays alone is settled by dropping whoever is at odds with most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import msgspec
from msgspec import Struct
from xxhash import xxh3_64_intdigest

from unisono.identity import ProcessId, ViewId
from unisono.wire.membership_messages import Opinion


class Proposal(Struct, frozen=True):
    """A membership on which all of its members agree, each with one of its attempts."""

    number: int
    members: tuple[tuple[ProcessId, int], ...]
    failed: tuple[ProcessId, ...]

    @property
    def leader(self) -> ProcessId:
        return self.members[0][0]

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        return tuple(process for process, _ in self.members)


class Agreement:
    """The opinions of those who are considered for the next view."""

    __slots__ = ("_era", "_process", "gone", "lacking", "opinions", "procs", "unheard")

    def __init__(self, process: ProcessId) -> None:
        self._process = process
        self._era: ViewId | None = None
        self.procs: set[ProcessId] = {process}
        self.unheard: set[ProcessId] = set()
        """Whom this process does not hear."""
        self.lacking: dict[ProcessId, int] = {}
        """Of whom a message does not come, whatever is asked for, and which."""
        self.gone: set[ProcessId] = set()
        """Who is out of this process's view for certain, by its own word or deed."""
        self.opinions: dict[ProcessId, Opinion] = {}

    def begin(self, members: Iterable[ProcessId], era: ViewId | None = None) -> None:
        """Start from the members of the current view."""
        self._era = era
        self.procs = {self._process, *members}
        self.unheard.clear()
        self.lacking.clear()
        self.gone.clear()

    @property
    def accused(self) -> set[ProcessId]:
        """With whom this process cannot go on."""
        return self.unheard | self.lacking.keys()

    def invite(self, stranger: ProcessId) -> None:
        """Consider a process that is in another view. That it once left this one out is past."""
        self.procs.add(stranger)
        opinion = self.opinions.get(stranger)
        if opinion is not None and self._process in opinion.failed:
            del self.opinions[stranger]

    def forget(self, processes: Iterable[ProcessId]) -> None:
        """They are members no more, by their own word, and nobody need leave them out; who comes back is a stranger."""
        for process in processes:
            self.procs.discard(process)
            self.unheard.discard(process)
            self.gone.discard(process)
            self.lacking.pop(process, None)
            self.opinions.pop(process, None)

    def accusers(self, suspect: ProcessId) -> set[ProcessId]:
        """Who cannot go on with a process. Whoever accuses this one, which lives, is no witness against others."""
        others = {process for process, opinion in self._witnesses() if suspect in opinion.accused}
        return others | {self._process} if suspect in self.accused else others

    def _join_in(self, suspect: ProcessId) -> set[ProcessId]:
        """Who leaves out a process that this one accuses, whatever its reason is."""
        if suspect not in self.accused:
            return set()
        return {process for process, opinion in self._witnesses() if suspect in opinion.failed and process != suspect}

    def farewell(self, process: ProcessId) -> Opinion | None:
        """The last word of a process, if that was that it leaves."""
        opinion = self.opinions.get(process)
        return opinion if opinion is not None and opinion.out else None

    def has_said_farewell(self, process: ProcessId) -> bool:
        return self.farewell(process) is not None

    def _witnesses(self) -> Iterator[tuple[ProcessId, Opinion]]:
        for process, opinion in self.opinions.items():
            if process in self.procs and self._process not in opinion.accused:
                yield process, opinion

    def failed(self, arbitrate: bool, behind: Collection[ProcessId] = ()) -> set[ProcessId]:
        """Processes left out of the next view, by all that is known; the `behind` cannot get what was delivered here.

        `arbitrate` when waiting longer would change nothing.
        """
        others = self.procs - {self._process}
        newest = {process.name: process for process in sorted(self.procs - self.gone)}
        out = {process for process in others if newest.get(process.name) != process}
        out |= {process for process in others if process in behind or self.has_said_farewell(process)}
        observing, gone = self.procs - self.accused - out, frozenset(out)
        for suspect in others - out:
            observers = len(observing - {suspect})
            enough = min(observers, max(2, observers // 2 + 1))
            accusers = self.accusers(suspect) | self._join_in(suspect)
            if len(accusers - gone) >= enough:  # who is out accuses nobody
                out.add(suspect)
        return out | self._at_odds(out) if arbitrate else out

    def refused(self, failed: set[ProcessId]) -> set[ProcessId]:
        """Who leaves this process out: it cannot be in one view with them, whatever it thinks of them itself."""
        return {
            process
            for process in self.procs - failed
            if process in self.opinions and self._process in self.opinions[process].failed
        }

    def proposal(self, attempt: int, failed: set[ProcessId]) -> Proposal | None:
        """What everybody who would be a member agrees on, if they do; nothing, while one of them accuses another."""
        members = self.procs - failed
        if any(not members.isdisjoint(self._accused_by(process)) for process in members):
            return None
        attempts = [(self._process, attempt)]
        for process in members - {self._process}:
            opinion = self.opinions.get(process)
            if opinion is None or opinion.members != members:
                return None
            attempts.append((process, opinion.attempt))
        attempts.sort()
        number = xxh3_64_intdigest(msgspec.msgpack.encode(attempts)) >> 1
        return Proposal(number, tuple(attempts), tuple(sorted(failed)))

    def dissenters(self, failed: set[ProcessId]) -> set[ProcessId]:
        """Those of the next view, as this process sees it, who say nothing; where all say something, who wants another.

        Those who wait for the same silent one lose patience at the same time, and not with one another.
        """
        members = self.procs - failed
        others = members - {self._process}
        silent = self.silent_of(others)
        return silent or {process for process in others if self.opinions[process].members != members}

    def silent_of(self, processes: set[ProcessId]) -> set[ProcessId]:
        """Those who have said nothing yet."""
        return processes - self.opinions.keys()

    def blamed_by(self, failed: ProcessId) -> tuple[ProcessId, ...]:
        """Who did not hear a process that is left out: itself if it goes by its own will."""
        opinion = self.opinions.get(failed)
        return (failed,) if opinion is not None and opinion.out else tuple(sorted(self.accusers(failed)))

    def lacked(self, failed: Iterable[ProcessId]) -> tuple[ProcessId, ...]:
        """Who of those that are left out has sent a message that others cannot get, or cannot get one itself."""
        lacking = {process for process, opinion in self.opinions.items() if opinion.lacks}
        named = {source for process in lacking for source, _ in self.opinions[process].lacks}
        found = lacking | self.lacking.keys() | (named - self.unheard)
        return tuple(process for process in failed if process in found)

    def _at_odds(self, out: set[ProcessId]) -> set[ProcessId]:
        """The fewest, roughly, without whom nobody accuses anybody: the one at odds with most goes first.

        Of two from different views the one of the smaller goes, whoever accuses whom: a stranger drives no member out.
        A stranger that leaves this process out is not in its next view, and is at odds with nobody there.
        Of one view a lone accuser of somebody who hears it goes before the accused.
        """
        considered = {process for process in self.procs - out if not self._is_left_out_by_stranger(process)}
        eras = Counter(map(self._era_of, considered))
        del eras[None]  # those that have said nothing are no view, however many they are
        odds = {
            (process, suspect)
            for process in considered
            for suspect in {*self._accused_by(process), *self._failed_by(process)}
            if suspect in considered and suspect != process
        }
        dropped: set[ProcessId] = set()
        while odds:
            weights: dict[ProcessId, int] = {}
            for process, suspect in odds:
                sizes = eras[self._era_of(process)], eras[self._era_of(suspect)]
                mutual = (suspect, process) in odds
                against_accuser = (2 if mutual else 3) if sizes[0] == sizes[1] else int(sizes[0] < sizes[1]) * 3
                against_accused = 2 if sizes[0] == sizes[1] else int(sizes[1] < sizes[0]) * 3
                weights[process] = weights.get(process, 0) + against_accuser
                weights[suspect] = weights.get(suspect, 0) + against_accused
            worst = max(weights, key=lambda process: (weights[process], -eras[self._era_of(process)], process))
            dropped.add(worst)
            odds = {pair for pair in odds if worst not in pair}
        return dropped - {self._process}

    def _failed_by(self, process: ProcessId) -> Iterable[ProcessId]:
        """Whom a process leaves out that comes from another view than it does: whoever merges cannot have both."""
        opinion = self.opinions.get(process)
        if opinion is None or opinion.view != self._era:
            return () if opinion is None else opinion.failed
        return [one for one in opinion.failed if self._era_of(one) != self._era]

    def _is_left_out_by_stranger(self, process: ProcessId) -> bool:
        """True for a process from another view that leaves this one out."""
        opinion = self.opinions.get(process)
        return opinion is not None and opinion.view != self._era and self._process in opinion.failed

    def _era_of(self, process: ProcessId) -> ViewId | None:
        """The view that a process comes from, as it says."""
        if process == self._process:
            return self._era
        opinion = self.opinions.get(process)
        return None if opinion is None else opinion.view

    def _accused_by(self, process: ProcessId) -> Iterable[ProcessId]:
        if process == self._process:
            return self.accused
        opinion = self.opinions.get(process)
        return () if opinion is None else opinion.accused
