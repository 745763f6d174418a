"""What this process says in a session: a queue over all views, and a stream of its own for each view.

A message takes consecutive sequences of the stream of one view, whole or not at all: one that a view ends in the middle
of is sent anew in the next. What was sent is kept until every member of the view has delivered it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from unisono.events import SendAccepted
from unisono.reliable.blocked import Blocked
from unisono.reliable.pacing import Pacing
from unisono.reliable.step import Step, repair_row
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES, SendWindow
from unisono.trace.schema import SendRow, body_hash
from unisono.virtual_synchrony.session.context import Context
from unisono.virtual_synchrony.session.view import SessionView
from unisono.wire.layout import COUNT_LIMIT, FRAGMENT_HEAD, MESSAGE_HEAD
from unisono.wire.messages import AGAIN, BEGINS, FRAGMENT, OPTIMISTIC, PROXIED, DataMessage


class OwnMessage(Struct, frozen=True, gc=False):
    """A message of this process that has left, on its way to its own application."""

    sequence: int
    number: int
    timestamp: int
    payload: bytes
    relayed: bool = False
    """A client of this controller sent it (see `unisono.virtual_synchrony.session.relaying`)."""
    begins: bool = False
    """It is the first of its view."""


class OwnStream:
    """The stream of this process in one view: what left and is not delivered everywhere yet."""

    __slots__ = ("begun", "sequence", "undelivered", "window")

    def __init__(self, window_bytes: int) -> None:
        self.window = SendWindow(window_bytes)
        self.sequence = 0
        self.begun = False
        """Something was sent in it that was not sent before."""
        self.undelivered: list[OwnMessage] = []
        """Sent before its view was installed: for this process's own application once it is."""


class _Waiting:
    """A message that waits to be sent, perhaps with some of its fragments gone already."""

    __slots__ = ("begins", "payload", "relayed", "sent_fragments", "ticket", "timestamp")

    def __init__(
        self, payload: bytes, timestamp: int | None = None, relayed: bool = False, begins: bool = False
    ) -> None:
        self.payload = payload
        self.begins = begins
        self.relayed = relayed
        self.ticket: int | None = None
        self.timestamp = timestamp
        """The one that it was first sent with, where it is sent again."""
        self.sent_fragments = 0


class Outgoing:
    """The queue of messages, the numbers that they take, and how fast they may leave."""

    __slots__ = (
        "_context",
        "_queue",
        "_settings",
        "_writer",
        "blocked",
        "blocked_since",
        "high_water",
        "last_number",
        "pacing",
        "queued_bytes",
        "unstable",
        "weak",
    )

    def __init__(self, context: Context, last_number: int) -> None:
        self._context = context
        self._settings = context.settings
        self._writer = context.writer
        self._queue: deque[_Waiting] = deque()
        self.queued_bytes = 0
        self.high_water = 0
        self.last_number = last_number
        self.pacing = Pacing(context.settings.window_bytes, context.settings.datagram_bytes)
        self.blocked = Blocked()
        self.blocked_since: int | None = None
        """Since when the window has been full without anything becoming stable."""
        self.weak = context.settings.semantics == "weak"
        self.unstable: deque[OwnMessage] = deque()
        """In a weak group: what was sent in this view and not everybody has; it is sent again in the next."""

    @property
    def waiting(self) -> bool:
        return bool(self._queue)

    @property
    def begun(self) -> bool:
        """Whether a message was sent in part only."""
        return bool(self._queue) and self._queue[0].sent_fragments > 0

    def why_refuse(self, messages: Sequence[bytes]) -> str | None:
        message_limit, queue_limit = self._settings.message_limit_bytes, self._settings.send_queue_bytes
        largest = max(map(len, messages), default=0)
        if largest > message_limit:
            return f"a message of {largest} bytes is larger than message_limit_bytes ({message_limit})"
        weight = sum(map(len, messages)) + MESSAGE_OVERHEAD_BYTES * len(messages)
        alone = not self._queue and len(messages) == 1
        if not alone and self.queued_bytes + weight > queue_limit:
            return f"more than send_queue_bytes ({queue_limit}) would wait; wait for earlier sends to be accepted"
        return None

    def enqueue(self, messages: Sequence[bytes], ticket: int, relayed: bool = False) -> None:
        assert messages, "a send without messages is answered at once"
        for message in messages:
            self._queue.append(_Waiting(message, relayed=relayed))
            self.queued_bytes += _weight(message)
        self._queue[-1].ticket = ticket
        self.high_water = max(self.high_water, self.queued_bytes)

    def put_back(self, messages: Sequence[bytes]) -> None:
        """Send these anew, before all that waits; they were accepted before."""
        for message in reversed(messages):
            self._queue.appendleft(_Waiting(message))
            self.queued_bytes += _weight(message)
        self.high_water = max(self.high_water, self.queued_bytes)

    def send_again(self) -> None:
        """In a weak group, when the view has changed: send what not everybody has anew, with its numbers."""
        self.rewind()
        for message in reversed(self.unstable):
            self._queue.appendleft(_Waiting(message.payload, message.timestamp, begins=message.begins))
            self.queued_bytes += _weight(message.payload)
        self.high_water = max(self.high_water, self.queued_bytes)
        self.last_number -= len(self.unstable)
        self.unstable.clear()

    def rewind(self) -> None:
        """A message that was sent in part only is sent anew, as a whole."""
        if self._queue:
            self._queue[0].sent_fragments = 0

    def drop_queue(self) -> list[int]:
        """Give up what waits; the tickets of the sends that were not accepted."""
        tickets = [waiting.ticket for waiting in self._queue if waiting.ticket is not None]
        self._queue.clear()
        self.queued_bytes = 0
        return tickets

    def drop_relayed(self) -> list[int]:
        """Give up what clients sent in a view that is over, and the tickets of it."""
        tickets = [waiting.ticket for waiting in self._queue if waiting.relayed and waiting.ticket is not None]
        self._queue = deque(waiting for waiting in self._queue if not waiting.relayed)
        self.queued_bytes = sum(_weight(waiting.payload) for waiting in self._queue)
        return tickets

    def _has_room(self, stream: OwnStream, finishing: bool) -> bool:
        """Whether the next message may leave. What clients of a controller sent belongs into a view that ends.

        Who has said its cut takes no more before it knows that of this process, so that the window stays full then.
        """
        if finishing and self._queue and self._queue[0].relayed:
            return True
        return stream.window.has_room(self._settings.datagram_bytes, self.pacing.window)

    def note_blocked(self, step: Step, stream: OwnStream | None, finishing: bool = False) -> None:
        """What the queue waits for now: a view in which this process may send, the window, or nothing."""
        if not self._queue:
            self.blocked.note(None, step.now)
            self.blocked_since = None
        elif stream is None:
            self.blocked.note("view", step.now)
            self.blocked_since = None
        elif not self._has_room(stream, finishing):
            self.blocked.note("window", step.now)
            if self.blocked_since is None:
                self.blocked_since = step.now
                step.mark("vs-window-full")
        else:
            self.blocked.note(None, step.now)
            self.blocked_since = None

    def flush(
        self, step: Step, stream: OwnStream, view: SessionView, *, optimistic: bool = False, finishing: bool = False
    ) -> list[OwnMessage]:
        """Send what the window admits into the stream of a view; what this process itself is to deliver of it."""
        own: list[OwnMessage] = []
        pacing = self.pacing
        while self._queue and self._has_room(stream, finishing) and pacing.wait_until(step.now) <= step.now:
            tickets: list[int] = []
            batch = self._next_batch(step, stream, view, own, tickets, OPTIMISTIC if optimistic else 0)
            first = stream.window.first
            stable = (first if first is not None else batch[0].sequence) - 1
            datagram = self._writer.data(batch, stable, view.mark)
            stream.window.retain(batch[0].sequence, batch[-1].sequence, datagram)
            step.send(self._context.multicast, datagram, self._settings.scope)
            pacing.on_sent(step.now, len(batch), len(datagram))
            for ticket in tickets:
                step.deliver(SendAccepted(ticket))
        return own

    def release(self, step: Step, stream: OwnStream, stable: int) -> None:
        """Every member has delivered what this process sent in the view up to here."""
        first, before = stream.window.first, stream.window.bytes
        released = stream.window.release(stable)
        if released is not None and first is not None:
            self.pacing.on_stable(before - stream.window.bytes)
            self.blocked_since = None
            while self.unstable and self.unstable[0].sequence <= released:
                self.unstable.popleft()
            if not self.weak:
                step.record(repair_row("GC", self._context.process, first, released))

    def _next_batch(
        self,
        step: Step,
        stream: OwnStream,
        view: SessionView,
        own: list[OwnMessage],
        tickets: list[int],
        flags: int,
    ) -> list[DataMessage]:
        """The messages of one datagram, taken from the queue."""
        batch: list[DataMessage] = []
        queue, tick, now, wall = self._queue, self._context.clock.tick, step.now, step.wall
        left = self._writer.data_room
        whole_limit, fragment_room = left - MESSAGE_HEAD.size, self._writer.fragment_room
        while queue and len(batch) < COUNT_LIMIT:
            head = queue[0]
            payload, again = head.payload, head.timestamp
            begins = self.weak and (not stream.begun if again is None else head.begins)
            flag = (
                flags | (PROXIED if head.relayed else 0) | (0 if again is None else AGAIN) | (BEGINS if begins else 0)
            )
            if len(payload) <= whole_limit:
                size = MESSAGE_HEAD.size + len(payload)
                if size > left:
                    break
                index, count = 0, 1
            else:
                flag |= FRAGMENT
                index, count = head.sent_fragments, -(-len(payload) // fragment_room)
                payload = payload[index * fragment_room : (index + 1) * fragment_room]
                size = MESSAGE_HEAD.size + FRAGMENT_HEAD.size + len(payload)
                if size > left:
                    break
                head.sent_fragments += 1
            left -= size
            stream.sequence += 1
            timestamp = tick(now, wall) if again is None else again - (count - 1 - index)
            batch.append(DataMessage(stream.sequence, self.last_number + 1, timestamp, flag, index, count, payload))
            if index + 1 == count:
                queue.popleft()
                self.queued_bytes -= _weight(head.payload)
                self.last_number += 1
                message = OwnMessage(stream.sequence, self.last_number, timestamp, head.payload, head.relayed, begins)
                if self.weak:
                    self.unstable.append(message)
                if again is None:
                    stream.begun = True
                    own.append(message)
                    if step.tracing_messages:
                        self._record(step, message, view)
                if head.ticket is not None:
                    tickets.append(head.ticket)
        return batch

    def _record(self, step: Step, message: OwnMessage, view: SessionView) -> None:
        step.record(
            SendRow(
                kind="SEND",
                sequence=message.number if self.weak else message.sequence,
                number=message.number,
                timestamp=message.timestamp,
                size=len(message.payload),
                body=body_hash(message.payload),
                agreed=view.words,
            )
        )


def _weight(message: bytes) -> int:
    """What a message counts for while it waits."""
    return len(message) + MESSAGE_OVERHEAD_BYTES
