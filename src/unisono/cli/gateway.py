"""`unisono gateway`: a member of a group that keeps what is said there for Spark, and sends Spark's rows."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.status import Status as Spinner

from unisono.cli.given_settings import SetOption, read_given
from unisono.cli.probe import InterfaceOption, RealmOption, SeedOption, TransportOption, read_duration
from unisono.cli.signals import on_end_signal
from unisono.errors import SettingError
from unisono.group import Group, join
from unisono.runtime.gateway.gateway import Gateway, Identity, Status, claim
from unisono.runtime.loops import run
from unisono.runtime.process import realm_name
from unisono.spelling import split_endpoint
from unisono.units import KIB, MIB, parse_size

REPORT_SECONDS = 1.0
_NANOSECONDS = 1e9


def gateway(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group to be a member of.")],
    data: Annotated[Path, typer.Option(metavar="DIR", help="Where everything is kept; the same after a restart.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where Spark reaches it; port 0 takes a free one.")
    ] = "127.0.0.1:7110",
    service: Annotated[
        Literal["timestamp", "source"], typer.Option(help="How it receives; rows are safest under timestamp.")
    ] = "timestamp",
    realm: RealmOption = None,
    transport: TransportOption = "multicast",
    seeds: SeedOption = None,
    interface: InterfaceOption = None,
    name: Annotated[str | None, typer.Option(help="Its name in the group; by default one of its own, kept.")] = None,
    retain: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Keep about so much, such as 10GiB; by default everything.")
    ] = None,
    settle: Annotated[
        str, typer.Option(metavar="TIME", help="How long it waits for members to follow it before it sends rows.")
    ] = "1s",
    settings: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a second on stdout.")] = False,
) -> None:
    """Let Spark read a group and write into it: keep all that is said there in a log, and send the rows it is given.

    Stays in the foreground and says how it stands. Ctrl-C or SIGTERM ends it, with exit code 0; what it has is on disk
    at any time, so it may be killed as well. Started again with the same --data it goes on: rows that perhaps not every
    member has are sent again, and the members' `unisono.rows` drops those that they had. What others sent while it was
    away is not in its log, which says so in that place.

    \b
    Examples:
      unisono gateway orders --data /var/lib/orders
      unisono gateway orders --data ./orders --listen 0.0.0.0:7110 --retain 10GiB
      unisono gateway orders --data ./orders --realm lab --set window_bytes=4MiB --json
    """
    host, port = split_endpoint(listen, 0)
    identity = claim(data, group, realm_name(realm), name)
    joined = join(
        group,
        name=identity.name,
        realm=identity.realm,
        transport=transport,
        seeds=tuple(seeds or ()),
        interface=interface,
        storage=data / "process",
        service=service,
        **read_given(settings),
    )
    run(_serve(joined, identity, data, host, port, _retained(retain), read_duration("settle", settle), as_json))


async def _serve(
    group: Group, identity: Identity, data: Path, host: str, port: int, retain: int | None, settle: int, as_json: bool
) -> None:
    loop = asyncio.get_running_loop()
    serving = Gateway(
        group,
        identity.name,
        data,
        host=host,
        port=port,
        retain_bytes=retain,
        settle_seconds=settle / _NANOSECONDS,
    )
    try:
        await group.open()
    except BaseException:
        serving.close()
        raise
    try:
        with ExitStack() as stack:
            show = _Display(stack, serving, identity, as_json)
            life = loop.create_task(serving.run(group.process.id, show.started))
            stack.enter_context(on_end_signal(life.cancel))
            while not life.done():
                await asyncio.wait({life}, timeout=REPORT_SECONDS)
                show.refresh()
    finally:
        await group.close()
    if not life.cancelled():
        life.result()
    show.ended()


class _Display:
    """Says how a gateway stands: JSON a second, a line that changes, or a line at the beginning and the end."""

    def __init__(self, stack: ExitStack, gateway: Gateway, identity: Identity, as_json: bool) -> None:
        self._gateway = gateway
        self._identity = identity
        self._as_json = as_json
        self._begun = False
        self._spinner: Spinner | None = None
        if not as_json and sys.stderr.isatty():
            self._spinner = stack.enter_context(Console(stderr=True).status("joining"))

    def started(self) -> None:
        self._begun = True
        if not self._as_json:
            where = f"{self._gateway.address}: .option('gateway', '{self._gateway.address}')"
            typer.echo(f"{self._identity.name} keeps group {self._identity.group!r} and serves it at {where}")
            sys.stdout.flush()
        self.refresh()

    def refresh(self) -> None:
        if self._begun and self._as_json:
            self._print("running")
        elif self._begun and self._spinner is not None:
            self._spinner.update(in_words(self._gateway.status()))

    def ended(self) -> None:
        if self._as_json:
            self._print("ended")
        else:
            typer.echo(f"ended: {in_words(self._gateway.status())}", err=True)

    def _print(self, state: str) -> None:
        told = {"state": state, "name": self._identity.name, **msgspec.to_builtins(self._gateway.status())}
        typer.echo(json.dumps(told, ensure_ascii=False))
        sys.stdout.flush()


def in_words(status: Status) -> str:
    """How a gateway stands, in a line."""
    size = f"{status.kept_bytes / MIB:.1f} MiB" if status.kept_bytes >= MIB else f"{status.kept_bytes / KIB:.0f} KiB"
    kept = f"offsets {status.begin} to {status.end}, {size}"
    missing = f", {status.gaps} messages missing" if status.gaps else ""
    waiting = f", {status.rows_waiting} waiting" if status.rows_waiting else ""
    rows = f"{status.rows_sent} rows sent in {status.batches_sent} batches{waiting}"
    return f"{len(status.members)} members | {status.messages} messages kept{missing} ({kept}) | {rows}"


def _retained(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_size(text)
    except ValueError as error:
        raise SettingError("retain", str(error)) from None
