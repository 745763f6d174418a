"""The rate of a source follows what is lost, whatever receivers say about what was never sent."""

from __future__ import annotations

from random import Random

import pytest

from unisono.reliable.pacing import INTERVAL, Pacing
from unisono.units import MIB, MILLISECOND, SECOND


def sent_and_missed(*missed: tuple[int, int]) -> Pacing:
    """A hundred sequences, of which these were asked for; then the interval ends."""
    pacing = Pacing(4 * MIB, 1400)
    pacing.on_sent(0, 0, 0)
    for _ in range(100):
        pacing.on_sent(1, 1, 1400)
    for first, last in missed:
        pacing.on_missed(2, first, last)
    pacing.on_sent(INTERVAL, 1, 1400)
    return pacing


def test_a_source_whose_receivers_miss_much_sends_more_slowly() -> None:
    assert sent_and_missed().rate is None
    assert sent_and_missed((1, 5)).rate is None
    assert sent_and_missed((1, 20)).rate is None, "a bad line"
    assert sent_and_missed((1, 50)).rate is not None, "a full line"


@pytest.mark.parametrize(("loss", "held_back"), [(0.1, False), (0.2, False), (0.35, True), (0.5, True)])
def test_a_line_that_loses_a_fifth_by_itself_is_put_up_with(loss: float, held_back: bool) -> None:
    """As docs/delivery.md says: a rate begins above three tenths."""
    random, pacing = Random(1), Pacing(4 * MIB, 1400)
    for sequence in range(1, 10_000):
        pacing.on_sent(sequence * MILLISECOND, 1, 1400)
        if random.random() < loss:
            pacing.on_missed(sequence * MILLISECOND, sequence, sequence)
    assert (pacing.rate is not None) == held_back


def test_many_receivers_miss_more_together_than_each_of_them() -> None:
    pacing = Pacing(4 * MIB, 1400)
    pacing.receivers = 64
    pacing.on_sent(0, 0, 0)
    for _ in range(100):
        pacing.on_sent(1, 1, 1400)
    pacing.on_missed(2, 1, 95)
    pacing.on_sent(INTERVAL, 1, 1400)
    assert pacing.rate is None


def test_what_was_asked_for_twice_is_lost_once() -> None:
    assert sent_and_missed((1, 8), (1, 8)).rate is None


def test_a_range_that_was_never_sent_takes_nothing_from_what_is_lost() -> None:
    """Cut to what was sent, it is empty."""
    assert sent_and_missed((1, 50), (1000, 100)).rate == sent_and_missed((1, 50)).rate


def test_a_receiver_that_slept_does_not_hold_its_source_to_the_least_rate() -> None:
    """A window was sent in one interval; two seconds later it is asked for bit by bit, and others repair most."""
    pacing = Pacing(4 * MIB, 1400)
    for sequence in range(800):
        pacing.on_sent(INTERVAL * sequence // 800, 1, 1400)
    speed = 800 * 1400 * SECOND // INTERVAL
    for request in range(32):
        now = 10 * INTERVAL + request * INTERVAL // 4
        pacing.on_missed(now, 25 * request + 1, 25 * request + 25)
        pacing.on_sent(now, 0, 1400)
    assert pacing.rate is not None, "much was missed"
    assert pacing.rate > speed // 8


def test_a_line_that_stays_full_has_its_source_slow_down_further() -> None:
    pacing = Pacing(4 * MIB, 1400)
    rates = []
    sequence = 0
    for interval in range(12):
        at = INTERVAL * interval
        for _ in range(100):
            sequence += 1
            pacing.on_sent(at + 1, 1, 1400)
        pacing.on_missed(at + 2, sequence - 49, sequence)
        rates.append(pacing.rate)
    first = next(rate for rate in rates if rate is not None)
    assert rates[-1] is not None
    assert rates[-1] < first // 4
