"""Where delivery in a group has come to: a point that every member passes."""

from __future__ import annotations

from collections import deque

from unisono.events import Message, View
from unisono.identity import Point, ProcessId, ViewId

VIEWS_KEPT = 256
"""So many of the last views are remembered."""


class Track:
    """Follows the events of one group in timestamp order."""

    __slots__ = ("_numbers", "_views", "view")

    def __init__(self) -> None:
        self.view: View | None = None
        self._numbers: dict[ProcessId, int] = {}
        self._views: deque[ViewId] = deque(maxlen=VIEWS_KEPT)

    def on_view(self, view: View) -> None:
        self.view = view
        self._numbers = {start.source: start.number for start in view.start}
        self._views.append(view.id)

    def resume(self, point: Point) -> None:
        """Go on from a point of the view that came last."""
        self._numbers = dict(point.numbers)

    def on_message(self, message: Message) -> None:
        self._numbers[message.source] = message.number + 1

    @property
    def point(self) -> Point | None:
        """After everything that was delivered so far; None before the first view."""
        return None if self.view is None else Point(self.view.id, tuple(sorted(self._numbers.items())))

    def covers(self, point: Point, floor: Point) -> bool:
        """Whether a point on this track is not before another one, as far as is known here."""
        if point.view == floor.view:
            return point.reaches(floor)
        views = list(self._views)
        return point.view in views and floor.view in views and views.index(floor.view) < views.index(point.view)
