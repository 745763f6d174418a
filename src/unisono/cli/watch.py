"""`unisono watch`: what a collector takes in, measured and held to the properties while it happens."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from unisono.cli.audit import INTERRUPTED, AuditEngine
from unisono.cli.picture_report import console
from unisono.cli.watch_report import show_watch
from unisono.errors import LogError, SettingError
from unisono.pipeline.live.picture import Picture
from unisono.runtime.tracing import host_mark
from unisono.trace.log.client import LogClient
from unisono.trace.parquet import parquet_is_there
from unisono.units import SECOND, parse_duration

REFRESH_SECONDS = 1.0
"""What is shown changes with every batch, and at least this often."""
FIRST_ANSWER_SECONDS = 5.0


class Query(Protocol):
    """What reads the log, in a thread or a process of its own."""

    @property
    def offset(self) -> int | None: ...

    def check(self) -> None: ...

    def stop(self) -> None: ...


def watch(
    collector: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the collector is.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep tables and checkpoint here, and go on from there if it exists."),
    ] = None,
    engine: Annotated[AuditEngine, typer.Option(help="Who checks: Spark, or the monitors in this process.")] = (
        AuditEngine.SPARK
    ),
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="The Spark to use; by default one on this machine.")
    ] = None,
    for_time: Annotated[str | None, typer.Option("--for", metavar="TIME", help="End after this time.")] = None,
    until_violation: Annotated[bool, typer.Option("--until-violation", help="End with the first violation.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, every update.")] = False,
) -> None:
    """Watch the processes that report to a collector: rates, latencies, views, and whether the properties hold.

    A violation is shown moments after it happened. What cannot be told because a process is silent is unknown, never a
    violation. Ctrl-C ends it. Exits with 1 when something was violated, with 0 when nothing was.

    \b
    Examples:
      unisono watch 127.0.0.1:7464
      unisono watch 127.0.0.1:7464 --data watched --for 10min
      unisono watch 127.0.0.1:7464 --json --until-violation
      unisono watch 127.0.0.1:7464 --engine monitor
    """
    if master is not None and engine is not AuditEngine.SPARK:
        raise typer.BadParameter("only Spark has a master", param_hint="--master")
    if master is not None and not master.startswith("local") and data is None:
        raise typer.BadParameter(
            "on a cluster the checkpoint needs a directory that all see: --data", param_hint="--master"
        )
    seconds = None if for_time is None else _seconds(for_time)
    if not parquet_is_there():
        raise SettingError("watch", "live tables need pyarrow; install it with: pip install 'unisono[lab]'")
    with LogClient(collector, FIRST_ANSWER_SECONDS) as log:
        log.bounds()
    with ExitStack() as stack:
        folder = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="unisono-watch-")))
        picture = Picture(host_mark())
        picture.restore(folder / "tables")
        ended = threading.Event()
        stack.enter_context(_signals(ended))
        present = _presentation(stack, collector, as_json)
        query = _query(stack, engine, master, collector, folder, picture)
        stack.enter_context(_signals(ended))  # Spark has taken them to itself meanwhile
        _look(picture, query, collector, present, ended, seconds, until_violation)
    violated = picture.violated
    if ended.is_set() and seconds is not None and not violated:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(1 if violated else 0)


def _look(
    picture: Picture,
    query: Query,
    collector: str,
    present: Any,
    ended: threading.Event,
    seconds: float | None,
    until_violation: bool,
) -> None:
    """Show the picture until it is time to end."""
    end = None if seconds is None else time.monotonic() + seconds
    with LogClient(collector, REFRESH_SECONDS) as log:
        while not ended.is_set():
            left = REFRESH_SECONDS if end is None else min(REFRESH_SECONDS, end - time.monotonic())
            if left <= 0 or (until_violation and picture.violated):
                break
            picture.changed.wait(left)
            picture.changed.clear()
            query.check()
            present(picture.as_json(_behind(log, query)))
        present(picture.as_json(_behind(log, query)))


def _behind(log: LogClient, query: Query) -> int | None:
    """How many reports were taken in that the query has not read; None where that is not known."""
    offset = query.offset
    if offset is None:
        return None
    try:
        return max(0, log.bounds()[1] - offset)
    except LogError:
        return None


def _query(
    stack: ExitStack, engine: AuditEngine, master: str | None, collector: str, folder: Path, picture: Picture
) -> Query:
    query: Query
    if engine is AuditEngine.MONITOR:
        from unisono.pipeline.live.plain import PlainQuery

        query = PlainQuery(collector, folder, picture.take, host_mark())
    else:
        from unisono.pipeline.spark.session import is_on_this_machine, running

        typer.echo("starting Spark", err=True)
        # Every batch is small, whatever the stream: the profile for little data is quicker from the first one on.
        session = stack.enter_context(running("test" if is_on_this_machine(master) else "cluster", master))
        from unisono.pipeline.live.query import LiveQuery

        query = LiveQuery(session, collector, folder, picture.take, host_mark())
    stack.callback(query.stop)
    return query


def _presentation(stack: ExitStack, collector: str, as_json: bool) -> Any:
    """How a picture is shown: a line, a screen that changes, or one table after another where there is no screen."""
    if as_json:
        return _echo_line
    screen = console()
    if not screen.is_terminal:
        return lambda found: _print(screen, found, collector)
    live = stack.enter_context(
        Live(Text(f"waiting for reports at {collector}"), console=screen, screen=True, auto_refresh=False)
    )
    return lambda found: live.update(show_watch(found, collector), refresh=True)


def _echo_line(found: dict[str, Any]) -> None:
    typer.echo(json.dumps(found, ensure_ascii=False))
    sys.stdout.flush()


def _print(screen: Console, found: dict[str, Any], collector: str) -> None:
    screen.print(show_watch(found, collector))
    sys.stdout.flush()


@contextmanager
def _signals(ended: threading.Event) -> Iterator[None]:
    """Note when somebody asks for the end; the signals are as before afterwards."""
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _seconds(text: str) -> float:
    """A time with its unit, or a number of seconds."""
    try:
        return float(text) if text.replace(".", "", 1).isdecimal() else parse_duration(text) / SECOND
    except ValueError as error:
        raise SettingError("for", str(error)) from None
