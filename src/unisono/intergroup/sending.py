"""What this process says: numbered, cut into fragments, packed into datagrams, kept until stable.

A message takes consecutive sequence numbers and is named by its last one. Sending stops while the window is full,
and what waits is sent in order when it opens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from unisono.events import SendAccepted
from unisono.identity import NAME_LIMIT_BYTES, ProcessId, ViewId, why_bad_name
from unisono.intergroup.context import Context
from unisono.reliable.blocked import Blocked
from unisono.reliable.pacing import Pacing
from unisono.reliable.step import Step, repair_row
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES, SendWindow
from unisono.trace.schema import SendRow, body_hash
from unisono.wire.layout import COUNT_LIMIT, FRAGMENT_HEAD, MESSAGE_HEAD
from unisono.wire.membership_messages import Change, SenderLeft
from unisono.wire.messages import CHANGE, FRAGMENT, LEAVE, NAMED, PROXIED, DataMessage, KeepAlive, Range
from unisono.wire.names import put_name, take_name
from unisono.wire.origins import put_origin, take_origin


class Outgoing:
    """A message that waits to be sent, perhaps with some of its fragments gone already."""

    __slots__ = ("change", "flags", "name", "payload", "sent_fragments", "ticket")

    def __init__(self, payload: bytes, ticket: int | None = None, flags: int = 0, name: str = "") -> None:
        self.payload = payload
        self.ticket = ticket
        self.name = name
        self.flags = flags
        self.change: Change | None = None
        self.sent_fragments = 0


class OwnMessage(Struct, frozen=True, gc=False):
    """A message of this process on its way to its own application."""

    first: int
    sequence: int
    number: int
    timestamp: int
    payload: bytes
    name: str = ""
    change: Change | None = None
    """It is about who sends, and not for the application."""
    origin: ProcessId | None = None
    """Who asked for it, where this process sent it for another."""
    origin_number: int = 0


class Sending:
    """The outgoing stream of one process in one group."""

    __slots__ = (
        "_before",
        "_context",
        "_enqueued_bytes",
        "_era",
        "_named",
        "_queue",
        "_settings",
        "_writer",
        "blocked",
        "blocked_since",
        "carried_bytes",
        "last_data_at",
        "last_number",
        "last_sent_at",
        "last_sequence",
        "paced",
        "pacing",
        "paused",
        "queue_high_water",
        "queued_bytes",
        "said",
        "stable",
        "window",
    )

    def __init__(self, context: Context, last_sequence: int, last_number: int) -> None:
        self._context = context
        self._settings = context.settings
        self._writer = context.writer
        self._queue: deque[Outgoing] = deque()
        self._named: dict[str, Range] = {}
        self._era: tuple[ViewId, str] | None = None
        self.queued_bytes = 0
        self.queue_high_water = 0
        self.carried_bytes = 0
        """Of what waits, so much is for others."""
        self.last_sequence = last_sequence
        self.last_number = self._before = last_number
        self._enqueued_bytes = 0
        self.last_data_at = 0
        self.last_sent_at = 0
        self.stable = 0
        """Everybody who counts has what was sent up to here, and it is kept no longer."""
        self.said = 0
        """The latest time that the others know this process has reached."""
        self.paced = False
        self.paused = context.role == "receiver"
        """Nothing is sent: this process is not a sender yet, or has said its last word as one."""
        self.pacing = Pacing(context.settings.window_bytes, context.settings.datagram_bytes)
        self.window = SendWindow(context.settings.window_bytes)
        self.blocked_since: int | None = None
        self.blocked = Blocked()

    @property
    def waiting(self) -> bool:
        return bool(self._queue)

    @property
    def begun(self) -> int:
        """How many sequence numbers the message has taken that was sent in part."""
        return self._queue[0].sent_fragments if self._queue else 0

    @property
    def sent(self) -> int:
        """How many messages were sent since the join."""
        return self.last_number - self._before

    @property
    def sent_bytes(self) -> int:
        """Of all messages sent since the join, with their names: what was to be sent and waits no more."""
        return self._enqueued_bytes - self.queued_bytes - self.sent * MESSAGE_OVERHEAD_BYTES

    @property
    def between_messages(self) -> bool:
        """Whether every message was sent as a whole, or not at all: a receiver may begin here."""
        return not (self._queue and self._queue[0].sent_fragments)

    def boundary(self) -> tuple[int, int]:
        """The sequence and number of the next message: where a receiver begins."""
        return self.last_sequence + 1, self.last_number + 1

    def why_refuse(self, messages: Sequence[bytes], names: Sequence[str] = ()) -> str | None:
        if names and len(names) != len(messages):
            return f"{len(names)} names for {len(messages)} messages; name each, or none"
        for name in names:
            if name and (complaint := why_bad_name(name)) is not None:
                return complaint
        largest = max(map(len, messages), default=0) + (NAME_LIMIT_BYTES + 1 if names else 0)
        message_limit, queue_limit = self._settings.message_limit_bytes, self._settings.send_queue_bytes
        if largest > message_limit:
            return f"a message of {largest} bytes is larger than message_limit_bytes ({message_limit})"
        waits = self.queued_bytes - self.carried_bytes
        alone = not waits and len(messages) == 1
        if not alone and waits + _weight(messages, names) > queue_limit:
            return f"more than send_queue_bytes ({queue_limit}) would wait; wait for earlier sends to be accepted"
        return None

    def enqueue(self, messages: Sequence[bytes], ticket: int, names: Sequence[str] = ()) -> None:
        assert messages, "a send without messages is answered at once"
        if names:
            for name, message in zip(names, messages, strict=True):
                self._queue.append(Outgoing(put_name(name, message), None, NAMED, name) if name else Outgoing(message))
        else:
            self._queue.extend(map(Outgoing, messages))
        self._queue[-1].ticket = ticket
        self._count_waiting(len(messages))

    def enqueue_for(self, origin: ProcessId, number: int, message: bytes) -> None:
        """Send a message for another, who counts it under this number."""
        self._queue.append(Outgoing(put_origin(origin, number, message), None, PROXIED))
        self.carried_bytes += _waits(self._queue[-1])
        self._count_waiting(1)

    def _count_waiting(self, messages: int) -> None:
        """So many have come at the end of the queue."""
        waits = sum(map(_waits, islice(reversed(self._queue), messages)))
        self.queued_bytes += waits
        self._enqueued_bytes += waits
        self.queue_high_water = max(self.queue_high_water, self.queued_bytes - self.carried_bytes)

    def drop_queue(self) -> list[int]:
        """Give up what waits; the tickets of the sends that were not accepted."""
        tickets = [outgoing.ticket for outgoing in self._queue if outgoing.ticket is not None]
        self._queue.clear()
        self._enqueued_bytes -= self.queued_bytes
        self.queued_bytes = self.carried_bytes = 0
        return tickets

    def rewind(self) -> None:
        """A message that is sent in part only is sent anew: no view has one part of it and the next the other.

        What is about who sends in the view that ends is not sent at all.
        """
        if self._queue:
            self._queue[0].sent_fragments = 0
        self._queue = deque(outgoing for outgoing in self._queue if outgoing.change is None)

    def enqueue_change(self, change: Change) -> None:
        """Say who sends; before all that waits and has not begun."""
        outgoing = Outgoing(msgspec.msgpack.encode(change), None, CHANGE)
        outgoing.change = change
        self._queue.insert(0 if self.between_messages else 1, outgoing)

    def enqueue_farewell(self) -> None:
        self._queue.append(Outgoing(b"", None, LEAVE))

    @property
    def has_room(self) -> bool:
        return self.window.has_room(self._settings.datagram_bytes, self.pacing.window)

    @property
    def may_keep(self) -> bool:
        """Whether another datagram could be kept, however much of what is kept is stable."""
        return self.window.bytes + self._settings.datagram_bytes <= self.window.limit

    def note_blocked(self, step: Step) -> None:
        """Since when something has waited for the window."""
        if not self._queue or self.has_room:
            self.blocked_since = None
            self.blocked.note(None, step.now)
            return
        self.blocked.note("window", step.now)
        if self.blocked_since is None:
            self.blocked_since = step.now
            step.mark("window-full")

    def note_moved(self, step: Step) -> None:
        """The window admits something: whoever holds it back from now on has not done so before."""
        if self.blocked_since is not None:
            self.blocked_since = step.now

    def flush(self, step: Step) -> list[OwnMessage]:
        """Send what the window admits; what this process itself is to deliver of it."""
        own: list[OwnMessage] = []
        while self._queue and self.has_room and not self.paused and self.pacing.wait_until(step.now) <= step.now:
            tickets: list[int] = []
            batch = self._next_batch(step, own, tickets)
            datagram = self._writer.data(batch, self.stable, self._context.mark)
            self.window.retain(batch[0].sequence, batch[-1].sequence, datagram)
            step.send(self._context.multicast, datagram, self._settings.scope)
            self.pacing.on_sent(step.now, len(batch), len(datagram))
            self.last_sent_at = self.last_data_at = step.now
            for ticket in tickets:
                step.deliver(SendAccepted(ticket))
        return own

    def keep_alive(self, step: Step, listeners: int, reporting: int, leaving: bool) -> KeepAlive:
        """Says how far this process has sent, so that the loss of its last message is seen."""
        self.last_sent_at = step.now
        self.said = self._context.clock.tick(step.now, step.wall)
        whereabouts, mark = self._context.whereabouts, self._context.mark
        return KeepAlive(
            self.last_sequence,
            self.said,
            self.stable,
            listeners,
            reporting,
            leaving,
            self._context.turns,
            whereabouts,
            mark,
        )

    def release(self, step: Step, stable: int) -> None:
        """Forget what nobody needs any more."""
        first, before = self.window.first, self.window.outstanding
        released = self.window.release(stable)
        if released is not None and first is not None:
            self.stable = released
            self.pacing.on_stable(before - self.window.outstanding)
            if step.tracing:
                step.record(repair_row("GC", self._context.process, first, released))
            for name in [name for name, (low, _) in self._named.items() if low <= released]:
                del self._named[name]

    def spare(self, stable: int) -> None:
        """Keep what all who count have, for those who have not come yet; it holds nothing up."""
        before = self.window.outstanding
        self.window.spare(stable)
        if self.window.outstanding < before:
            self.pacing.on_stable(before - self.window.outstanding)

    def _fragments(self, outgoing: Outgoing) -> int:
        """How many sequence numbers a message takes."""
        if len(outgoing.payload) <= self._writer.data_room - MESSAGE_HEAD.size:
            return 1
        return -(-len(outgoing.payload) // self._writer.fragment_room)

    def _next_batch(self, step: Step, own: list[OwnMessage], tickets: list[int]) -> list[DataMessage]:
        """The messages of one datagram, taken from the queue."""
        batch: list[DataMessage] = []
        queue, tick, now, wall = self._queue, self._context.clock.tick, step.now, step.wall
        left = self._writer.data_room
        whole_limit = left - MESSAGE_HEAD.size
        while queue and len(batch) < COUNT_LIMIT:
            head = queue[0]
            payload = head.payload
            if len(payload) <= whole_limit:
                size = MESSAGE_HEAD.size + len(payload)
                if size > left:
                    break
                flags, index, count = head.flags, 0, 1
            else:
                flags = FRAGMENT | head.flags
                index, count = head.sent_fragments, self._fragments(head)
                begin = index * self._writer.fragment_room
                payload = payload[begin : begin + self._writer.fragment_room]
                size = MESSAGE_HEAD.size + FRAGMENT_HEAD.size + len(payload)
                if size > left:
                    break
                head.sent_fragments += 1
            left -= size
            self.last_sequence += 1
            timestamp = tick(now, wall)
            batch.append(DataMessage(self.last_sequence, self.last_number + 1, timestamp, flags, index, count, payload))
            if index + 1 == count:
                queue.popleft()
                if head.change is not None:
                    number = self.last_number + 1
                    last = self.last_sequence
                    own.append(OwnMessage(last, last, number, timestamp, b"", change=head.change))
                    if isinstance(head.change, SenderLeft):
                        self.paused = True
                        break
                elif head.flags != LEAVE:
                    self.queued_bytes -= _waits(head)
                    own.append(self._complete(step, head, timestamp, count))
                if head.ticket is not None:
                    tickets.append(head.ticket)
        self.said = batch[-1].timestamp
        return batch

    def _complete(self, step: Step, outgoing: Outgoing, timestamp: int, count: int) -> OwnMessage:
        """The last piece of a message takes its place in a datagram: now it is sent."""
        self.last_number += 1
        payload, name = outgoing.payload, outgoing.name
        origin, origin_number = None, 0
        if outgoing.flags & PROXIED:
            self.carried_bytes -= _waits(outgoing)
            found = take_origin(payload)
            assert found is not None, "it was put there"
            origin, origin_number, payload = found
        if name:
            _, payload = take_name(payload)
            self._named[name] = (self.last_sequence - count + 1, self.last_sequence)
        if step.tracing_messages:
            step.record(
                SendRow(
                    kind="SEND",
                    sequence=self.last_sequence,
                    number=self.last_number,
                    timestamp=timestamp,
                    size=len(payload),
                    body=body_hash(payload),
                    origin=None if origin is None else str(origin),
                    agreed=self._era_in_words(),
                )
            )
        first = self.last_sequence - count + 1
        return OwnMessage(
            first,
            self.last_sequence,
            self.last_number,
            timestamp,
            payload,
            name,
            origin=origin,
            origin_number=origin_number,
        )

    def _era_in_words(self) -> str | None:
        """The era that this process is in; the words are made once for each."""
        if self._context.agreed is None:
            return None
        era = self._context.agreed.era
        if self._era is None or self._era[0] is not era:
            self._era = (era, str(era))
        return self._era[1]

    def find_name(self, name: str) -> Range | None:
        """The sequences of the last message of that name, while it is kept for repair."""
        return self._named.get(name)


def _waits(outgoing: Outgoing) -> int:
    """What a message counts for while it waits."""
    return len(outgoing.payload) + MESSAGE_OVERHEAD_BYTES


def _weight(messages: Sequence[bytes], names: Sequence[str]) -> int:
    """What messages will count for while they wait."""
    return sum(map(len, messages)) + (MESSAGE_OVERHEAD_BYTES + (NAME_LIMIT_BYTES + 1 if names else 0)) * len(messages)
