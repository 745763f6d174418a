"""A process as the trial holds it: what the simulator's machines are, made of signals and commands."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from pathlib import Path

import msgspec

from unisono.errors import UnisonoError
from unisono.trials.charge import Charge, Command, Load

READY_SECONDS = 30.0
END_SECONDS = 30.0


class MemberProcess:
    """One member of a trial, or one who serves members, over all its lives."""

    def __init__(self, index: int, charge: Charge, command: list[str], log: Path) -> None:
        self.index = index
        self.name = charge.name
        self.groups: dict[str, bool] = {}
        self.life = 0
        self.address = ""
        self.counters: dict[str, int] = {}
        self._charge = charge
        self._command = [*command, sys.executable, "-m", "unisono.trials"]
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._stops = 0
        self._killed: asyncio.subprocess.Process | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Begin a life and wait until it has joined its groups."""
        self.life += 1
        self.groups = dict.fromkeys(self._charge.groups, True)
        with self._log.open("ab") as log:
            process = self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        charge = msgspec.structs.replace(self._charge, life=self.life)
        self._write(msgspec.json.encode(charge))
        assert process.stdout is not None, "its output is a pipe"
        try:
            line = await asyncio.wait_for(process.stdout.readline(), READY_SECONDS)
        except TimeoutError:
            line = b""
        word, _, self.address = line.decode().strip().partition(" ")
        if word != "ready" and process is not self._killed:
            raise UnisonoError(f"{self.name} did not start: {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """kill -9; it is gone when this returns."""
        assert self._process is not None, "only the living are killed"
        self._process.kill()
        self._killed = self._process
        self._stops = 0

    async def gone(self) -> None:
        assert self._process is not None, "it was started"
        await self._process.wait()

    def forget_disk(self) -> None:
        shutil.rmtree(self._charge.storage, ignore_errors=True)

    async def end(self) -> None:
        """The run is over: it ends by itself, with its last row."""
        process = self._process
        if process is None or process is self._killed:
            return
        self.command("end")
        self._signal(signal.SIGCONT)
        try:
            output, _ = await asyncio.wait_for(process.communicate(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise UnisonoError(f"{self.name} did not end: {self._log.read_text()[-2000:]}") from None
        if process.returncode:
            raise UnisonoError(f"{self.name} ended with {process.returncode}: {self._log.read_text()[-2000:]}")
        lines = output.splitlines()
        self.counters = msgspec.json.decode(lines[-1], type=dict[str, int]) if lines else {}

    def command(self, do: str, group: str | None = None, data: bytes = b"") -> None:
        if self.alive:
            self._write(msgspec.json.encode(Command(do, group, data)))

    def join(self, group: str | None) -> None:
        """Join, in this life and in later ones."""
        self._charge.later = False
        self.command("join", group)

    def load(self, loads: list[Load]) -> None:
        """Give it its workloads, in this life and in later ones."""
        self._charge.loads = loads
        for load in loads:
            self.command("load", data=msgspec.json.encode(load))

    # What faults do to a machine, done to a process.

    @property
    def paused(self) -> int:
        return self._stops

    @paused.setter
    def paused(self, stops: int) -> None:
        if stops and not self._stops:
            self._signal(signal.SIGSTOP)
        self._stops = stops

    def resume(self) -> None:
        self._stops = max(0, self._stops - 1)
        if not self._stops:
            self._signal(signal.SIGCONT)

    @property
    def reading(self) -> bool:
        raise AttributeError("a trial does not ask whether its member reads")

    @reading.setter
    def reading(self, reads: bool) -> None:
        self.command("read" if reads else "stop")

    def read_again(self) -> None:
        self.reading = True

    @property
    def answering(self) -> bool:
        raise AttributeError("a trial does not ask whether its member answers")

    @answering.setter
    def answering(self, answers: bool) -> None:
        self.command("answer" if answers else "mute")

    def answer_blocks(self) -> None:
        """It does so when it is told that it answers again."""

    def send(self, group: str, ticket: int, messages: tuple[bytes, ...]) -> None:
        for data in messages:
            self.command("send", group, data)

    def _signal(self, number: signal.Signals) -> None:
        if self.alive and self._process is not None:
            self._process.send_signal(number)

    def _write(self, line: bytes) -> None:
        assert self._process is not None, "only a process that was started is told something"
        assert self._process.stdin is not None, "its input is a pipe"
        self._process.stdin.write(line + b"\n")
