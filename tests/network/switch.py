"""A switch with one host on each port, as network namespaces; it can be split into islands and put together again.

A port that is moved to another bridge neither sends to nor hears the rest. The hosts see nothing of that: their links
stay up.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Self

from tests.network.processes import until
from tests.network.test_namespaces import ip


class Switch:
    """Hosts 0, 1, ... on one network, or on several islands of it."""

    def __init__(self, hosts: int) -> None:
        self._hub = f"unisono-{os.getpid()}-switch"
        self._names = [f"unisono-{os.getpid()}-host{host}" for host in range(hosts)]

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def address(self, host: int) -> str:
        return f"10.79.0.{host + 1}"

    def command(self, host: int) -> list[str]:
        """What runs a command on a host."""
        return ["ip", "netns", "exec", self._names[host]]

    def split(self, islands: Sequence[Sequence[int]]) -> None:
        """Only hosts of one island hear one another."""
        self._patch({host: island for island, hosts in enumerate(islands) for host in hosts})

    def heal(self) -> None:
        """Everybody hears everybody."""
        self._patch(dict.fromkeys(range(len(self._names)), 0))

    def _patch(self, islands: dict[int, int]) -> None:
        lines = [f"link set port{host} master island{island}" for host, island in sorted(islands.items())]
        command = ["ip", "-n", self._hub, "-batch", "-"]
        done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def _make(self) -> None:
        ip("netns", "add", self._hub)
        for island in range(len(self._names)):
            bridge = f"island{island}"
            ip("-n", self._hub, "link", "add", bridge, "type", "bridge", "mcast_snooping", "0")
            ip("-n", self._hub, "link", "set", bridge, "up")
        for host, name in enumerate(self._names):
            ip("netns", "add", name)
            port = f"port{host}"
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", self._hub)
            ip("-n", self._hub, "link", "set", port, "master", "island0", "up")
            ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")
        for name in self._names:
            until(partial(_is_up, name), "the link is up")
            ip("-n", name, "route", "add", "default", "dev", "eth0")

    def _remove(self) -> None:
        for name in (self._hub, *self._names):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _is_up(name: str) -> bool:
    return "LOWER_UP" in ip("-n", name, "link", "show", "eth0")
