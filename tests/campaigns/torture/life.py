"""One life of one process, as the driver sees it: what it was told, what was done to it, what it has logged so far."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tests.campaigns.torture.plan import Cast
from tests.campaigns.torture.records import Got, Joined, Record, Sent, Viewed, now, read_log
from tests.network.processes import ROOT


class Part(Struct, frozen=True):
    """Who a process is, as the driver tells it."""

    name: str
    log: str
    seed: str
    options: dict[str, Any]
    """Of `unisono.join`, or of `unisono.Session`."""
    settings: dict[str, Any] = {}
    """Of a session's group."""
    group: str = "g"

    @property
    def in_session(self) -> bool:
        return "servers" in self.options


class Fate(Struct, frozen=True):
    """What was done to one life, and how it ended."""

    name: str
    code: int | None
    stayed: bool
    """Whether it was there from the quiet on."""
    speaks: bool
    """Whether it is one of those who may send."""
    killed: bool
    overdue: bool
    """Whether it had to be killed because it did not end."""
    stops: tuple[tuple[float, float], ...]


class Life:
    """A process that was started, until it is closed."""

    def __init__(self, cast: Cast, part: Part, folder: Path) -> None:
        self.speaks = cast.role != "receiver"
        self.agrees = cast.service != "source"
        self.who = ""
        """The process that it said it is, once it has joined."""
        self.view: tuple[str, ...] = ()
        self.sent = 0
        self.got: dict[str, int] = {}
        self._killed = self._overdue = False
        self._stops: list[tuple[float, float]] = []
        self._stopped_at: float | None = None
        self._log = Path(part.log)
        self._offset = 0
        inherited = {name: value for name, value in os.environ.items() if name != "UNISONO_REALM"}
        environment = {
            **inherited,
            "UNISONO_INTERFACE": "lo",
            "TMPDIR": str(folder / "tmp"),
            "XDG_RUNTIME_DIR": str(folder / "runtime"),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        command = ["-X", "faulthandler", "-W", "always::ResourceWarning", "-m", "tests.campaigns.torture.member"]
        with (folder / f"{cast.key}.err").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, *command, msgspec.json.encode(part).decode()],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
            )

    @property
    def process_number(self) -> int:
        return self._process.pid

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it ended by itself, as its fate tells
            self._process.stdin.write(command.encode() + b"\n")
            self._process.stdin.flush()

    def leave(self, sends: int) -> None:
        """Send so many more, and leave."""
        self.tell(f"leave {sends}")

    def kill(self) -> None:
        self._killed = True
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._stopped_at is None and self._process.poll() is None:
            self._stopped_at = now()
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._stopped_at is not None:
            self._process.send_signal(signal.SIGCONT)
            self._stops.append((self._stopped_at, now()))
            self._stopped_at = None

    def read(self) -> None:
        """Take in what it logged since."""
        if self._log.exists():
            records, self._offset = read_log(self._log, self._offset)
            for record in records:
                self._take(record)

    def wait_ended(self, seconds: float) -> None:
        """Wait until the process has ended; one that does not says where it is, and is ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._overdue = True
            self._process.send_signal(signal.SIGABRT)
            self._process.wait()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def fate(self, stayed: bool) -> Fate:
        """To be asked once the process has ended."""
        code = self._process.poll()
        return Fate(self.who, code, stayed, self.speaks, self._killed, self._overdue, tuple(self._stops))

    def _take(self, record: Record) -> None:
        if isinstance(record, Viewed):
            self.view = record.members
        elif isinstance(record, Got):
            self.got[record.source] = record.number
        elif isinstance(record, Sent):
            self.sent = record.last
        elif isinstance(record, Joined):
            self.who = record.who
