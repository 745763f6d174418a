"""Unreliable ordered delivery (000 4.9): what comes too late for its place is dropped, and nothing is asked for.

Source order keeps the order of each source. Timestamp order keeps one order over all of them: a message waits until
every source has come as far, or for `hold` at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from unisono.identity import ProcessId
from unisono.intergroup.casual import CasualReceiver
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.reasons import Reason
from unisono.intergroup.sending import OwnMessage
from unisono.reliable.step import Step
from unisono.wire.messages import DataMessage, KeepAlive

LATE_LIMIT = 10_000
"""How many sources are remembered."""


class SourceLatest(CasualReceiver):
    """Ever higher numbers of each source; what was overtaken is dropped.

    How far a source has come is remembered when it falls silent: an old packet of it may come much later.
    """

    __slots__ = ("_last",)

    def __init__(self, context: Context, delivery: Delivery) -> None:
        super().__init__(context, delivery)
        self._last: dict[ProcessId, int] = {}

    def take(self, step: Step, source: ProcessId, message: DataMessage) -> None:
        if message.sequence <= self._last.get(source, 0):
            step.note(Reason.OVERTAKEN)
            step.mark("overtaken")
            return
        self._last.pop(source, None)
        self._last[source] = message.sequence
        if len(self._last) > LATE_LIMIT:
            del self._last[next(iter(self._last))]
        self._delivery.whole(step, source, message, message.payload)


class Waiting:
    """A message that others may still come before."""

    __slots__ = ("message", "own", "until")

    def __init__(self, message: DataMessage | None, own: OwnMessage | None, until: int) -> None:
        self.message = message
        self.own = own
        self.until = until


class TimestampLatest(CasualReceiver):
    """Ever higher keys over all sources; what comes below the last one delivered is dropped."""

    __slots__ = ("_floor", "_heap", "_reached", "_waiting")

    def __init__(self, context: Context, delivery: Delivery) -> None:
        super().__init__(context, delivery)
        self._heap: list[tuple[int, ProcessId]] = []
        self._waiting: dict[tuple[int, ProcessId], Waiting] = {}
        self._reached: dict[ProcessId, int] = {}
        self._floor: tuple[int, ProcessId] = (0, ProcessId("", 0))

    def take(self, step: Step, source: ProcessId, message: DataMessage) -> None:
        self._reach(source, message.timestamp)
        self._wait(step, (message.timestamp, source), Waiting(message, None, step.now + self._context.settings.hold))

    def own_messages(self, step: Step, messages: Sequence[OwnMessage]) -> None:
        until = step.now + self._context.settings.hold
        for own in messages:
            self._wait(step, (own.timestamp, self._context.process), Waiting(None, own, until))

    def on_keep_alive(self, step: Step, source: ProcessId, message: KeepAlive) -> None:
        self._reach(source, message.timestamp)
        self._release(step)

    def on_time(self, step: Step) -> None:
        super().on_time(step)
        self._release(step)

    def release_all(self, step: Step) -> None:
        """Another service follows: what waits does not wait any longer."""
        self._reached.clear()
        self._release(step)

    def forget(self, source: ProcessId) -> None:
        super().forget(source)
        self._reached.pop(source, None)

    def _reach(self, source: ProcessId, timestamp: int) -> None:
        if source in self._reached or len(self._reached) < LATE_LIMIT:
            self._reached[source] = max(self._reached.get(source, 0), timestamp)

    def _wait(self, step: Step, key: tuple[int, ProcessId], waiting: Waiting) -> None:
        if key <= self._floor or key in self._waiting:
            step.note(Reason.OVERTAKEN)
            step.mark("overtaken")
            return
        if len(self._heap) >= self._context.settings.event_limit:
            step.note(Reason.APPLICATION_SLOW)
            return
        self._waiting[key] = waiting
        heappush(self._heap, key)
        self._release(step)

    def _release(self, step: Step) -> None:
        """Deliver what nothing can come before any more, or what has waited for long enough."""
        reached = min(self._reached.values(), default=1 << 63)
        while self._heap and self._delivery.has_room:
            key = self._heap[0]
            waiting = self._waiting[key]
            if key[0] > reached and waiting.until > step.now:
                self._context.deadlines.advance("hold", waiting.until)
                return
            heappop(self._heap)
            del self._waiting[key]
            self._floor = key
            if waiting.message is not None:
                self._delivery.whole(step, key[1], waiting.message, waiting.message.payload)
            elif waiting.own is not None:
                self._delivery.own(step, waiting.own)
        if self._heap:
            self._context.deadlines.advance("hold", step.now + self._context.settings.keep_alive)
