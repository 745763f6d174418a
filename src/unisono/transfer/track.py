"""Where delivery in a group has come to: a point that every member passes."""

from __future__ import annotations

from collections import deque

from unisono.events import Message, View
from unisono.identity import Point, ProcessId, ViewId

ORIGINS_KEPT = 1024
"""Of so many who let others send, those heard last, it is remembered what they had sent."""
VIEWS_KEPT = 256
"""So many of the last views are remembered."""


class Track:
    """Follows the events of one group in timestamp order."""

    __slots__ = ("_handed", "_numbers", "_views", "view")

    def __init__(self) -> None:
        self.view: View | None = None
        self._numbers: dict[ProcessId, int] = {}
        self._handed: dict[ProcessId, int] = {}
        self._views: deque[ViewId] = deque(maxlen=VIEWS_KEPT)

    def on_view(self, view: View) -> None:
        self.view = view
        self._numbers = {start.source: start.number for start in view.start}
        self._views.append(view.id)

    def resume(self, point: Point) -> None:
        """Go on from a point of the view that came last."""
        self._numbers = dict(point.numbers)
        self.learn(point)

    def learn(self, point: Point) -> None:
        """What was sent for others before a point is in the state that was taken there."""
        for origin, number in point.handed:
            self._hand(origin, number)

    @property
    def handed(self) -> dict[ProcessId, int]:
        """Up to which number each message was handed over that was sent for others."""
        return self._handed

    def _hand(self, origin: ProcessId, number: int) -> None:
        self._handed[origin] = max(number, self._handed.pop(origin, 0))
        while len(self._handed) > ORIGINS_KEPT:
            del self._handed[next(iter(self._handed))]

    def on_message(self, message: Message) -> None:
        self._numbers[message.carrier] = message.carrier_number + 1
        if message.by is not None:
            self._hand(message.source, message.number)

    @property
    def point(self) -> Point | None:
        """After everything that was delivered so far; None before the first view."""
        if self.view is None:
            return None
        return Point(self.view.id, tuple(sorted(self._numbers.items())), tuple(self._handed.items()))

    def covers(self, point: Point, floor: Point) -> bool:
        """Whether a point on this track is not before another one, as far as is known here."""
        if point.view == floor.view:
            return point.reaches(floor)
        views = list(self._views)
        return point.view in views and floor.view in views and views.index(floor.view) < views.index(point.view)
