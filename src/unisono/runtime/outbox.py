"""What the application sends and the group has not accepted yet.

The first send of a turn of the loop goes to the engine at once, unless an earlier one still waits to be accepted.
Those that follow in the same turn go together, so that they share datagrams. A send that is cancelled before it goes
is not sent; after that, it is sent as if nothing had happened: never a part of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from unisono.engine import Fact, Send
from unisono.errors import MessageTooLarge, SendRejected
from unisono.identity import NAME_LIMIT_BYTES
from unisono.settings import Settings

BATCH_BYTES = 128 << 10
BATCH_MESSAGES = 512
"""What one fact hands to the engine: small enough that the loop gets to receive in between."""
_OVERHEAD_BYTES = 128
_NAME_BYTES = NAME_LIMIT_BYTES + 1
"""What is reckoned for a name, whatever its length: the engine reckons so too."""


class Waiting:
    """Messages of one call that go together, their names if they have any, and who waits for their acceptance."""

    __slots__ = ("accepted", "messages", "names", "proxy", "weight")

    def __init__(
        self, messages: Sequence[bytes], names: Sequence[str], proxy: bool, accepted: asyncio.Future[None]
    ) -> None:
        self.messages = messages
        self.proxy = proxy
        self.names = names
        self.weight = sum(map(len, messages)) + _overhead(names) * len(messages)
        self.accepted = accepted


class Outbox:
    """The sends of one group, oldest first."""

    __slots__ = (
        "_error",
        "_give",
        "_group",
        "_handed",
        "_handed_bytes",
        "_limit",
        "_loop",
        "_message_limit",
        "_queue",
        "_scheduled",
        "_ticket",
    )

    def __init__(
        self, group: str, settings: Settings, loop: asyncio.AbstractEventLoop, give: Callable[[Fact], None]
    ) -> None:
        self._group = group
        self._loop = loop
        self._give = give
        self._message_limit = settings.message_limit_bytes
        self._limit = min(settings.send_queue_bytes, settings.window_bytes)
        self._queue: deque[Waiting] = deque()
        self._handed: dict[int, list[Waiting]] = {}
        self._handed_bytes = 0
        self._ticket = 0
        self._scheduled = False
        self._error: BaseException | None = None

    @property
    def error(self) -> BaseException | None:
        """Why nothing is sent any more."""
        return self._error

    async def send(self, messages: Sequence[bytes], names: Sequence[str] = (), proxy: bool = False) -> None:
        """Wait until every message has left this process, in order; `names` are as many as the messages, or none."""
        self._check(messages, names)
        parts = [
            Waiting(messages[first:end], names[first:end], proxy, self._loop.create_future())
            for first, end in self._parts(messages, _overhead(names))
        ]
        self._queue.extend(parts)
        at_once = not self._scheduled and not self._handed
        self._schedule()
        if at_once:
            self._give_next()
        try:
            for part in parts:
                await part.accepted
        except BaseException:
            for part in parts:
                if not part.accepted.done():
                    part.accepted.cancel()
                elif not part.accepted.cancelled():
                    part.accepted.exception()  # the caller gets the first error; this one is seen, not raised
            raise

    def offer(self, message: bytes) -> bool:
        """Send one message if no earlier one waits; whether it was taken. Never waits."""
        self._check((message,), ())
        if self._handed or self._queue:
            return False
        waiting = Waiting((message,), (), False, self._loop.create_future())
        waiting.accepted.add_done_callback(_see)
        self._queue.append(waiting)
        self._give_next()
        if waiting.accepted.done():
            waiting.accepted.result()
        return True

    def answered(self, ticket: int, refusal: str | None) -> None:
        """The engine accepted or refused what it was handed under this ticket."""
        batch = self._handed.pop(ticket, [])
        for waiting in batch:
            self._handed_bytes -= waiting.weight
            if waiting.accepted.done():
                continue
            if refusal is None:
                waiting.accepted.set_result(None)
            else:
                waiting.accepted.set_exception(SendRejected(refusal))
        if self._queue:
            self._schedule()

    def finish(self, error: BaseException) -> None:
        """Nothing more goes to the engine, and who waits for that is told why; what it has is still answered."""
        if self._error is None:
            self._error = error
        waiting = list(self._queue)
        self._queue.clear()
        for one in waiting:
            if not one.accepted.done():
                one.accepted.set_exception(error)

    def close(self, error: BaseException) -> None:
        """Nothing more is sent; who waits, and who comes later, is told why."""
        self.finish(error)
        waiting = [one for batch in self._handed.values() for one in batch]
        self._handed.clear()
        for one in waiting:
            if not one.accepted.done():
                one.accepted.set_exception(self._error or error)

    def _check(self, messages: Sequence[bytes], names: Sequence[str]) -> None:
        """Raises where nothing is sent any more, or one of the messages is too large."""
        if self._error is not None:
            raise self._error
        most = self._message_limit - (_NAME_BYTES if names else 0)
        for message in messages:
            if len(message) > most:
                raise MessageTooLarge(
                    f"this message has {len(message)} bytes and {self._group!r} takes {most}"
                    f"{' beside a name' if names else ''};"
                    " send it in parts, or join with a larger message_limit_bytes everywhere"
                )

    def _parts(self, messages: Sequence[bytes], overhead: int) -> list[tuple[int, int]]:
        """Runs of messages that fit one fact: where each begins, and where the next one does."""
        most = min(BATCH_BYTES, self._limit)
        parts: list[tuple[int, int]] = []
        first = weight = 0
        for index, message in enumerate(messages):
            size = len(message) + overhead
            if index > first and (weight + size > most or index - first == BATCH_MESSAGES):
                parts.append((first, index))
                first, weight = index, 0
            weight += size
        if first < len(messages):
            parts.append((first, len(messages)))
        return parts

    def _schedule(self) -> None:
        if not self._scheduled and self._error is None:
            self._scheduled = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        """Go on with what came in the turn before."""
        self._scheduled = False
        self._give_next()

    def _give_next(self) -> None:
        """Give the engine what waits, as far as it has room, in one fact."""
        batch: list[Waiting] = []
        messages: list[bytes] = []
        names: list[str] = []
        weight = 0
        while self._queue:
            waiting = self._queue[0]
            if waiting.accepted.done():  # cancelled while it waited
                self._queue.popleft()
                continue
            first = not self._handed and not batch
            if not first and self._handed_bytes + weight + waiting.weight > self._limit:
                break
            if batch and (weight + waiting.weight > BATCH_BYTES or len(messages) >= BATCH_MESSAGES):
                break
            if batch and (bool(names), batch[0].proxy) != (bool(waiting.names), waiting.proxy):  # all are of one kind
                break
            self._queue.popleft()
            batch.append(waiting)
            messages += waiting.messages
            names += waiting.names
            weight += waiting.weight
        if not batch:
            return
        self._ticket += 1
        self._handed[self._ticket] = batch
        self._handed_bytes += weight
        if self._queue:
            self._schedule_if_room()
        self._give(Send(self._group, self._ticket, tuple(messages), tuple(names), batch[0].proxy))

    def _schedule_if_room(self) -> None:
        if self._handed_bytes + self._queue[0].weight <= self._limit:
            self._schedule()


def _see(accepted: asyncio.Future[None]) -> None:
    """Nobody waits for this one: who offered it was told what happened at once."""
    if not accepted.cancelled():
        accepted.exception()


def _overhead(names: Sequence[str]) -> int:
    """What a message counts for beside its bytes."""
    return _OVERHEAD_BYTES + (_NAME_BYTES if names else 0)
