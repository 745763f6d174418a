"""The application of a trial's member, of any protocol: takes events, sends its workload, does what it is told."""

from __future__ import annotations

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable
from random import Random
from typing import Any, Generic, TypeVar

import msgspec

from unisono.errors import GroupError
from unisono.events import Event
from unisono.group import Group
from unisono.runtime.process import Process
from unisono.session_group import SessionGroup
from unisono.simulation.application import payload
from unisono.trials.charge import Charge, Command, Load
from unisono.units import SECOND

Joined = TypeVar("Joined", bound=Group | SessionGroup)


class Application(ABC, Generic[Joined]):
    """One life of a member."""

    def __init__(self, charge: Charge, process: Process) -> None:
        self._charge = charge
        self._process = process
        self._groups: dict[str, Joined] = {}
        self._joining: dict[str, asyncio.Task[object]] = {}
        self._loads = 0
        self._reading = asyncio.Event()
        self._reading.set()
        self._tasks: set[asyncio.Task[object]] = set()
        self._failure: BaseException | None = None

    async def run(self, commands: asyncio.StreamReader) -> None:
        """A first life is ready when it has joined; a later one may find nobody for a while."""
        charge = self._charge
        await self._open()
        for name in () if charge.later else charge.groups:
            self._join(name)
        if charge.life == 1:
            await asyncio.gather(*self._joining.values())
        for load in charge.loads:
            self._begin_load(load)
        print("ready", self._process.address, flush=True)
        await self._obey(commands)
        await end(self._process)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    # What protocols differ in.

    async def _open(self) -> None:
        await self._process.start()

    @abstractmethod
    def _group(self, name: str) -> Joined:
        """A group, to be opened."""

    def _on_event(self, group: Joined, event: Event) -> None:
        """The application has taken an event."""

    @abstractmethod
    def _do(self, command: Command, names: Iterable[str]) -> None:
        """Carry out a command that only this protocol has, in these groups."""

    # What all do.

    def _join(self, name: str) -> None:
        if name not in self._groups and name not in self._joining:
            self._joining[name] = self._start(self._enter(name))

    async def _enter(self, name: str) -> None:
        group = self._group(name)
        try:
            await group.open()
        except GroupError as error:
            print(f"not joined: {error}", file=sys.stderr)
            return
        finally:
            if self._joining.get(name) is asyncio.current_task():
                del self._joining[name]
        self._groups[name] = group
        self._start(self._read(group))

    def _leave(self, name: str) -> None:
        if name in self._joining:
            self._joining.pop(name).cancel()
        elif name in self._groups:
            self._start(self._groups.pop(name).leave())

    async def _read(self, group: Joined) -> None:
        """Take what comes, while the application reads, until the group is over."""
        while True:
            await self._reading.wait()
            events = await group.receive_many()
            for event in events:
                self._on_event(group, event)
            if not events:
                break
        if self._groups.get(group.name) is group:
            del self._groups[group.name]

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

    async def _send(self, group: Joined, data: bytes) -> None:
        try:
            await group.send(data)
        except GroupError as error:
            print(f"not sent: {error}", file=sys.stderr)

    async def _obey(self, commands: asyncio.StreamReader) -> None:
        while line := await commands.readline():
            command = msgspec.json.decode(line, type=Command)
            names = [name for name in self._groups if command.group in (None, name)]
            if command.do == "end":
                return
            if command.do == "stop":
                self._reading.clear()
            elif command.do == "read":
                self._reading.set()
            elif command.do == "join":
                for name in [command.group] if command.group is not None else self._charge.groups:
                    self._join(name)
            elif command.do == "leave":
                for name in [*names, *(name for name in self._joining if command.group in (None, name))]:
                    self._leave(name)
            elif command.do == "load":
                self._begin_load(msgspec.json.decode(command.data, type=Load))
            elif command.do == "send":
                for name in names:
                    self._start(self._send(self._groups[name], command.data))
            else:
                self._do(command, names)

    def _start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()


async def end(process: Process) -> None:
    """The end of a process in a trial: nobody is told, the trace has its last row, and the trial what was counted."""
    await process.close(leave=False)
    if process.failure is not None:
        raise process.failure
    print(msgspec.json.encode(dict(process.counters)).decode(), flush=True)
