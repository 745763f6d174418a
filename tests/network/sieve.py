"""A member that loses chosen packets: deterministic loss, where loopback loses nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from unisono import Group
from unisono.engine import DatagramReceived, Effect, Engine, Fact
from unisono.sealing import NullSeal
from unisono.wire.messages import ControlPacket, DataPacket, Packet
from unisono.wire.reading import read_datagram
from unisono.wire.refusals import Refusal


class Sieve:
    """An engine behind a hole: what `loses` says is gone before the engine sees it. Counts what came."""

    def __init__(self, engine: Engine, loses: Callable[[Packet], bool]) -> None:
        self._engine = engine
        self._loses = loses
        self.lost = 0
        self.heard: Counter[tuple[str, str]] = Counter()

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        if isinstance(fact, DatagramReceived):
            packet = read_datagram(fact.data, NullSeal())
            if not isinstance(packet, Refusal):
                self._count(packet)
                if self._loses(packet):
                    self.lost += 1
                    return []
        return self._engine.handle(fact, now, wall)

    def deadline(self) -> int | None:
        return self._engine.deadline()

    def _count(self, packet: Packet) -> None:
        kinds = packet.messages if isinstance(packet, ControlPacket) else [packet]
        self.heard.update((packet.source.name, type(kind).__name__) for kind in kinds)


def sift(group: Group, loses: Callable[[Packet], bool] = lambda packet: False) -> Sieve:
    """Put a sieve in front of the process that a group belongs to."""
    driver = group.process._driver
    assert driver is not None, "the process of a joined group runs"
    driver.engine = sieve = Sieve(driver.engine, loses)
    return sieve


def first_forms(source: str, *sequences: int) -> Callable[[Packet], bool]:
    """Loses the datagrams with these sequences of a source as they were first sent; their repairs come."""

    def loses(packet: Packet) -> bool:
        if not isinstance(packet, DataPacket) or packet.source.name != source:
            return False
        return any(message.sequence in sequences for message in packet.messages)

    return loses
