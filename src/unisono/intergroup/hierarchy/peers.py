"""What is known of other control processes (CPI objects, 000 2.2.1), in tables with a cap."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.engine import Address
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.estimates import Estimate
from unisono.units import MICROSECOND, MILLISECOND, SECOND
from unisono.wire.control_messages import WORD, TimestampPair, short_id

HELD_LIMIT = 20 * SECOND
"""An echo held longer than this is not given back: two clocks drift apart meanwhile."""
_NEVER = -1


class Peer:
    """One control process, as it was last heard."""

    __slots__ = (
        "_arrived",
        "_echoed",
        "_sent",
        "address",
        "distance",
        "heard",
        "hops",
        "interval",
        "local_count",
        "process",
        "short",
    )

    def __init__(self, process: ProcessId, address: Address) -> None:
        self.process = process
        self.short = short_id(process)
        self.address = address
        self.hops = 0
        self.interval = 0
        self.heard = 0
        self.local_count = 0
        self.distance = Estimate()
        self._sent = _NEVER
        self._arrived = 0
        self._echoed = _NEVER

    def hear(self, timestamp: int, arrived: int, now: int, address: Address, hops: int, interval: int) -> None:
        """A message of it came, which it sent at `timestamp` by its own clock."""
        self._sent, self._arrived = timestamp & WORD, arrived
        self.address, self.hops, self.interval, self.heard = address, hops, interval * MILLISECOND, now

    def pair(self, now: int) -> TimestampPair | None:
        """What to give back to it, if something new came since the last time."""
        if self._sent == _NEVER or now - self._arrived > HELD_LIMIT:
            return None
        return TimestampPair(self.short, self._sent, max(0, now - self._arrived) // MICROSECOND)

    def echoed(self, now: int) -> None:
        self._sent, self._echoed = _NEVER, now

    @property
    def never_echoed(self) -> bool:
        return self._echoed == _NEVER

    def wait(self) -> tuple[int, int]:
        """Who waits longest for an echo comes first."""
        return self._echoed, self.short

    def silent(self, now: int, patience: int) -> bool:
        return now - self.heard > patience * self.interval


class PeerTable:
    """Peers by identity; a newer life of a process replaces the older one."""

    __slots__ = ("_limit", "_names", "_peers")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peers: dict[ProcessId, Peer] = {}
        self._names: dict[str, ProcessId] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, process: object) -> bool:
        return process in self._peers

    @property
    def full(self) -> bool:
        return len(self._peers) >= self._limit

    def get(self, process: ProcessId) -> Peer | None:
        return self._peers.get(process)

    def all(self) -> Iterable[Peer]:
        return self._peers.values()

    def sorted(self) -> list[Peer]:
        return [self._peers[process] for process in sorted(self._peers)]

    def admit(self, process: ProcessId, address: Address) -> Peer | None:
        """The peer, new if need be; None when there is no room or a newer life of it is known."""
        peer = self._peers.get(process)
        if peer is not None:
            return peer
        known = self._names.get(process.name)
        if known is not None and known.incarnation > process.incarnation:
            return None
        if known is not None:
            self.drop(known)
        if len(self._peers) >= self._limit:
            return None
        peer = self._peers[process] = Peer(process, address)
        self._names[process.name] = process
        return peer

    def drop(self, process: ProcessId) -> bool:
        """Forget it; whether it was there."""
        if self._peers.pop(process, None) is None:
            return False
        del self._names[process.name]
        return True

    def clear(self) -> None:
        self._peers.clear()
        self._names.clear()

    def silent(self, now: int, patience: int) -> list[ProcessId]:
        """Who has missed so many of its own intervals, in order (000 2.6.3)."""
        return sorted(peer.process for peer in self._peers.values() if peer.silent(now, patience))

    def forgive(self, pause: int) -> None:
        """This process was stopped for so long, and heard nobody meanwhile."""
        for peer in self._peers.values():
            peer.heard += pause

    def pairs(self, now: int, most: int) -> list[TimestampPair]:
        """Timestamp pairs for those that wait longest; they count as given back."""
        waiting = sorted((peer for peer in self._peers.values() if peer.pair(now) is not None), key=Peer.wait)
        pairs = []
        for peer in waiting[:most]:
            pair = peer.pair(now)
            assert pair is not None, "only those were chosen"
            pairs.append(pair)
            peer.echoed(now)
        return pairs
