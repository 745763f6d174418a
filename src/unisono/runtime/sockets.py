"""UDP sockets on the loop: non-blocking, drained in one call, with the buffers they need.

The loop's own datagram endpoints make one call of each datagram; here one call hands over all that have come.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic_ns

from unisono.engine import Address, DatagramReceived
from unisono.errors import NetworkError
from unisono.runtime.addresses import AddressBook, SocketAddress
from unisono.runtime.interfaces import Interface, is_loopback

Receive = Callable[[list[DatagramReceived]], None]
"""Takes the datagrams that one call of a socket brought, in order."""
Count = Callable[[str], None]
"""Counts a named reason."""

BUFFER_BYTES = 4 << 20
"""What a socket asks the system to hold; the system may grant less (see `unisono doctor`)."""
DRAIN_LIMIT = 256
"""Datagrams read in one call, so that a flood leaves time for everything else."""
WAITING_LIMIT_BYTES = 4 << 20
"""What may wait for a socket that takes nothing for the moment; more is dropped and counted."""

_PORT_TRIES = 32
_SO_MEMINFO, _DROPS, _MEMINFO = 55, 8, struct.Struct("9I")
_ROOM = 1 << 16
_UDP_SEGMENT, _UDP_GRO = 103, 104
_SEGMENT, _SEGMENT_READ = struct.Struct("@H"), struct.Struct("@i")
_EXTRA_ROOM = 2 * socket.CMSG_SPACE(_SEGMENT_READ.size)
UNICAST_TTL = 64
"""With which every unicast leaves, so that its receiver can count the hops it took."""
_IP_RECVTTL_LINUX = 12
_TTLS = ((socket.IPPROTO_IP, socket.IP_TTL), (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT))
_RUN_LIMIT, _RUN_LIMIT_BYTES = 64, 65_000
"""How many datagrams of one size go to the system in one call."""


class DatagramSocket:
    """One UDP socket: what comes is handed over in lists, what goes waits while the system's buffer is full."""

    __slots__ = (
        "_book",
        "_count",
        "_destination",
        "_drops",
        "_host",
        "_in_runs",
        "_loop",
        "_own",
        "_receive",
        "_sent_with",
        "_socket",
        "_view",
        "_waiting",
        "_waiting_bytes",
    )

    def __init__(
        self,
        sock: socket.socket,
        destination: Address,
        own: SocketAddress,
        book: AddressBook,
        loop: asyncio.AbstractEventLoop,
        receive: Receive,
        count: Count,
        buffer: bytearray | None = None,
        sent_with: int | None = UNICAST_TTL,
    ) -> None:
        """`sent_with` is the TTL of all that comes here, None where each sender chooses its own."""
        self._socket = sock
        self._destination = destination
        self._own = own
        self._host = own[0]
        self._sent_with = sent_with
        self._book = book
        self._loop = loop
        self._receive = receive
        self._count = count
        self._view = memoryview(buffer if buffer is not None else new_buffer())
        self._drops = 0
        self._waiting: deque[tuple[bytes, SocketAddress]] = deque()
        self._waiting_bytes = 0
        self._in_runs = runs_work(sock)
        if not is_loopback(own[0]):  # nothing comes there from another machine
            ask_ttl(sock)
        loop.add_reader(sock.fileno(), self._drain)

    def send_all(self, datagrams: Sequence[bytes], to: SocketAddress) -> None:
        """Send datagrams in order; those of equal size go to the system in one call, where it takes them so."""
        if not self._in_runs or len(datagrams) == 1:
            for data in datagrams:
                self.send(data, to)
            return
        start = 0
        while start < len(datagrams):
            end = _run_end(datagrams, start)
            if end - start == 1 or self._waiting or not self._send_run(datagrams[start:end], to):
                for data in datagrams[start:end]:
                    self.send(data, to)
            start = end

    def _send_run(self, run: Sequence[bytes], to: SocketAddress) -> bool:
        """Let the system cut one buffer into datagrams; False when nothing of it was sent."""
        try:
            self._socket.sendmsg(run, [(socket.IPPROTO_UDP, _UDP_SEGMENT, _SEGMENT.pack(len(run[0])))], 0, to)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # a path that takes no runs, or not of this size: from now on one by one
            self._in_runs = False
            return False
        return True

    def send(self, data: bytes, to: SocketAddress) -> None:
        if self._waiting:
            self._wait(data, to)
            return
        try:
            self._socket.sendto(data, to)
        except (BlockingIOError, InterruptedError):
            self._wait(data, to)
        except OSError as error:
            self._count(f"socket: cannot send: {error.strerror}")

    def close(self) -> None:
        """Send what waits as far as the system takes it, and be gone."""
        while self._waiting:
            data, to = self._waiting.popleft()
            with contextlib.suppress(OSError):
                self._socket.sendto(data, to)
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()

    def _wait(self, data: bytes, to: SocketAddress) -> None:
        if self._waiting_bytes + len(data) > WAITING_LIMIT_BYTES:
            self._count("socket: send buffer full")
            return
        if not self._waiting:
            self._loop.add_writer(self._socket.fileno(), self._send_waiting)
        self._waiting.append((data, to))
        self._waiting_bytes += len(data)

    def _send_waiting(self) -> None:
        while self._waiting:
            data, to = self._waiting[0]
            try:
                self._socket.sendto(data, to)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._count(f"socket: cannot send: {error.strerror}")
            self._waiting.popleft()
            self._waiting_bytes -= len(data)
        self._loop.remove_writer(self._socket.fileno())

    def _drain(self) -> None:
        """Read until nothing is left, or enough for one call; own multicasts that came back are not handed on."""
        receive_into, buffers, view = self._socket.recvmsg_into, [self._view], self._view
        own, spell, destination, now = self._own, self._book.spell, self._destination, monotonic_ns()
        drops = self._new_drops()
        batch: list[DatagramReceived] = []
        while len(batch) < DRAIN_LIMIT:
            try:
                size, extra, _, source = receive_into(buffers, _EXTRA_ROOM)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                self._count(f"socket: cannot receive: {error.strerror}")
                break
            if source == own:
                continue
            step, hops, left = self._read_extra(extra, source[0]) if extra else (0, 0, None)
            for start in range(0, size, step) if 0 < step < size else (0,):
                data = bytes(view[start : min(start + step, size) if step else size])
                batch.append(DatagramReceived(spell(source), destination, hops, now, drops, data, left))
                drops = 0
        if drops:
            self._drops -= drops  # said with the next datagram
        if batch:
            self._receive(batch)

    def _read_extra(self, extra: list[tuple[int, int, bytes]], host: str) -> tuple[int, int, int | None]:
        """The size of the datagrams in a run, how many hops they took, and what is left of a TTL that others chose.

        A router takes one off, the first network takes none: so a TTL of 1 stays on it, and one more hop is counted
        than was taken off. What comes from this machine took none, however it was sent.
        """
        step, ttl = 0, None
        for level, kind, data in extra:
            if len(data) < _SEGMENT_READ.size:
                continue
            value = int(_SEGMENT_READ.unpack_from(data)[0])
            if level == socket.IPPROTO_UDP and kind == _UDP_GRO:
                step = value
            elif (level, kind) in _TTLS:
                ttl = value
        if ttl is None or host == self._host:
            return step, 0, None
        if self._sent_with is None:
            return step, 0, ttl - 1
        return step, max(0, self._sent_with - ttl) + 1, None

    def _new_drops(self) -> int:
        """What the system threw away since the last call, where it says so."""
        if not sys.platform.startswith("linux"):
            return 0
        try:
            total = _MEMINFO.unpack(self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[_DROPS]
        except (OSError, struct.error):
            return 0
        new, self._drops = (total - self._drops) & 0xFFFFFFFF, total
        return int(new)


def new_buffer() -> bytearray:
    """Room for what one call receives; the sockets of one loop may share it."""
    return bytearray(_ROOM)


def runs_work(sock: socket.socket) -> bool:
    """Whether the system takes and gives runs of datagrams in one call (Linux since 5.0); asks it to give them."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        sock.setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)
        sock.getsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT)
    except OSError:
        return False
    return True


def _run_end(datagrams: Sequence[bytes], start: int) -> int:
    """Where the run that begins at `start` ends: equal sizes, the last one may be shorter."""
    size = len(datagrams[start])
    end = start + 1
    if not size:
        return end
    most = min(len(datagrams), start + min(_RUN_LIMIT, _RUN_LIMIT_BYTES // size))
    while end < most and len(datagrams[end]) == size:
        end += 1
    return end + 1 if end < most and 0 < len(datagrams[end]) < size else end


def ask_ttl(sock: socket.socket) -> None:
    """Let the system say with every datagram what is left of its TTL; where it cannot, all peers count as near."""
    with contextlib.suppress(OSError):
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        elif sys.platform.startswith("linux"):
            sock.setsockopt(socket.IPPROTO_IP, _IP_RECVTTL_LINUX, 1)


def open_endpoint(interface: Interface, port: int) -> tuple[socket.socket, socket.socket]:
    """A UDP and a TCP socket on the same port of one address: datagrams and channels of one process."""
    tries = 1 if port else _PORT_TRIES
    for left in range(tries - 1, -1, -1):
        datagrams = socket.socket(interface.family, socket.SOCK_DGRAM)
        channels = socket.socket(interface.family, socket.SOCK_STREAM)
        try:
            datagrams.setblocking(False)
            channels.setblocking(False)
            channels.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if interface.family == socket.AF_INET6:
                datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, UNICAST_TTL)
            else:
                datagrams.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, UNICAST_TTL)
            datagrams.bind((interface.host, port))
            channels.bind((interface.host, datagrams.getsockname()[1]))
            ask_buffers(datagrams)
            return datagrams, channels
        except OSError as error:
            datagrams.close()
            channels.close()
            if not left:
                place = f"{interface.host} port {port}" if port else interface.host
                raise NetworkError(f"cannot open an endpoint on {place}: {error.strerror}") from error
    raise AssertionError("the last try returns or raises")


def open_multicast(interface: Interface, host: str, port: int) -> socket.socket:
    """A socket that hears one multicast address on one interface, beside others on this machine that hear it too."""
    sock = socket.socket(interface.family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not sys.platform.startswith("linux"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        group = socket.inet_pton(interface.family, host)
        if interface.family == socket.AF_INET6:
            sock.bind((host, port, 0, interface.index))
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group + struct.pack("@I", interface.index))
        else:
            sock.bind((host, port))
            member = group + socket.inet_aton(interface.host)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        ask_buffers(sock)
    except OSError as error:
        sock.close()
        raise NetworkError(
            f"cannot listen to multicast {host} port {port} on {interface.name}: {error.strerror};"
            " `unisono doctor` says what this network allows"
        ) from error
    return sock


def speak_multicast(sock: socket.socket, interface: Interface) -> None:
    """Let an endpoint's multicasts leave by its interface, and be heard by others on this machine."""
    if interface.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface.index)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface.host))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)


def set_scope(sock: socket.socket, interface: Interface, scope: int) -> None:
    """How many hops a multicast travels; on loopback it never leaves the machine."""
    hops = 0 if interface.loopback else scope
    if interface.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, hops)
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, hops)


def ask_buffers(sock: socket.socket) -> None:
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        with contextlib.suppress(OSError):  # some systems refuse what is beyond their limit, rather than grant less
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
