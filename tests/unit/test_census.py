"""The estimate of a group's size: its interval holds the truth as often as it says, whatever is lost."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from unisono.events import AudienceEstimate
from unisono.identity import ProcessId
from unisono.intergroup.census import KEPT, PART, Counted, estimate, in_part

ASKER = ProcessId("asker", 7)


def count(size: int, level: int, parts: int, arrives: float, random: Random) -> AudienceEstimate:
    """Ask so many parts twice each; a request and its answer arrive together with that chance."""
    sizes = Counter(random.randrange(1 << level) for _ in range(size))
    counted = []
    for part in range(parts):
        heard = [(random.random() < arrives, random.random() < arrives) for _ in range(sizes[part])]
        both = sum(first and second for first, second in heard)
        counted.append(Counted(sum(first for first, _ in heard), sum(second for _, second in heard), both))
    return estimate(counted, level)


@pytest.mark.parametrize("arrives", [1.0, 0.9, 0.7])
@pytest.mark.parametrize(("size", "level", "parts"), [(40, 0, 1), (1000, 5, 8), (1000, 5, KEPT), (3000, 6, KEPT)])
def test_the_interval_holds_nineteen_of_twenty_times(size: int, level: int, parts: int, arrives: float) -> None:
    """Of two hundred, within three standard deviations of what is promised."""
    held, runs = 0, 200
    for seed in range(runs):
        known = count(size, level, parts, arrives, Random(seed))
        held += known.low <= size + 1 <= known.high
    assert held >= runs * 0.95 - 3 * (runs * 0.95 * 0.05) ** 0.5


def test_the_error_is_small_where_parts_are_as_they_should_be() -> None:
    known = estimate([Counted(PART, PART, PART)] * KEPT, 20)
    assert known.error / known.count < 0.04
    smallest = estimate([Counted(PART // 2, PART // 2, PART // 2)] * KEPT, 20)
    assert smallest.error / smallest.count < 0.06


def test_who_all_answered_twice_is_counted_exactly() -> None:
    known = estimate([Counted(9, 9, 9), Counted(7, 7, 7)], 1)
    assert (known.count, known.error, known.low, known.high) == (17, 0.0, 17, 17)
    assert str(known) == "17"


def test_nobody_else() -> None:
    assert estimate([Counted(0, 0, 0)], 0) == AudienceEstimate(1, 0.0, 1)


def test_every_member_is_in_one_part_and_parts_are_alike() -> None:
    sizes = [sum(in_part(ASKER, ProcessId(f"r{index}", 3), 3, part) for index in range(800)) for part in range(8)]
    assert sum(sizes) == 800
    assert 70 <= min(sizes) <= max(sizes) <= 130
