"""How far a run in real time is: a line that changes on a terminal, else one for each phase; always on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.status import Status


class Phases:
    """Shows the phase that a run is in, and how much of its time is over."""

    def __init__(self) -> None:
        self._phase = ""
        self._status: Status | None = Console(stderr=True).status("starting") if sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, part: float, phase: str) -> None:
        if self._status is not None:
            self._status.update(f"{part:4.0%} {phase}")
        elif phase != self._phase:
            typer.echo(phase, err=True)
        self._phase = phase
