"""What many say, combined on its way (000 3.5, 5.4.2): a minimum for stability, a maximum for cuts.

A combined entry also says how many stand behind it and the exclusive or of their fingerprints. Whoever gets the
summaries of all coordinators knows from these whether each process it counts is in it exactly once: one that nobody
counts, or two, while it moves between coordinators, does not match, and then nothing moves (erratum E7).
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec import Struct

from unisono.engine import Address, is_multicast
from unisono.identity import ProcessId
from unisono.wire.control_messages import Contributed, Contribution, Entry, Summary

STABILITY, CUT = 0, 1
TOPICS = (STABILITY, CUT)
ENTRIES_LIMIT = 4096
"""Entries that one contributor, and one sum, may have."""
CONTRIBUTORS_LIMIT = 256
"""Local processes that may contribute."""
WITHDRAWALS = 3
"""How often it is said that a coordinator no longer speaks of a source."""

Key = tuple[int, int, ProcessId]
"""Group, topic and source."""
Letter = tuple[int, int, str]
"""Group, topic and the address it goes to."""
_COUNT_LIMIT = 1_000_000


class Sum(Struct, frozen=True):
    """What some processes say of one source on one topic."""

    value: int
    count: int
    fingerprint: int
    address: str


def combine(parts: Iterable[Iterable[Contribution]]) -> dict[Key, Sum]:
    """The sums of everything that these say. Unknown topics and addresses that are none of one process are left out."""
    sums: dict[Key, Sum] = {}
    for contributions in parts:
        for contribution in contributions:
            topic = contribution.topic
            if topic not in TOPICS:
                continue
            for entry in contribution.entries:
                key = (contribution.group, topic, entry.source)
                known = sums.get(key)
                if known is None:
                    if len(sums) < ENTRIES_LIMIT and sendable(entry.address):
                        sums[key] = Sum(entry.value, entry.count, entry.fingerprint, entry.address)
                    continue
                sums[key] = Sum(
                    min(known.value, entry.value) if topic == STABILITY else max(known.value, entry.value),
                    min(known.count + entry.count, _COUNT_LIMIT),
                    known.fingerprint ^ entry.fingerprint,
                    min(known.address, entry.address) if sendable(entry.address) else known.address,
                )
    return sums


def sendable(address: str) -> bool:
    return bool(address) and not is_multicast(Address(address))


def as_contributions(sums: dict[Key, Sum], entries_each: int) -> list[Contribution]:
    """The sums as a child hands them on, at most so many entries together."""
    grouped: dict[tuple[int, int], list[Entry]] = {}
    for (group, topic, source), total in sorted(sums.items(), key=lambda item: item[0]):
        grouped.setdefault((group, topic), []).append(
            Entry(source, total.value, total.count, total.fingerprint, total.address)
        )
    return [
        Contribution(group, topic, tuple(entries[start : start + entries_each]))
        for (group, topic), entries in grouped.items()
        for start in range(0, len(entries), entries_each)
    ]


class Stored:
    """What one child says: the newest whole contribution, and the parts of a newer one that have come."""

    __slots__ = ("_coming", "_serial", "contributions", "serial")

    def __init__(self) -> None:
        self.serial = -1
        self.contributions: tuple[Contribution, ...] = ()
        self._serial = -1
        self._coming: dict[int, tuple[Contribution, ...]] = {}

    def add(self, message: Contributed) -> bool | None:
        """Take a part in; whether what it says has changed, None when it is older than what is here."""
        if message.serial <= self.serial or message.serial < self._serial:
            return None
        if message.serial > self._serial:
            self._serial = message.serial
            self._coming.clear()
        self._coming[message.part] = message.contributions
        if len(self._coming) < message.parts:
            return False
        whole = tuple(one for part in sorted(self._coming) for one in self._coming[part])
        changed = whole != self.contributions
        self.serial, self.contributions = message.serial, whole
        self._coming.clear()
        return changed


class Gathering:
    """What the processes here and the children say."""

    __slots__ = ("_children", "_own", "_said", "_withdrawn", "says_something", "serial")

    def __init__(self) -> None:
        self._own: dict[ProcessId, tuple[Contribution, ...]] = {}
        self._children: dict[ProcessId, Stored] = {}
        self._said: dict[Key, Sum] = {}
        self._withdrawn: dict[Key, tuple[str, int]] = {}
        self.serial = 0
        self.says_something = False
        """Whether a process here ever said something: that it says nothing now has to be repeated too."""

    @property
    def empty(self) -> bool:
        return not (self._own or self._children or self._said or self._withdrawn)

    def contribute(self, contributor: ProcessId, contributions: tuple[Contribution, ...]) -> bool:
        """Replace what a process here says; False when there is no room for it."""
        self.says_something = True
        if not contributions:
            self._own.pop(contributor, None)
            return True
        if contributor not in self._own and len(self._own) >= CONTRIBUTORS_LIMIT:
            return False
        self._own[contributor] = contributions
        return True

    @property
    def weight(self) -> int:
        """About how many entries a site hands on: the most that one process of it says."""
        return max((sum(len(one.entries) for one in said) for said in self._own.values()), default=0)

    def receive(self, child: ProcessId, message: Contributed) -> bool | None:
        """A child's word came; as for `Stored.add`."""
        return self._children.setdefault(child, Stored()).add(message)

    def drop(self, child: ProcessId) -> bool:
        """A child is counted no more; whether it had said something."""
        return self._children.pop(child, None) is not None

    def keep(self, children: Container[ProcessId]) -> None:
        """Count nobody but these: an earlier life of a child is no child."""
        for child in [child for child in self._children if child not in children]:
            del self._children[child]

    def drop_children(self) -> None:
        self._children.clear()

    def own(self) -> dict[Key, Sum]:
        """What this site says."""
        return combine(self._own[contributor] for contributor in sorted(self._own))

    def gather(self, topics: Iterable[int], speaks: bool, news: bool = False) -> dict[Letter, list[Summary]]:
        """What the local group says now, in letters; of a process that is no coordinator, nothing.

        With `news`, only what was not said before.
        A source of whom it speaks no more, or who is elsewhere now, is withdrawn a few times: a letter may be lost.
        """
        wanted = set(topics)
        sums: dict[Key, Sum] = {}
        if speaks:
            parts = [self._own[contributor] for contributor in sorted(self._own)]
            parts += [self._children[child].contributions for child in sorted(self._children)]
            sums = {key: total for key, total in combine(parts).items() if key[1] in wanted}
        for key, said in self._said.items():
            if key[1] in wanted and (key not in sums or sums[key].address != said.address):
                self._withdrawn[key] = (said.address, WITHDRAWALS)
        said_before = self._said
        self._said = {key: said for key, said in self._said.items() if key[1] not in wanted} | sums
        letters: dict[Letter, list[Summary]] = {}
        for key in sorted(key for key in self._withdrawn if key[1] in wanted):
            address, left = self._withdrawn.pop(key)
            if key in sums and sums[key].address == address:
                continue
            letters.setdefault((key[0], key[1], address), []).append(Summary(key[2], 0, 0, 0))
            if left > 1:
                self._withdrawn[key] = (address, left - 1)
        for key in sorted(sums):
            total = sums[key]
            if news and said_before.get(key) == total:
                continue
            summary = Summary(key[2], total.value, total.count, total.fingerprint)
            letters.setdefault((key[0], key[1], total.address), []).append(summary)
        return letters
