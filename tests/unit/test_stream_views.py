"""A stream: where it starts, and in which views its source sent."""

from __future__ import annotations

from unisono.engine import Address
from unisono.identity import NO_VIEW, ProcessId, ViewMark
from unisono.intergroup.stream import SPANS_LIMIT, Stream
from unisono.reliable.suppression import Pace, RequestTiming
from unisono.settings import Settings
from unisono.units import SECOND
from unisono.wire.messages import FRAGMENT, ActivationGrant, DataMessage

SOURCE, ITSELF = ProcessId("a", 1), ProcessId("b", 1)


def _stream(first: int = 1) -> Stream:
    timing = RequestTiming(ITSELF, Pace(limit=SECOND))
    return Stream(SOURCE, Address("a"), ActivationGrant(ITSELF, 1, 1, first, 0, SECOND, b""), Settings(), False, timing)


def _mark(number: int) -> ViewMark:
    return NO_VIEW._replace(start=number)


def test_what_is_taken_of_earlier_views_is_forgotten() -> None:
    stream = _stream()
    for number in range(1, 4 * SPANS_LIMIT):
        stream.note_view(number, number, _mark(number))
        assert stream.pass_through([DataMessage(number, number, number, 0, 0, 1, b"x")])
    assert stream.mark_of(1) == NO_VIEW
    assert stream.mark_of(4 * SPANS_LIMIT - 1) == _mark(4 * SPANS_LIMIT - 1)


def test_what_waits_of_earlier_views_is_not() -> None:
    stream = _stream()
    for number in range(1, 4 * SPANS_LIMIT):
        stream.note_view(number, number, _mark(number))
        assert stream.append([DataMessage(number, number, number, 0, 0, 1, b"x")])
    assert stream.mark_of(1) == _mark(1)


def test_a_message_that_is_sent_anew_is_from_before_the_start() -> None:
    stream = _stream(first=2)
    for sequence, number, index in ((1, 1, 0), (2, 1, 1), (3, 2, 0), (4, 2, 1)):
        assert stream.append([DataMessage(sequence, number, sequence, FRAGMENT, index, 2, b"x")])
    whole = []
    while (message := stream.next_message()) is not None:
        assert stream.point.number >= 2
        if (data := stream.whole(message)) is not None:
            whole.append((message.number, data))
    assert whole == [(2, b"xx")]
