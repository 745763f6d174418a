"""The inbox of an application that has a state: it can be held, and what comes meanwhile waits on disk.

While it is held the group goes on: what is written to disk counts as taken. When it is released, what waited comes in
order, and what comes after that waits in memory as in any inbox.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import islice
from typing import Any

from unisono.events import Event, Message
from unisono.identity import Point
from unisono.runtime.inbox import Inbox
from unisono.runtime.spool import Spool
from unisono.transfer.kept import after

BATCH = 256
"""So many events are read from disk at a time."""

Work = Callable[[], Coroutine[Any, Any, None]]


class WorkItem:
    """Something to be done between two events, when the application has taken all before it."""

    __slots__ = ("work",)

    def __init__(self, work: Work) -> None:
        self.work = work


class StateInbox(Inbox):
    """Events of one group and work on its state, oldest first."""

    __slots__ = (
        "_after_spool",
        "_before",
        "_holding",
        "_overflow",
        "_ready",
        "_running",
        "_source",
        "_spool",
        "trouble",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Callable[[int], None], spool: Spool) -> None:
        super().__init__(loop, report)
        self._spool = spool
        self._holding = False
        self._before: deque[Event | WorkItem] = deque()
        """Comes before what is on disk."""
        self._ready: deque[Event] = deque()
        """Comes next, was on disk, and counts as taken."""
        self._source: Iterator[Event] | None = None
        """What is on disk, where the inbox was released."""
        self._after_spool: deque[Event | WorkItem] = deque()
        self._overflow: list[Event] = []
        self._running: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why what comes does not go to disk, where it does not."""

    def __len__(self) -> int:
        return len(self._before) + len(self._ready) + self._spool.count + len(self._after_spool)

    def put(self, events: Sequence[Event]) -> None:
        if self._holding:
            self._overflow.extend(events)
            self._write()
            return
        (self._before if self._source is None else self._after_spool).extend(events)
        self._wake()

    def _write(self) -> None:
        """Write what is to wait on disk. Where that fails it waits here, and so the group for the application."""
        try:
            self._spool.append(self._overflow)
        except OSError as error:
            self.trouble = f"the disk does not take what comes meanwhile: {error.strerror or error}"
            return
        self.trouble = ""
        self._count(sum(isinstance(event, Message) for event in self._overflow))
        self._overflow = []

    def put_now(self, item: Event | WorkItem) -> None:
        """What does not wait behind the events on disk while the inbox is held."""
        (self._before if self._holding or self._source is None else self._after_spool).append(item)
        self._wake()

    def hold(self) -> None:
        """From now on what comes goes to disk."""
        assert self._source is None, "what was on disk is taken first"
        self._holding = True

    def restart(self) -> None:
        """Throw away what was not taken, and hold what comes from now on."""
        thrown = (*self._before, *self._after_spool, *self._overflow)
        self._count(sum(isinstance(item, Message) for item in thrown))
        self._overflow = []
        self._before.clear()
        self._after_spool.clear()
        self._ready.clear()
        self._source = None
        self._spool.clear()
        self._holding = True

    @property
    def busy(self) -> bool:
        """Whether work is being done."""
        return self._running is not None and not self._running.done()

    def release(self, point: Point | None = None) -> None:
        """Let the application have what is on disk, only what is after the point where there is one."""
        self._holding = False
        self._after_spool.extend(self._overflow)
        self._overflow = []
        events = self._spool.events()
        self._source = events if point is None else after(point, events)
        self._wake()

    def close(self, error: BaseException | None = None) -> None:
        if self._open and self._holding:
            self._spool.clear()
        super().close(error)

    async def take(self) -> Event | None:
        found = await self.take_many(1)
        return found[0] if found else None

    async def take_many(self, limit: int) -> list[Event]:
        """As in any inbox; work that is next is done first, and an interrupted call leaves it to the next one."""
        while True:
            if self._running is not None:
                running = self._running
                await asyncio.shield(running)
                if self._running is running:
                    self._running = None
            if not self._is_next_here():
                await self._wait_for_more()
                if not self._is_next_here():
                    self._end()
                    return []
            if not self._before:
                return [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
            first = self._before[0]
            if not isinstance(first, WorkItem):
                return self._take_waiting(limit)
            self._before.popleft()
            self._running = self._loop.create_task(first.work())

    def _is_next_here(self) -> bool:
        """Whether there is something to be taken; reads from disk, and goes on behind that when it is at its end."""
        if not self._before and not self._ready and self._source is not None:
            self._ready.extend(islice(self._source, BATCH))
            if not self._ready:
                self._source = None
                self._spool.clear()
                self._before, self._after_spool = self._after_spool, deque()
        return bool(self._before or self._ready)

    def _take_waiting(self, limit: int) -> list[Event]:
        taken: list[Event] = []
        while self._before and len(taken) < limit:
            item = self._before[0]
            if isinstance(item, WorkItem):
                break
            taken.append(item)
            self._before.popleft()
        self._count(sum(isinstance(event, Message) for event in taken))
        return taken

    async def _wait_for_more(self) -> None:
        while self._open and not self._before and self._source is None:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
