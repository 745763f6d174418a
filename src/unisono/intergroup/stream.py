"""An active source: what has come of it, what is missing, what is delivered next.

Gap detection follows 000 figure 4.1 with its errata: hearing of a gap twice opens one ticket (E6), the first message
delivered is the one at the activation point (E5), and a keep-alive never stands in for data that is missing (E3).
"""

from __future__ import annotations

from unisono.engine import Address
from unisono.events import ViewReason
from unisono.identity import NO_VIEW, ProcessId, StartPoint, ViewMark
from unisono.reliable.fragments import OrderedAssembly
from unisono.reliable.gaps import HORIZON_LIMIT, Gaps
from unisono.reliable.suppression import RequestTiming
from unisono.reliable.windows import Offer, ReceiveWindow
from unisono.settings import Settings
from unisono.wire.membership_messages import SenderLeft, read_change
from unisono.wire.messages import CHANGE, DIRECTLY, FRAGMENT, LEAVE, ActivationGrant, DataMessage, ReportEntry

SPANS_LIMIT = 16
"""Of so many views it is remembered what a source sent in them, and of earlier ones while something of it waits."""
WAITING_SPANS_LIMIT = 1024
"""What waits of one source was sent in so many views at most; a source that names more is not believed."""
FOREVER = 1 << 63
"""Later than any timestamp: a stream that brings nothing more keeps nobody waiting."""


class Stream:
    """The reliable, source ordered stream of one active source."""

    __slots__ = (
        "_announced",
        "_datagram_bytes",
        "_spans",
        "address",
        "apart",
        "assembly",
        "attempt",
        "closed",
        "cut",
        "ending",
        "farewell",
        "gaps",
        "in_view",
        "last_mark",
        "listeners",
        "next_number",
        "passed",
        "patience",
        "place",
        "placed",
        "polled_at",
        "reached",
        "reported",
        "reporting",
        "silent",
        "since",
        "source",
        "term",
        "timing",
        "told",
        "unreported_bytes",
        "window",
    )

    def __init__(
        self,
        source: ProcessId,
        address: Address,
        grant: ActivationGrant,
        settings: Settings,
        silent: bool,
        timing: RequestTiming,
        now: int = 0,
    ) -> None:
        self.source = source
        self.since = now
        """When the source let this process in."""
        self.timing = timing
        self.listeners = 1
        """How many receivers the source has, as it last said."""
        self.reporting = DIRECTLY
        self.polled_at: int | None = None
        self.told: tuple[int, int] | None = None
        """What the source was told last, and when, where each is told by itself."""
        self.silent = silent
        """Followed without being delivered: a sender takes part in the order whatever its application wants."""
        self.in_view = False
        self.reached = grant.timestamp
        """Whatever comes after what was taken so far has a later timestamp than this."""
        self.passed = grant.timestamp
        """The timestamp of the last message that was taken."""
        self.placed: tuple[int, int] | None = None
        self.cut: int | None = None
        """The last sequence that belongs to the view that is ending."""
        self.last_mark = NO_VIEW
        """The latest agreed view that the source was heard in."""
        self.apart = False
        """The source has said that it does not count this process any more, and is in no view or a later one."""
        self.closed = False
        """The source has moved on from this process's view: nothing more of it belongs there."""
        self._spans: dict[ViewMark, tuple[int, int]] = {}
        self._announced: tuple[int, int] = (0, 0)
        self.address = address
        self.attempt = grant.attempt
        self.patience = grant.patience
        self.place = StartPoint(source, grant.sequence, grant.number)
        """What is delivered next in the view; there may be messages of an earlier one before it."""
        self.term = grant.term
        """From here on the source is a sender, as it said when this process began to follow it."""
        self.ending: ViewReason | None = None
        self.farewell: int | None = None
        """The sequence with which the source left, once that is taken; it may be back since."""
        self.window = ReceiveWindow(grant.sequence, settings.receive_buffer_bytes)
        self.gaps = Gaps(self.window)
        self.assembly = OrderedAssembly(settings.message_limit_bytes)
        self.next_number = grant.number
        self.unreported_bytes = 0
        self.reported = grant.sequence - 1
        self._datagram_bytes = settings.datagram_bytes

    @property
    def point(self) -> StartPoint:
        """What would be delivered next: where this source starts in a view installed now."""
        return StartPoint(self.source, self.window.next, self.next_number)

    def note_view(self, first: int, last: int, mark: ViewMark) -> bool:
        """These sequences were sent in that agreed view. A source is in one view after another, and in none before and
        after; False if it names so many that nothing can be kept of this one."""
        if mark == NO_VIEW:
            return True
        if mark not in self._spans and len(self._spans) >= WAITING_SPANS_LIMIT:
            return False
        low, high = self._spans.get(mark, (first, last))
        self._spans[mark] = min(low, first), max(high, last)
        if len(self._spans) > SPANS_LIMIT:
            for earlier in sorted(self._spans)[:-SPANS_LIMIT]:
                if self._spans[earlier][1] < self.window.next:
                    del self._spans[earlier]
        return True

    def mark_of(self, sequence: int) -> ViewMark:
        """The agreed view that a message which came was sent in."""
        for mark, (low, high) in self._spans.items():
            if low <= sequence <= high:
                return mark
        return NO_VIEW

    def held(self, mark: ViewMark, start: int) -> int:
        """Everything that was sent in that view, from `start` on, is here up to this sequence.

        What comes after a word that it only receives cannot be delivered before somebody says that it sends again.
        """
        _, high = self._spans.get(mark, (start, start - 1))
        words = (message for message in self.window.ready if message.flags & CHANGE)
        last = next((word.sequence for word in words if isinstance(read_change(word.payload), SenderLeft)), high)
        return max(min(high, self.window.contiguous, last), start - 1)

    def lacks(self, sequence: int) -> bool:
        """Whether a message that was sent has not come, or one before it has not."""
        return self.window.contiguous < sequence <= self.window.highest

    def enter(self, start: StartPoint, timestamp: int, era: int) -> None:
        """The source is in the view that begins at that time: what came before its start does not belong to it, nor
        what was sent before the era."""
        self.skip_to(start)
        self.cut = None
        self.closed = False
        self.reached = max(self.reached, timestamp)
        self._spans = {mark: span for mark, span in self._spans.items() if mark.start >= era}

    def skip_to(self, start: StartPoint) -> None:
        """What comes next is this; nothing before it is wanted."""
        if self.window.next != start.sequence:
            self.window.skip_to(start.sequence)
            self.gaps.tickets.drop_below(start.sequence)
            self.assembly.clear()
        self.next_number = start.number
        self.place = start

    def is_before(self, floor: int, mark: ViewMark) -> bool:
        """Whether what comes next is before that point of a view; of a message in parts its last one decides."""
        head = self.window.head
        return head is not None and (head.timestamp <= floor or self.mark_of(head.sequence).start < mark.start)

    def start_after(self, floor: int, mark: ViewMark) -> StartPoint | None:
        """Where this source starts for one who comes into the middle of its view, at that point, having taken what is
        before it; None if the source is not that far yet, or in another view by now."""
        head = self.window.head
        if head is not None:
            return self.point if self.mark_of(head.sequence) == mark else None
        return self.point if self.reached >= floor else None

    def on_announced(self, sequence: int, due: int) -> bool:
        """The source has sent up to `sequence`; True when that reveals something missing."""
        return self.gaps.announce(sequence, due, self.horizon)

    @property
    def front(self) -> tuple[int, int]:
        """How far this stream has come: the timestamp of its next message and 0, or the time it has reached and 1."""
        if self.closed:
            return FOREVER, 1
        head = self.window.head
        if head is not None and (self.cut is None or head.sequence <= self.cut):
            return head.timestamp, 0
        if self.cut is not None and self.window.next > self.cut:
            return FOREVER, 1
        return (FOREVER if self.ending is not None and head is None else self.reached), 1

    def on_said(self, sequence: int, timestamp: int) -> None:
        """The source has said the time, having sent up to `sequence`: it counts when all of that is here (E3)."""
        if timestamp > self._announced[1]:
            self._announced = (sequence, timestamp)
        self.settle_time()

    def settle_time(self) -> None:
        """Believe the time that was said, once everything sent before it has come."""
        sequence, timestamp = self._announced
        if timestamp > self.reached and self.window.contiguous >= sequence:
            self.reached = timestamp

    def become_ending(self, reason: ViewReason) -> None:
        """Nothing more will come or be asked for; the source leaves the view when what came in order is delivered."""
        self.ending = reason
        self.gaps = Gaps(self.window)

    @property
    def has_said_last(self) -> bool:
        """True when the last message taken was the last word of its source as a sender."""
        return self.farewell is not None and self.window.next == self.farewell + 1

    @property
    def crowded(self) -> bool:
        """So much waits for the application that the source had better not send more."""
        return self.window.ready_bytes * 2 > self.window.limit

    def report(self, halted: bool) -> ReportEntry:
        """The source may count so much as received: no more than last time while the application is far behind, nor
        while delivery has halted: what comes after the cut that was said may not be of the view any more (D7)."""
        if not self.crowded and not halted:
            self.reported = self.window.contiguous
        self.unreported_bytes = 0
        return ReportEntry(self.source, self.attempt, self.reported)

    def is_news(self, entry: ReportEntry, now: int, heartbeat: int) -> bool:
        """Whether the source, told by itself, was not told this lately; it is told now."""
        if self.told is not None and self.told[0] == entry.received and now - self.told[1] < heartbeat:
            return False
        self.told = entry.received, now
        return True

    @property
    def horizon(self) -> int:
        """The last sequence for which there is room, whatever comes before it; nothing later is asked for."""
        return self.window.contiguous + min(self.window.room // self._datagram_bytes, HORIZON_LIMIT)

    def on_message(self, message: DataMessage, retry: int, later: int) -> tuple[Offer, bool]:
        """What became of a message, and whether it had been missing.

        What finds no room is asked for again; if it had been asked for already, there is less room than it seemed, and
        it waits until later.
        """
        sequence = message.sequence
        self.window.announce(sequence)
        missing = self.gaps.tickets.fill(sequence)
        offer = self.window.offer(message)
        if offer is Offer.FULL:
            self.gaps.miss(sequence, later if missing else retry, self.horizon)
        elif offer is Offer.TAKEN:
            self.unreported_bytes += len(message.payload)
        while self.window.given_up:
            lost = self.window.given_up.pop()
            self.gaps.miss(lost, retry, self.horizon)
        return offer, missing

    def append(self, messages: list[DataMessage]) -> bool:
        """Keep messages that are next while nothing is missing; False if each has to be looked at."""
        if not self.window.append(messages):
            return False
        for message in messages:
            self.unreported_bytes += len(message.payload)
        return True

    def pass_through(self, messages: list[DataMessage]) -> bool:
        """Let whole messages through that are next, without keeping them; False if they have to be kept."""
        if any(message.flags for message in messages):
            return False
        if not self.window.pass_through(messages[0].sequence, messages[-1].sequence):
            return False
        self.next_number = messages[-1].number + 1
        self.reached = self.passed = messages[-1].timestamp
        self.unreported_bytes += sum(len(message.payload) for message in messages)
        return True

    def next_message(self) -> DataMessage | None:
        """Take the next message in order."""
        message = self.window.take()
        if message is None:
            return None
        self.reached = max(self.reached, message.timestamp)
        self.passed = message.timestamp
        if message.flags & LEAVE:
            self.farewell = message.sequence
        elif message.flags & CHANGE:
            return message
        elif message.index + 1 == message.count:
            self.next_number = message.number + 1
        return message

    def whole(self, message: DataMessage) -> bytes | None:
        """The application message that ends here, if one does; raises TooLarge."""
        return self.assembly.add(message) if message.flags & FRAGMENT else message.payload
