"""`unisono probe`: what the members of a group are and do, asked once, from outside."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from unisono.cli.picture_report import advice, as_json, console, show
from unisono.cli.simulation_report import echo_json
from unisono.errors import SettingError
from unisono.probing.asker import Round
from unisono.probing.picture import Watch
from unisono.runtime.loops import run
from unisono.runtime.prober import Prober
from unisono.units import parse_duration

NOBODY = 1
INTERRUPTED = 130
TransportName = Literal["multicast", "mesh"]

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group to ask.")]
RealmOption = Annotated[str | None, typer.Option(help="The realm that the group is in; by default $UNISONO_REALM.")]
TransportOption = Annotated[TransportName, typer.Option(help="How the members of the group talk.")]
SeedOption = Annotated[
    list[str] | None,
    typer.Option("--seed", metavar="HOST:PORT", help="A member of a mesh elsewhere; may be repeated."),
]
InterfaceOption = Annotated[
    str | None, typer.Option(help="A network interface or address; by default $UNISONO_INTERFACE.")
]


def probe(
    group: GroupArgument,
    realm: RealmOption = None,
    transport: TransportOption = "multicast",
    seeds: SeedOption = None,
    interface: InterfaceOption = None,
    wait: Annotated[str, typer.Option(metavar="TIME", help="How long answers are gathered.")] = "1s",
    as_json_document: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Ask the members of a group what they are and do, once: views, roles, traffic, buffers, suspicions.

    It does not join the group, and nobody in it waits for it or counts it. Exits with 0 when somebody answered, with 1
    when nobody did.

    \b
    Examples:
      unisono probe lobby
      unisono probe lobby --realm lab --wait 300ms
      unisono probe lobby --transport mesh --seed 10.0.0.7:4711 --json
    """
    prober = Prober(
        group,
        realm=realm,
        transport=transport,
        seeds=tuple(seeds or ()),
        interface=interface,
        wait=read_duration("wait", wait),
    )
    try:
        told = run(_ask(prober))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    picture = Watch().look(told)
    code = 0 if picture.lines else NOBODY
    if as_json_document:
        echo_json({**as_json(picture, group, prober.realm), "exit": code})
    elif picture.lines:
        console().print(show(picture, group, prober.realm))
    if code:
        typer.echo(f"unisono: {advice(group, prober.realm, transport, prober.wait)}", err=True)
    raise typer.Exit(code)


async def _ask(prober: Prober) -> Round:
    async with prober:
        return await prober.round()


def read_duration(name: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise SettingError(name, str(error)) from None
