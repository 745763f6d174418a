"""A standalone Spark cluster of two small workers on this machine, whose Python knows nothing of this checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from unisono.pipeline.spark.java import java_home

START_SECONDS = 120.0
WORKERS = 2
THERE = ("pyarrow", "numpy")
"""What is installed on the workers; everything else has to be sent."""


class Standalone:
    """A master and its workers, up to the end of the block."""

    def __init__(self, folder: Path, memory: str = "1g") -> None:
        self.folder = folder
        self.python = _bare_python(folder)
        self._memory = memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []
        self.master = ""

    def __enter__(self) -> Self:
        try:
            log = self._start("master", "master.Master", "--port", "0")
            self.master = self._await(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
            for number in range(WORKERS):
                where = str(self.folder / f"work-{number}")
                self._start(
                    f"worker-{number}", "worker.Worker", "-c", "1", "-m", self._memory, "-d", where, self.master
                )
            for number in range(WORKERS):
                self._await(self.folder / f"worker-{number}.log", "(Successfully registered)")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _start(self, name: str, role: str, *arguments: str) -> Path:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PY", "VIRTUAL"))},
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PATH": os.defpath,
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        path = self.folder / f"{name}.log"
        log = path.open("wb")
        self._logs.append(log)
        here = [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        self._processes.append(
            subprocess.Popen(here, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)
        )
        return path

    def _await(self, log: Path, pattern: str) -> str:
        """What the log says, once it does."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            text = log.read_text(encoding="utf-8", errors="replace")
            if (match := re.search(pattern, text)) is not None:
                return match[1]
            assert all(process.poll() is None for process in self._processes), text
            time.sleep(0.05)
        raise TimeoutError(f"{log.name} never said {pattern}")

    def _end(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for log in self._logs:
            log.close()


def _bare_python(folder: Path) -> Path:
    """This Python without its packages but for a few: neither unisono nor what it needs is there."""
    packages = folder / "packages"
    packages.mkdir(parents=True)
    for name in THERE:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        (packages / name).symlink_to(home)
        libraries = home.with_name(f"{name}.libs")
        if libraries.exists():
            (packages / libraries.name).symlink_to(libraries)
    program = folder / "python"
    path = f'PYTHONPATH="$PYTHONPATH:{packages}"'
    program.write_text(f'#!/bin/sh\n{path} exec "{sys.executable}" -S "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    return program
