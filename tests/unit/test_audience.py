"""Who is in a sum is found out where that is certain, and what all have received is always right."""

from __future__ import annotations

from functools import reduce
from operator import xor
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from unisono.engine import Address
from unisono.identity import NO_VIEW, ProcessId
from unisono.intergroup.audience import Audience, Listener
from unisono.intergroup.gathered import NEWCOMER, UNSURE_LIMIT, Total, find_subset, receiver_mark
from unisono.units import SECOND

ITSELF = ProcessId("s", 1)
FRESHNESS = 2 * SECOND


def receiver(index: int) -> ProcessId:
    return ProcessId(f"r{index}", 1)


def mark(index: int) -> int:
    return receiver_mark(ITSELF, receiver(index), 1)


def marks(indexes: list[int]) -> int:
    return reduce(xor, map(mark, indexes), 0)


def admit(audience: Audience, index: int, now: int, sequence: int = 1) -> None:
    audience.admit(receiver(index), Listener(Address("x"), 1, False, False, NO_VIEW, (sequence, 1), 0, now))


@given(st.integers(0, UNSURE_LIMIT), st.integers(0, 1 << 32))
def test_the_one_subset_is_found(many: int, seed: int) -> None:
    random = Random(seed)
    everyone = [random.getrandbits(64) for _ in range(many)]
    chosen = sorted(random.sample(range(many), random.randint(0, many)))
    assert find_subset(reduce(xor, (everyone[place] for place in chosen), 0), everyone) == chosen


@given(st.integers(0, 1 << 32))
def test_what_no_subset_makes_up_is_none(seed: int) -> None:
    random = Random(seed)
    everyone = [random.getrandbits(64) for _ in range(UNSURE_LIMIT)]
    assert find_subset(random.getrandbits(64), everyone) is None


def test_an_answer_that_is_not_the_only_one_is_none() -> None:
    assert find_subset(3, [1, 2, 3]) is None
    assert find_subset(0, [0]) is None
    assert find_subset(1, list(range(1, UNSURE_LIMIT + 2))) is None


def test_a_sum_counts_with_some_who_have_just_begun_and_some_who_are_just_gone() -> None:
    audience = Audience(ITSELF)
    for index in range(6):
        admit(audience, index, now=0)
    now = NEWCOMER + SECOND
    admit(audience, 6, now)  # in no sum yet
    audience.on_progress(receiver(6), 2, now)
    for index in (4, 5):  # speak for themselves, and may be in sums
        audience.on_progress(receiver(index), 1, now)
    audience.drop(receiver(0), now)  # may still be in sums
    before = audience.stable(9)
    assert audience.on_gathered(Total(7, 4, marks([1, 2, 3, 6])), now, FRESHNESS) is None
    assert audience.on_gathered(Total(7, 2, marks([1, 2])), now, FRESHNESS) is None
    assert audience.on_gathered(Total(7, 5, marks([1, 2, 3])), now, FRESHNESS) is None
    assert audience.stable(9) == before == 0
    assert audience.on_gathered(Total(7, 5, marks([0, 1, 2, 3, 5])), now, FRESHNESS) is True
    received = [one.received for index in range(1, 7) if (one := audience.get(receiver(index))) is not None]
    assert received == [7, 7, 7, 1, 7, 2]
    assert audience.stable(9) == 1


def test_a_receiver_that_is_counted_twice_moves_nothing() -> None:
    audience = Audience(ITSELF)
    for index in range(3):
        admit(audience, index, now=0)
    now = 2 * NEWCOMER
    audience.drop(receiver(2), now)
    assert audience.on_gathered(Total(7, 4, marks([0, 1]) ^ mark(1) ^ mark(1)), now, FRESHNESS) is None
    assert audience.on_gathered(Total(7, 3, marks([0, 1]) ^ mark(1)), now, FRESHNESS) is None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(1, 9)), max_size=60))
def test_what_all_have_is_the_least_that_one_has(moves: list[tuple[int, int, int]]) -> None:
    audience = Audience(ITSELF)
    received: dict[int, int] = {}
    for what, index, value in moves:
        if what == 0:
            admit(audience, index, 0, sequence=value)
            received[index] = value - 1
        elif what == 1 and index in received:
            audience.on_progress(receiver(index), value, 0)
            received[index] = max(received[index], value)
        elif what == 2:
            audience.drop(receiver(index), 0)
            received.pop(index, None)
        assert audience.stable(99) == min(received.values(), default=99)
