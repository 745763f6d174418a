"""`unisono collect`: a daemon that takes the traces of many processes over TCP, and loses none that it acknowledged."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status

from unisono.cli.signals import on_end_signal
from unisono.errors import SettingError
from unisono.runtime.collecting.daemon import Collecting, CollectorOptions
from unisono.runtime.collecting.runs import GONE_SECONDS, SETTLE_SECONDS
from unisono.runtime.loops import run
from unisono.spelling import split_endpoint
from unisono.units import SECOND, parse_duration, parse_size

LISTEN = "127.0.0.1:7464"
STATUS_SECONDS = 5.0


def collect(
    data: Annotated[
        Path, typer.Option("--data", help="The directory for the log and the runs; a restart goes on in it.")
    ],
    listen: Annotated[
        str, typer.Option("--listen", help="Where processes report to, and readers of the log ask; port 0 takes any.")
    ] = LISTEN,
    retain: Annotated[
        str | None, typer.Option("--retain", help="How much of the log to keep, such as 2GiB; by default all of it.")
    ] = None,
    gone: Annotated[
        str, typer.Option("--gone", help="A process that is silent and not connected for so long is taken for gone.")
    ] = f"{GONE_SECONDS:.0f}s",
    settle: Annotated[
        str, typer.Option("--settle", help="A run is complete so long after the last of its processes has ended.")
    ] = f"{SETTLE_SECONDS:.0f}s",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, for every event.")] = False,
) -> None:
    """Collect the traces of many processes: each report is on disk before it is acknowledged, and stored once.

    Processes report to it with collector="host:port", or $UNISONO_COLLECTOR. DIR/log keeps the reports, addressed by
    offset, for readers over the same port. DIR/runs has a run directory for each run, there when all of its processes
    have ended or are gone; `unisono audit` reads it. Stays in the foreground; Ctrl-C or SIGTERM ends it with exit
    code 0, and kill -9 costs nothing that was acknowledged.

    \b
    Examples:
      unisono collect --data traces
      unisono collect --data traces --listen 0.0.0.0:7464 --retain 2GiB --json
      UNISONO_COLLECTOR=127.0.0.1:7464 UNISONO_STATISTICS=all unisono chat lobby
    """
    host, port = split_endpoint(listen, least_port=0)
    options = CollectorOptions(
        data=data,
        host=host,
        port=port,
        retain_bytes=None if retain is None else _positive("--retain", retain, parse_size),
        settle_seconds=_positive("--settle", settle, parse_duration) / SECOND,
        gone_seconds=_positive("--gone", gone, parse_duration) / SECOND,
    )
    run(_serve(options, as_json))


def _positive(name: str, text: str, parse: Any) -> int:
    try:
        value: int = parse(text)
    except ValueError as error:
        raise SettingError(name, str(error)) from None
    if value <= 0:
        raise SettingError(name, f"expected more than nothing, got {text!r}")
    return value


async def _serve(options: CollectorOptions, as_json: bool) -> None:
    stop = asyncio.Event()
    show = _JsonLines() if as_json else _Lines()
    with on_end_signal(stop.set):
        collecting = Collecting(options, show.tell)
        showing = asyncio.ensure_future(_show_status(collecting, show))
        try:
            await collecting.run(stop)
        finally:
            showing.cancel()
            show.end()


async def _show_status(collecting: Collecting, show: _Lines | _JsonLines) -> None:
    shown: dict[str, Any] = {}
    while True:
        await asyncio.sleep(show.pause_seconds)
        facts = collecting.facts()
        if facts != shown:
            show.status(facts)
            shown = facts


class _JsonLines:
    """Every event as an object."""

    pause_seconds = STATUS_SECONDS

    def tell(self, event: str, facts: dict[str, Any]) -> None:
        typer.echo(json.dumps({"event": event, **facts}))

    def status(self, facts: dict[str, Any]) -> None:
        self.tell("status", facts)

    def end(self) -> None:
        pass


class _Lines:
    """A line for every event, and on a terminal one that changes."""

    def __init__(self) -> None:
        self._status: Status | None = Console(stderr=True).status("starting") if sys.stderr.isatty() else None
        self.pause_seconds = 0.5 if self._status is not None else STATUS_SECONDS
        if self._status is not None:
            self._status.start()

    def tell(self, event: str, facts: dict[str, Any]) -> None:
        if event == "listening":
            typer.echo(f"listens on {facts['address']}, keeps everything in {facts['data']}")
        elif event == "run complete":
            typer.echo(f"run {facts['run']} is complete: {facts['rows']} rows in {facts['path']}")
        else:
            typer.echo(_in_words(facts))

    def status(self, facts: dict[str, Any]) -> None:
        if self._status is not None:
            self._status.update(_in_words(facts))
        else:
            typer.echo(_in_words(facts), err=True)

    def end(self) -> None:
        if self._status is not None:
            self._status.stop()


def _in_words(facts: dict[str, Any]) -> str:
    refused = sum(facts["refused"].values())
    return (
        f"{facts['connections']} connected, {facts['reports']} reports stored"
        + (f", {facts['duplicates']} came twice" if facts["duplicates"] else "")
        + (f", {refused} refused" if refused else "")
        + f"; the log has offsets {facts['log']['begin']} to {facts['log']['end']}, "
        + ("1 run goes on" if len(facts["open"]) == 1 else f"{len(facts['open'])} runs go on")
    )
