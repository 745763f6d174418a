"""Which stream is next in timestamp order, and that keeping track of it stays small."""

from __future__ import annotations

from unisono.engine import Address
from unisono.identity import ProcessId
from unisono.intergroup.stream import Stream
from unisono.intergroup.timestamp_order import TimestampOrder
from unisono.reliable.suppression import RequestTiming
from unisono.settings import Settings
from unisono.wire.messages import ActivationGrant

ITSELF = ProcessId("z", 1)


def granted(name: str, timestamp: int) -> Stream:
    grant = ActivationGrant(ITSELF, 1, 1, 1, timestamp, 1, 1, b"")
    return Stream(ProcessId(name, 1), Address(name), grant, Settings(), False, RequestTiming(ITSELF))


def test_the_stream_that_is_furthest_behind_is_waited_for() -> None:
    order = TimestampOrder()
    a, b = granted("a", 10), granted("b", 20)
    order.admit(a)
    order.admit(b)
    assert order.first() == ((10, 1, a.source), a)
    a.on_said(0, 30)
    order.refresh(a)
    assert order.first() == ((20, 1, b.source), b)


def test_the_places_that_are_kept_do_not_grow_while_somebody_is_waited_for() -> None:
    """A source says the time for days while another one, or the application, keeps everybody waiting."""
    order = TimestampOrder()
    a, b = granted("a", 10), granted("b", 20)
    order.admit(a)
    order.admit(b)
    for timestamp in range(21, 10_000):
        b.on_said(0, timestamp)
        order.refresh(b)
    assert len(order) < 100
    assert order.first() == ((10, 1, a.source), a)
    order.remove(a.source)
    assert order.first() == ((9_999, 1, b.source), b)
