"""Gateways for tests: one in a thread of this process, beside a group that is a list."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from unisono.events import Message, View
from unisono.identity import ProcessId
from unisono.runtime.gateway.gateway import Gateway
from unisono.settings import Settings
from unisono.trace.group_log import Entry, decode_all
from unisono.trace.log.client import LogClient

PATIENCE_SECONDS = 60.0


class ListedGroup:
    """A group that nobody else is in: what is sent comes back as messages, and the test says what others send."""

    def __init__(self, name: str, process: ProcessId, limit: int | None = None) -> None:
        self.name = name
        self.settings = Settings(service="timestamp")
        self.view: View | None = None
        self.process = process
        self.sent: list[bytes] = []
        self.taken = 0
        self._limit = limit
        self._events: asyncio.Queue[object] = asyncio.Queue()

    @property
    def waiting(self) -> int:
        """How many events were not taken yet."""
        return self._events.qsize()

    def say(self, source: ProcessId, number: int, data: bytes) -> None:
        """Somebody sends a message."""
        self.give(Message(source, number, number, number, data, None, 0))

    def give(self, event: object) -> None:
        self._events.put_nowait(event)

    async def receive_many(self, limit: int = 1000) -> Sequence[object]:
        events = [await self._events.get()]
        while len(events) < limit and not self._events.empty():
            events.append(self._events.get_nowait())
        self.taken += len(events)
        return events

    async def send_many(self, messages: Iterable[bytes]) -> None:
        """Takes messages up to the limit, and then waits for ever, as a full window does."""
        for message in messages:
            if self._limit is not None and len(self.sent) >= self._limit:
                await asyncio.Event().wait()
            self.sent.append(message)
            self.say(self.process, len(self.sent), message)


class Running:
    """A gateway that runs in a thread."""

    def __init__(self, directory: Path, group: ListedGroup, loop: asyncio.AbstractEventLoop) -> None:
        self.directory = directory
        self.group = group
        self._loop = loop
        life = asyncio.current_task(loop)
        assert life is not None, "a gateway lives in a task"
        self._life = life
        self.gateway = Gateway(group, group.process.name, directory, settle_seconds=0)

    @property
    def address(self) -> str:
        return self.gateway.address

    def say(self, source: ProcessId, number: int, data: bytes) -> None:
        self._loop.call_soon_threadsafe(self.group.say, source, number, data)

    def end(self) -> None:
        """End it, before the test does."""
        self._loop.call_soon_threadsafe(self._life.cancel)

    def as_if_killed(self, copy: Path) -> Path:
        """The directory as a kill at this moment leaves it."""
        shutil.copytree(self.directory, copy)
        return copy


@contextmanager
def running(directory: Path, group: str = "g", incarnation: int = 1, limit: int | None = None) -> Iterator[Running]:
    """A gateway of its own, for a while."""
    loop = asyncio.new_event_loop()
    begun = threading.Event()
    found: list[Running] = []
    failed: list[BaseException] = []

    async def live() -> None:
        found.append(Running(directory, ListedGroup(group, ProcessId("gateway", incarnation), limit), loop))
        await found[0].gateway.run(found[0].group.process, begun.set)

    def work() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(live())
        except asyncio.CancelledError:
            pass  # the test is over
        except BaseException as error:
            failed.append(error)
        finally:
            begun.set()
            loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert begun.wait(PATIENCE_SECONDS), "the gateway did not begin"
        if failed:
            raise failed[0]
        yield found[0]
    finally:
        if found:
            with suppress(RuntimeError):  # it has ended, and its loop with it
                found[0].end()
        thread.join()
    if failed:
        raise failed[0]


def logged(address: str) -> list[Entry]:
    """What the log of a gateway has now."""
    with LogClient(address) as log:
        begin, end = log.bounds()
        found: list[Entry] = []
        while begin + len(found) < end:
            found += decode_all(log.read(begin + len(found), 1 << 20))
        return found


def until(condition: Callable[[], bool]) -> None:
    """Wait for what should come soon."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)
