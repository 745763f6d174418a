"""What the commands that serve sessions share: their options, and running until they are ended."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from unisono.cli.signals import on_end_signal
from unisono.errors import UnisonoError
from unisono.events import ServerChanged
from unisono.serving import Service, Status

ListenOption = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Where clients come to: an address of this machine; port 0 takes any.")
]
NameOption = Annotated[str | None, typer.Option(help="Its name; by default made of where it listens.")]
RealmOption = Annotated[str | None, typer.Option(help="Only those of the same realm meet; by default $UNISONO_REALM.")]
TraceOption = Annotated[Path | None, typer.Option(metavar="DIR", help="A directory for its trace.")]
CollectorOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A collector for its trace; by default $UNISONO_COLLECTOR."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object a line, for every change.")]


REPORT_SECONDS = 0.5
"""So often it is looked whether somebody came or went."""


async def serve(service: Service, what: str, as_json: bool, servers: Sequence[str] = ()) -> None:
    """Say where it is and what happens, until a signal comes; raises what ends it before.

    `servers` are those that it looks for, if any.
    """
    changes: asyncio.Queue[ServerChanged | UnisonoError | None] = asyncio.Queue()
    service.process.watch_server(changes.put_nowait)
    say = _say_json if as_json else _say_words
    with on_end_signal(lambda: changes.put_nowait(None)):
        async with service:
            say({"event": "started", "what": what, "name": service.process.name, "address": service.address})
            if servers:
                say({"event": "looking", "servers": list(servers)})
            reporting = asyncio.create_task(_report(service, say))
            try:
                while (change := await changes.get()) is not None:
                    if isinstance(change, UnisonoError):
                        raise change
                    say({"event": "server", "server": change.server, "reason": change.reason})
            finally:
                reporting.cancel()
        say({"event": "ended"})


async def _report(service: Service, say: Callable[[dict[str, Any]], None]) -> None:
    before = Status()
    while True:
        now = service.status()
        for told in differences(before, now):
            say(told)
        before = now
        await asyncio.sleep(REPORT_SECONDS)


def differences(before: Status, now: Status) -> list[dict[str, Any]]:
    """What to tell of a service when it stands otherwise than before."""
    told: list[dict[str, Any]] = []
    if now.servers != before.servers:
        told.append({"event": "servers", "servers": list(now.servers)})
    if now.clients != before.clients:
        told.append({"event": "clients", "clients": now.clients})
    for group in sorted({*now.groups, *before.groups}):
        members = now.groups.get(group, ())
        if members != before.groups.get(group, ()):
            told.append({"event": "group", "group": group, "members": list(members)})
    return told


def _say_json(told: dict[str, Any]) -> None:
    typer.echo(json.dumps(told, ensure_ascii=False))
    sys.stdout.flush()


def _say_words(told: dict[str, Any]) -> None:
    typer.echo(in_words(told))
    sys.stdout.flush()


def in_words(told: dict[str, Any]) -> str:
    """What is told, for a person."""
    event = told["event"]
    if event == "started":
        return f"{told['what']} {told['name']} at {told['address']}"
    if event == "looking":
        return f"looks for a membership server at {', '.join(told['servers'])}"
    if event == "server":
        return f"with {told['server']}" if told["server"] else f"looks for another server: {told['reason']}"
    if event == "servers":
        return f"servers: {' '.join(told['servers'])}"
    if event == "clients":
        return f"{told['clients']} client{'' if told['clients'] == 1 else 's'}"
    if event == "group":
        return f"group {told['group']}: {' '.join(told['members']) or 'nobody'}"
    return "ended"
