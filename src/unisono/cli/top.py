"""`unisono top`: what the members of a group are and do, again and again, from outside."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from unisono.cli.picture_report import advice, as_json, console, show
from unisono.cli.probe import (
    NOBODY,
    GroupArgument,
    InterfaceOption,
    RealmOption,
    SeedOption,
    TransportOption,
    read_duration,
)
from unisono.cli.signals import on_end_signal
from unisono.probing.picture import Picture, Watch
from unisono.runtime.loops import run
from unisono.runtime.prober import Prober
from unisono.units import SECOND

Show = Callable[[Picture], None]


def top(
    group: GroupArgument,
    realm: RealmOption = None,
    transport: TransportOption = "multicast",
    seeds: SeedOption = None,
    interface: InterfaceOption = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="How often the group is asked.")] = "1s",
    wait: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long answers are gathered; by default half of --every, or 1s."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many refreshes.")] = None,
    as_json_lines: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, every refresh.")] = False,
) -> None:
    """Watch the members of a group: views, roles, traffic a second, buffers, suspicions.

    It does not join the group, and nobody in it waits for it or counts it. q or Ctrl-C ends it. Exits with 0 when
    somebody has answered, with 1 when nobody did. `unisono probe` asks once.

    \b
    Examples:
      unisono top lobby
      unisono top lobby --realm lab --every 5s
      unisono top lobby --json --count 10
    """
    interval = read_duration("every", every)
    prober = Prober(
        group,
        realm=realm,
        transport=transport,
        seeds=tuple(seeds or ()),
        interface=interface,
        wait=min(interval // 2, SECOND) if wait is None else read_duration("wait", wait),
        every=interval,
    )
    hint = advice(group, prober.realm, transport, prober.wait)
    answered = run(_watch(prober, as_json_lines, hint, count))
    raise typer.Exit(0 if answered else NOBODY)


async def _watch(prober: Prober, as_json_lines: bool, hint: str, count: int | None) -> bool:
    """Show round after round until it is ended; whether anybody ever answered."""
    watch, answered, left = Watch(), False, count
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    async with prober:
        with ExitStack() as stack:
            stack.enter_context(on_end_signal(ended.set))
            present = _presentation(stack, prober, as_json_lines, hint)
            if not as_json_lines and sys.stdin.isatty():
                stack.enter_context(_keys(loop, ended))
            while left != 0 and not ended.is_set():
                told = asyncio.ensure_future(prober.round())
                stop = asyncio.ensure_future(ended.wait())
                await asyncio.wait({told, stop}, return_when=asyncio.FIRST_COMPLETED)
                stop.cancel()
                if not told.done():
                    told.cancel()
                    break
                picture = watch.look(told.result())
                present(picture)
                answered = answered or bool(picture.lines)
                left = None if left is None else left - 1
    if not answered:
        typer.echo(f"unisono: {hint}", err=True)
    return answered


def _presentation(stack: ExitStack, prober: Prober, as_json_lines: bool, hint: str) -> Show:
    """How a picture is shown: a line, a screen that changes, or one table after another where there is no screen."""
    if as_json_lines:
        return lambda picture: _echo_line(picture, prober)
    screen = console()
    if not screen.is_terminal:
        return lambda picture: _print(screen, picture, prober)
    live = stack.enter_context(Live(Text(f"asking {prober.group}"), console=screen, screen=True, auto_refresh=False))
    return lambda picture: live.update(
        show(picture, prober.group, prober.realm) if picture.lines or picture.absent else Text(hint), refresh=True
    )


def _echo_line(picture: Picture, prober: Prober) -> None:
    typer.echo(json.dumps(as_json(picture, prober.group, prober.realm), ensure_ascii=False))
    sys.stdout.flush()


def _print(screen: Console, picture: Picture, prober: Prober) -> None:
    screen.print(show(picture, prober.group, prober.realm))
    sys.stdout.flush()


@contextmanager
def _keys(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> Iterator[None]:
    """Let q end it without Enter, while this lasts."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def read() -> None:
        typed = os.read(keyboard, 1024)
        if not typed or b"q" in typed.lower():
            ended.set()

    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, read)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
