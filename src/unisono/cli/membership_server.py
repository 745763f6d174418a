"""`unisono membership-server`: keeps who is in which group of virtual synchrony sessions, together with others."""

from __future__ import annotations

from typing import Annotated

import typer

from unisono.cli.given_settings import SetOption, read_given
from unisono.cli.service import CollectorOption, JsonOption, ListenOption, NameOption, RealmOption, TraceOption, serve
from unisono.runtime.loops import run
from unisono.serving import MembershipServer


def membership_server(
    listen: ListenOption = "127.0.0.1:7500",
    peers: Annotated[
        list[str] | None,
        typer.Option("--peer", metavar="HOST:PORT", help="Another server; may be repeated, and name this one too."),
    ] = None,
    name: NameOption = None,
    realm: RealmOption = None,
    trace: TraceOption = None,
    collector: CollectorOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep who is in which group, for the clients of virtual synchrony sessions that come here.

    Some servers, three say, stand for each other: each has the others as --peer, and clients that lose one go to
    another. A server keeps nothing on disk. Stays in the foreground and says what happens; Ctrl-C or SIGTERM ends
    it, with exit code 0. Exits with 2 when it cannot listen there.

    \b
    Examples:
      unisono membership-server
      unisono membership-server --listen 10.0.0.1:7500 --peer 10.0.0.2:7500 --peer 10.0.0.3:7500
      unisono membership-server --listen 127.0.0.1:7501 --peer 127.0.0.1:7500 --realm lab --json
    """
    server = MembershipServer(
        listen, tuple(peers or ()), name=name, realm=realm, trace=trace, collector=collector, **read_given(settings)
    )
    run(serve(server, "membership server", as_json))
