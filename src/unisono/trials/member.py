"""One member of a trial, as a process: joins its groups, sends its workload, and does what the trial tells it.

Run as `python -m unisono.trials.member`. The first line of its input says who it is, every later one is a command.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from random import Random
from typing import Any

import msgspec

from unisono.engine import ChangeRole, ChangeService
from unisono.errors import GroupError
from unisono.group import Group, join
from unisono.runtime.transports import TransportName
from unisono.settings import FIELDS, Role, Service
from unisono.simulation.application import payload
from unisono.trials.severing import SeverableProcess
from unisono.units import SECOND


class Load(msgspec.Struct):
    """One workload of this member; times are of the monotonic clock."""

    group: str
    rate: float | None
    size: int | tuple[int, int]
    start: int
    stop: int


class Charge(msgspec.Struct):
    """Who this member is and what it does."""

    name: str
    life: int
    seed: int
    realm: str
    interface: str
    port: int
    seeds: list[str]
    trace: str
    storage: str
    groups: list[str]
    settings: dict[str, Any]
    loads: list[Load]
    transport: TransportName = "mesh"
    later: bool = False
    """It joins its groups when it is told to."""


class Command(msgspec.Struct):
    """What the application is to do.

    `join`, `leave`, `send`, `change` (the service), `become` (a sender or receiver), `count_audience`, `load` and
    `sever` (in JSON), `stop`, `read` or `end`.
    """

    do: str
    group: str | None = None
    data: bytes = b""


class Member:
    """The application of a trial's member."""

    def __init__(self, charge: Charge) -> None:
        self._charge = charge
        self._groups: dict[str, Group] = {}
        self._loads = 0
        self._reading = asyncio.Event()
        self._reading.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, commands: asyncio.StreamReader) -> None:
        charge = self._charge
        process = SeverableProcess(
            charge.name,
            realm=charge.realm,
            transport=charge.transport,
            seeds=charge.seeds,
            interface=charge.interface,
            port=charge.port,
            trace=charge.trace,
            storage=charge.storage,
        )
        await process.start()
        for name in () if charge.later else charge.groups:
            await self._join(process, name)
        for load in charge.loads:
            self._begin_load(load)
        print("ready", process.address, flush=True)
        await self._obey(process, commands)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await process.close(leave=False)
        print(msgspec.json.encode(dict(process.counters)).decode(), flush=True)

    async def _join(self, process: SeverableProcess, name: str) -> None:
        settings = {key: FIELDS[key].shown(value) for key, value in self._charge.settings.items() if FIELDS[key].unit}
        group = join(name, process=process, **{**self._charge.settings, **settings})
        await group.open()
        self._groups[name] = group
        self._start(self._read(group))

    async def _read(self, group: Group) -> None:
        """Take what comes, while the application reads."""
        while True:
            await self._reading.wait()
            if not await group.receive_many():
                return

    def _begin_load(self, load: Load) -> None:
        self._start(self._send_load(self._loads, load))
        self._loads += 1

    async def _send_load(self, number: int, load: Load) -> None:
        """Send by the clock, or as fast as `send` allows where there is no rate."""
        charge = self._charge
        random = Random(f"{charge.seed}/load/{number}/{charge.name}/{charge.life}")
        gap = int(SECOND / load.rate) if load.rate else 0
        due = load.start + int(random.random() * gap)
        count = 0
        while due < load.stop:
            now = time.monotonic_ns()
            if due > now:
                await asyncio.sleep((due - now) / SECOND)
            elif now >= load.stop and not gap:
                return
            due += gap
            group = self._groups.get(load.group)
            if group is None:
                await asyncio.sleep(0.1)
                continue
            count += 1
            await self._send(group, payload(random, f"{charge.name}.{charge.life}", count, load.size))

    async def _send(self, group: Group, data: bytes) -> None:
        try:
            await group.send(data)
        except GroupError as error:
            print(f"not sent: {error}", file=sys.stderr)

    async def _obey(self, process: SeverableProcess, commands: asyncio.StreamReader) -> None:
        while line := await commands.readline():
            command = msgspec.json.decode(line, type=Command)
            names = [command.group] if command.group is not None else list(self._groups)
            if command.do == "end":
                return
            if command.do == "stop":
                self._reading.clear()
            elif command.do == "read":
                self._reading.set()
            elif command.do == "join":
                for name in [command.group] if command.group is not None else self._charge.groups:
                    if name not in self._groups:
                        await self._join(process, name)
            elif command.do == "load":
                self._begin_load(msgspec.json.decode(command.data, type=Load))
            elif command.do == "sever":
                process.sever(msgspec.json.decode(command.data, type=list[str]))
            elif command.do == "change":
                for name in names:
                    process.give(ChangeService(name, msgspec.convert(command.data.decode(), Service)))
            elif command.do == "become":
                for name in names:
                    process.give(ChangeRole(name, msgspec.convert(command.data.decode(), Role)))
            elif command.do == "count_audience":
                for name in names:
                    self._groups[name].count_audience()
            elif command.do == "leave":
                for name in names:
                    self._start(self._groups.pop(name).leave())
            else:
                for name in names:
                    self._start(self._send(self._groups[name], command.data))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            print(f"failed: {task.exception()!r}", file=sys.stderr)


async def main() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=1 << 28)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    charge = msgspec.json.decode(await commands.readline(), type=Charge)
    await Member(charge).run(commands)


if __name__ == "__main__":
    asyncio.run(main())
