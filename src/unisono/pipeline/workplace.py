"""A folder in a lake for what is not whole yet: one for each process that builds, gone when it ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from pathlib import Path
from urllib.parse import quote

WORK = ".work"


class Workplace:
    """Removes what killed processes of this machine left; what another machine has here may be work that goes on."""

    def __init__(self, lake: Path) -> None:
        self._around = lake / WORK
        self._here = _machine()
        self._folder = self._around / f"{self._here}~{os.getpid()}~{_started(os.getpid()) or 0}"

    def __enter__(self) -> Path:
        self._clear()
        self._folder.mkdir(parents=True)
        return self._folder

    def __exit__(self, *_: object) -> None:
        self._clear()

    def _clear(self) -> None:
        for folder in list(self._around.glob("*")):
            if folder == self._folder or self._is_left(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # somebody else works in it, or it is gone
            self._around.rmdir()

    def _is_left(self, name: str) -> bool:
        """Whether this is the folder of a process that was seen from here and is no more."""
        machine, _, process = name.partition("~")
        number, _, started = process.partition("~")
        if self._here == UNKNOWN or machine != self._here or not (number.isdecimal() and started.isdecimal()):
            return False
        return _started(int(number)) != int(started)


UNKNOWN = "unknown"


def _machine() -> str:
    """Where the numbers of processes mean the same: a host, since it started, and the processes that it shows."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        processes = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return UNKNOWN
    return f"{quote(socket.gethostname(), safe='').replace('~', '%7E')}_{boot}_{processes}"


def _started(process: int) -> int | None:
    """When a process began, in ticks since the machine did; None where there is none."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text[text.rindex(")") + 2 :].split()[19])
