"""How endpoints are spelled, and where the groups of a realm meet: derived by hash, so that nobody configures them."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv6Address

from xxhash import xxh3_64_intdigest

from unisono.engine import Address, is_multicast
from unisono.errors import NetworkError
from unisono.spelling import join_endpoint, split_endpoint

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
"""An endpoint as the socket module has it, for IPv4 and for IPv6."""

FIRST_PORT = 20_000
PORT_COUNT = 12_000
"""Ports of realms lie below those that systems hand out by themselves."""
SHARED_HOSTS = 256
"""Over so many multicast addresses the groups of a realm are spread: a process never needs more sockets than that, and
hears one in so many of the groups that it is not in (ADR 11)."""

_SPELLINGS_LIMIT = 4096


def realm_port(realm: str) -> int:
    """The port on which the multicasts of a realm travel."""
    return FIRST_PORT + xxh3_64_intdigest(f"port\0{realm}".encode()) % PORT_COUNT


def multicast_host(realm: str, address: str, family: socket.AddressFamily) -> str:
    """An address of the organization's own range: groups share one, their numbers still differ.

    The control hierarchy, whose names no group can have, shares none of its addresses with groups.
    """
    number = xxh3_64_intdigest(f"{realm}\0{address}".encode())
    if is_multicast(Address(address)) and "\0" not in address:
        number = xxh3_64_intdigest(f"{realm}\0shared {number % SHARED_HOSTS}".encode())
    if family == socket.AF_INET6:
        return str(IPv6Address((0xFF15 << 112) | number))
    low = number % (1 << 18)
    return f"239.{192 + (low >> 16)}.{(low >> 8) & 255}.{low & 255}"


def spell(endpoint: SocketAddress) -> Address:
    """127.0.0.1:4711 or [::1]:4711."""
    return Address(join_endpoint(endpoint[0], endpoint[1]))


def split(text: str) -> tuple[str, int]:
    """Host and port of an endpoint as a person writes it."""
    return split_endpoint(text)


def numeric(text: str, family: socket.AddressFamily) -> SocketAddress:
    """The socket address of a numeric endpoint; a name is refused, so that nothing waits for a name server."""
    host, port = split(text)
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM, 0, socket.AI_NUMERICHOST)
    except (OSError, ValueError) as error:
        raise NetworkError(f"{text!r} is no address of this kind of network: {error}") from None
    return _socket_address(found[0][4])


async def resolve(loop: asyncio.AbstractEventLoop, text: str, family: socket.AddressFamily, what: str) -> SocketAddress:
    """The socket address of an endpoint whose host may be a name; `what` it is stands in the error."""
    host, port = split(text)
    try:
        found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise NetworkError(f"cannot find the {what} {text!r}: {error.strerror or error}") from error
    endpoint = found[0][4]
    return numeric(spell((str(endpoint[0]), int(endpoint[1]))), family)


def _socket_address(found: tuple[object, ...]) -> SocketAddress:
    host, port, *rest = found
    assert isinstance(host, str), "the system answered with an endpoint"
    assert isinstance(port, int), "the system answered with an endpoint"
    if not rest:
        return host, port
    flow, scope = rest
    assert isinstance(flow, int), "an IPv6 endpoint has two numbers more"
    assert isinstance(scope, int), "an IPv6 endpoint has two numbers more"
    return host, port, flow, scope


class AddressBook:
    """Endpoints in both spellings, remembered: the hot path does not format and parse them again and again."""

    __slots__ = ("_family", "_sockets", "_spelled")

    def __init__(self, family: socket.AddressFamily) -> None:
        self._family = family
        self._spelled: dict[SocketAddress, Address] = {}
        self._sockets: dict[Address, SocketAddress] = {}

    def spell(self, endpoint: SocketAddress) -> Address:
        address = self._spelled.get(endpoint)
        if address is None:
            if len(self._spelled) >= _SPELLINGS_LIMIT:
                self._spelled.clear()
            address = self._spelled[endpoint] = spell(endpoint)
        return address

    def endpoint(self, address: Address) -> SocketAddress:
        endpoint = self._sockets.get(address)
        if endpoint is None:
            if len(self._sockets) >= _SPELLINGS_LIMIT:
                self._sockets.clear()
            endpoint = self._sockets[address] = numeric(address, self._family)
        return endpoint
