"""A stream remembers in which views its source sent."""

from __future__ import annotations

from unisono.engine import Address
from unisono.identity import NO_VIEW, ProcessId, ViewMark
from unisono.intergroup.stream import SPANS_LIMIT, Stream
from unisono.reliable.suppression import Pace, RequestTiming
from unisono.settings import Settings
from unisono.units import SECOND
from unisono.wire.messages import ActivationGrant, DataMessage

SOURCE, ITSELF = ProcessId("a", 1), ProcessId("b", 1)


def _stream() -> Stream:
    timing = RequestTiming(ITSELF, Pace(limit=SECOND))
    return Stream(SOURCE, Address("a"), ActivationGrant(ITSELF, 1, 1, 1, 0, 1, SECOND, b""), Settings(), False, timing)


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


def test_what_was_sent_in_a_view_stays_in_it_when_its_source_sends_in_none_before_and_after() -> None:
    """A source that is drawn into a view sends in it, says its last word, and sends again in none."""
    stream = _stream()
    for number, mark in enumerate((NO_VIEW, _mark(1), _mark(1), NO_VIEW), start=1):
        stream.note_view(number, number, mark)
    assert [stream.mark_of(number) for number in range(1, 5)] == [NO_VIEW, _mark(1), _mark(1), NO_VIEW]
