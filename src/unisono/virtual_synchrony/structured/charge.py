"""A client of a controller in one group: it sends up and gets everything from above, and keeps what views promise.

It delivers its own messages when they come back. When its controller is lost it begins anew with another: what it got
may be more than the others have, so that it comes along with nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from unisono.clock import LamportClock
from unisono.engine import BlockOk, Effect, EventsTaken, Fact, Join, Leave, Send
from unisono.events import (
    Block,
    DroppedOut,
    Excluded,
    Left,
    Message,
    SendAccepted,
    SendRefused,
    Unblocked,
)
from unisono.identity import ProcessId, ViewId
from unisono.reliable.deadlines import Deadlines
from unisono.reliable.step import Place, Step, repair_row
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES
from unisono.settings import Settings
from unisono.trace.schema import Member, MembershipRow, SendRow, body_hash
from unisono.virtual_synchrony.reasons import Reason
from unisono.virtual_synchrony.session.phases import Phase, Resumption, Sends
from unisono.virtual_synchrony.session.view import view_event
from unisono.wire.controller_frames import (
    Dismissed,
    Downward,
    Enter,
    Exit,
    FromCharge,
    Installed,
    Prepare,
    Ready,
    Sent,
    Took,
    Upward,
)
from unisono.wire.server_frames import Departure, digest_of

TOOK_BYTES = 1 << 16
"""After so many bytes that the application has taken, the controller is told."""


class ChargeGroup:
    """One client in one group; `said` is what its controller is to be told."""

    __slots__ = (
        "_clock",
        "_deadlines",
        "_entries",
        "_expected",
        "_gone",
        "_in_flight",
        "_in_flight_bytes",
        "_index",
        "_last_number",
        "_members",
        "_name",
        "_phase",
        "_place",
        "_process",
        "_queue",
        "_queued_bytes",
        "_sends",
        "_settings",
        "_taken_bytes",
        "_untaken",
        "_view",
        "last_change",
        "said",
    )

    def __init__(
        self,
        name: str,
        process: ProcessId,
        settings: Settings,
        clock: LamportClock,
        resumption: Resumption,
        entries: Callable[[], int],
    ) -> None:
        """`entries` counts whenever this process enters a group at a controller."""
        self._entries = entries
        self._name = name
        self._process = process
        self._settings = settings
        self._clock = clock
        self._deadlines = Deadlines()
        self._place = Place(name, "VS", resumption.stretch + 1, settings.trace, messages=settings.trace_messages)
        self._phase = Phase.OUTSIDE
        self._sends = Sends.BLOCKED
        self._expected: dict[ProcessId, None] = {}
        self._gone: dict[ProcessId, Departure] = {}
        """Why members of the view are not expected any more."""
        self._view: ViewId | None = None
        self._members: tuple[ProcessId, ...] = ()
        self._index = 0
        self._queue: deque[tuple[bytes, int | None]] = deque()
        self._queued_bytes = 0
        self._in_flight: deque[tuple[int, int]] = deque()
        """Messages that the controller has not sent yet: number and size."""
        self._in_flight_bytes = 0
        self._untaken: deque[int] = deque()
        self._taken_bytes = 0
        self._last_number = resumption.number
        self.last_change = resumption.change
        self.said: list[FromCharge] = []

    @property
    def outside(self) -> bool:
        return self._phase is Phase.OUTSIDE

    def deadline(self) -> int | None:
        return self._deadlines.earliest()

    def resumption(self) -> Resumption:
        return Resumption(self._last_number, self._place.stretch, self.last_change)

    def greeting(self) -> Enter:
        """The first that a controller is told."""
        return Enter(self._process, self._name, self.last_change, self._entries())

    # ── the application ──

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        step = Step(self._place, now, wall)
        if isinstance(fact, Send):
            self._on_send(step, fact)
        elif isinstance(fact, EventsTaken):
            self._on_taken(fact.count)
        elif isinstance(fact, BlockOk):
            if self._sends is Sends.FINISHING:
                self._flush(step)
                self._become_blocked(step, "application")
            else:
                step.note(Reason.LATE_BLOCK_OK)
        elif isinstance(fact, Join):
            self._phase = Phase.MEMBER
            step.record(MembershipRow(kind="JOIN", role="sender"))
            self.said.append(self.greeting())
        elif isinstance(fact, Leave):
            self._become_leaving(step)
        return self._finish(step)

    def _on_send(self, step: Step, send: Send) -> None:
        weight = sum(map(len, send.messages)) + MESSAGE_OVERHEAD_BYTES * len(send.messages)
        largest, limit = max(map(len, send.messages), default=0), self._settings.message_limit_bytes
        if self._phase is not Phase.MEMBER:
            step.deliver(SendRefused(send.ticket, Reason.NOT_MEMBER))
        elif largest > limit:
            reason = f"a message of {largest} bytes is larger than message_limit_bytes ({limit})"
            step.deliver(SendRefused(send.ticket, reason))
        elif self._queue and self._queued_bytes + weight > self._settings.send_queue_bytes:
            limit = self._settings.send_queue_bytes
            reason = f"more than send_queue_bytes ({limit}) would wait; wait for earlier sends to be accepted"
            step.deliver(SendRefused(send.ticket, reason))
        elif not send.messages:
            step.deliver(SendAccepted(send.ticket))
        else:
            last = len(send.messages) - 1
            self._queue.extend(
                (message, send.ticket if place == last else None) for place, message in enumerate(send.messages)
            )
            self._queued_bytes += weight

    def _on_taken(self, count: int) -> None:
        for _ in range(min(count, len(self._untaken))):
            self._taken_bytes += self._untaken.popleft()
        if self._taken_bytes >= TOOK_BYTES or (self._taken_bytes and not self._untaken):
            self.said.append(Took(self._name, self._taken_bytes))
            self._taken_bytes = 0

    def _become_leaving(self, step: Step) -> None:
        if self._phase is not Phase.MEMBER:
            step.note(Reason.NOT_MEMBER)
            return
        self._phase = Phase.LEAVING
        self._deadlines.set("leave", step.now + self._settings.leave_timeout)

    def _may_go(self) -> bool:
        """What was sent has left the controller, or the time for it is over."""
        if self._view is None or not self._deadlines.is_set("leave"):
            return True
        return not self._queue and not self._in_flight and self._sends is not Sends.BLOCKED

    def _become_outside(self, step: Step) -> None:
        late = self._phase is Phase.LEAVING and not self._deadlines.is_set("leave")
        self._phase = Phase.OUTSIDE
        self._deadlines.clear_all()
        for _, ticket in self._queue:
            if ticket is not None:
                step.deliver(SendRefused(ticket, Reason.NOT_MEMBER))
        self.said.append(Exit(self._name))
        step.record(MembershipRow(kind="LEAVE", reason="timeout" if late else None))
        step.deliver(Left(not late))

    def _finish(self, step: Step) -> list[Effect]:
        for name in self._deadlines.expire(step.now):
            if name == "block" and self._sends is Sends.FINISHING:
                step.mark("vs-block-forced")
                self._become_blocked(step, "session")
        self._flush(step)
        if self._phase is Phase.LEAVING and self._may_go():
            self._become_outside(step)
        return step.finish()

    def _flush(self, step: Step) -> None:
        """Send up what the window admits."""
        if self._sends is Sends.BLOCKED or self._view is None or self._phase is Phase.OUTSIDE:
            return
        while self._queue:
            data, ticket = self._queue[0]
            if self._in_flight and self._in_flight_bytes + len(data) > self._settings.window_bytes:
                step.mark("vs-window-full")
                return
            self._queue.popleft()
            self._queued_bytes -= len(data) + MESSAGE_OVERHEAD_BYTES
            self._last_number += 1
            timestamp = self._clock.tick(step.now, step.wall)
            self._in_flight.append((self._last_number, len(data)))
            self._in_flight_bytes += len(data)
            if step.tracing_messages:
                self._record_send(step, data, timestamp)
            self.said.append(Upward(self._name, self._view.start, self._last_number, timestamp, data))
            if ticket is not None:
                step.deliver(SendAccepted(ticket))

    def _record_send(self, step: Step, data: bytes, timestamp: int) -> None:
        step.record(
            SendRow(
                kind="SEND",
                sequence=self._last_number,
                number=self._last_number,
                timestamp=timestamp,
                size=len(data),
                body=body_hash(data),
                agreed=str(self._view),
            )
        )

    # ── the controller ──

    def on_frame(
        self, frame: Prepare | Installed | Downward | Sent | Dismissed, now: int, wall: int
    ) -> tuple[list[Effect], str | None]:
        """What the controller said; with the reason to leave it, where it does not keep to the protocol."""
        step = Step(self._place, now, wall)
        complaint = None
        if isinstance(frame, Downward):
            if self._view is None:
                complaint = "a message without a view"
            else:
                self._on_message(step, self._view, frame)
        elif isinstance(frame, Sent):
            self._release(step, frame.number)
        elif isinstance(frame, Prepare):
            complaint = self._on_prepare(step, frame)
        elif isinstance(frame, Installed):
            if self._process not in self._expected:
                complaint = "a view that was not prepared"
            else:
                self._on_installed(step, frame)
        elif frame.final:
            step.deliver(DroppedOut(frame.reason))
            self._become_outside(step)
        else:
            step.mark("vs-dismissed")
            self._begin_anew(step)
            if self._phase is Phase.MEMBER:
                self.said.append(self.greeting())
        return self._finish(step), complaint

    def on_welcomed(self, now: int, wall: int) -> list[Effect]:
        """This process is with another controller than before, or with its first."""
        step = Step(self._place, now, wall)
        if self.last_change:
            step.mark("vs-controller-changed")
        return step.finish()

    def _release(self, step: Step, number: int) -> None:
        """The controller answers for these messages from now on."""
        first = self._in_flight[0][0] if self._in_flight else number + 1
        while self._in_flight and self._in_flight[0][0] <= number:
            self._in_flight_bytes -= self._in_flight.popleft()[1]
        if first <= number:
            step.record(repair_row("GC", self._process, first, number))

    def on_lost(self, now: int, wall: int) -> list[Effect]:
        """The controller is gone: nothing goes on from before."""
        step = Step(self._place, now, wall)
        self._begin_anew(step)
        return self._finish(step)

    def _begin_anew(self, step: Step) -> None:
        if self._view is not None:
            step.deliver(Excluded(self._view))
            step.flush()
            self._place.stretch += 1
            self._place.view = None
            step.record(MembershipRow(kind="JOIN", role="sender"))
        self._view, self._members = None, ()
        self._expected, self._gone = {}, {}
        self._sends = Sends.BLOCKED
        self._deadlines.clear("block")
        self._in_flight.clear()
        self._in_flight_bytes = 0

    def _on_message(self, step: Step, view: ViewId, frame: Downward) -> None:
        source, number = frame.source, frame.number
        step.deliver(Message(source, number, number, frame.timestamp, frame.data, view, self._index))
        self._index += 1
        self._untaken.append(len(frame.data))

    def _on_prepare(self, step: Step, frame: Prepare) -> str | None:
        expected = {} if frame.anew else dict(self._expected)
        for process, _ in frame.removed:
            expected.pop(process, None)
        expected.update(dict.fromkeys(frame.added))
        if digest_of(expected) != frame.digest:
            return "a difference that does not fit what was told before"
        self._expected = expected
        gone = dict(frame.removed)
        self._gone.update((member, gone[member]) for member in self._members if member in gone)
        self.last_change = max(self.last_change, frame.change)
        members = [Member(*member) for member in sorted(expected)]
        step.record(MembershipRow(kind="START_CHANGE", number=frame.change, members=members))
        if self._view is None or self._sends is Sends.BLOCKED:
            self.said.append(Ready(self._name, frame.change))
        elif self._settings.block == "auto":
            self._become_blocked(step, "session")
        elif self._sends is Sends.FREELY:
            self._sends = Sends.FINISHING
            step.record(MembershipRow(kind="BLOCK", number=frame.change))
            step.deliver(Block(frame.change))
            self._deadlines.set("block", step.now + self._settings.block_timeout)
        return None

    def _become_blocked(self, step: Step, reason: str) -> None:
        self._sends = Sends.BLOCKED
        self._deadlines.clear("block")
        step.record(MembershipRow(kind="BLOCK_OK", number=self.last_change, reason=reason))
        self.said.append(Ready(self._name, self.last_change))

    def _on_installed(self, step: Step, frame: Installed) -> None:
        previous, before = self._view, self._members
        apart = set(frame.apart)
        members = tuple(sorted(self._expected))
        along = tuple(member for member in before if member in self._expected and member not in apart)
        step.flush()
        self._view, self._members = frame.view, members
        self._place.view = str(frame.view)
        self._index = 0
        along = along or (self._process,)
        step.deliver(view_event(frame.view, members, previous, before, along, self.last_change, self._gone))
        self._gone = {}
        step.flush()
        if self._settings.block == "ask" and previous is not None:
            step.deliver(Unblocked(self.last_change))
        self._sends = Sends.FREELY
