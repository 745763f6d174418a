"""A member in a process of its own, driven by lines: says what it receives, does what it is told.

Commands: `send TEXT`, `burst COUNT`, `flood` (until killed), `load RATE` (messages a second, until `halt`), `quit`.
Lines: `view NAMES`, `gone NAME REASON`, `excluded`, `dropped REASON`, `got SOURCE TEXT`, `done`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from typing import Any

import unisono
from unisono.runtime.loops import run


def say(*words: str) -> None:
    print(*words, flush=True)


async def receive(group: unisono.Group) -> None:
    async for event in group:
        if isinstance(event, unisono.Message):
            say("got", event.source.name, event.data.decode())
        elif isinstance(event, unisono.View):
            for process, reason in event.reasons:
                if process not in event.members:
                    say("gone", process.name, str(reason))
            say("view", *sorted(process.name for process in event.members))
        elif isinstance(event, unisono.Excluded):
            say("excluded")
        elif isinstance(event, unisono.DroppedOut):
            say("dropped", event.reason)


async def load(group: unisono.Group, rate: float) -> None:
    """Send by the clock; what is due while sending waits goes out when it may."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    number = 0
    while True:
        await asyncio.sleep(began + number / rate - loop.time())
        await group.send(f"load {number}".encode())
        number += 1


async def obey(group: unisono.Group) -> None:
    commands: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        rest = b""
        with contextlib.suppress(RuntimeError):
            while data := os.read(0, 65536):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    loop.call_soon_threadsafe(commands.put_nowait, line.decode())
            loop.call_soon_threadsafe(commands.put_nowait, "quit")

    threading.Thread(target=read, daemon=True).start()
    loading: asyncio.Task[None] | None = None
    while (command := await commands.get()) != "quit":
        word, _, rest = command.partition(" ")
        if word == "send":
            await group.send(rest.encode())
        elif word == "burst":
            await group.send_many([f"message {number}".encode() for number in range(int(rest))])
        elif word == "flood":
            number = 0
            while True:
                await group.send(f"message {number}".encode())
                number += 1
        elif word == "load":
            loading = asyncio.create_task(load(group, float(rest)))
        elif word == "halt" and loading is not None:
            loading.cancel()
            await asyncio.wait([loading])
        say("done")


async def main(options: dict[str, Any]) -> None:
    async with unisono.join(**options) as group:
        receiving = asyncio.create_task(receive(group))
        await obey(group)
        await group.leave()
        await receiving


if __name__ == "__main__":
    run(main(json.loads(sys.argv[1])))
