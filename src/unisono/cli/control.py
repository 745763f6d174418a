"""`unisono control`: one process that speaks for its site, so that no application process has to."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from unisono.cli.signals import on_end_signal
from unisono.errors import NetworkError, UnisonoError
from unisono.events import SiteChanged
from unisono.runtime.loops import run
from unisono.runtime.process import Process
from unisono.settings import Settings

_PATIENCE_SECONDS = 2 * Settings().site_timeout / 1e9
"""Without a word by then, who has the site does not answer."""


def control(
    realm: Annotated[
        str | None, typer.Option(help="Only those of the same realm meet; by default $UNISONO_REALM.")
    ] = None,
    interface: Annotated[
        str | None, typer.Option(help="A network interface or address; by default $UNISONO_INTERFACE.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, for every change.")] = False,
) -> None:
    """Host the site of this machine: the processes here find it by themselves and let it speak for them.

    Without it the first of them does that, and another when that one ends. A site is what one user runs in one realm
    on one machine. Stays in the foreground and says how many are connected; Ctrl-C or SIGTERM ends it, and one of
    the processes takes over. Exits with 0 then, and with 2 when another daemon hosts the site.

    \b
    Examples:
      unisono control
      unisono control --realm lab --json
    """
    run(_serve(Process(realm=realm, interface=interface, daemon=True), as_json))


async def _serve(process: Process, as_json: bool) -> None:
    changes: asyncio.Queue[SiteChanged | UnisonoError | None] = asyncio.Queue()
    process.watch_site(changes.put_nowait)
    with on_end_signal(lambda: changes.put_nowait(None)):
        async with process:
            silence = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, _say_waiting)
            try:
                while (change := await changes.get()) is not None:
                    silence.cancel()
                    if isinstance(change, UnisonoError):
                        raise change
                    _show(change, process.realm, as_json)
            finally:
                silence.cancel()


def _show(change: SiteChanged, realm: str, as_json: bool) -> None:
    if change.host is not None and not change.hosting:
        raise NetworkError(
            f"a control daemon, {change.host.name}, hosts this site already; end it first, or choose another --realm"
        )
    count = len(change.guests)
    if as_json:
        names = [guest.name for guest in change.guests]
        typer.echo(json.dumps({"realm": realm, "hosting": change.hosting, "connected": count, "processes": names}))
    elif change.hosting:
        typer.echo(f"hosts the site in realm {realm!r}: {count} process{'' if count == 1 else 'es'} connected")


def _say_waiting() -> None:
    typer.echo("unisono: another process has this site and does not answer; still trying", err=True)
