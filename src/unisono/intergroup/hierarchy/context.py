"""What the parts of a control process share: who it is, how it speaks, and the times at which it spoke."""

from __future__ import annotations

from unisono.engine import Address, JoinAddress, LeaveAddress, Randomness, multicast_address
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.pacing import Pacer
from unisono.reliable.deadlines import Deadlines
from unisono.reliable.step import Step
from unisono.sealing import Seal
from unisono.settings import Settings
from unisono.units import MICROSECOND, MILLISECOND
from unisono.wire.control_messages import WORD, HierarchyMessage, short_id
from unisono.wire.layout import group_number
from unisono.wire.writing import DatagramWriter

COORDINATORS = multicast_address("\0control")
"""Where coordinators speak and are looked for; no group can have such a name."""
STAMPS_LIMIT = 256
"""How many of its own sending times a control process remembers."""


def local_group(coordinator: ProcessId) -> Address:
    """Where a coordinator and its children speak."""
    return multicast_address(f"\0control/{coordinator}")


def control_number(realm: str) -> int:
    """What stands for the hierarchy in place of a group; no group can have this name."""
    return group_number(realm, "\0control")


class Context:
    """One control process: its identity, its settings, its voice."""

    __slots__ = (
        "_joined",
        "_seal",
        "_stamps",
        "_writer",
        "deadlines",
        "global_pace",
        "local_pace",
        "process",
        "randomness",
        "settings",
        "short",
    )

    def __init__(self, realm: str, process: ProcessId, settings: Settings, randomness: Randomness, seal: Seal) -> None:
        self.process = process
        self.short = short_id(process)
        self.settings = settings
        self.randomness = randomness
        self.deadlines = Deadlines()
        self.local_pace = Pacer(settings.local_bandwidth, settings.control_interval)
        self.global_pace = Pacer(settings.global_bandwidth, settings.control_interval)
        self._seal = seal
        self._writer = DatagramWriter(process, control_number(realm), seal, settings.datagram_bytes)
        self._stamps: dict[int, int] = {}
        self._joined: dict[Address, None] = {}

    @property
    def room(self) -> int:
        """Bytes that the packed arrays of one message may take, so that it fits a datagram."""
        return self._writer.data_room - _FIXED_BYTES

    def stamp(self, step: Step) -> int:
        """The time of a message that is sent now, in microseconds; remembered, since echoes of it come back."""
        microseconds = max(0, step.now // MICROSECOND)
        self._stamps[microseconds & WORD] = microseconds
        if len(self._stamps) > STAMPS_LIMIT:
            del self._stamps[next(iter(self._stamps))]
        return microseconds

    def stamped(self, echo: int) -> int | None:
        """The sending time whose last 32 bits came back, if it was one."""
        return self._stamps.get(echo & WORD)

    def send(self, step: Step, to: Address, scope: int, *messages: HierarchyMessage) -> int:
        """Send messages together; how many bytes that took."""
        size = 0
        for datagram in self._writer.control(messages):
            step.send(to, datagram, scope)
            size += len(datagram)
        return size

    def send_in_group(self, step: Step, group: int, to: Address, messages: list[HierarchyMessage]) -> None:
        """Send messages that are about a group to one of its members, under the number of that group."""
        writer = DatagramWriter(self.process, group, self._seal, self.settings.datagram_bytes)
        for datagram in writer.control(messages):
            step.send(to, datagram, self.settings.scope)

    def join(self, step: Step, address: Address) -> None:
        if address not in self._joined:
            self._joined[address] = None
            step.effect(JoinAddress(address))

    def leave(self, step: Step, address: Address) -> None:
        if address in self._joined:
            del self._joined[address]
            step.effect(LeaveAddress(address))

    def leave_all(self, step: Step) -> None:
        """Listen nowhere, and wait for nothing."""
        for address in list(self._joined):
            self.leave(step, address)
        self.deadlines.clear_all()

    def between(self, low: int, high: int) -> int:
        """Somewhere between the two, drawn."""
        return low + int((high - low) * self.randomness.random())


def milliseconds(interval: int) -> int:
    """An interval as it is announced."""
    return min(max(1, interval // MILLISECOND), 600_000)


def reach(hops: int, scope: int) -> int:
    """The scope that gets so far: at least one hop, at most what the settings allow."""
    return min(max(1, hops), scope)


_FIXED_BYTES = 64
"""What the fields of a control message take beside its packed arrays, with a margin."""
