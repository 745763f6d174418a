"""Membership servers and clients in processes of their own, as a test sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from tests.network.processes import Talker
from unisono.trials.wiring import free_endpoints


def wait_started(server: Talker) -> None:
    """Wait until a server, which is named after its endpoint, is there."""
    server.wait(lambda lines: any(line.endswith(f" at {server.name}") for line in lines), "where it is")


class Servers:
    """Servers that stand for each other, each of which can be killed and started again."""

    def __init__(self, count: int, realm: str, *options: str) -> None:
        self.realm = realm
        self.endpoints = free_endpoints(count)
        self._options = options
        self._running = {endpoint: self._start(endpoint) for endpoint in self.endpoints}
        for server in self._running.values():
            wait_started(server)

    def kill(self, endpoint: str) -> None:
        self._running.pop(endpoint).close()

    def start_again(self, endpoint: str) -> None:
        self._running[endpoint] = self._start(endpoint)
        wait_started(self._running[endpoint])

    def close(self) -> None:
        for server in self._running.values():
            server.close()

    def _start(self, endpoint: str) -> Talker:
        others = [word for peer in self.endpoints for word in ("--peer", peer)]
        command = ["-m", "unisono", "membership-server", "--listen", endpoint, *others, "--realm", self.realm]
        return Talker(endpoint, [*command, *self._options])


class Client(Talker):
    """A client of membership servers."""

    def __init__(self, name: str, servers: Servers, /, **options: Any) -> None:
        settings = {"name": name, "realm": servers.realm, "servers": servers.endpoints, "storage": "memory", **options}
        super().__init__(name, ["-m", "tests.network.session_member", json.dumps(settings)])
        self._done = 0

    def do(self, command: str) -> None:
        """Tell a command, and wait until it is done."""
        self._done += 1
        self.tell(command)
        self.wait(lambda lines: lines.count("done") >= self._done, f"that it did {command!r}")

    @property
    def server(self) -> str | None:
        """The server that it said it is with."""
        said = [line for line in self.lines if line.startswith(("server ", "no server"))]
        return said[-1].removeprefix("server ") if said and said[-1] != "no server" else None

    def wait_elsewhere(self, lost: str) -> None:
        """Wait until it is with another server than this one."""
        self.wait(lambda lines: self.server not in (None, lost), f"that it is with another server than {lost}")

    def views(self, group: str = "g") -> list[list[str]]:
        """The members of every view, in order."""
        return [line.split()[2:] for line in self.lines if line.startswith(f"view {group} ")]

    def wait_view(self, members: Sequence[str], group: str = "g") -> None:
        """Wait until its newest view has these members."""
        wanted = sorted(members)
        self.wait(lambda lines: self.views(group)[-1:] == [wanted], f"a view of {' '.join(wanted)} in {group}")

    def heard(self, source: str, group: str = "g") -> list[str]:
        """The texts of one source in a group, in order."""
        return self.got(f"{group} {source}")

    def last(self, line: str) -> int:
        """Where it said this last."""
        return len(self.lines) - 1 - self.lines[::-1].index(line)

    def wait_heard(self, source: str, count: int, group: str = "g") -> None:
        self.wait(lambda lines: len(self.heard(source, group)) >= count, f"{count} of {source} in {group}")


@contextmanager
def clients(names: Sequence[str], servers: Servers, group: str = "g", /, **options: Any) -> Iterator[list[Client]]:
    """Clients in one group and in one view of it."""
    with ExitStack() as stack:
        started = [stack.enter_context(closing(Client(name, servers, **options))) for name in names]
        for client in started:
            client.do(f"join {group}")
        for client in started:
            client.wait_view(names, group)
        yield started
