"""Proxy sending in small: what is handed over, what stands in front of a payload, what a point says."""

from __future__ import annotations

import pytest

from unisono.events import Message, View
from unisono.identity import Point, ProcessId, ViewId
from unisono.intergroup.handing import LATE_LIMIT, ORIGIN_LIMIT, Handed
from unisono.transfer.track import ORIGINS_KEPT, Track
from unisono.wire.origins import ORIGIN_ROOM_BYTES, put_origin, take_origin
from unisono.wire.proxy_messages import ProxyRequest

ADA = ProcessId("ada", 7)
BOB = ProcessId("bob", 9)
VIEW = ViewId(5, BOB, 1)


def proxied(number: int, carrier_number: int = 1, repeated: bool = False) -> Message:
    return Message(ADA, 3, number, 4, b"x", VIEW, 0, "", BOB, carrier_number, repeated)


def test_in_order_only_what_is_above_all_before_is_handed_over() -> None:
    handed = Handed()
    found = [number for number in (1, 2, 2, 1, 3, 5, 4, 3, 6) if handed.is_next(ADA, number, ordered=True)]
    assert found == [1, 2, 3, 5, 6]
    assert handed.is_next(ProcessId("ada", 8), 1, ordered=True), "another life counts anew"


def test_without_order_what_is_late_is_handed_over_once() -> None:
    handed = Handed()
    found = [number for number in (3, 1, 3, 1, 2, 2, 6, 5) if handed.is_next(ADA, number, ordered=False)]
    assert found == [3, 1, 2, 6, 5]
    assert handed.is_next(ADA, 6 + LATE_LIMIT + 1, ordered=False)
    assert not handed.is_next(ADA, 4, ordered=False), "too late to be known as new"


def test_what_was_handed_over_outlives_a_return() -> None:
    handed = Handed()
    assert handed.is_next(ADA, 4, ordered=True)
    again = Handed(handed.highest)
    assert not again.is_next(ADA, 4, ordered=True)
    assert not again.is_next(ADA, 3, ordered=False)
    assert again.is_next(ADA, 5, ordered=False)


def test_only_those_heard_last_are_remembered() -> None:
    handed = Handed()
    for number in range(ORIGIN_LIMIT + 1):
        assert handed.is_next(ProcessId(f"p{number}", 1), 1, ordered=number % 2 == 0)
    assert len(handed.highest) == ORIGIN_LIMIT
    assert handed.is_next(ProcessId("p0", 1), 1, ordered=True)
    assert not handed.is_next(ProcessId("p2", 1), 1, ordered=True)


def test_an_origin_is_read_as_it_was_written() -> None:
    written = put_origin(ADA, 12, b"payload")
    assert take_origin(written) == (ADA, 12, b"payload")
    longest = put_origin(ProcessId("x" * 64, (1 << 63) - 1), 1, b"")
    assert len(longest) == ORIGIN_ROOM_BYTES
    assert take_origin(longest) is not None


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        put_origin(ADA, 12, b"")[:-1],
        put_origin(ProcessId("a\nb", 1), 1, b"x"),
        put_origin(ProcessId("", 1), 1, b"x"),
        put_origin(ADA, 0, b"x"),
        put_origin(ProcessId("ada", 1 << 63), 1, b"x"),
        put_origin(ADA, 1, b"x").replace(b"ada", b"\xff\xff\xff"),
    ],
)
def test_what_names_no_origin_is_none(payload: bytes) -> None:
    assert take_origin(payload) is None


def test_a_part_behind_the_last_is_refused() -> None:
    with pytest.raises(ValueError, match="behind the last"):
        ProxyRequest(ADA, 1, 1, 1, 2, 2, 0, b"")


def test_a_message_knows_in_whose_stream_it_came() -> None:
    message = proxied(5, carrier_number=11)
    assert (message.carrier, message.carrier_number) == (BOB, 11)
    own = Message(BOB, 3, 11, 4, b"x", VIEW, 0)
    assert (own.carrier, own.carrier_number) == (BOB, 11)
    assert not message.is_known({})
    assert message.is_known({ADA: 5})
    assert not message.is_known({ADA: 4})
    assert proxied(5, repeated=True).is_known({})
    assert not own.is_known({BOB: 99}), "only what is sent for others is told by two numbers"


def test_a_point_says_what_was_sent_for_others_before_it() -> None:
    track, later = Track(), Track()
    for one in (track, later):
        one.on_view(View(VIEW, None, (), (), ()))
    track.on_message(proxied(5, carrier_number=11))
    point = track.point
    assert point is not None
    assert point.handed == ((ADA, 5),)
    assert dict(point.numbers)[BOB] == 12
    later.learn(point)
    later.on_message(proxied(4, carrier_number=12))
    assert later.handed == {ADA: 5}
    for number in range(ORIGINS_KEPT):
        later.learn(Point(VIEW, (), ((ProcessId(f"p{number}", 1), 1),)))
    assert ADA not in later.handed
    assert len(later.handed) == ORIGINS_KEPT
