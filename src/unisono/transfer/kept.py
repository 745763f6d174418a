"""What a newcomer keeps while it waits for the state, and which part of that comes after the state's point.

The face of a group keeps the events themselves, on disk or in memory; this says what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto

from unisono.events import Event, Message, View
from unisono.identity import Point
from unisono.transfer.track import Track


class Reach(Enum):
    """How the events that are kept stand to a point."""

    REACHED = auto()
    NOT_YET = auto()
    NEVER = auto()


class Kept:
    """One newcomer's knowledge of the events that it keeps, in order."""

    __slots__ = ("_ends", "_track")

    def __init__(self) -> None:
        self._track = Track()
        self._ends: dict[object, Point] = {}

    @property
    def point(self) -> Point | None:
        """After everything that was kept."""
        return self._track.point

    def add(self, event: Event) -> None:
        if isinstance(event, View):
            if (end := self._track.point) is not None:
                self._ends[end.view] = end
            self._track.on_view(event)
        elif isinstance(event, Message):
            self._track.on_message(event)

    def reach(self, point: Point) -> Reach:
        """Whether everything before the point was kept; in a view that has ended, what did not come never will."""
        now = self._track.point
        if now is not None and now.view == point.view:
            return Reach.REACHED if now.reaches(point) else Reach.NOT_YET
        end = self._ends.get(point.view)
        if end is not None:
            return Reach.REACHED if end.reaches(point) else Reach.NEVER
        return Reach.NEVER if now is not None and now.view > point.view else Reach.NOT_YET


def after(point: Point, events: Iterable[Event]) -> Iterator[Event]:
    """Of what was kept, the view that the point is in, and everything after the point."""
    numbers = dict(point.numbers)
    found = inside = False
    for event in events:
        if isinstance(event, View):
            inside = event.id == point.view
            found = found or inside
        elif inside and isinstance(event, Message) and event.carrier_number < numbers.get(event.carrier, 1):
            continue
        if found:
            yield event
