"""What a newcomer keeps while it waits for the state, and which part of that comes after the state's point.

The face of a group keeps the events themselves, on disk or in memory; this says what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto

from unisono.events import Event, Message, View
from unisono.identity import Point
from unisono.transfer.track import VIEWS_KEPT, Track


class Reach(Enum):
    """How the events that are kept stand to a point."""

    REACHED = auto()
    NOT_YET = auto()
    NEVER = auto()


class Kept:
    """One newcomer's knowledge of the events that it keeps, in order."""

    __slots__ = ("_ends", "_entry", "_track")

    def __init__(self) -> None:
        self._track = Track()
        self._ends: dict[object, Point] = {}
        self._entry: Point | None = None
        """Where this process came in last: there is a gap before it."""

    @property
    def point(self) -> Point | None:
        """After everything that was kept."""
        return self._track.point

    def add(self, event: Event) -> None:
        if isinstance(event, View):
            if (end := self._track.point) is not None:
                self._ends[end.view] = end
                if len(self._ends) > VIEWS_KEPT:
                    del self._ends[next(iter(self._ends))]
            self._track.on_view(event)
            if comes_in(event):
                self._ends.clear()
                self._entry = self._track.point
        elif isinstance(event, Message):
            self._track.on_message(event)

    def reach(self, point: Point) -> Reach:
        """Whether everything before the point was kept; in a view that has ended, what did not come never will."""
        now, entry = self._track.point, self._entry
        if entry is not None and entry.view == point.view and not point.reaches(entry):
            return Reach.NEVER
        if now is not None and now.view == point.view:
            return Reach.REACHED if now.reaches(point) else Reach.NOT_YET
        end = self._ends.get(point.view)
        if end is not None:
            return Reach.REACHED if end.reaches(point) else Reach.NEVER
        return Reach.NEVER if now is not None and now.view > point.view else Reach.NOT_YET


def comes_in(view: View) -> bool:
    """Whether this process came into a view from none, perhaps for the second time: what was kept is of no use."""
    return view.previous is None


class After:
    """Passes over what was kept up to a point: the view that the point is in, and everything after the point, stay."""

    __slots__ = ("_found", "_inside", "_numbers", "_view")

    def __init__(self, point: Point) -> None:
        self._view = point.view
        self._numbers = dict(point.numbers)
        self._found = self._inside = False

    def stays(self, event: object) -> bool:
        """Whether the next of what was kept comes after the point."""
        if isinstance(event, View):
            self._inside = event.id == self._view
            self._found = self._found or self._inside
        elif self._inside and isinstance(event, Message) and event.carrier_number < self._numbers.get(event.carrier, 1):
            return False
        return self._found


def after(point: Point, events: Iterable[Event]) -> Iterator[Event]:
    """Of what was kept, the view that the point is in, and everything after the point."""
    return filter(After(point).stays, events)
