"""What every transport offers: datagrams to one endpoint or to a multicast address, and the addresses to listen on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Literal, Protocol

from unisono.engine import Address
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
