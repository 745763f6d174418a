"""One application in a process of its own: does what lines tell it, and logs all that it does and is given.

Commands: `talk RATE` (messages a second; 0 ends it), `burst COUNT` (in one call), `large BYTES`, `leave COUNT` (so many
more messages, one after the other, then `leave`, and the process ends). The end of its input is a `leave 0`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import unisono
from tests.campaigns.torture.life import Part
from tests.campaigns.torture.records import (
    Closed,
    Got,
    Joined,
    Leaving,
    Left,
    Log,
    Record,
    Sending,
    Sent,
    Told,
    Unsent,
    Viewed,
    hash_of,
    message,
    now,
    number_in,
)
from unisono.runtime.loops import run

PARENT_DEATH_SIGNAL = 1
"""The option of prctl."""
SMALL_BYTES = 300
"""Most messages have up to so many."""


Participant = unisono.Group | unisono.SessionGroup


class Application:
    """What sends, receives and logs."""

    def __init__(self, group: Participant, log: Log, seed: str) -> None:
        self._group = group
        self._log = log
        self._random = Random(seed)
        self._me = str(group.process.id)
        self._number = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._talk: asyncio.Task[Any] | None = None

    async def receive(self) -> None:
        """Log every event, until the group was left."""
        while events := await self._group.receive_many(500):
            self._log.write_many([self._record(event) for event in events])

    async def obey(self, commands: asyncio.Queue[str]) -> int:
        """Do as told; how many messages to send before leaving."""
        while True:
            word, _, argument = (await commands.get()).partition(" ")
            if word == "leave":
                return int(argument)
            if word == "talk":
                if self._talk is not None:
                    self._talk.cancel()
                    await asyncio.wait([self._talk])
                self._talk = self._start(self._speak(float(argument))) if float(argument) else None
            elif word == "burst":
                self._start(self.send([self._small() for _ in range(int(argument))]))
            else:
                self._start(self.send([self._random.randbytes(int(argument))]))

    async def leave(self, count: int) -> None:
        """Send some more, one after the other, then leave at once."""
        if self._talk is not None:
            self._talk.cancel()
        for _ in range(count):
            if not await self.send([self._small()]):
                break
        self._log.write(Leaving(now()))
        await self._group.leave()
        self._log.write(Left(now()))
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def send(self, fillers: list[bytes]) -> bool:
        """Send messages in one call; whether they were accepted."""
        first = self._number + 1
        messages = [message(self._me, first + index, filler) for index, filler in enumerate(fillers)]
        self._number = last = first + len(messages) - 1
        self._log.write_many([Sending(now(), first + index, hash_of(data)) for index, data in enumerate(messages)])
        try:
            if len(messages) == 1:
                await self._group.send(messages[0])
            else:
                await self._group.send_many(messages)
        except (unisono.NotMember, unisono.SendRejected, asyncio.CancelledError) as error:
            self._log.write(Unsent(now(), first, last, f"{type(error).__name__}: {error}"))
            if isinstance(error, asyncio.CancelledError):
                raise
            return False
        self._log.write(Sent(now(), first, last))
        return True

    async def _speak(self, rate: float) -> None:
        """Send by the clock; what was due while sending waited is not made up for."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while await self.send([self._small()]):
            due = max(due + 1 / rate, loop.time())
            await asyncio.sleep(due - loop.time())

    def _small(self) -> bytes:
        return self._random.randbytes(self._random.randrange(SMALL_BYTES))

    def _start(self, sending: Awaitable[Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(sending)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _record(self, event: object) -> Record:
        if isinstance(event, unisono.Message):
            source = str(event.source)
            return Got(now(), source, number_in(event.data, source), hash_of(event.data))
        if isinstance(event, unisono.View):
            return Viewed(
                now(),
                str(event.id),
                "" if event.previous is None else str(event.previous),
                tuple(map(str, event.members)),
                None if event.transitional is None else tuple(map(str, event.transitional)),
                {str(process): str(reason) for process, reason in event.reasons},
                event.whole,
            )
        about = next((str(getattr(event, name)) for name in ("source", "view", "reason") if hasattr(event, name)), "")
        return Told(now(), type(event).__name__, about)


def read_commands(loop: asyncio.AbstractEventLoop, commands: asyncio.Queue[str]) -> None:
    rest = b""
    with suppress(RuntimeError):  # the loop is closed: nobody obeys any more
        while data := os.read(0, 65536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                loop.call_soon_threadsafe(commands.put_nowait, line.decode())
        loop.call_soon_threadsafe(commands.put_nowait, "leave 0")


async def live(part: Part, group: Participant, close: Callable[[], Awaitable[None]]) -> None:
    """A life in a group, from the join to the end."""
    log = Log(Path(part.log))
    settings = group.settings
    service = "session" if part.in_session else settings.service
    log.write(Joined(now(), str(group.process.id), service, settings.role))
    application = Application(group, log, part.seed)
    commands: asyncio.Queue[str] = asyncio.Queue()
    threading.Thread(target=read_commands, args=(asyncio.get_running_loop(), commands), daemon=True).start()
    receiving = asyncio.create_task(application.receive())
    await application.leave(await application.obey(commands))
    await receiving
    await close()
    log.write(Closed(now()))


async def main(part: Part) -> None:
    if part.in_session:
        async with unisono.Session(part.name, **part.options) as session:
            joined = await session.join(part.group, **part.settings)
            await live(part, joined, session.close)
    else:
        group = await unisono.join(part.group, name=part.name, **part.options).open()
        await live(part, group, group.close)


def end_with_the_driver() -> None:
    """A driver that is killed cannot end whom it has stopped: the system does."""
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


if __name__ == "__main__":
    end_with_the_driver()
    run(main(msgspec.json.decode(sys.argv[1], type=Part)))
