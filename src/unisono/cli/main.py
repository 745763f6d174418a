"""The command `unisono`: 0 says that all went as promised, 1 that it did not, 2 that the call or its input is wrong."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from unisono.cli.audit import audit
from unisono.cli.chat import chat
from unisono.cli.collect import collect
from unisono.cli.control import control
from unisono.cli.controller import controller
from unisono.cli.damage import damage
from unisono.cli.demo import demo
from unisono.cli.doctor import doctor
from unisono.cli.gateway import gateway
from unisono.cli.lake import lake
from unisono.cli.measure import compare_runs, measure
from unisono.cli.membership_server import membership_server
from unisono.cli.probe import probe
from unisono.cli.report import report
from unisono.cli.runs import runs
from unisono.cli.simulate import simulate
from unisono.cli.sweep import sweep
from unisono.cli.top import top
from unisono.cli.watch import watch
from unisono.errors import UnisonoError

MISUSE = 2

app = typer.Typer(
    name="unisono",
    help="Reliable, ordered communication in groups of processes, and the laboratory to prove it.",
    epilog="Example: unisono simulate chaos --seeds 0:100",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        from unisono import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _unisono(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


app.command()(simulate)
app.command()(sweep)
app.command()(chat)
app.command()(control)
app.command("membership-server")(membership_server)
app.command()(controller)
app.command()(gateway)
app.command()(probe)
app.command()(top)
app.command()(doctor)
app.command()(collect)
app.command()(audit)
app.command()(watch)
app.command()(report)
app.command()(measure)
app.command("compare")(compare_runs)
app.command()(demo)
app.command()(runs)
app.add_typer(lake, name="lake")
app.command()(damage)


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit; what a caller got wrong is one message on stderr."""
    try:
        app(arguments)
    except (UnisonoError, OSError) as error:
        typer.echo(f"unisono: {error}", err=True)
        sys.exit(MISUSE)
