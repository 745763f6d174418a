"""What the application gets: messages that are in order, and the views they belong to.

Under source order a view is this receiver's own set of active sources (000 1.3.2); nobody else need agree with it.
Delivery waits while the application leaves too many messages untaken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from unisono.clock import LamportClock
from unisono.events import Message, View, ViewReason
from unisono.identity import ProcessId, StartPoint, ViewId
from unisono.intergroup.handing import Handed
from unisono.intergroup.sending import OwnMessage
from unisono.reliable.step import Place, Step
from unisono.wire.membership_messages import Change
from unisono.wire.messages import NAMED, PROXIED, DataMessage
from unisono.wire.names import take_name
from unisono.wire.origins import take_origin

UNORDERED = frozenset({"UU", "ALF"})
"""Services that keep no order of a source."""


class CameBack(NamedTuple):
    """A message of this process that another sent: its number, and who sent it under which sequence."""

    number: int
    carrier: ProcessId
    sequence: int


class Delivery:
    """Hands messages and views to the application of one process in one group."""

    __slots__ = (
        "_clock",
        "_event_limit",
        "_index",
        "_own",
        "_place",
        "_process",
        "came_back",
        "delivered_bytes",
        "handed",
        "taken",
        "untaken",
        "untaken_high_water",
        "view",
        "view_count",
    )

    def __init__(
        self,
        process: ProcessId,
        place: Place,
        clock: LamportClock,
        event_limit: int,
        view_count: int,
        handed: Handed | None = None,
    ) -> None:
        self._process = process
        self._place = place
        self._clock = clock
        self._event_limit = event_limit
        self._own: deque[OwnMessage] = deque()
        self._index = 0
        self.delivered_bytes = 0
        """Of all messages since the join."""
        self.taken = 0
        """How many messages the application has taken since then."""
        self.untaken = 0
        self.untaken_high_water = 0
        self.view: View | None = None
        self.view_count = view_count
        self.handed = Handed() if handed is None else handed
        """What was handed over that was sent for others."""
        self.came_back: CameBack | None = None
        """The last message that another sent for this process."""

    @property
    def stretch(self) -> int:
        return self._place.stretch

    @property
    def has_room(self) -> bool:
        return self.untaken < self._event_limit

    @property
    def room(self) -> int:
        """How many messages the application may still leave untaken."""
        return self._event_limit - self.untaken

    @property
    def delivered(self) -> int:
        """How many messages were delivered since the join."""
        return self.taken + self.untaken

    @property
    def oldest_own(self) -> OwnMessage | None:
        """The oldest message of this process that its own application has not got yet."""
        return self._own[0] if self._own else None

    @property
    def own_changes(self) -> list[Change]:
        """What this process said of who sends, as far as its own order has not come to it."""
        return [own.change for own in self._own if own.change is not None]

    def on_taken(self, count: int) -> None:
        self.taken += min(count, self.untaken)
        self.untaken = max(0, self.untaken - count)

    def message(
        self, step: Step, source: ProcessId, sequence: int, number: int, timestamp: int, data: bytes, name: str = ""
    ) -> None:
        view = self.view.id if self.view else None
        step.deliver(Message(source, sequence, number, timestamp, data, view, self._index, name))
        self._count(len(data))

    def _count(self, size: int) -> None:
        """A message of that size was handed over."""
        self._index += 1
        self.delivered_bytes += size
        self.untaken += 1
        if self.untaken > self.untaken_high_water:
            self.untaken_high_water = self.untaken

    def proxied(
        self,
        step: Step,
        carrier: ProcessId,
        sequence: int,
        number: int,
        timestamp: int,
        origin: ProcessId,
        origin_number: int,
        data: bytes,
    ) -> None:
        """A message that its carrier sent for another: the application gets it once, and in the order of its origin."""
        ordered = self._place.service not in UNORDERED
        repeated = not self.handed.is_next(origin, origin_number, ordered)
        if repeated:
            step.mark("proxied-copy")
        if origin == self._process:
            self.came_back = CameBack(
                max(origin_number, 0 if self.came_back is None else self.came_back.number), carrier, sequence
            )
        view = self.view.id if self.view else None
        step.deliver(
            Message(origin, sequence, origin_number, timestamp, data, view, self._index, "", carrier, number, repeated)
        )
        self._count(len(data))

    def whole(self, step: Step, source: ProcessId, last: DataMessage, data: bytes) -> None:
        """Hand over a message that was put together, its last piece being `last`."""
        name = ""
        if last.flags & PROXIED and (found := take_origin(data)) is not None:
            self.proxied(step, source, last.sequence, last.number, last.timestamp, *found)
            return
        if last.flags & NAMED:
            name, data = take_name(data)
        self.message(step, source, last.sequence, last.number, last.timestamp, data, name)

    def messages(self, step: Step, source: ProcessId, run: Sequence[DataMessage], size: int) -> None:
        """Hand over a run of whole messages, of `size` bytes together, for which there is room."""
        view = self.view.id if self.view else None
        index = self._index
        step.deliver_all(
            [
                Message(source, message.sequence, message.number, message.timestamp, message.payload, view, place)
                for place, message in enumerate(run, index)
            ]
        )
        self._index = index + len(run)
        self.delivered_bytes += size
        self.untaken += len(run)
        if self.untaken > self.untaken_high_water:
            self.untaken_high_water = self.untaken

    def own_messages(self, step: Step, messages: Sequence[OwnMessage]) -> None:
        """A process receives its own messages too (000 4.1), as fast as its application takes them."""
        self._own.extend(messages)
        while self._own and self.has_room:
            self.hand_own(step)

    def queue_own(self, messages: Sequence[OwnMessage]) -> None:
        """Own messages that wait for their turn in an order."""
        self._own.extend(messages)

    def hand_own(self, step: Step) -> OwnMessage:
        """The oldest message of this process goes to its own application, if it is for that."""
        own = self._own.popleft()
        if own.change is None:
            self.own(step, own)
        return own

    def own(self, step: Step, own: OwnMessage) -> None:
        """A message of this process goes to its own application, as that of the one that asked for it, if any did."""
        place = (self._process, own.sequence, own.number, own.timestamp)
        if own.origin is None:
            self.message(step, *place, own.payload, own.name)
        else:
            self.proxied(step, *place, own.origin, own.origin_number, own.payload)

    def take_own(self) -> list[OwnMessage]:
        """The messages of this process that wait for its application: another service takes them over."""
        waiting = list(self._own)
        self._own.clear()
        return waiting

    def drop_own(self) -> None:
        """This process is leaving: its application gets nothing more."""
        self._own.clear()

    def begin_stretch(self, absent: bool = False) -> None:
        """Another service begins, or the same one after an absence, without a view so far."""
        self._place.stretch += absent
        self.view = None
        self._index = 0
        self._place.view = None

    def install(self, step: Step, start: Sequence[StartPoint], reasons: Sequence[tuple[ProcessId, ViewReason]]) -> None:
        """From here on, messages come from these sources, each from its start point on: an own view."""
        self.view_count += 1
        previous = self.view.id if self.view else None
        identifier = ViewId(self._clock.tick(step.now, step.wall), self._process, self.view_count)
        members = tuple(point.source for point in start)
        self.enter(step, View(identifier, previous, members, tuple(start), tuple(reasons)))

    def enter(self, step: Step, view: View) -> None:
        """A view stands, agreed or not."""
        self.view = view
        self._index = 0
        self._place.view = str(view.id)
        step.deliver(view)
