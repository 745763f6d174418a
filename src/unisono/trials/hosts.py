"""Network namespaces, one a member, each with an interface whose packets come out at this process.

Needs root, iproute2 and /dev/net/tun. Everything is removed at the end; what an earlier run left behind when it was
killed is removed at the beginning.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from ipaddress import IPv4Address
from pathlib import Path
from types import TracebackType
from typing import Self

from unisono.errors import UnisonoError

TUN = Path("/dev/net/tun")
INTERFACE = "uo0"
MTU = 65_000
MOST_HOSTS = 250
"""As many as their network has addresses for."""
_PREFIX = "unisono-"
_NETWORK = IPv4Address("10.77.0.0")
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000


def why_not_here() -> str | None:
    """Why scenarios cannot be run on real processes here, or None."""
    if os.geteuid() != 0:
        return "it needs root, or namespaces of its own (see docs/scenarios.md)"
    if shutil.which("ip") is None:
        return "it needs the command `ip` (package iproute2)"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"it needs {TUN}"
    return None


def address_of(member: int) -> IPv4Address:
    """The address of a member inside its namespace."""
    return _NETWORK + 1 + member


class Hosts:
    """The namespaces of one trial; `descriptors` give and take the packets of each member."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._names = [f"{_PREFIX}{os.getpid()}-{member}" for member in range(members)]
        self.descriptors: list[int] = []

    def __enter__(self) -> Self:
        why = why_not_here()
        if why is not None:
            raise UnisonoError(f"real processes cannot be tried here: {why}")
        _remove_left_behind()
        try:
            for member in range(self._members):
                self._make(member)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def command(self, member: int, *words: str) -> list[str]:
        """A command that runs in the namespace of a member."""
        return ["ip", "netns", "exec", self._names[member], *words]

    def _make(self, member: int) -> None:
        name = self._names[member]
        _ip("netns", "add", name)
        descriptor = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        self.descriptors.append(descriptor)
        outside = f"uo{os.getpid() % 100_000}-{member}"
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", outside.encode(), _IFF_TUN | _IFF_NO_PI))
        _ip("link", "set", outside, "netns", name)
        inside = ("-n", name)
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "link", "set", outside, "name", INTERFACE)
        _ip(*inside, "addr", "add", f"{address_of(member)}/24", "dev", INTERFACE)
        _ip(*inside, "link", "set", INTERFACE, "mtu", str(MTU), "multicast", "on", "up")
        _ip(*inside, "route", "add", "224.0.0.0/4", "dev", INTERFACE)

    def _remove(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _remove_left_behind() -> None:
    """Namespaces of trials whose process is gone."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    for name in (line.split()[0] for line in listed.splitlines() if line.startswith(_PREFIX)):
        owner = name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnisonoError(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}")
