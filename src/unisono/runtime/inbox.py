"""What a group has for the application and the application has not taken yet.

Taking is safe under cancellation: an event is either still here or in the caller's hands. What was taken is reported to
the engine once a turn of the loop, so that delivery that waited for the application goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from unisono.events import Event, Message


class Inbox:
    """Events of one group, oldest first."""

    __slots__ = ("_error", "_events", "_loop", "_open", "_report", "_taken", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Callable[[int], None]) -> None:
        self._loop = loop
        self._report = report
        self._events: deque[Event] = deque()
        self._waiters: list[asyncio.Future[None]] = []
        self._taken = 0
        self._open = True
        self._error: BaseException | None = None

    @property
    def ended(self) -> bool:
        """Whether everything was taken and nothing more comes."""
        return not self._open and not self._events

    def __len__(self) -> int:
        return len(self._events)

    def put(self, events: Sequence[Event]) -> None:
        self._events.extend(events)
        self._wake()

    def close(self, error: BaseException | None = None) -> None:
        """Nothing more comes; what is here may still be taken, then the error is raised, if there is one."""
        if self._open:
            self._open = False
            self._error = error
            self._wake()

    async def take(self) -> Event | None:
        """The oldest event, when there is one; None at the end."""
        if not self._events:
            await self._wait()
        if not self._events:
            self._end()
            return None
        return self._pop()

    def peek(self) -> Event | None:
        """The oldest event, which stays here; None while there is none."""
        return self._events[0] if self._events else None

    def take_now(self) -> Event | None:
        """The oldest event, if there is one."""
        if not self._events:
            self._end()
            return None
        return self._pop()

    async def take_many(self, limit: int) -> list[Event]:
        """All events that are here, at most `limit`, at least one; none at the end."""
        if not self._events:
            await self._wait()
        if not self._events:
            self._end()
            return []
        if len(self._events) <= limit:
            taken = list(self._events)
            self._events.clear()
        else:
            taken = [self._events.popleft() for _ in range(limit)]
        self._count(sum(isinstance(event, Message) for event in taken))
        return taken

    def _pop(self) -> Event:
        event = self._events.popleft()
        if isinstance(event, Message):
            self._count(1)
        return event

    def _end(self) -> None:
        if self._error is not None:
            raise self._error

    async def _wait(self) -> None:
        while self._open and not self._events:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _count(self, messages: int) -> None:
        if messages and self._open:
            if not self._taken:
                self._loop.call_soon(self._tell)
            self._taken += messages

    def _tell(self) -> None:
        taken, self._taken = self._taken, 0
        if taken and self._open:
            self._report(taken)
