"""What grows with what others send has a bound, whatever they send."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unisono.engine import Address
from unisono.identity import NO_VIEW, ProcessId, ViewMark
from unisono.intergroup.audience import Audience, Listener
from unisono.intergroup.gathered import EXPIRY, NEWCOMER
from unisono.intergroup.stream import WAITING_SPANS_LIMIT, Stream
from unisono.reliable.fragments import OrderedAssembly
from unisono.reliable.gaps import HORIZON_LIMIT, Gaps
from unisono.reliable.repairs import REMEMBERED_FOR, Repairs
from unisono.reliable.suppression import RequestTiming, Wait
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES, Offer, ReceiveWindow
from unisono.settings import Settings
from unisono.units import KIB, MIB, SECOND
from unisono.wire.layout import DATAGRAM_LIMIT_BYTES
from unisono.wire.messages import FRAGMENT, ActivationGrant, DataMessage

ITSELF, SOURCE = ProcessId("b", 1), ProcessId("a", 1)


def message(sequence: int, size: int = 0) -> DataMessage:
    return DataMessage(sequence, sequence, sequence, 0, 0, 1, bytes(size))


def horizon(window: ReceiveWindow, size: int) -> int:
    return window.contiguous + min(window.room // size, 8)


STEPS = st.one_of(
    st.tuples(st.just("come"), st.integers(1, 60)),
    st.tuples(st.just("announce"), st.integers(1, 60)),
    st.tuples(st.just("ask"), st.integers(0, 0)),
    st.tuples(st.just("take"), st.integers(1, 5)),
)


@given(st.lists(STEPS, max_size=60))
def test_what_is_missing_has_a_ticket_up_to_the_horizon_and_none_beyond(steps: list[tuple[str, int]]) -> None:
    size = 1000
    window = ReceiveWindow(1, DATAGRAM_LIMIT_BYTES + 12 * (size + MESSAGE_OVERHEAD_BYTES))
    gaps, furthest = Gaps(window), 0

    for now, (what, number) in enumerate(steps):
        if what == "come":
            gaps.announce(number - 1, now, horizon(window, size))
            window.announce(number)
            gaps.tickets.fill(number)
            if window.offer(message(number, size)) is Offer.FULL:
                gaps.miss(number, now, horizon(window, size))
            while window.given_up:
                gaps.miss(window.given_up.pop(), now, horizon(window, size))
        elif what == "announce":
            gaps.announce(number, now, horizon(window, size))
        elif what == "take":
            for _ in range(number):
                window.take()
        gaps.look_further(now, horizon(window, size))
        furthest = max(furthest, horizon(window, size))
        missing = {one for first, last in window.missing() for one in range(first, last + 1)}
        assert bool(gaps) == bool(missing)
        assert {one for one in range(70) if one in gaps.tickets} == {one for one in missing if one <= furthest}
        assert len(gaps.tickets) <= 8
        assert gaps.lacks_further(1, 70) == any(one > furthest for one in missing)
        if what == "ask":
            gaps.tickets.request(now, lambda tries: Wait(1, 2), 64, furthest)
    gaps.renew(len(steps), horizon(window, size))
    missing = {one for first, last in window.missing() for one in range(first, last + 1)}
    reach = horizon(window, size)
    assert {one for one in range(70) if one in gaps.tickets} == {one for one in missing if one <= reach}


def stream(buffer: int) -> Stream:
    timing = RequestTiming(ITSELF)
    grant = ActivationGrant(ITSELF, 1, 1, 1, 0, 1, SECOND, b"")
    return Stream(SOURCE, Address("a"), grant, Settings(receive_buffer_bytes=buffer), False, timing)


def test_every_second_message_of_a_flood_makes_no_more_tickets_than_may_be_asked_for() -> None:
    flooded = stream(MIB)
    for sequence in range(2, 40_000, 2):
        flooded.on_announced(sequence - 1, sequence)
        flooded.on_message(message(sequence), sequence, sequence)
    assert len(flooded.gaps.tickets) == HORIZON_LIMIT // 2
    assert flooded.gaps.take_high_water() == HORIZON_LIMIT // 2
    assert flooded.window.bytes <= MIB


def test_a_source_that_names_ever_new_views_is_not_taken_in() -> None:
    flooded = stream(128 * KIB)
    noted = [flooded.note_view(number, number, ViewMark(number, 0)) for number in range(2, 3 * WAITING_SPANS_LIMIT)]
    assert sum(noted) == WAITING_SPANS_LIMIT
    assert not noted[-1]
    assert flooded.mark_of(2) == ViewMark(2, 0)
    assert flooded.mark_of(2 * WAITING_SPANS_LIMIT) == NO_VIEW


def test_small_fragments_take_no_more_room_than_the_message() -> None:
    assembly = OrderedAssembly(10_000)
    for index in range(9_000):
        assert assembly.add(DataMessage(index + 1, 1, 1, FRAGMENT, index, 10_000, b"x")) is None
    assert assembly._begun == b"x" * 9_000


def test_receivers_that_went_long_ago_are_forgotten() -> None:
    audience = Audience(ITSELF)
    for number in range(1000):
        now = number * SECOND
        listener = Listener(Address("r"), 1, False, False, NO_VIEW, (1, 1), 0, now)
        audience.admit(ProcessId("r", number), listener)
        audience.drop(ProcessId("r", number), now + NEWCOMER)
    assert len(audience._gone) <= EXPIRY // SECOND + 1


def test_what_was_repaired_long_ago_is_forgotten() -> None:
    repairs = Repairs()
    for second in range(100):
        repairs.heard(SOURCE, second, second * SECOND)
    assert len(repairs._lately) == REMEMBERED_FOR // SECOND + 1
