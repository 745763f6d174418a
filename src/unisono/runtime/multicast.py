"""IP multicast: one datagram reaches every member that listens, on this machine or on this network.

Each group has an address of its own, derived from realm and name, and a socket bound to it. Unicasts go from and to one
endpoint, from which multicasts are sent as well: so a process knows its own when the system hands them back.
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
        self._groups: dict[Address, DatagramSocket] = {}
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
        if address not in self._groups:
            host = multicast_host(self._realm, address, self._interface.family)
            sock = open_multicast(self._interface, host, self._port)
            self._groups[address] = self._listen(sock, address, sent_with=None)
            _LOG.debug("%s is %s", address, host)

    def leave(self, address: Address) -> None:
        group = self._groups.pop(address, None)
        self._targets.pop(address, None)
        if group is not None:
            group.close()

    def close(self) -> None:
        for address in list(self._groups):
            self.leave(address)
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
        host = multicast_host(self._realm, to, self._interface.family)
        target: SocketAddress = (host, self._port)
        if self._interface.family == socket.AF_INET6:
            target = (host, self._port, 0, self._interface.index)
        self._targets[to] = target
        return target
