"""One group as one process takes part in it, whatever the protocol family: joining, events, sends, leaving.

Sends wait in an outbox until the engine takes them, events in an inbox until the application does.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from msgspec.structs import replace

from unisono.engine import EventsTaken
from unisono.errors import GroupError, NetworkError, NotMember
from unisono.events import Event, Left, Message, SendAccepted, SendRefused, View
from unisono.identity import ProcessId
from unisono.runtime.inbox import Inbox
from unisono.runtime.outbox import Outbox
from unisono.runtime.process import Process
from unisono.runtime.state.keeper import StateEffect
from unisono.settings import Settings

Shown = TypeVar("Shown", bound=Event)
"""The events that the application gets."""


class Participant(ABC, Generic[Shown]):
    """The base of every kind of group. Used inside `async with`, in one event loop."""

    def __init__(self, name: str, settings: Settings, protocol: str, stateful: bool = False) -> None:
        self.name = name
        self.settings = settings
        self._protocol = protocol
        self._stateful = stateful
        self._process: Process | None = None
        self._inbox: Inbox | None = None
        self._outbox: Outbox | None = None
        self._joined: asyncio.Future[None] | None = None
        self._left: asyncio.Future[bool] | None = None
        self._view: View | None = None

    @property
    def process(self) -> Process:
        """The process that is in the group."""
        if self._process is None:
            raise self._not_joined()
        return self._process

    @property
    def view(self) -> View | None:
        """The newest view, whether or not the application has taken it yet; None where there are none."""
        return self._view

    @property
    def members(self) -> tuple[ProcessId, ...]:
        """The sources of the newest view."""
        return () if self._view is None else self._view.members

    def report(self, kind: str, /, **values: float | str) -> None:
        """Report a statistic of the application, of a type of its own, about this group; see `Process.report`."""
        self.process.report_about(self.name, kind, values)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Shown:
        """The next event; the iteration ends when this process has left the group."""
        inbox = self._open_inbox()
        while (event := await inbox.take()) is not None:
            if not self._is_hidden(event):
                return event  # type: ignore[return-value]  # answers to sends are never put into the inbox
        raise StopAsyncIteration

    async def receive_many(self, limit: int = 1000) -> list[Shown]:
        """All events that are there, at most `limit`, and at least one; an empty list when the group was left."""
        if limit < 1:
            raise ValueError(f"limit is 1 or more, got {limit}")
        inbox = self._open_inbox()
        while events := await inbox.take_many(limit):
            shown = [event for event in events if not self._is_hidden(event)]
            if shown:
                return shown  # type: ignore[return-value]  # as above
        return []

    async def leave(self) -> bool:
        """Leave: what was sent still reaches the others (D13), then this returns. A second call changes nothing.

        False where `leave_timeout` ran out before all others who counted had what was sent.
        """
        if self._process is None or self._left is None or self._outbox is None:
            return True
        if not self._left.done():
            self._outbox.finish(
                NotMember(f"this process has left {self.name!r}, or is leaving it; join it again to send")
            )
            self._on_ending()
            self._process.leave(self.name)
        return await asyncio.shield(self._left)

    async def close(self) -> None:
        """Leave, and give up what the group alone used."""
        process = self._process
        if process is None:
            return
        try:
            await self.leave()
        finally:
            self._end(NotMember(f"{self.name!r} was closed; join it again"))
            self._process = None
            process.detach(self.name)
            await self._release()

    async def open(self) -> Self:
        """Join; `async with` does this."""
        if self._process is not None:
            raise GroupError(f"{self.name!r} is joined already")
        loop = asyncio.get_running_loop()
        process = self._acquire()
        try:
            await process.start()
            self._inbox = self._make_inbox(process, loop, lambda count: process.give(EventsTaken(self.name, count)))
            self._outbox = Outbox(self.name, self.settings, loop, process.give)
            self._joined, self._left = loop.create_future(), loop.create_future()
            settings = replace(self.settings, trace=process.traced, trace_messages=process.traces_messages)
            await process.attach(self.name, self, settings, self._protocol, self._stateful)
            self._process = process
            await self._wait_joined(self._joined)
        except BaseException:
            if self._process is not None:
                self._process = None
                process.leave(self.name)
                process.detach(self.name)
            await self._release()
            raise
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # What the process reports.

    def on_joined(self, error: NetworkError | None) -> None:
        self._has_joined(error)

    def on_events(self, events: Sequence[Event]) -> None:
        outbox = self._open_outbox()
        taken: list[Event] = []
        left: Left | None = None
        for event in events:
            if isinstance(event, Message):
                taken.append(event)
            elif isinstance(event, SendAccepted):
                outbox.answered(event.ticket, None)
            elif isinstance(event, SendRefused):
                outbox.answered(event.ticket, event.reason)
            elif isinstance(event, Left):
                left = event
            elif self._is_shown(event):
                taken.append(event)
        if taken:
            self._put(taken)
        if left is not None:
            self._end(NotMember(f"this process has left {self.name!r}; join it again to send"), left.complete)

    def on_state(self, effect: StateEffect) -> None:
        raise AssertionError(f"{self.name!r} has no state")

    def on_failed(self, error: BaseException) -> None:
        if self._inbox is not None:
            self._inbox.close(error)
        self._has_joined(error)
        self._end(error)

    # What kinds of groups differ in.

    @abstractmethod
    def _acquire(self) -> Process:
        """The process to join with."""

    async def _release(self) -> None:
        """The group does not use its process any more."""

    @abstractmethod
    def _join_example(self) -> str:
        """How a program joins such a group."""

    async def _wait_joined(self, joined: asyncio.Future[None]) -> None:
        await joined

    def _is_shown(self, event: Event) -> bool:
        """Note what an event that is no message says; whether the application gets it."""
        if isinstance(event, View):
            self._view = event
        return True

    def _is_hidden(self, event: Event) -> bool:
        """Whether the application has had an event already, now that it would take it."""
        return False

    def _put(self, events: Sequence[Event]) -> None:
        self._open_inbox().put(events)

    def _on_ending(self) -> None:
        """Nothing more is sent: wake whoever waits for something else than that."""

    def _make_inbox(self, process: Process, loop: asyncio.AbstractEventLoop, report: Callable[[int], None]) -> Inbox:
        return Inbox(loop, report)

    def _has_joined(self, error: BaseException | None = None) -> None:
        if self._joined is not None and not self._joined.done():
            if error is None:
                self._joined.set_result(None)
            else:
                self._joined.set_exception(error)

    def _end(self, error: BaseException, complete: bool = False) -> None:
        if self._process is not None:
            self._process.detach(self.name)
        if self._inbox is not None:
            self._inbox.close()
        if self._outbox is not None:
            self._outbox.close(error)
        if self._left is not None and not self._left.done():
            self._left.set_result(complete)
        self._on_ending()

    def _open_inbox(self) -> Inbox:
        if self._inbox is None:
            raise self._not_joined()
        return self._inbox

    def _open_outbox(self) -> Outbox:
        if self._outbox is None:
            raise self._not_joined()
        return self._outbox

    def _not_joined(self) -> NotMember:
        if self._outbox is not None:
            return NotMember(f"{self.name!r} was closed; join it again")
        return NotMember(f"{self.name!r} is not joined yet; write `async with {self._join_example()} as group:`")


def checked_message(data: object) -> bytes:
    """A message as the application gave it."""
    if isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"a message is bytes, got {type(data).__name__}; encode it first")
