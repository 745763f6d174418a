"""What the parts of the engine share: who this process is, how it speaks, and what it was told to do."""

from __future__ import annotations

from unisono.clock import LamportClock
from unisono.engine import Address, Randomness, multicast_address
from unisono.identity import ProcessId
from unisono.intergroup.reasons import Reason
from unisono.reliable.deadlines import Deadlines
from unisono.reliable.step import Step
from unisono.sealing import KeyAgreement, Seal
from unisono.settings import Settings
from unisono.trace.schema import RepairRow
from unisono.wire.layout import group_number
from unisono.wire.messages import ControlMessage
from unisono.wire.writing import DatagramWriter


class Context:
    """One process in one group. The parts change nothing here but the clock and the deadlines."""

    __slots__ = ("_randomness", "clock", "deadlines", "group", "keys", "multicast", "process", "settings", "writer")

    def __init__(
        self,
        group: str,
        realm: str,
        process: ProcessId,
        settings: Settings,
        clock: LamportClock,
        randomness: Randomness,
        seal: Seal,
        keys: KeyAgreement,
    ) -> None:
        self._randomness = randomness
        self.group = group
        self.process = process
        self.settings = settings
        self.clock = clock
        self.keys = keys
        self.multicast = multicast_address(group)
        self.writer = DatagramWriter(process, group_number(realm, group), seal, settings.datagram_bytes)
        self.deadlines = Deadlines()

    def wants(self, name: str) -> bool:
        """Whether this receiver asked for the messages of a source of that name."""
        return self.settings.sources == "all" or name in self.settings.sources

    def tell(self, step: Step, address: Address, message: ControlMessage) -> None:
        for datagram in self.writer.control([message]):
            step.send(address, datagram, self.settings.scope)

    def broadcast(self, step: Step, messages: list[ControlMessage]) -> None:
        for datagram in self.writer.control(messages):
            step.send(self.multicast, datagram, self.settings.scope)

    def observe(self, step: Step, timestamp: int) -> None:
        """Follow a peer's clock."""
        if not self.clock.observe(timestamp, step.wall):
            step.note(Reason.CLOCK_AHEAD)
            step.mark("clock-held")

    def spread(self, interval: int) -> int:
        """Between one and two intervals: members that act on the same packet do not act at the same instant."""
        return interval + int(interval * self._randomness.random())


def repair_row(kind: str, source: ProcessId, first: int, last: int, peer: str | None = None) -> RepairRow:
    """A row about sequences of a source: RTR, RTX or GC."""
    return RepairRow(
        kind=kind, source=source.name, source_incarnation=source.incarnation, first=first, last=last, peer=peer
    )
