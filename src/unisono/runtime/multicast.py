"""IP multicast: one datagram reaches every member that listens, on this machine or on this network.

Each group has an address, derived from realm and name, and there is one socket for every address that is listened on:
many groups share one, and the node tells them apart. Unicasts go from and to one endpoint, from which multicasts are
sent as well: so a process knows its own when the system hands them back.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence

from unisono.engine import Address, is_multicast
from unisono.errors import NetworkError
from unisono.runtime.addresses import AddressBook, SocketAddress, multicast_host, realm_port, spell
from unisono.runtime.interfaces import Interface
from unisono.runtime.sockets import (
    UNICAST_TTL,
    Count,
    DatagramSocket,
    Receive,
    new_buffer,
    open_endpoint,
    open_multicast,
    set_scope,
    speak_multicast,
)

_LOG = logging.getLogger(__name__)

_TARGETS_LIMIT = 1 << 16


class Ear:
    """The socket on one multicast address, and for whom it listens."""

    __slots__ = ("listeners", "socket")

    def __init__(self, sock: DatagramSocket) -> None:
        self.socket = sock
        self.listeners: set[Address] = set()


class Multicast:
    """The transport over IP multicast."""

    def __init__(self, realm: str, interface: Interface, port: int = 0) -> None:
        self._realm = realm
        self._interface = interface
        self._port = realm_port(realm)
        self._socket, self.channel_socket = open_endpoint(interface, port)
        speak_multicast(self._socket, interface)
        self._own: SocketAddress = self._socket.getsockname()
        self._book = AddressBook(interface.family)
        self._buffer = new_buffer()
        self._scope = -1
        self._ears: dict[str, Ear] = {}
        self._targets: dict[Address, SocketAddress] = {}
        self._endpoint: DatagramSocket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receive: Receive = lambda batch: None
        self._count: Count = lambda reason: None

    @property
    def address(self) -> Address:
        return spell(self._own)

    async def start(self, loop: asyncio.AbstractEventLoop, receive: Receive, count: Count) -> None:
        self._loop, self._receive, self._count = loop, receive, count
        self._endpoint = self._listen(self._socket, self.address)
        _LOG.info("multicast from %s on %s, port %d", self.address, self._interface.name, self._port)

    def send(self, to: Address, datagrams: Sequence[bytes], scope: int) -> None:
        assert self._endpoint is not None, "a transport sends after it started"
        target = self._targets.get(to)
        if target is None:
            try:
                target = self._target(to)
            except NetworkError:
                self._count("multicast: not an address of this network")
                return
        if scope != self._scope:
            set_scope(self._socket, self._interface, scope)
            self._scope = scope
        self._endpoint.send_all(datagrams, target)

    def join(self, address: Address) -> None:
        host = self._host(address)
        ear = self._ears.get(host)
        if ear is None:
            sock = open_multicast(self._interface, host, self._port)
            heard_at: SocketAddress = (host, self._port)
            ear = self._ears[host] = Ear(self._listen(sock, spell(heard_at), sent_with=None))
            _LOG.debug("%d sockets; %s is %s", len(self._ears), address, host)
        ear.listeners.add(address)

    def leave(self, address: Address) -> None:
        """The last to go closes the socket."""
        self._targets.pop(address, None)
        host = self._host(address)
        ear = self._ears.get(host)
        if ear is not None:
            ear.listeners.discard(address)
            if not ear.listeners:
                del self._ears[host]
                ear.socket.close()

    @property
    def socket_count(self) -> int:
        """How many multicast addresses are listened on, each with a socket."""
        return len(self._ears)

    def close(self) -> None:
        for ear in self._ears.values():
            ear.socket.close()
        self._ears.clear()
        if self._endpoint is not None:
            self._endpoint.close()
        self._socket.close()
        self.channel_socket.close()

    def _listen(self, sock: socket.socket, destination: Address, sent_with: int | None = UNICAST_TTL) -> DatagramSocket:
        assert self._loop is not None, "a transport listens after it started"
        return DatagramSocket(
            sock, destination, self._own, self._book, self._loop, self._receive, self._count, self._buffer, sent_with
        )

    def _target(self, to: Address) -> SocketAddress:
        if not is_multicast(to):
            return self._book.endpoint(to)
        host = self._host(to)
        target: SocketAddress = (host, self._port)
        if self._interface.family == socket.AF_INET6:
            target = (host, self._port, 0, self._interface.index)
        if len(self._targets) >= _TARGETS_LIMIT:
            self._targets.clear()
        self._targets[to] = target
        return target

    def _host(self, address: Address) -> str:
        return multicast_host(self._realm, address, self._interface.family)
