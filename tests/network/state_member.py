"""A member with a state on disk, in a process of its own, driven by lines.

Its state is a file that every message changes at a place of its own, so that order and gaps show in it. Commands:
`load RATE SIZE` (messages a second of that size, until `halt`), `digest`, `base` and `memory`, `counters`, `quit`.
Lines: `ready`, `progress BYTES OF PROVIDER`, `received PROVIDER BYTES`, `view NAMES`, `trouble WHAT` (left behind,
excluded, dropped out), once a second `second SENT TAKEN WAITING` (sent and taken in it, and what waits for the
application), and the answers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

from xxhash import xxh3_64_intdigest

import unisono
from unisono.runtime.loops import run
from unisono.units import MIB

CELL = 8
AT_ONCE = 1000
"""So many messages are handed over at a time where sending was held up."""


def say(*words: object) -> None:
    print(*words, flush=True)


class FileState:
    """So many bytes on disk: what they are at first depends on `seed`."""

    def __init__(self, path: Path, size: int, seed: str, hot: int = 0) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self.size = size
        self.hot = hot or size
        """Messages change this many bytes at the beginning."""
        self.taken = 0
        for offset in range(0, size, MIB):  # no two parts are alike
            part = hashlib.shake_128(f"{seed} {offset}".encode()).digest(min(size - offset, MIB))
            os.pwrite(self._descriptor, part, offset)

    def apply(self, data: bytes) -> None:
        self.taken += 1
        place = xxh3_64_intdigest(data) % (self.hot - CELL + 1)
        cell = os.pread(self._descriptor, CELL, place)
        os.pwrite(self._descriptor, xxh3_64_intdigest(cell + data).to_bytes(CELL, "big"), place)

    def save(self, file: BinaryIO) -> None:
        file.write(self.taken.to_bytes(8, "big"))
        for offset in range(0, self.size, MIB):
            file.write(os.pread(self._descriptor, MIB, offset))

    def load(self, file: BinaryIO) -> None:
        self.taken = int.from_bytes(file.read(8), "big")
        os.ftruncate(self._descriptor, 0)
        self.size = 0
        while part := file.read(MIB):
            os.pwrite(self._descriptor, part, self.size)
            self.size += len(part)

    def digest(self) -> str:
        whole = hashlib.sha256()
        for offset in range(0, self.size, MIB):
            whole.update(os.pread(self._descriptor, MIB, offset))
        return whole.hexdigest()


class Tally:
    """What one member has sent and taken so far."""

    sent = taken = 0


async def receive(group: unisono.Group, state: FileState | None, tally: Tally) -> None:
    while events := await group.receive_many():
        for event in events:
            if isinstance(event, unisono.Message):
                tally.taken += 1
                if state is not None:
                    state.apply(event.data)
            elif isinstance(event, unisono.StateProgress):
                say("progress", event.received, event.size, event.provider and event.provider.name, event.trouble)
            elif isinstance(event, unisono.StateReceived):
                say("received", event.provider and event.provider.name, event.size)
            elif isinstance(event, unisono.View):
                say("view", *sorted(process.name for process in event.members))
            elif isinstance(event, unisono.LeftBehind | unisono.Excluded | unisono.DroppedOut):
                say("trouble", event)


async def tell(group: unisono.Group, tally: Tally) -> None:
    loop = asyncio.get_running_loop()
    due, sent, taken = loop.time(), 0, 0
    while True:
        due += 1.0
        await asyncio.sleep(due - loop.time())
        say("second", tally.sent - sent, tally.taken - taken, len(group._open_inbox()))
        sent, taken = tally.sent, tally.taken


async def load(group: unisono.Group, rate: float, size: int, tally: Tally) -> None:
    """Send by the clock, some at a time; what is due while sending waits goes out when it may."""
    loop = asyncio.get_running_loop()
    began, number = loop.time(), 0
    while True:
        await asyncio.sleep(0.01)
        due = min(int((loop.time() - began) * rate), number + AT_ONCE)
        if due > number:
            await group.send_many([os.urandom(16).ljust(size, b".") for _ in range(due - number)])
            tally.sent += due - number
            number = due


def reset_memory() -> int:
    """The memory of this process in kB; its highest value is counted from here on."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


async def obey(group: unisono.Group, state: FileState | None, tally: Tally) -> None:
    commands: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(commands.put_nowait, line.strip())
        loop.call_soon_threadsafe(commands.put_nowait, "quit")

    threading.Thread(target=read, daemon=True).start()
    sending: asyncio.Task[None] | None = None
    base = reset_memory()
    while (line := await commands.get()) != "quit":
        word, *rest = line.split()
        if word == "load":
            sending = asyncio.create_task(load(group, float(rest[0]), int(rest[1]), tally))
        elif word == "halt" and sending is not None:
            sending.cancel()
            say("halted")
        elif word == "digest" and state is not None:
            say("digest", state.taken, state.size, await asyncio.to_thread(state.digest))
        elif word == "base":
            base = reset_memory()
        elif word == "memory":
            say("memory", base, memory("VmHWM"), memory("VmRSS"))
        elif word == "counters":
            say("counters", json.dumps({str(name): count for name, count in group.process.counters.items()}))
    await group.leave()


async def main(options: dict[str, Any]) -> None:
    directory = Path(options.pop("directory"))
    size = options.pop("size")
    directory.mkdir(parents=True, exist_ok=True)
    hot = options.pop("hot", 0)
    state = FileState(directory / "state", size, options["name"], hot) if size else None
    group = unisono.join("states", service="timestamp", storage=directory / "logs", state=state, **options)
    async with group:
        say("ready", group.process.id.name)
        tally = Tally()
        telling = asyncio.create_task(tell(group, tally))
        await asyncio.gather(receive(group, state, tally), obey(group, state, tally))
        telling.cancel()
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    run(main(json.loads(sys.argv[1])))
