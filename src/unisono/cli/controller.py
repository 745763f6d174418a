"""`unisono controller`: takes part in the groups of virtual synchrony sessions for the clients that come to it."""

from __future__ import annotations

from typing import Annotated

import typer

from unisono.cli.given_settings import SetOption, read_given
from unisono.cli.probe import SeedOption, TransportOption
from unisono.cli.service import CollectorOption, JsonOption, ListenOption, NameOption, RealmOption, TraceOption, serve
from unisono.runtime.loops import run
from unisono.serving import Controller


def controller(
    servers: Annotated[
        list[str],
        typer.Option("--server", metavar="HOST:PORT", help="A membership server; may be repeated."),
    ],
    listen: ListenOption = "127.0.0.1:7600",
    name: NameOption = None,
    transport: TransportOption = "multicast",
    seeds: SeedOption = None,
    realm: RealmOption = None,
    trace: TraceOption = None,
    collector: CollectorOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take part in groups of virtual synchrony sessions for many clients, so that few take part in full.

    Clients come to it with controllers=["HOST:PORT"]; those that lose it go to another one. Stays in the foreground and
    says what happens; Ctrl-C or SIGTERM ends it, with exit code 0. Exits with 2 when it cannot listen there.

    \b
    Examples:
      unisono controller --server 127.0.0.1:7500
      unisono controller --listen 10.0.0.9:7600 --server 10.0.0.1:7500 --server 10.0.0.2:7500 --json
    """
    speaks = Controller(
        listen,
        servers,
        name=name,
        realm=realm,
        transport=transport,
        seeds=tuple(seeds or ()),
        trace=trace,
        collector=collector,
        **read_given(settings),
    )
    run(serve(speaks, "controller", as_json, servers))
