"""The rules of the control hierarchy, one by one: thresholds, the tables of 000 2.5, the pace, the search, the wait."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.engine import Address
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.determination import (
    Appropriateness,
    Surroundings,
    Thresholds,
    appropriateness_of_child,
    appropriateness_of_coordinator,
    chance_of_child,
    chance_of_coordinator,
    child_goes_on,
    coordinator_goes_on,
    thresholds,
    timer_range,
)
from unisono.intergroup.hierarchy.pacing import FIRST_SIZE_BYTES, Pacer
from unisono.intergroup.hierarchy.peers import HELD_LIMIT, PeerTable
from unisono.intergroup.hierarchy.searching import Offer, Purpose, RingSearch
from unisono.intergroup.hierarchy.states import wait_to_decide
from unisono.settings import Settings
from unisono.units import MILLISECOND, SECOND

SETTINGS = Settings(local_target=10, closeness=30 * MILLISECOND, boundary_ttl=16)
LIMITS = Thresholds(4, 12)
CLOSE, APART = 29_999, 30_000
"""Microseconds on either side of the closeness."""


class Fixed:
    """A generator that always draws the same."""

    def __init__(self, value: float) -> None:
        self._value = value

    def random(self) -> float:
        return self._value


@pytest.mark.parametrize(
    ("members", "expected"), [(1, (3, 9)), (20, (3, 9)), (200, (10, 21)), (1000, (23, 46)), (10_000, (75, 150))]
)
def test_thresholds_grow_with_the_root_of_the_size(members: int, expected: tuple[int, int]) -> None:
    assert thresholds(Settings(), members) == expected


def test_thresholds_are_never_the_wrong_way_round() -> None:
    assert thresholds(Settings(low_coordinators=50, high_coordinators=9), 20) == (50, 51)


@pytest.mark.parametrize(
    ("coordinators", "local_count", "closest", "expected"),
    [
        (3, 0, CLOSE, Appropriateness.NO_CHANGE),
        (4, 0, CLOSE, Appropriateness.NO_CHANGE),
        (5, 0, CLOSE, Appropriateness.APPROPRIATE),
        (5, 0, APART, Appropriateness.INAPPROPRIATE),
        (5, 0, None, Appropriateness.INAPPROPRIATE),
        (5, 9, CLOSE, Appropriateness.NEUTRAL),
        (5, 10, CLOSE, Appropriateness.INAPPROPRIATE),
        (5, 9, APART, Appropriateness.INAPPROPRIATE),
    ],
)
def test_table_2_2_for_a_coordinator(
    coordinators: int, local_count: int, closest: int | None, expected: Appropriateness
) -> None:
    seen = Surroundings(coordinators, local_count, 100, closest)
    assert appropriateness_of_coordinator(seen, LIMITS, SETTINGS) is expected


@pytest.mark.parametrize(
    ("local_count", "hops", "distance", "apart", "expected"),
    [
        (11, 17, 1, None, Appropriateness.APPROPRIATE),
        (10, 17, 1, None, Appropriateness.NEUTRAL),
        (11, 16, 1, None, Appropriateness.INAPPROPRIATE),
        (10, 16, 15_000, None, Appropriateness.INAPPROPRIATE),
        (10, 16, 15_001, None, Appropriateness.NEUTRAL),
        (11, 1, 15_001, None, Appropriateness.APPROPRIATE),
        (10, 1, 5_001, 20_000, Appropriateness.NEUTRAL),
        (10, 1, 5_000, 20_000, Appropriateness.INAPPROPRIATE),
        (10, 1, 900, 1_000, Appropriateness.INAPPROPRIATE),  # on a LAN nobody is far
    ],
)
def test_table_2_2_for_a_child(
    local_count: int, hops: int, distance: int, apart: int | None, expected: Appropriateness
) -> None:
    assert appropriateness_of_child(Surroundings(5, local_count, 100, distance, hops, apart), SETTINGS) is expected


@pytest.mark.parametrize(
    ("how", "coordinator_from", "child_below"),
    [
        (Appropriateness.APPROPRIATE, 0, 12),
        (Appropriateness.NEUTRAL, 11, 6),
        (Appropriateness.INAPPROPRIATE, 13, 4),
        (Appropriateness.NO_CHANGE, 99, 0),
    ],
)
def test_table_2_3(how: Appropriateness, coordinator_from: int, child_below: int) -> None:
    """(L + 3H) / 4 = 10 and (3L + H) / 4 = 6; a child never goes on at the high threshold."""
    assert [coordinator_goes_on(how, count, LIMITS) for count in range(20)] == [
        n >= coordinator_from for n in range(20)
    ]
    assert [child_goes_on(how, count, LIMITS) for count in range(20)] == [n < child_below for n in range(20)]


def test_table_2_4() -> None:
    settings = Settings(state_change_low=2 * SECOND, state_change_high=5 * SECOND)
    assert timer_range(Appropriateness.APPROPRIATE, settings) == (2 * SECOND, 5 * SECOND)
    assert timer_range(Appropriateness.NEUTRAL, settings) == (7 * SECOND, 12 * SECOND)
    assert timer_range(Appropriateness.INAPPROPRIATE, settings) == (12 * SECOND, 17 * SECOND)


def test_all_children_together_make_as_many_coordinators_as_are_missing() -> None:
    seen = Surroundings(coordinators=10, local_count=99, members=1000)
    chance = chance_of_child(Appropriateness.INAPPROPRIATE, seen, Thresholds(23, 46))
    assert chance * 990 == pytest.approx(34.5 - 10)
    alone = chance_of_child(Appropriateness.APPROPRIATE, seen, Thresholds(23, 46))
    assert alone * seen.local_count == pytest.approx(1)


def test_a_far_child_draws_a_better_lot() -> None:
    limits = Thresholds(23, 46)
    far, farther = (Surroundings(20, 30, 1000, distance, 1, 20_000) for distance in (6_000, 12_000))
    assert chance_of_child(Appropriateness.NEUTRAL, far, limits) < chance_of_child(
        Appropriateness.NEUTRAL, farther, limits
    )


def test_all_coordinators_together_lose_as_many_as_are_too_many() -> None:
    chance = chance_of_coordinator(Appropriateness.INAPPROPRIATE, Surroundings(60, 3, 1000), Thresholds(23, 46))
    assert chance * 60 == pytest.approx(60 - 34.5)


def test_the_pace_keeps_a_group_within_its_bandwidth() -> None:
    """Figure 2.2: average size times members over the bandwidth, not below the least, spread by a half."""
    pacer = Pacer(bandwidth=1000, least=SECOND)
    assert pacer.average_bytes == FIRST_SIZE_BYTES
    assert pacer.interval(1) == SECOND
    for _ in range(400):
        pacer.saw(200)
    assert pacer.interval(50) == pytest.approx(10 * SECOND)
    assert pacer.next(50, Fixed(0.0)) == pytest.approx(5 * SECOND)
    assert pacer.next(50, Fixed(1.0)) == pytest.approx(15 * SECOND)
    assert pacer.first(Fixed(0.0)) == SECOND // 4
    assert pacer.first(Fixed(1.0)) == 3 * SECOND // 4


def test_the_average_size_moves_by_a_sixteenth() -> None:
    pacer = Pacer(bandwidth=1000, least=SECOND)
    pacer.saw(FIRST_SIZE_BYTES + 160)
    assert pacer.average_bytes == FIRST_SIZE_BYTES + 10


@given(st.lists(st.integers(40, 1400), min_size=1, max_size=60), st.integers(1, 600))
def test_no_group_exceeds_its_bandwidth(sizes: list[int], members: int) -> None:
    pacer = Pacer(bandwidth=8192, least=SECOND)
    for size in sizes:
        pacer.saw(size)
    assert members * pacer.average_bytes / (pacer.interval(members) / SECOND) <= 8192 * (1 + 1e-6) or (
        pacer.interval(members) == SECOND
    )


@pytest.mark.parametrize("many", [20, 200, 1000, 5000])
def test_of_many_that_start_together_few_decide_before_they_hear_of_each_other(many: int) -> None:
    random, early = Random(many), 100 * MILLISECOND
    for _ in range(20):
        waits = sorted(wait_to_decide(3 * SECOND, random) for _ in range(many))
        assert waits[-1] <= 3 * SECOND
        assert sum(wait <= waits[0] + early for wait in waits) <= 12


def test_one_that_starts_alone_does_not_wait_longer_than_it_may() -> None:
    assert wait_to_decide(3 * SECOND, Fixed(1.0)) == pytest.approx(3 * SECOND)
    assert wait_to_decide(3 * SECOND, Fixed(0.0)) == 0


# ── the ring search ──

A, B = ProcessId("a", 1), ProcessId("b", 1)


def test_a_ring_doubles_up_to_the_farthest() -> None:
    search = RingSearch(Purpose.FIRST, 1, 10, None)
    rings = [search.ttl]
    while search.widen():
        rings.append(search.ttl)
    assert rings == [1, 2, 4, 8, 10]


def test_the_nearest_of_those_who_answer_is_taken_and_the_shunned_one_never() -> None:
    search = RingSearch(Purpose.REPLACE, 1, 8, shunned=A)
    search.offer(Offer(A, Address("a"), 1, 10))
    assert search.best() is None
    search.offer(Offer(B, Address("b"), 3, 500))
    search.offer(Offer(ProcessId("c", 1), Address("c"), 1, 700))
    best = search.best()
    assert best is not None
    assert best.process == B


# ── tables of peers ──


def test_a_newer_life_replaces_an_older_one_and_not_the_other_way_round() -> None:
    table = PeerTable(5)
    old, new = ProcessId("a", 1), ProcessId("a", 2)
    assert table.admit(old, Address("x")) is not None
    assert table.admit(new, Address("x")) is not None
    assert old not in table
    assert table.admit(old, Address("x")) is None
    assert len(table) == 1


def test_a_table_has_a_cap() -> None:
    table = PeerTable(3)
    admitted = [table.admit(ProcessId(f"p{index}", 1), Address("x")) is not None for index in range(5)]
    assert admitted == [True, True, True, False, False]


def test_who_misses_its_own_intervals_is_silent() -> None:
    table = PeerTable(3)
    for process, interval in ((A, 1000), (B, 3000)):
        peer = table.admit(process, Address("x"))
        assert peer is not None
        peer.hear(1, 0, 10 * SECOND, Address("x"), 1, interval)
    assert table.silent(15 * SECOND, 5) == []
    assert table.silent(15 * SECOND + 1, 5) == [A]
    table.forgive(SECOND)
    assert table.silent(15 * SECOND + 1, 5) == []


def test_who_waits_longest_for_an_echo_gets_it_first() -> None:
    table = PeerTable(10)
    shorts = []
    for index in range(6):
        peer = table.admit(ProcessId(f"p{index}", 1), Address("x"))
        assert peer is not None
        peer.hear(100 + index, 0, 0, Address("x"), 1, 1000)
        shorts.append(peer.short)
    first = {pair.peer for pair in table.pairs(SECOND, 4)}
    second = {pair.peer for pair in table.pairs(2 * SECOND, 4)}
    assert len(first) == 4
    assert first | second == set(shorts)
    assert first.isdisjoint(second)


def test_an_echo_that_was_held_too_long_is_not_given_back() -> None:
    table = PeerTable(10)
    peer = table.admit(A, Address("x"))
    assert peer is not None
    peer.hear(100, 0, 0, Address("x"), 1, 1000)
    assert table.pairs(HELD_LIMIT + 1, 4) == []
