"""Events as a person reads them."""

from __future__ import annotations

from unisono.events import SHOWN_BYTES, Message, View, ViewReason
from unisono.identity import ProcessId, StartPoint, ViewId

ADA, BOB = ProcessId("ada", 1), ProcessId("bob", 2)
VIEW = ViewId(5, ADA, 1)


def test_a_view_says_who_is_there_and_why() -> None:
    start = (StartPoint(ADA, 1, 1), StartPoint(BOB, 1, 1))
    view = View(VIEW, None, (ADA, BOB), start, ((BOB, ViewReason.MERGED),))
    assert str(view) == "view of ada bob (bob merged)"
    assert str(View(VIEW, None, (), (), ())) == "view of nobody"


def test_a_message_says_whose_it_is_and_how_it_begins() -> None:
    assert str(Message(ADA, 7, 3, 9, b"tea", VIEW, 0)) == "ada #3: b'tea'"
    long = str(Message(ADA, 7, 3, 9, b"x" * 1000, VIEW, 0))
    assert long == f"ada #3: b'{'x' * SHOWN_BYTES}...'"
