"""A group of a virtual synchrony session: what 002 4.1 has for an application, as events or as single calls."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any, Self

from msgspec import Struct

from unisono.engine import BlockOk
from unisono.errors import GroupError, NetworkError, NotMember
from unisono.events import (
    Block,
    DroppedOut,
    Event,
    Excluded,
    Message,
    Returned,
    Unblocked,
    View,
)
from unisono.identity import ProcessId
from unisono.runtime.participant import Participant, checked_message
from unisono.runtime.process import Process
from unisono.settings import Settings

_LOG = logging.getLogger(__name__)

SessionEvent = Message | View | Block | Unblocked | Returned | Excluded | DroppedOut
"""What iteration over a group of a session gives."""

OnBlock = Callable[[Block], Awaitable[None] | None]
"""Is called when the view is about to change; when it has ended, the application is done with the current one."""


class Copied(Struct, frozen=True):
    """What `receive_into` took: a message, whose bytes are in the buffer now, or another event, which is here.

    `length` is the number of bytes of a message, of members of a view, and else 0; `source` and `number` are of a
    message.
    """

    length: int
    source: ProcessId | None = None
    number: int = 0
    event: View | Block | Unblocked | Returned | Excluded | DroppedOut | None = None


class SessionGroup(Participant[SessionEvent]):
    """One group of a session. Made by `Session.join`; used inside `async with`, or after `await`."""

    def __init__(
        self,
        name: str,
        process: Callable[[], Process],
        settings: Settings,
        protocol: str,
        timeout_seconds: float,
        why_no_view: Callable[[str, float], str],
        on_block: OnBlock | None = None,
    ) -> None:
        super().__init__(name, settings, protocol)
        self._find_process = process
        self._timeout_seconds = timeout_seconds
        self._why_no_view = why_no_view
        self._on_block = on_block
        self._block: Block | None = None
        self._finished = False
        """Whether the application said that it is done with the current view."""
        self._answering: asyncio.Task[None] | None = None

    @property
    def joined(self) -> bool:
        """Whether this process is in the group."""
        return self._left is not None and self._view is not None and not self._left.done()

    @property
    def transitional(self) -> tuple[ProcessId, ...]:
        """Those who came into the newest view together with this process: they delivered what it delivered (D5, M5)."""
        return (self._view is not None and self._view.transitional) or ()

    @property
    def blocked(self) -> bool:
        """Whether the view is about to change, as far as the application was told: between Block and Unblocked."""
        return self._block is not None

    async def send(self, data: bytes) -> None:
        """Send one message to every member, this one included (D6, L2); waits while the view changes or the window is
        full.

        A send that is cancelled was made as a whole or not at all.
        """
        await self._open_outbox().send((checked_message(data),))

    async def send_many(self, messages: Iterable[bytes]) -> None:
        """Send messages in this order (O1), many to a datagram; a cancelled call has sent a beginning of them."""
        await self._open_outbox().send([checked_message(one) for one in messages])

    def try_send(self, data: bytes) -> bool:
        """Send one message if it can be taken at this moment; never waits. False says to try again later.

        What was taken goes out before anything that is sent later, as soon as the view and the window allow.
        """
        outbox, message = self._open_outbox(), checked_message(data)
        return not self._finished and outbox.offer(message)

    def poll(self) -> int:
        """How many events are there to be received."""
        return len(self._open_inbox())

    def receive(self) -> SessionEvent | None:
        """The next event if there is one, else None; never waits. Raises NotMember after the last one."""
        inbox = self._open_inbox()
        event = inbox.take_now()
        if event is None and inbox.ended:
            raise NotMember(f"this process has left {self.name!r}, and every event was taken")
        return event  # type: ignore[return-value]  # answers to sends are never put into the inbox

    def receive_into(self, buffer: bytearray | memoryview) -> Copied | None:
        """Like `receive`, but the bytes of a message are copied into the buffer. A message that does not fit stays."""
        event = self._open_inbox().peek()
        if isinstance(event, Message) and len(event.data) > len(buffer):
            raise GroupError(
                f"the next message of {self.name!r} has {len(event.data)} bytes and the buffer {len(buffer)};"
                " it is still there: give a larger buffer, or take it with receive()"
            )
        taken = self.receive()
        if taken is None:
            return None
        if isinstance(taken, Message):
            buffer[: len(taken.data)] = taken.data
            return Copied(len(taken.data), taken.source, taken.number)
        return Copied(len(taken.members) if isinstance(taken, View) else 0, event=taken)

    def block_ok(self) -> None:
        """Say that this process has sent what belongs into the current view; the answer to a Block."""
        if self.settings.block != "ask":
            raise GroupError(
                f'{self.name!r} was joined with block="auto", which answers by itself; join with block="ask"'
            )
        self._open_outbox()
        if self._block is not None:
            self._finish()

    def __await__(self) -> Generator[Any, None, Self]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        return self if self._process is not None else await self.open()

    # What differs from other groups.

    def on_joined(self, error: NetworkError | None) -> None:
        """The network is ready; the group is joined when its first view is there."""
        if error is not None:
            self._has_joined(error)

    def _acquire(self) -> Process:
        return self._find_process()

    def _join_example(self) -> str:
        return f"session.join({self.name!r})"

    async def _wait_joined(self, joined: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await joined
        except TimeoutError:
            raise NetworkError(self._why_no_view(self.name, self._timeout_seconds)) from None

    def _is_shown(self, event: Event) -> bool:
        if isinstance(event, View):
            self._has_joined()
        elif isinstance(event, Block):
            self._block, self._finished = event, False
            if self._on_block is not None:
                self._answering = asyncio.get_running_loop().create_task(self._answer(self._on_block, event))
                return False
        elif isinstance(event, DroppedOut):
            self._has_joined(GroupError(f"{self.name!r} cannot be joined: {event.reason}"))
        elif isinstance(event, Unblocked):
            self._block, self._finished = None, False
        return super()._is_shown(event)

    async def _answer(self, ask: OnBlock, block: Block) -> None:
        """Let the application finish; one that fails at that is done as well."""
        try:
            answer = ask(block)
            if inspect.isawaitable(answer):
                await answer
        except Exception:
            _LOG.exception("on_block of %s failed", self.name)
        if self._block is block and self._process is not None:
            self._finish()

    def _finish(self) -> None:
        self._finished = not self.settings.optimistic  # optimistic messages go on, into the view to come
        self.process.give(BlockOk(self.name))

    def _on_ending(self) -> None:
        self._block, self._finished = None, False
        if self._answering is not None and self._answering is not asyncio.current_task():
            self._answering.cancel()
