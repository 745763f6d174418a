"""How much of what happens in a process is traced, and where it goes: as the caller says, or the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, cast, get_args

from msgspec import Struct

from unisono.errors import SettingError
from unisono.runtime.tracing import Tracer
from unisono.spelling import split_endpoint
from unisono.trace.reports import why_bad_run

COLLECTOR_VARIABLE = "UNISONO_COLLECTOR"
STATISTICS_VARIABLE = "UNISONO_STATISTICS"
RUN_VARIABLE = "UNISONO_RUN"
Level = Literal["off", "events", "all"]
"""How much of what happens becomes trace rows."""


class TraceOptions(Struct, frozen=True):
    """A trace that is wanted."""

    directory: Path | None
    collector: str | None
    run: str
    messages: bool

    def open(self, name: str) -> Tracer:
        return Tracer(self.directory, name, self.run, messages=self.messages, collector=self.collector)


def trace_options(
    trace: str | os.PathLike[str] | None,
    statistics: Level | None,
    collector: str | None,
    run: str | None,
    realm: str,
) -> TraceOptions | None:
    """What is wanted; None where no trace is."""
    directory = None if trace is None else Path(trace)
    collector = collector if collector is not None else os.environ.get(COLLECTOR_VARIABLE) or None
    if collector is not None:
        split_endpoint(collector)
    level = _level(statistics, directory, collector)
    if level == "off":
        return None
    return TraceOptions(directory, collector, _run_name(run, directory, realm), level == "all")


def _level(statistics: Level | None, trace: Path | None, collector: str | None) -> Level:
    """How much is traced."""
    chosen: Any = statistics if statistics is not None else os.environ.get(STATISTICS_VARIABLE) or None
    if chosen is None:
        return "all" if trace is not None else "events" if collector is not None else "off"
    if chosen not in get_args(Level):
        raise SettingError("statistics", f"expected one of {', '.join(get_args(Level))}, got {chosen!r}")
    if statistics not in (None, "off") and trace is None and collector is None:
        raise SettingError("statistics", "say where they go: trace=DIRECTORY, or collector=HOST:PORT")
    return "off" if trace is None and collector is None else cast(Level, chosen)


def _run_name(run: str | None, trace: Path | None, realm: str) -> str:
    """What the trace is called: as said, by the environment, after its directory, or after the realm."""
    name = run if run is not None else os.environ.get(RUN_VARIABLE) or None
    if name is None:
        name = realm or "run" if trace is None else trace.resolve().name or "run"
    if (complaint := why_bad_run(name)) is not None:
        raise SettingError("run", complaint)
    return name
