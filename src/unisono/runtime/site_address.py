"""The address SITE on a real machine: a local socket that exactly one process of a site can have.

A site is what one user runs in one realm on one machine. On Linux the socket has a name without a file, which the
system frees with its process and which other network namespaces do not see. Elsewhere it is a file, and who holds the
lock beside it may listen: a file that a dead process left is taken over.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import struct
import sys
import tempfile
from pathlib import Path
from typing import Protocol

from xxhash import xxh3_64_hexdigest

BACKLOG = 128
_CREDENTIALS = struct.Struct("@3i")


class SiteTaken(OSError):
    """Another process listens at the address."""

    def __init__(self) -> None:
        super().__init__(errno.EADDRINUSE, "another process has it")


class SiteAddress(Protocol):
    """One process's access to the address of its site."""

    def listen(self) -> socket.socket:
        """Take the address; raises SiteTaken when another process has it, OSError when the system refuses."""
        ...

    def release(self, listener: socket.socket) -> None:
        """Free the address."""
        ...

    def connect(self) -> socket.socket:
        """A connection to who listens; raises OSError when nobody does."""
        ...


class NamedSocket:
    """A name in the abstract namespace of Linux; it is bound to the user by its text and by whom the system names."""

    def __init__(self, realm: str) -> None:
        self._name = f"\0unisono/{os.getuid()}/{_digest(realm)}"

    def listen(self) -> socket.socket:
        return _listen(self._name)

    def release(self, listener: socket.socket) -> None:
        listener.close()

    def connect(self) -> socket.socket:
        return _connect(self._name)


class SocketFile:
    """A file in a directory that only this user can use."""

    def __init__(self, realm: str, directory: Path | None = None) -> None:
        self._directory = directory or _runtime_directory()
        self._path = self._directory / f"{_digest(realm)}.sock"
        self._lock: int | None = None

    def listen(self) -> socket.socket:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_directory()
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path.unlink(missing_ok=True)
            listener = _listen(str(self._path))
        except BlockingIOError:
            os.close(lock)
            raise SiteTaken from None
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        return listener

    def release(self, listener: socket.socket) -> None:
        listener.close()
        self._path.unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def connect(self) -> socket.socket:
        self._check_directory()
        return _connect(str(self._path))

    def _check_directory(self) -> None:
        """Anybody can make a directory of that name before us, where all share one for their temporary files."""
        found = self._directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(errno.EACCES, f"{self._directory} is open to other users")


def site_address(realm: str) -> SiteAddress:
    """The address of this user's site in a realm, in the way of this system."""
    return NamedSocket(realm) if sys.platform.startswith("linux") else SocketFile(realm)


def is_own(sock: socket.socket) -> bool:
    """Whether the process at the other end runs for the same user, where the system says so.

    Where it does not, the directory of the socket file keeps others out.
    """
    if not sys.platform.startswith("linux"):
        return True
    _, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(user == os.getuid())


def _listen(place: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind(place)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise SiteTaken from None
        raise
    return sock


def _connect(place: str) -> socket.socket:
    """Such a connection stands at once or not at all; when too many wait to be accepted it is refused too."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect(place)
        if not is_own(sock):
            raise PermissionError(errno.EACCES, "a process of another user has the address")
    except OSError:
        sock.close()
        raise
    return sock


def _digest(realm: str) -> str:
    return xxh3_64_hexdigest(f"site\0{realm}".encode())


def _runtime_directory() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR")
    with contextlib.suppress(OSError):
        if base and Path(base).is_dir():
            return Path(base) / "unisono"
    return Path(tempfile.gettempdir()) / f"unisono-{os.getuid()}"
