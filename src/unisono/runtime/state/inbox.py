"""The inbox of an application that has a state: it can be held, and what comes meanwhile waits on disk.

While it is held the group goes on: what is written to disk counts as taken. When it is released, what waited comes in
order. Until the application has caught up, what comes goes to disk as well, so that the group does not wait for all of
it; it waits only where there would be more on disk than there was at the release.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from unisono.events import Event, Message
from unisono.identity import Point
from unisono.runtime.inbox import Inbox
from unisono.runtime.state.spool import MARK, Mark, Spool
from unisono.transfer.kept import After

BATCH = 256
"""So many events are read from disk at a time."""

Work = Callable[[], Coroutine[Any, Any, None]]


class WorkItem:
    """Something to be done between two events, when the application has taken all before it."""

    __slots__ = ("work",)

    def __init__(self, work: Work) -> None:
        self.work = work


Item = Event | WorkItem


class StateInbox(Inbox):
    """Events of one group and work on its state, oldest first."""

    __slots__ = (
        "_after",
        "_before",
        "_draining",
        "_holding",
        "_overflow",
        "_owed",
        "_ready",
        "_room",
        "_running",
        "_spool",
        "_works",
        "trouble",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Callable[[int], None], spool: Spool) -> None:
        super().__init__(loop, report)
        self._spool = spool
        self._holding = False
        self._before: deque[Item] = deque()
        """Comes before what is on disk."""
        self._ready: deque[Item] = deque()
        """Comes next, and was on disk."""
        self._draining = False
        """The inbox was released, and there is something on disk."""
        self._after: After | None = None
        """Which of what is on disk is to be taken, where not all of it is."""
        self._works: deque[WorkItem] = deque()
        """Those whose places are on disk."""
        self._overflow: list[Item] = []
        """Comes last: the disk does not take it."""
        self._room = 0
        """So many events may be on disk after a release before the group waits."""
        self._owed = 0
        """Messages on disk that do not count as taken yet."""
        self._running: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why what comes does not go to disk, where it does not."""

    def __len__(self) -> int:
        return len(self._before) + len(self._ready) + self._spool.count + len(self._overflow)

    def put(self, events: Sequence[Event]) -> None:
        if self._holding or self._draining:
            self._overflow.extend(events)
            self._write()
        else:
            self._before.extend(events)
            self._wake()

    def put_now(self, item: Item) -> None:
        """What does not wait behind the events on disk while the inbox is held."""
        if self._holding or not self._draining:
            self._before.append(item)
            self._wake()
        else:
            self._overflow.append(item)
            self._write()

    def _write(self) -> None:
        """Write what is to wait on disk. Where that fails it waits here, and so the group for the application."""
        places: list[Event | Mark] = [MARK if isinstance(item, WorkItem) else item for item in self._overflow]
        try:
            self._spool.append(places)
        except OSError as error:
            self.trouble = f"the disk does not take what comes meanwhile: {error.strerror or error}"
            return
        self.trouble = ""
        self._works.extend(item for item in self._overflow if isinstance(item, WorkItem))
        self._owed += _messages(self._overflow)
        self._overflow = []
        self._pay()

    def _pay(self) -> None:
        """Count what is on disk as taken, but for what is more than there is room for."""
        waiting = 0 if self._holding else max(0, self._spool.count + len(self._ready) - self._room)
        if self._owed > waiting:
            self._count(self._owed - waiting)
            self._owed = waiting

    def hold(self) -> None:
        """From now on what comes goes to disk, and nothing is read from there."""
        self._holding = True
        self._pay()

    def forget(self) -> None:
        """Throw away what is on disk, while the inbox is held."""
        assert self._holding, "what waits on disk is not to be taken yet"
        self._count(_messages(self._overflow))
        self._overflow = []
        self._spool.clear()

    def restart(self) -> None:
        """Throw away what was not taken, and hold what comes from now on."""
        self._count(_messages(self._before) + _messages(self._overflow) + self._owed)
        self._owed = 0
        self._overflow = []
        self._before.clear()
        self._ready.clear()
        self._works.clear()
        self._draining = False
        self._after = None
        self._spool.clear()
        self._holding = True

    @property
    def busy(self) -> bool:
        """Whether work is being done."""
        return self._running is not None and not self._running.done()

    def release(self, point: Point | None = None) -> None:
        """Let the application have what is on disk, only what is after the point where there is one."""
        self._holding = False
        self._room = self._spool.count + len(self._ready)
        self._draining = True
        if point is not None:
            self._after = After(point)
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
            if self._draining and not self._before and not self._ready:
                await asyncio.sleep(0)  # a long backlog, taken at once, would keep the process from all else
            if not self._is_next_here():
                await self._wait_for_more()
                if not self._is_next_here():
                    self._end()
                    return []
            items = self._before or self._ready
            if not isinstance(items[0], WorkItem):
                return self._take_waiting(items, limit)
            work = items.popleft()
            assert isinstance(work, WorkItem), "this was looked at"
            self._running = self._loop.create_task(work.work())

    def _is_next_here(self) -> bool:
        """Whether there is something to be taken; reads from disk, and goes on behind that when it is at its end."""
        while self._draining and not self._before and not self._ready:
            events = self._spool.take(BATCH)
            if events:
                self._ready.extend(
                    self._item(event) for event in events if self._after is None or self._after.stays(event)
                )
                continue
            self._draining, self._after = False, None
            self._spool.clear()
            self._pay()
            self._before.extend(self._overflow)
            self._overflow = []
        return bool(self._before or self._ready)

    def _item(self, event: Event | Mark) -> Item:
        return self._works.popleft() if isinstance(event, Mark) else event

    def _take_waiting(self, items: deque[Item], limit: int) -> list[Event]:
        taken: list[Event] = []
        while items and len(taken) < limit:
            item = items[0]
            if isinstance(item, WorkItem):
                break
            taken.append(item)
            items.popleft()
        if items is self._ready:
            self._pay()
        else:
            self._count(_messages(taken))
        return taken

    async def _wait_for_more(self) -> None:
        while self._open and not self._before and not self._draining:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)


def _messages(items: Sequence[Item] | deque[Item]) -> int:
    return sum(isinstance(item, Message) for item in items)
