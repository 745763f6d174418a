"""Windows over sequence numbers, against versions that keep everything in plain dictionaries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES, Offer, ReceiveWindow, SendWindow
from unisono.wire.layout import DATAGRAM_LIMIT_BYTES
from unisono.wire.messages import DataMessage

LIMIT = 128 * 1024
LARGEST = DATAGRAM_LIMIT_BYTES - MESSAGE_OVERHEAD_BYTES
"""The largest message for which the reserve is made."""
RANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 10)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1])),
    min_size=1,
    max_size=6,
)


def message(sequence: int, size: int = 1) -> DataMessage:
    return DataMessage(sequence, sequence, sequence, 0, 0, 1, bytes(size))


class SendWindowMachine(RuleBasedStateMachine):
    """A send window beside a list of what it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.window = SendWindow(300)
        self.held: list[tuple[int, int, bytes]] = []
        self.last = 0

    @rule(count=st.integers(1, 5), size=st.integers(1, 100))
    def send(self, count: int, size: int) -> None:
        if not self.window.has_room(size, 300):
            return
        datagram = (self.last + 1, self.last + count, bytes(size))
        self.window.retain(*datagram)
        self.held.append(datagram)
        self.last += count

    @rule(back=st.integers(-2, 20))
    def release(self, back: int) -> None:
        stable = self.last - back
        released = [held for held in self.held if held[1] <= stable]
        self.held = [held for held in self.held if held[1] > stable]
        assert self.window.release(stable) == (released[-1][1] if released else None)

    @rule(ranges=RANGES, base=st.integers(0, 40))
    def find_all(self, ranges: list[tuple[int, int]], base: int) -> None:
        asked = [(base + first, base + last) for first, last in ranges]
        wanted = {sequence for first, last in asked for sequence in range(first, last + 1)}
        expected = [held for held in self.held if wanted.intersection(range(held[0], held[1] + 1))]
        assert self.window.find(asked, 1 << 30) == expected

    @rule(ranges=RANGES, most=st.integers(1, 250))
    def find_some(self, ranges: list[tuple[int, int]], most: int) -> None:
        """As many from the beginning as fit, and never fewer than one."""
        everything = self.window.find(ranges, 1 << 30)
        found = self.window.find(ranges, most)
        assert found == everything[: len(found)]
        assert bool(found) == bool(everything)
        assert len(found) <= 1 or sum(len(datagram) for _, _, datagram in found) <= most
        if len(found) < len(everything):
            assert sum(len(datagram) for _, _, datagram in everything[: len(found) + 1]) > most

    @invariant()
    def holds_the_same(self) -> None:
        assert self.window.bytes == sum(len(datagram) for _, _, datagram in self.held)
        assert self.window.bytes <= self.window.high_water <= self.window.limit
        assert self.window.first == (self.held[0][0] if self.held else None)


class ReceiveWindowMachine(RuleBasedStateMachine):
    """A receive window beside the set of what came and the messages not taken yet, with what each counts for."""

    def __init__(self) -> None:
        super().__init__()
        self.start = 1
        self.window = ReceiveWindow(1, LIMIT)
        self.stored: dict[int, int] = {}
        self.came: set[int] = set()
        self.known: set[int] = set()

    @initialize(start=st.integers(0, 1 << 40))
    def begin(self, start: int) -> None:
        self.start = start
        self.window = ReceiveWindow(start, LIMIT)

    def next_missing(self) -> int:
        sequence = self.start
        while sequence in self.came:
            sequence += 1
        return sequence

    @rule(ahead=st.integers(-3, 12), size=st.sampled_from([0, 1, 1000, 20_000, LARGEST, DATAGRAM_LIMIT_BYTES]))
    def offer(self, ahead: int, size: int) -> None:
        sequence = max(self.window.next + ahead, 0)
        turn = sequence == self.window.next and sequence not in self.came
        weight = size + MESSAGE_OVERHEAD_BYTES
        offer = self.window.offer(message(sequence, size))
        if sequence < self.start or sequence in self.came:
            assert offer is Offer.DUPLICATE
            return
        assert offer is not Offer.DUPLICATE
        assert offer is Offer.TAKEN or not turn, "the next message always finds room"
        before = sum(self.stored.values())
        given_up = self.give_up(sequence)
        reserve = 0 if turn else DATAGRAM_LIMIT_BYTES
        assert not given_up or before + weight + reserve > LIMIT, "given up only for want of room"
        assert not given_up or offer is Offer.TAKEN, "given up only for what takes its place"
        sooner = sum(held for other, held in self.stored.items() if other < sequence)
        assert (offer is Offer.FULL) == (not turn and sooner + weight + reserve > LIMIT)
        if offer is Offer.TAKEN:
            self.stored[sequence] = weight
            self.came.add(sequence)

    def give_up(self, sequence: int) -> list[int]:
        """What made room: the latest that were there, all of them later than what is offered."""
        given_up, self.window.given_up = self.window.given_up, []
        assert given_up == sorted(self.stored, reverse=True)[: len(given_up)]
        assert all(other > sequence for other in given_up)
        for other in given_up:
            del self.stored[other]
            self.came.remove(other)
        return given_up

    @rule(ahead=st.integers(-3, 12))
    def announce(self, ahead: int) -> None:
        sequence = max(self.window.next + ahead, 0)
        new = [number for number in range(self.start, sequence + 1) if number not in self.known]
        self.known.update(new)
        assert self.window.announce(sequence) == ((new[0], new[-1]) if new else None)

    @rule()
    def take(self) -> None:
        expected = self.window.next
        taken = self.window.take()
        assert (taken is not None) == (expected in self.stored)
        if taken is not None:
            assert taken.sequence == expected
            assert len(taken.payload) + MESSAGE_OVERHEAD_BYTES == self.stored.pop(expected)
            assert self.window.next == expected + 1

    @precondition(lambda self: self.stored)
    @rule()
    def drain(self) -> None:
        """Whatever fills it, offering and taking what comes next empties it."""
        while self.stored:
            sequence = self.window.next
            if sequence not in self.stored:
                assert self.window.offer(message(sequence, LARGEST)) is Offer.TAKEN
                assert not self.give_up(sequence), "the reserve is there for it"
                self.came.add(sequence)
                self.stored[sequence] = LARGEST + MESSAGE_OVERHEAD_BYTES
            self.take()
        assert self.window.bytes == 0

    @invariant()
    def holds_the_same(self) -> None:
        assert self.window.bytes == sum(self.stored.values())
        assert self.window.bytes <= self.window.high_water <= LIMIT
        assert self.window.contiguous == self.next_missing() - 1
        assert self.window.waiting == (self.window.next in self.stored)
        assert self.window.highest == max(self.known, default=self.start - 1)
        in_order = sum(held for sequence, held in self.stored.items() if sequence < self.next_missing())
        assert self.window.room == max(0, LIMIT - DATAGRAM_LIMIT_BYTES - in_order)


TestSendWindow = SendWindowMachine.TestCase
TestReceiveWindow = ReceiveWindowMachine.TestCase


def test_one_datagram_always_finds_room() -> None:
    window = SendWindow(10)
    assert window.has_room(11, 20)
    window.retain(1, 1, bytes(8))
    assert window.has_room(2, 20)
    assert not window.has_room(3, 20)
    assert not window.has_room(2, 9)


@given(st.permutations(range(5, 25)))
def test_whatever_the_order_of_arrival_everything_is_taken_in_order(order: list[int]) -> None:
    window = ReceiveWindow(5, LIMIT)
    taken = []
    for sequence in order:
        assert window.offer(message(sequence)) is Offer.TAKEN
        while (next_one := window.take()) is not None:
            taken.append(next_one.sequence)
    assert taken == list(range(5, 25))


@given(st.sets(st.integers(5, 40)), st.integers(4, 45))
def test_what_is_missing_is_all_that_exists_and_has_not_come(came: set[int], highest: int) -> None:
    window = ReceiveWindow(5, LIMIT)
    for sequence in sorted(came):
        window.announce(sequence)
        assert window.offer(message(sequence)) is Offer.TAKEN
    window.announce(highest)
    ranges = list(window.missing())
    missing = [sequence for first, last in ranges for sequence in range(first, last + 1)]
    assert missing == [sequence for sequence in range(5, max(came | {highest}) + 1) if sequence not in came]
    assert all(first <= last for first, last in ranges)


def test_empty_messages_fill_a_receive_window_too() -> None:
    window = ReceiveWindow(1, LIMIT)
    offers = [window.offer(message(sequence, 0)) for sequence in range(2, 10_000)]
    kept = (LIMIT - DATAGRAM_LIMIT_BYTES) // MESSAGE_OVERHEAD_BYTES
    assert offers == [Offer.TAKEN] * kept + [Offer.FULL] * (len(offers) - kept)


def test_what_finds_no_room_takes_nobody_elses() -> None:
    """Room that cannot be made for one message is not taken from the others."""
    window = ReceiveWindow(1, LIMIT)
    room = LIMIT - DATAGRAM_LIMIT_BYTES - 2 * MESSAGE_OVERHEAD_BYTES
    assert window.offer(message(2, room - 1000)) is Offer.TAKEN
    assert window.offer(message(9, 1000)) is Offer.TAKEN
    assert window.offer(message(5, 2000)) is Offer.FULL
    assert window.given_up == []
    assert window.offer(message(5, 1000)) is Offer.TAKEN
    assert window.given_up == [9]


def test_what_there_is_room_for_is_taken_whatever_came_early() -> None:
    """The room that a window names is made by giving up what came even earlier."""
    window = ReceiveWindow(1, LIMIT)
    early = (LIMIT - DATAGRAM_LIMIT_BYTES) // (1000 + MESSAGE_OVERHEAD_BYTES)
    for sequence in range(1000, 1000 + early):
        assert window.offer(message(sequence, 1000)) is Offer.TAKEN
    fitting = window.room // (1000 + MESSAGE_OVERHEAD_BYTES)
    assert fitting == early
    offers = [window.offer(message(sequence, 1000)) for sequence in range(2, 2 + fitting)]
    assert offers == [Offer.TAKEN] * fitting
    assert sorted(window.given_up) == list(range(1000, 1000 + early))
