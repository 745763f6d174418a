"""Tickets, fragments, deadlines and silence, each against a version of a few plain lines."""

from __future__ import annotations

import copy
from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from unisono.identity import ProcessId
from unisono.reliable.deadlines import Deadlines
from unisono.reliable.fragments import OrderedAssembly, ScatteredAssembly, TooLarge
from unisono.reliable.silence import Silence
from unisono.reliable.suppression import Wait
from unisono.reliable.tickets import Tickets
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES
from unisono.units import SECOND
from unisono.wire.messages import FRAGMENT, DataMessage

A, B = ProcessId("a", 1), ProcessId("b", 2)
FIRST, LONGEST = 10, 75


def ask(tickets: Tickets, now: int, most: int, horizon: int) -> tuple[list[tuple[int, int]], bool]:
    """Ask by a fixed schedule, in which the interval doubles; whether anything was asked for before."""

    def wait(tries: int) -> Wait:
        return Wait(0, min(FIRST << min(tries, 32), LONGEST))

    ranges, tries = tickets.request(now, wait, most, horizon, company=False)
    return ranges, tries > 0


class Missing:
    """One missing sequence, asked for alone."""

    def __init__(self, due: int) -> None:
        self.due = due
        self.tries = 0


class TicketsMachine(RuleBasedStateMachine):
    """Tickets beside a dictionary with an entry for every missing sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets = Tickets()
        self.missing: dict[int, Missing] = {}
        self.now = 0

    @rule(first=st.integers(1, 60), length=st.integers(1, 10), wait=st.integers(0, 20))
    def open(self, first: int, length: int, wait: int) -> None:
        gap = range(first, first + length)
        if self.missing.keys().isdisjoint(gap):
            self.tickets.open(gap[0], gap[-1], self.now + wait)
            self.missing.update((sequence, Missing(self.now + wait)) for sequence in gap)

    @rule(sequence=st.integers(1, 70))
    def fill(self, sequence: int) -> None:
        assert self.tickets.fill(sequence) == (self.missing.pop(sequence, None) is not None)

    def within(self, horizon: int) -> dict[int, Missing]:
        return {sequence: missing for sequence, missing in self.missing.items() if sequence <= horizon}

    @rule(passed=st.integers(0, 50), most=st.integers(1, 64), horizon=st.integers(0, 75))
    def ask(self, passed: int, most: int, horizon: int) -> None:
        """The lowest that are due, as far as the horizon, and each later than the time before."""
        self.now += passed
        due = sorted(sequence for sequence, missing in self.within(horizon).items() if missing.due <= self.now)
        ranges, again = ask(self.tickets, self.now, most, horizon)
        asked = [sequence for first, last in ranges for sequence in range(first, last + 1)]
        assert len(ranges) <= most
        assert asked == due[: len(asked)]
        assert len(ranges) == most or len(asked) == len(due)
        assert again == any(self.missing[sequence].tries for sequence in asked)
        for sequence in asked:
            missing = self.missing[sequence]
            missing.due = self.now + min(FIRST * 2**missing.tries, LONGEST)
            missing.tries += 1

    @invariant()
    def is_the_same(self) -> None:
        assert bool(self.tickets) == bool(self.missing)
        assert all((sequence in self.tickets) == (sequence in self.missing) for sequence in range(72))
        for horizon in (0, 1, 5, 20, 40, 1000):
            due = min((missing.due for missing in self.within(horizon).values()), default=None)
            assert self.tickets.next_due(horizon) == due
            if due is not None and due <= self.now:
                assert ask(copy.deepcopy(self.tickets), self.now, 1, horizon)[0], "woken for nothing"


TestTickets = TicketsMachine.TestCase


def test_a_deadline_that_has_come_is_a_request_that_can_be_sent() -> None:
    """Otherwise a driver that wakes the engine when it asks to be woken never sleeps again."""
    tickets = Tickets()
    tickets.open(1, 1, 1)
    tickets.open(2, 2, 0)
    assert ask(tickets, 0, 64, 2)[0] == [(2, 2)]
    assert tickets.next_due(1) == 1
    assert ask(tickets, 10, 64, 1)[0] == [(1, 1)]
    assert ask(tickets, 10, 64, 1)[0] == [], "2 is overdue, and beyond the horizon"
    assert tickets.next_due(1) == 20
    assert tickets.next_due(2) == 10
    assert tickets.fill(1)
    assert tickets.next_due(1) is None
    assert ask(tickets, 10, 64, 2)[0] == [(2, 2)]


def test_time_goes_on_while_repairs_are_overdue_that_there_is_no_room_for() -> None:
    """A driver that wakes whenever it is told to makes a bounded number of calls, none of them for nothing."""
    tickets = Tickets()
    tickets.open(1, 50, 0)
    now, calls, asked = 0, 0, set[int]()
    while now < 100 * LONGEST:
        calls += 1
        ranges, _ = ask(tickets, now, 64, 3)
        assert ranges, "woken for nothing"
        asked.update(sequence for first, last in ranges for sequence in range(first, last + 1))
        tickets.fill(2)
        due = tickets.next_due(3)
        assert due is not None
        assert due > now
        now = due
    assert calls < 110
    assert asked == {1, 2, 3}


def test_a_gap_is_cut_at_the_horizon() -> None:
    tickets = Tickets()
    tickets.open(4, 9, 0)
    assert ask(tickets, 0, 64, 3)[0] == []
    assert ask(tickets, 0, 64, 6)[0] == [(4, 6)]
    assert ask(tickets, 0, 64, 8)[0] == [(7, 8)]
    assert ask(tickets, FIRST, 64, 100) == ([(4, 6), (7, 8), (9, 9)], True)


def test_requests_come_ever_more_slowly_up_to_the_limit_and_never_stop() -> None:
    tickets = Tickets()
    tickets.open(4, 9, 0)
    times = []
    for _ in range(100):
        now = tickets.next_due(100)
        assert now is not None
        times.append(now)
        assert ask(tickets, now, 64, 100)[0] == [(4, 9)]
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits == [10, 20, 40] + [LONGEST] * 96


def fragments(payloads: list[bytes], first: int = 1) -> list[DataMessage]:
    """One message, cut as told."""
    count = len(payloads)
    return [
        DataMessage(first + index, 1, first + index, FRAGMENT, index, count, part)
        for index, part in enumerate(payloads)
    ]


PARTS = st.lists(st.binary(min_size=1, max_size=20), min_size=2, max_size=6)


@given(st.lists(PARTS, max_size=5))
def test_fragments_in_order_give_every_message_whole(messages: list[list[bytes]]) -> None:
    assembly = OrderedAssembly(120)
    for parts in messages:
        outcomes = [assembly.add(fragment) for fragment in fragments(parts)]
        assert outcomes == [None] * (len(parts) - 1) + [b"".join(parts)]
        assert assembly.bytes == 0
        assert assembly.high_water <= 120


@given(PARTS, st.integers(1, 120))
def test_a_message_is_put_together_up_to_the_limit_and_given_up_beyond(parts: list[bytes], limit: int) -> None:
    assembly = OrderedAssembly(limit)
    pieces = fragments(parts)
    if len(b"".join(parts)) <= limit:
        assert [assembly.add(piece) for piece in pieces][-1] == b"".join(parts)
    else:
        with pytest.raises(TooLarge):
            deque(map(assembly.add, pieces))
    assert assembly.bytes == 0
    assert assembly.high_water <= limit


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(2, 5)), max_size=20))
def test_fragments_that_fit_nothing_never_make_a_message_of_another_length(steps: list[tuple[int, int]]) -> None:
    """What a source should not send: any index, any count."""
    assembly = OrderedAssembly(1000)
    expected: list[int] = []
    for index, count in steps:
        whole = assembly.add(DataMessage(9, 1, 1, FRAGMENT, min(index, count - 1), count, bytes([index])))
        expected = [*expected, index] if min(index, count - 1) == len(expected) else []
        if whole is not None:
            assert len(whole) >= count
            expected = []


@given(PARTS, st.data())
def test_scattered_fragments_give_the_message_once_in_any_order(parts: list[bytes], data: st.DataObject) -> None:
    assembly = ScatteredAssembly(1000)
    pieces = fragments(parts, first=7)
    arrivals = data.draw(st.permutations(pieces))
    again = data.draw(st.lists(st.sampled_from(arrivals[:-1]), max_size=4))
    wholes = [assembly.add(A, piece, 0) for piece in [*arrivals[:-1], *again]]
    assert wholes == [None] * len(wholes)
    whole = assembly.add(A, arrivals[-1], 0)
    assert whole is not None
    assert whole.payload == b"".join(parts)
    assert (whole.sequence, whole.timestamp) == (pieces[-1].sequence, pieces[-1].timestamp)
    assert assembly.bytes == 0


class ScatteredMachine(RuleBasedStateMachine):
    """Many messages of two sources at once, some of which never end, within a small limit."""

    LIMIT = 60 + 6 * MESSAGE_OVERHEAD_BYTES

    def __init__(self) -> None:
        super().__init__()
        self.assembly = ScatteredAssembly(self.LIMIT)
        self.now = 0

    @rule(source=st.sampled_from([A, B]), number=st.integers(0, 5), index=st.integers(0, 3), size=st.integers(1, 20))
    def add(self, source: ProcessId, number: int, index: int, size: int) -> None:
        """Message `number` has four fragments, each full of its own index."""
        self.now += 1
        fragment = DataMessage(1 + 4 * number + index, number + 1, 1, FRAGMENT, index, 4, bytes([index]) * size)
        whole = self.assembly.add(source, fragment, self.now)
        if whole is not None:
            assert whole.sequence == 4 + 4 * number
            assert sorted(whole.payload) == list(whole.payload)
            assert set(whole.payload) == {0, 1, 2, 3}

    @rule(source=st.sampled_from([A, B]))
    def forget(self, source: ProcessId) -> None:
        self.assembly.forget(source)

    @rule(age=st.integers(0, 10))
    def expire(self, age: int) -> None:
        self.assembly.expire(self.now - age)

    @invariant()
    def stays_within_its_limit(self) -> None:
        assert 0 <= self.assembly.bytes <= self.assembly.high_water <= self.LIMIT

    def teardown(self) -> None:
        self.assembly.forget(A)
        self.assembly.forget(B)
        assert self.assembly.bytes == 0


TestScattered = ScatteredMachine.TestCase


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 4), st.integers(2, 5)).filter(lambda drawn: drawn[1] < drawn[2]),
        max_size=12,
    )
)
def test_fragments_that_contradict_one_another_never_raise(pieces: list[tuple[int, int, int]]) -> None:
    """A peer may send anything that the wire layer lets pass: here, different counts for one message."""
    assembly = ScatteredAssembly(1000)
    for start, index, count in pieces:
        whole = assembly.add(A, DataMessage(start + index, 1, 1, FRAGMENT, index, count, b"x"), 0)
        assert whole is None or len(whole.payload) == count


def test_each_claimed_count_makes_a_message_of_its_own() -> None:
    assembly = ScatteredAssembly(1000)
    two, three = fragments([b"a", b"b"], first=4), fragments([b"x", b"y", b"z"], first=4)
    wholes = [assembly.add(A, piece, 0) for piece in (two[0], three[2], three[0], two[1], three[1])]
    assert [whole and whole.payload for whole in wholes] == [None, None, None, b"ab", b"xyz"]
    assert assembly.bytes == 0


def test_tiny_fragments_are_bounded_too() -> None:
    assembly = ScatteredAssembly(10 * (1 + MESSAGE_OVERHEAD_BYTES))
    for start in range(1, 1000):
        assert assembly.add(A, DataMessage(start, 1, 1, FRAGMENT, 0, 2, b"x"), 0) is None
    assert assembly.given_up == 999 - 10


def test_a_message_as_large_as_allowed_is_put_together_from_anywhere() -> None:
    parts = [bytes(1250)] * 8
    assembly = ScatteredAssembly(len(b"".join(parts)))
    whole = [assembly.add(A, piece, 0) for piece in fragments(parts)][-1]
    assert whole is not None
    assert whole.payload == b"".join(parts)


def test_a_fragment_larger_than_the_limit_is_not_kept() -> None:
    assembly = ScatteredAssembly(100)
    assert assembly.add(A, DataMessage(1, 1, 1, FRAGMENT, 0, 2, bytes(1000)), 0) is None
    assert assembly.high_water <= 100


NAMES = st.sampled_from(["keep-alive", "report", "request", "watch"])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), NAMES, st.integers(0, 20)),
            st.tuples(st.just("advance"), NAMES, st.integers(0, 20)),
            st.tuples(st.just("clear"), NAMES, st.just(0)),
            st.tuples(st.just("expire"), NAMES, st.integers(0, 20)),
        ),
        max_size=30,
    )
)
def test_deadlines_are_a_dictionary_that_is_emptied_in_order(steps: list[tuple[str, str, int]]) -> None:
    deadlines, naive = Deadlines(), dict[str, int]()
    for what, name, time in steps:
        if what == "set":
            deadlines.set(name, time)
            naive[name] = time
        elif what == "advance":
            deadlines.advance(name, time)
            naive[name] = min(time, naive.get(name, time))
        elif what == "clear":
            deadlines.clear(name)
            naive.pop(name, None)
        else:
            due = sorted((when, late) for late, when in naive.items() if when <= time)
            assert deadlines.expire(time) == [late for _, late in due]
            naive = {late: when for late, when in naive.items() if when > time}
        assert deadlines.earliest() == min(naive.values(), default=None)
    deadlines.clear_all()
    assert deadlines.earliest() is None


PEERS = st.sampled_from([ProcessId(name, 1) for name in "abc"])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("hear"), PEERS, st.integers(0, 5)),
            st.tuples(st.just("forget"), PEERS, st.integers(0, 5)),
            st.tuples(st.just("forgive"), PEERS, st.integers(0, 5)),
        ),
        max_size=30,
    ),
    st.integers(1, 12),
)
def test_silence_is_the_time_since_a_peer_was_heard(steps: list[tuple[str, ProcessId, int]], timeout: int) -> None:
    silence, naive, now = Silence(), dict[ProcessId, int](), 0
    for what, peer, time in steps:
        now += time
        if what == "hear":
            silence.hear(peer, now)
            naive[peer] = now
        elif what == "forget":
            silence.forget(peer)
            naive.pop(peer, None)
        else:
            silence.forgive(time)
            naive = {other: heard + time for other, heard in naive.items()}
        assert silence.silent(now, timeout) == sorted(other for other, heard in naive.items() if now - heard >= timeout)


def test_a_pause_of_this_process_makes_nobody_silent() -> None:
    silence = Silence()
    silence.hear(A, 0)
    silence.forgive(1000)
    assert silence.silent(1009, 10) == []
    assert silence.silent(1010, 10) == [A]


def test_who_speaks_seldom_may_be_given_more_time() -> None:
    silence = Silence()
    for heard in (0, 20 * SECOND):
        silence.hear(A, heard)
    assert silence.silent(30 * SECOND, 10 * SECOND) == [A]
    assert silence.next_silent(10 * SECOND) == 30 * SECOND
    assert silence.silent(69 * SECOND, 10 * SECOND, leniently=True) == []
    assert silence.silent(70 * SECOND, 10 * SECOND, leniently=True) == [A]
    assert silence.next_silent(10 * SECOND, leniently=True) == 70 * SECOND
    silence.hear(A, 20 * SECOND + 1)  # and again as often as others
    assert silence.silent(31 * SECOND, 10 * SECOND, leniently=True) == [A]
