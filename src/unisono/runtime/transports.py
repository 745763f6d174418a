"""What every transport offers: datagrams to one endpoint or to a multicast address, and the addresses to listen on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Literal, Protocol

from unisono.engine import Address
from unisono.errors import SettingError
from unisono.runtime.addresses import split
from unisono.runtime.interfaces import LOOPBACK, choose_interface, is_loopback
from unisono.runtime.mesh import Mesh
from unisono.runtime.multicast import Multicast
from unisono.runtime.sockets import Count, Receive

TransportName = Literal["multicast", "mesh"]
TRANSPORTS: tuple[TransportName, ...] = ("multicast", "mesh")


class Transport(Protocol):
    """Carries datagrams; what it cannot carry it counts and drops, as networks do."""

    @property
    def address(self) -> Address:
        """This process's own endpoint."""
        ...

    @property
    def channel_socket(self) -> socket.socket:
        """A TCP socket bound to the same endpoint, for channels."""
        ...

    async def start(self, loop: asyncio.AbstractEventLoop, receive: Receive, count: Count) -> None:
        """Begin to receive; raises NetworkError when this network does not allow it."""
        ...

    def send(self, to: Address, datagrams: Sequence[bytes], scope: int) -> None:
        """Send datagrams to one endpoint or multicast address, in order."""
        ...

    def join(self, address: Address) -> None:
        """Listen on a multicast address; raises NetworkError."""
        ...

    def leave(self, address: Address) -> None: ...

    def close(self) -> None: ...


def check_transport(transport: str, seeds: Sequence[str]) -> None:
    """Raises SettingError for a transport that is none, and for seeds that it does not take."""
    if transport not in TRANSPORTS:
        raise SettingError("transport", f"expected one of {', '.join(TRANSPORTS)}, got {transport!r}")
    if seeds and transport != "mesh":
        raise SettingError("seeds", 'seeds are for the mesh; add transport="mesh", or leave them out')
    if isinstance(seeds, str):
        raise SettingError("seeds", f'expected a list such as ["host:4711"], got {seeds!r}')


def open_transport(
    transport: TransportName,
    realm: str,
    interface: str | None,
    port: int = 0,
    seeds: Sequence[str] = (),
    visiting: bool = False,
    servers: Sequence[str] = (),
) -> Transport:
    """The sockets of one process; a visitor asks the members of a mesh and is not one of them.

    Who is to meet others on this machine alone, by `seeds` or `servers`, uses its loopback, unless told otherwise.
    """
    wanted = interface
    others = [split(one)[0] for one in (*seeds, *servers)]
    if wanted is None and others and all(map(is_loopback, others)):
        wanted = "::1" if all(":" in host for host in others) else LOOPBACK
    chosen = choose_interface(wanted)
    if transport == "mesh":
        return Mesh(realm, chosen, port, seeds, visiting)
    return Multicast(realm, chosen, port)
