"""When a holder stands in for a source, whatever the one who asks says of itself."""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.reliable.suppression import Asked, Pace, RepairTiming
from unisono.units import MILLISECOND, SECOND


class Fixed:
    def random(self) -> float:
        return 0.0


def test_who_says_it_is_endlessly_far_away_delays_a_repair_by_a_bounded_time() -> None:
    """Else a few such requests would fill the table of repairs for good."""
    timing = RepairTiming(Pace(limit=SECOND))
    asked = Asked(ProcessId("a", 1), MILLISECOND, 1 << 62, 0)
    delay = timing.delay(asked, MILLISECOND, 1, Fixed())
    assert delay is not None
    assert delay < 2 * SECOND
