"""How long sends have waited: each nanosecond is counted once, for what it was waited for."""

from __future__ import annotations

from unisono.reliable.blocked import Blocked


def test_each_wait_is_counted_for_what_it_was() -> None:
    blocked = Blocked()
    blocked.note("window", 10)
    blocked.note("window", 15)
    blocked.note("view", 30)
    blocked.note(None, 37)
    assert blocked.take(100) == {"window": 20, "view": 7}
    assert blocked.take(200) == {"window": 0, "view": 0}


def test_a_wait_that_goes_on_is_counted_up_to_each_reading() -> None:
    blocked = Blocked()
    blocked.note("view", 5)
    assert blocked.take(8) == {"window": 0, "view": 3}
    assert blocked.take(18) == {"window": 0, "view": 10}
    blocked.note(None, 20)
    assert blocked.take(30) == {"window": 0, "view": 2}
