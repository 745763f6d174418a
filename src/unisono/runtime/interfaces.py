"""The network interfaces of this machine, and which of them a process uses.

By default the one that a multicast would leave by; loopback where there is no other, or where it is asked for. The
environment variable UNISONO_INTERFACE names one for every process that does not choose itself.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from msgspec import Struct

from unisono.errors import NetworkError

INTERFACE_VARIABLE = "UNISONO_INTERFACE"
LOOPBACK = "127.0.0.1"

_SIOCGIFFLAGS, _SIOCGIFADDR = 0x8913, 0x8915
_UP, _LOOPBACK, _RUNNING, _MULTICAST = 0x1, 0x8, 0x40, 0x1000
_INET6_TABLE = Path("/proc/net/if_inet6")


class Interface(Struct, frozen=True):
    """An interface that is up, and one of its addresses."""

    name: str
    index: int
    host: str
    loopback: bool
    multicast: bool

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET


def interfaces() -> list[Interface]:
    """Every interface that is up, once for each of its addresses, IPv4 first."""
    found: list[Interface] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for index, name in socket.if_nameindex():
            flags = _flags(probe, name)
            if flags is None or not flags & _UP or not flags & _RUNNING:
                continue
            hosts = [host] if (host := _ipv4(probe, name)) is not None else []
            loopback, multicast = bool(flags & _LOOPBACK), bool(flags & _MULTICAST)
            found += [Interface(name, index, host, loopback, multicast) for host in hosts + _ipv6(index)]
    return found


def choose_interface(wanted: str | None) -> Interface:
    """The interface of that name or address; by default the one that multicasts leave by, else loopback."""
    known = interfaces()
    wanted = wanted or os.environ.get(INTERFACE_VARIABLE) or None
    if wanted is not None:
        for interface in known:
            if wanted in (interface.name, interface.host) or _same_address(wanted, interface.host):
                return interface
        names = ", ".join(f"{interface.name} ({interface.host})" for interface in known)
        raise NetworkError(f"no interface {wanted!r} is up here; there are {names}")
    host = _route_host()
    for interface in known:
        if interface.host == host and interface.multicast:
            return interface
    for interface in known:
        if interface.loopback:
            return interface
    raise NetworkError("no network interface is up, not even loopback; bring one up")


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _same_address(one: str, other: str) -> bool:
    try:
        return ip_address(one) == ip_address(other)
    except ValueError:
        return False


def _route_host() -> str | None:
    """Where a multicast would leave, as the routes have it; nothing is sent for the answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("239.192.0.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return None


def _flags(probe: socket.socket, name: str) -> int | None:
    try:
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFFLAGS, struct.pack("256s", name.encode()[:15]))
    except OSError:
        return None
    return int(struct.unpack_from("H", answer, 16)[0])


def _ipv4(probe: socket.socket, name: str) -> str | None:
    try:
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    except OSError:
        return None
    return socket.inet_ntoa(answer[20:24])


def _ipv6(index: int) -> list[str]:
    """The addresses that work without naming the interface with them: global ones and loopback."""
    if not _INET6_TABLE.exists():
        return []
    found = []
    for line in _INET6_TABLE.read_text(encoding="ascii").splitlines():
        address, number, *_ = line.split()
        host = IPv6Address(int(address, 16))
        if int(number, 16) == index and not host.is_link_local:
            found.append(str(host))
    return found
