"""A client of membership servers in a process of its own, driven by lines: says what happens, does what it is told.

Commands: `join GROUP [SETTINGS]`, `leave GROUP`, `send GROUP TEXT`, `burst GROUP COUNT`, `flood GROUP` (until killed),
`large GROUP BYTES`, `load GROUP RATE` (messages a second, until `halt GROUP`), `block_ok GROUP`, `quit`.
Lines: `server ADDRESS` or `no server`, `together GROUP NAMES` and `view GROUP NAMES`, `got GROUP SOURCE TEXT`,
`block GROUP`, `unblocked GROUP`, `returned GROUP TEXT`, `excluded GROUP`, `left GROUP`, `done`. With the option `quiet`
what comes of a load is not said.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
import threading
from typing import Any

from xxhash import xxh3_64_hexdigest

import unisono
from unisono.runtime.loops import run

LARGE_BYTES = 1000
"""Of messages above this, the size and a digest are said."""


def say(*words: str) -> None:
    print(*words, flush=True)


def words_of(data: bytes) -> str:
    return data.decode() if len(data) <= LARGE_BYTES else f"large {len(data)} {xxh3_64_hexdigest(data)}"


def names(processes: tuple[unisono.ProcessId, ...]) -> list[str]:
    return sorted(process.name for process in processes)


async def receive(group: unisono.SessionGroup, quiet: bool) -> None:
    async for event in group:
        if isinstance(event, unisono.Message):
            if not quiet or not event.data.startswith(b"load "):
                say("got", group.name, event.source.name, words_of(event.data))
        elif isinstance(event, unisono.View):
            say("together", group.name, *names(event.transitional or ()))
            for process, reason in event.reasons:
                if process not in event.members:
                    say("gone", group.name, process.name, reason)
            say("view", group.name, *names(event.members))
        elif isinstance(event, unisono.Block):
            say("block", group.name)
        elif isinstance(event, unisono.Unblocked):
            say("unblocked", group.name)
        elif isinstance(event, unisono.Returned):
            say("returned", group.name, words_of(event.data))
        else:
            say("excluded", group.name)
    say("left", group.name)


async def load(group: unisono.SessionGroup, rate: float) -> None:
    """Send by the clock; what is due while sending waits goes out when it may."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    number = 0
    while True:
        await asyncio.sleep(began + number / rate - loop.time())
        await group.send(f"load {number}".encode())
        number += 1


async def flood(group: unisono.SessionGroup) -> None:
    number = 0
    while True:
        await group.send(f"message {number}".encode())
        number += 1


class Obedience:
    """Does what the lines say."""

    def __init__(self, session: unisono.Session, quiet: bool) -> None:
        self._session = session
        self._quiet = quiet
        self._groups: dict[str, unisono.SessionGroup] = {}
        self._receiving: list[asyncio.Task[None]] = []
        self._loading: dict[str, asyncio.Task[None]] = {}

    async def obey(self, commands: asyncio.Queue[str]) -> None:
        while (command := await commands.get()) != "quit":
            word, _, rest = command.partition(" ")
            name, _, argument = rest.partition(" ")
            if word == "join":
                group = await self._session.join(name, **json.loads(argument or "{}"))
                self._groups[name] = group
                self._receiving.append(asyncio.create_task(receive(group, self._quiet)))
            else:
                await self._do(word, self._groups[name], argument)
            say("done")

    async def _do(self, word: str, group: unisono.SessionGroup, argument: str) -> None:
        if word == "leave":
            await group.leave()
        elif word == "send":
            await group.send(argument.encode())
        elif word == "burst":
            await group.send_many([f"message {number}".encode() for number in range(int(argument))])
        elif word == "large":
            await group.send(random.Random(1).randbytes(int(argument)))
        elif word == "block_ok":
            group.block_ok()
        elif word == "flood":
            await flood(group)
        elif word == "load":
            self._loading[group.name] = asyncio.create_task(load(group, float(argument)))
        elif word == "halt":
            loading = self._loading.pop(group.name)
            loading.cancel()
            await asyncio.wait([loading])

    async def end(self) -> None:
        for group in self._groups.values():
            await group.leave()
        await asyncio.gather(*self._receiving)


def read_commands(loop: asyncio.AbstractEventLoop, commands: asyncio.Queue[str]) -> None:
    rest = b""
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody obeys any more
        while data := os.read(0, 65536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                loop.call_soon_threadsafe(commands.put_nowait, line.decode())
        loop.call_soon_threadsafe(commands.put_nowait, "quit")


def say_server(change: unisono.ServerChanged) -> None:
    if change.server is None:
        say("no server")
    else:
        say("server", change.server)


async def main(options: dict[str, Any]) -> None:
    commands: asyncio.Queue[str] = asyncio.Queue()
    quiet = options.pop("quiet", False)
    session = unisono.Session(**options)
    session.watch_server(say_server)
    async with session:
        threading.Thread(target=read_commands, args=(asyncio.get_running_loop(), commands), daemon=True).start()
        obedience = Obedience(session, quiet)
        await obedience.obey(commands)
        await obedience.end()


if __name__ == "__main__":
    run(main(json.loads(sys.argv[1])))
