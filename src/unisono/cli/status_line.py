"""How far long work is: a line that changes on a terminal, else one from time to time; always on stderr."""

from __future__ import annotations

import sys
from time import monotonic
from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.status import Status

_SECONDS_BETWEEN_LINES = 10.0


class StatusLine:
    """Shows the last line that it was told, from `with` to its end."""

    def __init__(self, first: str) -> None:
        self._last_line = monotonic()
        self._status: Status | None = Console(stderr=True).status(first) if sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def update(self, line: str, news: bool = False) -> None:
        """Show a line; without a terminal only if it is news, or none was shown for a while."""
        if self._status is not None:
            self._status.update(line)
        elif news or monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = monotonic()
            typer.echo(line, err=True)
