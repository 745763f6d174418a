"""Reports that came together: what coordinators say for many receivers at once (000 3.5).

A sum counts only when it is of exactly those receivers that the source counts, each once: their number and the
exclusive or of their marks say so. While a receiver moves between coordinators, or its word is lost, the sum does not
match and nothing becomes stable (E7).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from xxhash import xxh3_64_intdigest

from unisono.identity import ProcessId
from unisono.units import SECOND
from unisono.wire.control_messages import Summary

EXPIRY = 6 * SECOND
"""A coordinator that says nothing for this long speaks for nobody any more."""
ORIGIN_LIMIT = 4096
NEWCOMER = 5 * SECOND
"""So long a receiver speaks for itself whatever the source has: many do not stay for longer, and a sum in which some
are not yet and others still is fits nobody."""
UNSURE_LIMIT = 40
"""Of so many it can be found out whether they are in a sum; of more, chance might find an answer."""


def receiver_mark(source: ProcessId, receiver: ProcessId, attempt: int) -> int:
    """What stands for one activation of one receiver in a sum."""
    return xxh3_64_intdigest(f"{source}\0{receiver}\0{attempt}".encode())


def find_subset(difference: int, marks: Sequence[int]) -> list[int] | None:
    """Which of these marks, by their places, make up a difference; None where none do, or where it is not certain."""
    if len(marks) > UNSURE_LIMIT:
        return None
    basis: dict[int, tuple[int, int]] = {}
    for place, mark in enumerate(marks):
        rest, chosen = _reduce(mark, 1 << place, basis)
        if not rest:
            return None
        basis[rest.bit_length()] = rest, chosen
    rest, chosen = _reduce(difference, 0, basis)
    return None if rest else [place for place in range(len(marks)) if chosen >> place & 1]


def _reduce(mark: int, chosen: int, basis: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """What is left of a mark when others are taken out of it, and which these are."""
    while mark and (known := basis.get(mark.bit_length())) is not None:
        mark, chosen = mark ^ known[0], chosen ^ known[1]
    return mark, chosen


class Total(Struct, frozen=True):
    """What all coordinators say: everything up to `value` is with all of `count` receivers, or with one of them."""

    value: int
    count: int
    marks: int


class Word(Struct, frozen=True):
    """The last that one coordinator said."""

    serial: int
    summary: Summary
    at: int


class GatheredReports:
    """The words of all coordinators about one source: the lowest that they say counts, or the highest."""

    __slots__ = ("_highest", "_words")

    def __init__(self, highest: bool = False) -> None:
        self._highest = highest
        self._words: dict[ProcessId, Word] = {}

    def take(self, origin: ProcessId, serial: int, summary: Summary, now: int) -> None:
        """A coordinator spoke; what is older than its last word is passed over."""
        word = self._words.get(origin)
        if word is not None and serial <= word.serial:
            return
        if word is not None or len(self._words) < ORIGIN_LIMIT:
            self._words[origin] = Word(serial, summary, now)

    def total(self, now: int) -> Total:
        """Everything that is said now, added up."""
        for origin in [origin for origin, word in self._words.items() if now - word.at >= EXPIRY]:
            del self._words[origin]
        value, count, marks = (0 if self._highest else 1 << 62), 0, 0
        for word in self._words.values():
            if word.summary.count:
                said = word.summary.value
                value = max(value, said) if self._highest else min(value, said)
                count += word.summary.count
                marks ^= word.summary.fingerprint
        return Total(value, count, marks)
