"""The trace of a real process: rows go to a spool before anything that the same calls send leaves the process.

So nothing is ever delivered that no trace sent, whenever a process is killed. The spool is made when the process knows
its incarnation and named after it; a clean end writes its own row.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from platform import node
from urllib.parse import quote

from xxhash import xxh3_64_hexdigest

from unisono.engine import Deliver, Record
from unisono.errors import TraceError
from unisono.trace.recorder import Recorder
from unisono.trace.schema import AnyRow, MembershipRow
from unisono.trace.spool import SpoolWriter

SUFFIX = ".spool"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Tracer:
    """Collects the rows of a turn and writes them with one append."""

    __slots__ = ("_directory", "_name", "_recorder", "_rows", "_run", "_spool")

    def __init__(self, directory: Path, name: str, run: str | None = None) -> None:
        self._directory = directory
        self._name = name
        self._run = run or directory.resolve().name
        self._recorder = Recorder(self._run, name, host_mark())
        self._spool: SpoolWriter | None = None
        self._rows: list[AnyRow] = []

    def observe(self, effect: Record | Deliver, at: int) -> None:
        """Make the rows of an effect."""
        self._rows.extend(self._recorder.rows(effect, at, None))

    def flush(self) -> None:
        """Hand what was collected to the system, where it survives the death of this process."""
        if not self._rows:
            return
        if self._spool is None:
            if not self._recorder.incarnation:
                return
            try:
                self._directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise TraceError(f"cannot write the trace to {self._directory}: {error.strerror}") from error
            name = f"{quote(self._name, safe='')}~{self._recorder.incarnation:x}{SUFFIX}"
            self._spool = SpoolWriter(self._directory / name, self._run)
        self._spool.write(self._rows)
        self._rows.clear()

    def close(self, at: int, ended: bool) -> None:
        """A clean end has its row; without one the process is taken for crashed."""
        if ended and self._recorder.incarnation:
            self._rows.append(self._recorder.stamp(MembershipRow(kind="END"), at, None))
            self.flush()
        if self._spool is not None:
            self._spool.close()
            self._spool = None


@cache
def host_mark() -> str:
    """What stands for this machine in a trace: equal where monotonic clocks compare, and no name."""
    try:
        mark = _BOOT.read_text(encoding="ascii")
    except OSError:
        mark = node()
    return xxh3_64_hexdigest(mark.encode())[:12]
