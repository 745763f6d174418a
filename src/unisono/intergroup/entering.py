"""The way into timestamp order at some point of a view that stands (000 5.3.1): for a receiver that has just come, and
for an application that had another service so far.

Up to that point everything is taken source by source, as before. It goes to an application that had a reliable service,
which therefore loses nothing, and to nobody otherwise.
"""

from __future__ import annotations

from unisono.identity import ProcessId, StartPoint, ViewId
from unisono.intergroup.context import Context
from unisono.intergroup.membership.view import AgreedView, Said
from unisono.intergroup.presenting import BySource
from unisono.intergroup.stream import Stream
from unisono.reliable.step import Step
from unisono.wire.membership_messages import NewView

SAID_LIMIT = 1024
"""So many words of who sends are kept while no view is told."""


class Entering:
    """Looks for a point in time from which every member of a view can be delivered."""

    __slots__ = ("_before", "_context", "_floor", "_said", "_streams", "_until", "message", "view")

    def __init__(self, context: Context, before: BySource, streams: dict[ProcessId, Stream], until: int) -> None:
        self._context = context
        self._before = before
        self._streams = streams
        self._until = until
        """Until then a source that is followed and not in the view yet is waited for."""
        self._floor: int | None = None
        self._said: list[Said] = []
        self.message: NewView | None = None
        """The view to be entered, as it was told."""
        self.view: AgreedView | None = None
        """The same, with what changed in it since."""

    @property
    def _bridges(self) -> bool:
        """Whether the application gets what comes before the point."""
        return self._context.changing and self._context.settings.reliable

    def aim(self, step: Step, message: NewView | None) -> None:
        """Enter that view; with None there is none to be entered for the time being."""
        if self._knows(message):
            return
        self.message = message
        self.view = None if message is None else AgreedView.of(message)
        if self.view is not None and not self._bridges:  # nobody is kept waiting by that
            self._floor = self.view.id.start
            self._before.hold()
        else:
            self._let_go(step)

    def _knows(self, message: NewView | None) -> bool:
        """The view is aimed at already: a receiver is told again and again, and also by members that have not come as
        far in the order as the one that told it before."""
        if message is None or self.message is None:
            return message is self.message
        return message.era == self.message.era and message.view <= self.message.view

    def advance(self, step: Step) -> list[StartPoint] | None:
        """Take what is before the point; where everybody starts, once all members are there."""
        self._follow_changes()
        view = self.view
        if view is None:
            return None
        members = self._find_members(step, view)
        if members is None and self._bridges:
            self._let_go(step)
            return None
        if members is not None:
            self._floor = max(self._floor or view.id.start, *(stream.passed for stream in members), 0)
            self._before.hold()
        assert self._floor is not None, "the view is to be entered somewhere"
        if not self._bring_up_to(step, view, self._floor) or members is None:
            return None
        while (passed := max((stream.passed for stream in members), default=0)) > self._floor:
            self._floor = passed  # of an earlier view, and later than this one says it began
            if not self._bring_up_to(step, view, passed):
                return None
        if any(stream.ending is not None for stream in members):  # what came before the point was its last
            return None
        if self._before.said:  # somebody became a sender or a receiver before the point
            return self.advance(step)
        start = [stream.start_after(self._floor, view.mark) for stream in members]
        found = [point for point in start if point is not None]
        return found if len(found) == len(start) else None

    def _follow_changes(self) -> None:
        """Members said before the point who sends, also before the view was told: who told it may not have come so far.

        They come from each by itself, and count in their order.
        """
        self._said += self._before.said
        self._before.said = []
        if self.message is None:
            del self._said[:-SAID_LIMIT]
            return
        view = AgreedView.of(self.message)
        told = view.id
        self._said = sorted(
            (one for one in self._said if ViewId(one.timestamp, one.source, one.sequence) > told),
            key=lambda one: (one.timestamp, one.source),
        )
        for one in self._said:
            if one.mark == view.mark:
                view = view.after(one) or view
        self.view = view
        if self._floor is not None:
            self._floor = max(self._floor, view.id.start)

    def _let_go(self, step: Step) -> None:
        """There is no point to be waited for now: everything goes on as before."""
        if self._floor is not None:
            self._floor = None
            self._before.go_on(step)

    def _find_members(self, step: Step, view: AgreedView) -> list[Stream] | None:
        """The streams of all other members, if they are followed, and everybody who is followed is a member."""
        followed = {
            source: stream
            for source, stream in self._streams.items()
            if stream.ending is None and (view.seat(source) is not None or not stream.has_said_last)
        }
        seats = [seat for seat in view.seats if seat.process != self._context.process]
        if not all(seat.process in followed and followed[seat.process].term <= seat.sequence for seat in seats):
            return None  # or it has stopped sending since, and said so before it was followed
        if self._bridges and len(followed) > len(seats) and step.now < self._until:
            return None
        return [followed[seat.process] for seat in seats]

    def _bring_up_to(self, step: Step, view: AgreedView, floor: int) -> bool:
        """Let everything pass that is before the point, and all of a source that is not in the view or has ended."""
        for source, stream in sorted(self._streams.items()):
            waits = view.seat(source) is not None and stream.ending is None
            if not self._before.bring(step, stream, floor if waits else None, view.mark):
                return False
        return self._before.bring_own(step, floor)
