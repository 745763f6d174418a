"""A process that can be cut off from others on its own machine, without any right: it throws away what they send.

Datagrams of the processes behind the cut are dropped where they come in, before anything here has seen them. What the
processes of one site of a machine tell each other in channels is not datagrams and goes on.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Sequence

from unisono.engine import Address, DatagramReceived
from unisono.runtime.process import Process
from unisono.runtime.sockets import Count, Receive
from unisono.runtime.transports import Transport


class SeverableTransport:
    """Another transport, behind a cut."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._receive: Receive = lambda batch: None
        self._count: Count = lambda reason: None
        self.behind: frozenset[Address] = frozenset()

    @property
    def address(self) -> Address:
        return self._inner.address

    @property
    def channel_socket(self) -> socket.socket:
        return self._inner.channel_socket

    async def start(self, loop: asyncio.AbstractEventLoop, receive: Receive, count: Count) -> None:
        self._receive, self._count = receive, count
        await self._inner.start(loop, self._take, count)

    def send(self, to: Address, datagrams: Sequence[bytes], scope: int) -> None:
        self._inner.send(to, datagrams, scope)

    def join(self, address: Address) -> None:
        self._inner.join(address)

    def leave(self, address: Address) -> None:
        self._inner.leave(address)

    def close(self) -> None:
        self._inner.close()

    def _take(self, batch: list[DatagramReceived]) -> None:
        if self.behind:
            heard = [datagram for datagram in batch if datagram.source not in self.behind]
            for _ in range(len(batch) - len(heard)):
                self._count("severed: from behind the cut")
            batch = heard
        if batch:
            self._receive(batch)


class SeverableProcess(Process):
    """A process that can be told whom not to hear."""

    _severable: SeverableTransport | None = None

    def sever(self, addresses: Collection[str]) -> None:
        """Hear these no more, and everybody else again."""
        assert self._severable is not None, "a process is started before it is cut off"
        self._severable.behind = frozenset(map(Address, addresses))

    def _open_transport(self) -> Transport:
        self._severable = SeverableTransport(super()._open_transport())
        return self._severable
