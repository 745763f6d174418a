"""What was handed to the application that was sent for others: of each who asked, once and in its order.

A message may have been sent twice, by two senders of which one seemed to be gone. A sender sends what it is asked in
order, and who asks goes to another sender with all that has not come back to it; so copies come in order too, and the
highest number says what was handed over already. Receivers without order remember which lower numbers are missing.
"""

from __future__ import annotations

from unisono.identity import ProcessId

ORIGIN_LIMIT = 4096
"""Of so many processes, those heard last, it is remembered what was handed over."""
LATE_LIMIT = 1024
"""A message may come so many numbers late, where there is no order."""


class Handed:
    """The numbers of each origin that one application got."""

    __slots__ = ("_late", "_origins")

    def __init__(self, origins: tuple[tuple[ProcessId, int], ...] = ()) -> None:
        self._origins = dict(origins)
        self._late: dict[ProcessId, set[int]] = {}

    @property
    def highest(self) -> tuple[tuple[ProcessId, int], ...]:
        """The highest number of each origin, those heard last at the end."""
        return tuple(self._origins.items())

    def is_next(self, origin: ProcessId, number: int, ordered: bool) -> bool:
        """Whether this one is to be handed over now; then it is not again."""
        highest = self._origins.get(origin, 0)
        if number <= highest:
            late = self._late.get(origin)
            if ordered or late is None or number not in late:
                return False
            late.remove(number)
            return True
        self._origins.pop(origin, None)
        self._origins[origin] = number
        if ordered:
            self._late.pop(origin, None)
        else:
            missing = self._late.setdefault(origin, set())
            missing.update(range(max(highest + 1, number - LATE_LIMIT), number))
            missing.difference_update([one for one in missing if one < number - LATE_LIMIT])
        while len(self._origins) > ORIGIN_LIMIT:
            oldest = next(iter(self._origins))
            del self._origins[oldest]
            self._late.pop(oldest, None)
        return True
