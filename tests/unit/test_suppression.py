"""Tickets that others put off, pending repairs, and the timers of both, without a network."""

from __future__ import annotations

from math import log1p
from random import Random
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from unisono.identity import ProcessId
from unisono.reliable.repairs import Repairs, Verdict
from unisono.reliable.suppression import ROUND_LIMIT, Asked, Pace, RepairTiming, RequestTiming, Wait
from unisono.reliable.tickets import PUT_OFF_LIMIT, Tickets
from unisono.units import MILLISECOND, SECOND

SOURCE, A, B, C = (ProcessId(name, 1) for name in ("source", "a", "b", "c"))
NEAR, FAR = 10 * MILLISECOND, 30 * MILLISECOND
PACE = Pace()


def doubling(tries: int) -> Wait:
    return Wait(3 << tries, 10 << tries)


class Missing:
    """One missing sequence, put off alone."""

    def __init__(self, due: int) -> None:
        self.due, self.quiet, self.tries, self.put_off = due, 0, 0, 0

    def reschedule(self, now: int) -> None:
        wait = doubling(self.tries)
        self.quiet, self.due = now + wait.quiet, now + wait.due
        self.tries += 1


class SharedTickets(RuleBasedStateMachine):
    """Tickets whose requests are multicast, beside a dictionary with an entry for every missing sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets = Tickets()
        self.missing: dict[int, Missing] = {}
        self.now = 0

    @rule(first=st.integers(1, 40), length=st.integers(1, 8), wait=st.integers(0, 20))
    def open(self, first: int, length: int, wait: int) -> None:
        gap = range(first, first + length)
        if self.missing.keys().isdisjoint(gap):
            self.tickets.open(gap[0], gap[-1], self.now + wait)
            self.missing.update((sequence, Missing(self.now + wait)) for sequence in gap)

    @rule(sequence=st.integers(1, 48))
    def fill(self, sequence: int) -> None:
        assert self.tickets.fill(sequence) == (self.missing.pop(sequence, None) is not None)

    @rule(passed=st.integers(0, 20))
    def wait(self, passed: int) -> None:
        self.now += passed

    @rule(horizon=st.integers(0, 50))
    def request(self, horizon: int) -> None:
        """When one is due, everything goes along that no repair may be on its way for."""
        within = {sequence: missing for sequence, missing in self.missing.items() if sequence <= horizon}
        expected = []
        if any(missing.due <= self.now for missing in within.values()):
            expected = [k for k in sorted(within) if within[k].due <= self.now or within[k].quiet <= self.now]
        tries = max((self.missing[sequence].tries for sequence in expected), default=0)
        ranges, most_tries = self.tickets.request(self.now, doubling, 1000, horizon)
        assert [sequence for first, last in ranges for sequence in range(first, last + 1)] == expected
        assert most_tries == tries
        for sequence in expected:
            self.missing[sequence].reschedule(self.now)
            self.missing[sequence].put_off = 0

    @rule(first=st.integers(1, 45), length=st.integers(1, 12), horizon=st.integers(0, 50))
    def hear(self, first: int, length: int, horizon: int) -> None:
        ranges = [(first, first + length - 1), (first + length + 3, first + length + 5)]
        heard = self.tickets.heard(ranges, self.now, doubling, horizon)
        for (low, high), missing_here in zip(ranges, heard, strict=True):
            both = [k for k in range(low, high + 1) if k in self.missing]
            assert missing_here == bool(both)
            for missing in (self.missing[k] for k in both if k <= horizon):
                if missing.quiet <= self.now and missing.put_off < PUT_OFF_LIMIT:
                    missing.reschedule(self.now)
                    missing.put_off += 1

    @invariant()
    def is_the_same(self) -> None:
        assert all((sequence in self.tickets) == (sequence in self.missing) for sequence in range(50))
        for horizon in (0, 5, 20, 1000):
            dues = [missing.due for sequence, missing in self.missing.items() if sequence <= horizon]
            assert self.tickets.next_due(horizon) == min(dues, default=None)


TestSharedTickets = SharedTickets.TestCase


def test_a_peer_that_asks_and_asks_silences_nobody() -> None:
    tickets = Tickets()
    tickets.open(1, 1, 100)
    now = 0
    while not tickets.request(now, doubling, 64, 10)[0]:
        tickets.heard([(1, 1)], now, doubling, 10)
        now += 1
        assert now <= sum(doubling(tries).due for tries in range(PUT_OFF_LIMIT))


class TestRepairs:
    def schedule(self, repairs: Repairs, first: int, now: int, delay: int = 0, size: int = 1000) -> Verdict:
        return repairs.schedule(SOURCE, first, first, size, now, delay, hold_down=100)

    def test_what_another_repairs_first_is_not_repaired(self) -> None:
        repairs = Repairs()
        assert self.schedule(repairs, 1, 0, 50) is Verdict.SCHEDULED
        assert self.schedule(repairs, 1, 5, 60) is Verdict.PENDING
        assert repairs.next_due() == 50
        assert repairs.heard(SOURCE, 1, 20)
        assert not repairs.heard(SOURCE, 2, 20)
        assert repairs.next_due() is None
        assert repairs.take(60) == []
        assert self.schedule(repairs, 1, 119) is Verdict.HELD_DOWN
        assert self.schedule(repairs, 1, 120) is Verdict.SCHEDULED
        assert [repair.first for repair in repairs.take(120)] == [1]
        assert self.schedule(repairs, 1, 121) is Verdict.HELD_DOWN, "sent by this process itself"

    def test_the_sooner_of_two_requests_counts(self) -> None:
        repairs = Repairs()
        self.schedule(repairs, 1, 0, 50)
        self.schedule(repairs, 1, 10, 0)
        assert repairs.next_due() == 10
        assert len(repairs.take(10)) == 1
        assert repairs.take(50) == []

    def test_what_is_no_longer_held_is_not_sent(self) -> None:
        repairs = Repairs()
        for first in (1, 2, 3):
            self.schedule(repairs, first, 0)
        repairs.schedule(A, 1, 1, 1000, 0, 0, 0)
        repairs.forget(SOURCE, 2)
        assert [repair.key for repair in repairs.take(0)] == [(A, 1), (SOURCE, 3)]
        assert repairs.pending_bytes == 0

    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 300), st.integers(0, 3)), max_size=300))
    def test_a_flood_of_requests_makes_a_bounded_flow_of_repairs(self, flood: list[tuple[int, int, int]]) -> None:
        """Whoever asks for whatever, however often: no more than a burst and the rate leave, and few wait."""
        repairs = Repairs(number_limit=8, bytes_limit=6000, memory_limit=16, rate=SECOND, burst=2000)
        now, sent = 0, 0
        for passed, first, delay in flood:
            now += passed
            verdict = self.schedule(repairs, first, now, delay)
            assert len(repairs) <= 6
            assert repairs.pending_bytes == 1000 * len(repairs)
            assert verdict is not Verdict.TOO_MANY or len(repairs) == 6
            due = repairs.next_due()
            taken = repairs.take(now)
            assert bool(taken) == (due is not None and due <= now), "woken for nothing, or not woken"
            sent += sum(repair.size for repair in taken)
            assert sent <= 2000 + now
        while (due := repairs.next_due()) is not None:
            assert repairs.take(due), "woken for nothing"


def asked(requester: ProcessId, distance: int | None = FAR, to_source: int | None = FAR, tries: int = 0) -> Asked:
    return Asked(requester, distance, to_source, tries)


def learnt(timing: RequestTiming, missing: bool, count: int = 100) -> RequestTiming:
    for first in range(1000, 1000 + count):
        timing.on_heard(asked(A), [(first, first)], [missing])
    return timing


class TestAsking:
    @given(
        st.integers(0, SECOND) | st.none(),
        st.integers(0, 2000),
        st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, SECOND), st.integers(0, 2), st.booleans())),
        st.integers(0, 1 << 32),
    )
    def test_nobody_waits_longer_than_the_bound(
        self, distance: int | None, receivers: int, history: list[tuple[ProcessId, int, int, bool]], seed: int
    ) -> None:
        timing = RequestTiming(A)
        for first, (requester, far, tries, missed) in enumerate(history):
            timing.on_heard(asked(requester, far, far, tries), [(first, first)], [missed])
        random = Random(seed)
        assert 0 <= timing.delay(distance, receivers, random) <= timing.longest_delay(distance, receivers)
        for tries in (0, 1, 40):
            near = PACE.known(distance)
            for wait in (
                timing.again(distance, tries, receivers, random),
                timing.backed_off(distance, asked(B, 0, 3600 * SECOND), tries, receivers, random),
            ):
                assert wait.quiet <= wait.due <= PACE.allow(4 * near) + PACE.limit

    def test_a_pair_does_not_wait(self) -> None:
        assert RequestTiming(A).delay(NEAR, 1, Random(1)) == 0

    def test_the_average_follows_what_is_shared(self) -> None:
        assert learnt(RequestTiming(B), True).shared > 0.95
        assert learnt(RequestTiming(B), False).shared < 0.05

    def test_a_range_counts_once_and_repeated_requests_do_not(self) -> None:
        timing = RequestTiming(B)
        timing.on_heard(asked(A, tries=1), [(1, 1)], [False])
        assert timing.shared == 0.5
        timing.on_heard(asked(A), [(1, 1)], [False])
        once = timing.shared
        assert once < 0.5
        timing.on_heard(asked(C), [(1, 1)], [False])
        assert timing.shared == once

    def test_a_duplicate_of_an_own_request_shows_that_the_loss_was_shared(self) -> None:
        timing = RequestTiming(B)
        timing.on_sent(NEAR, 0, [(1, 1)])
        timing.on_heard(asked(A), [(1, 1)], [False])
        assert timing.shared > 0.5

    def test_who_asked_first_for_a_shared_loss_asks_at_once_and_the_others_let_it(self) -> None:
        first, other = learnt(RequestTiming(A), True), learnt(RequestTiming(B), True)
        first.on_sent(NEAR, 0, [(1, 1)])
        other.on_heard(asked(A, FAR, NEAR), [(1, 1)], [True])
        assert first.asker == other.asker == A
        random = Random(1)
        assert first.delay(NEAR, 64, random) == 0
        assert min(other.delay(NEAR, 64, random) for _ in range(100)) >= 2 * NEAR

    def test_of_two_askers_the_nearer_one_stays_even_if_the_repair_came_between(self) -> None:
        near, far = learnt(RequestTiming(B), True), learnt(RequestTiming(A), True)
        near.on_sent(NEAR, 0, [(1, 1)])
        far.on_sent(FAR, 0, [(1, 1)])
        near.on_heard(asked(A, FAR, FAR), [(1, 1)], [False])
        far.on_heard(asked(B, FAR, NEAR), [(1, 1)], [False])
        assert near.asker == far.asker == B

    def test_another_takes_over_when_the_asker_is_silent(self) -> None:
        timing = learnt(RequestTiming(B), True)
        timing.on_heard(asked(A, NEAR, NEAR), [(1, 1)], [True])
        timing.on_heard(asked(C, FAR, FAR), [(2, 2)], [True])
        assert timing.asker == C

    def test_nobody_is_the_asker_while_each_loses_alone(self) -> None:
        timing = learnt(RequestTiming(B), False)
        timing.on_sent(NEAR, 0, [(1, 1)])
        assert timing.asker is None

    def test_more_rivals_make_for_a_longer_wait_but_only_by_a_logarithm(self) -> None:
        timing, random = learnt(RequestTiming(B), True), Random(1)
        timing._asker = None
        for receivers in (64, 1000):
            firsts = [min(timing.delay(NEAR, receivers, random) for _ in range(receivers)) for _ in range(50)]
            assert NEAR < mean(firsts) < 8 * NEAR
        assert timing.longest_delay(NEAR, 1000) < 2 * timing.longest_delay(NEAR, 64)

    def test_the_memory_is_bounded(self) -> None:
        assert len(learnt(RequestTiming(B), True, 3 * ROUND_LIMIT)._rounds) == ROUND_LIMIT


class TestRepairing:
    def stand_ins(self, tries: int, holders: int) -> int:
        timing, random = RepairTiming(), Random(1)
        return sum(timing.delay(asked(A, tries=tries), FAR, holders, random) is not None for _ in range(holders))

    def test_few_stand_in_for_the_source_and_more_at_every_try(self) -> None:
        assert self.stand_ins(0, 1000) < 8
        assert 4 < self.stand_ins(2, 1000) < 40
        assert self.stand_ins(5, 1000) == 1000
        assert self.stand_ins(0, 1) == 1

    def test_a_stand_in_gives_the_source_its_turn(self) -> None:
        timing, random = RepairTiming(), Random(1)
        delays = [timing.delay(asked(A, NEAR, FAR, 9), FAR, 10, random) for _ in range(100)]
        assert all(delay is not None and delay >= 2 * FAR - NEAR for delay in delays)
        gone = [timing.delay(asked(A, NEAR, FAR, 9), FAR, 10, random, source_gone=True) for _ in range(100)]
        assert min(delay for delay in gone if delay is not None) < 2 * FAR - NEAR

    def test_a_request_is_held_down_as_long_as_it_may_have_crossed_the_repair(self) -> None:
        timing = RepairTiming()
        assert timing.hold_down(FAR) >= 2 * FAR
        assert timing.hold_down(0) > 0
        assert timing.hold_down(None) == timing.hold_down(PACE.unknown)


def test_a_race_far_away_is_over_within_the_limit_and_keeps_its_shape() -> None:
    pace = Pace(limit=SECOND)
    far, near = 150 * MILLISECOND, 10 * MILLISECOND
    assert pace.race(far, 15, 1.0) == pytest.approx(SECOND, rel=1e-6)
    assert pace.race(near, 15, 1.0) == pytest.approx(pace.spread * near * log1p(3 * 15), rel=1e-6)
    for chance in (0.0, 0.1, 0.5):
        assert pace.race(far, 15, chance) / SECOND == pytest.approx(log1p(45 * chance) / log1p(45), abs=1e-6)
    assert pace.race(far, 0, 1.0) == 0
