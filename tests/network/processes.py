"""Members in processes of their own, as a test sees them: what they said so far, and waiting for what they will say."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from unisono.properties.registry import MonitorSuite, Violation
from unisono.trace.schema import AnyRow
from unisono.trace.spool import read_spool

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
"""How long a test waits for what should come soon."""


class Talker:
    """A subprocess that is spoken to in lines."""

    def __init__(self, name: str, command: Sequence[str], before: Sequence[str] = ()) -> None:
        self.name = name
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            [*before, sys.executable, *command],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, condition: Callable[[list[str]], bool], what: str) -> None:
        """Wait until what was said so far meets the condition."""
        with self._news:
            met = self._news.wait_for(lambda: condition(self.lines), PATIENCE_SECONDS)
        assert met, f"{self.name} never said {what}; it said:\n" + "\n".join(self.lines[-40:])

    def wait_line(self, line: str) -> None:
        self.wait(lambda lines: line in lines, line)

    def got(self, source: str) -> list[str]:
        """The texts of one source, in order."""
        prefix = f"got {source} "
        return [line[len(prefix) :] for line in self.lines if line.startswith(prefix)]

    def finish(self) -> int:
        """Let it end by itself."""
        self.tell("quit")
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self._reader.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()


@contextmanager
def members(names: Sequence[str], **options: Any) -> Iterator[list[Talker]]:
    """Members of the group `g`, each following all of them."""
    talkers = [
        Talker(name, ["-m", "tests.network.member", json.dumps({"group": "g", "name": name, **options})])
        for name in names
    ]
    try:
        for talker in talkers:
            talker.wait_line("view " + " ".join(sorted(names)))
        yield talkers
    finally:
        for talker in talkers:
            talker.close()


def everybody_hears_everybody(talkers: Sequence[Talker], more: int = 40) -> None:
    """Wait until each has so many more messages of each than now: nobody waits for somebody else."""
    wanted = [{one.name: len(talker.got(one.name)) + more for one in talkers} for talker in talkers]
    for talker, counts in zip(talkers, wanted, strict=True):
        for name, count in counts.items():
            talker.wait(partial(_has_heard, name, count), f"{count} of {name}")


def _has_heard(source: str, count: int, lines: list[str]) -> bool:
    return sum(line.startswith(f"got {source} ") for line in lines) >= count


def finish_load(talkers: Sequence[Talker]) -> None:
    """Let members that send by `load` stop that, and end by themselves."""
    for talker in talkers:
        talker.tell("halt")
    for talker in talkers:
        talker.wait(lambda lines: lines.count("done") == 2, "that it halted")
    assert [talker.finish() for talker in talkers] == [0] * len(talkers)


def until(condition: Callable[[], bool], what: str) -> None:
    """Poll for something that no line announces."""
    end = monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while not condition():
        assert monotonic() < end, f"never happened: {what}"
        pause.wait(0.01)


def read_spools(directory: Path) -> dict[str, list[AnyRow]]:
    """The rows of every process, by its name."""
    return {path.name.partition("~")[0]: list(read_spool(path)) for path in sorted(directory.glob("*.spool"))}


def judge(spools: dict[str, list[AnyRow]]) -> list[Violation]:
    """What the monitors say of the rows of all processes, merged by time."""
    suite = MonitorSuite()
    rows = [row for spool in spools.values() for row in spool]
    for row in sorted(rows, key=lambda row: (row.at, row.process, row.position)):
        suite.observe(row)
    suite.finish()
    return suite.violations
