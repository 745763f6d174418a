"""What the parts of a session's group share: who this process is, how it speaks, where the others are."""

from __future__ import annotations

from collections.abc import Container, Iterable

from unisono.clock import LamportClock
from unisono.engine import Address, Randomness, multicast_address
from unisono.identity import ProcessId
from unisono.reliable.deadlines import Deadlines
from unisono.reliable.step import Step
from unisono.sealing import Seal
from unisono.settings import Settings
from unisono.wire.layout import group_number
from unisono.wire.messages import ControlMessage
from unisono.wire.writing import DatagramWriter


class Context:
    """One process in one group of a session."""

    __slots__ = (
        "addresses",
        "answer_time",
        "clock",
        "deadlines",
        "group",
        "multicast",
        "number",
        "process",
        "randomness",
        "settings",
        "writer",
    )

    def __init__(
        self,
        group: str,
        realm: str,
        process: ProcessId,
        settings: Settings,
        clock: LamportClock,
        randomness: Randomness,
        seal: Seal,
    ) -> None:
        self.group = group
        self.process = process
        self.settings = settings
        self.clock = clock
        self.randomness = randomness
        self.multicast = multicast_address(group)
        self.number = group_number(realm, group)
        self.writer = DatagramWriter(process, self.number, seal, settings.datagram_bytes)
        self.deadlines = Deadlines()
        self.addresses: dict[ProcessId, Address] = {}
        """Where each member gets datagrams, as a server or its own packets say."""
        self.answer_time = settings.forward_timeout // 2
        """How long a request for a repair takes to be answered."""

    def learn_answer_time(self, elapsed: int) -> None:
        """A request was answered after this long."""
        least, most = self.settings.request_delay, self.settings.request_limit
        self.answer_time += (max(least, min(elapsed, most)) - self.answer_time) // 4

    def keep_addresses(self, members: Container[ProcessId]) -> None:
        """Forget where others are."""
        self.addresses = {member: address for member, address in self.addresses.items() if member in members}

    def tell(self, step: Step, to: ProcessId, message: ControlMessage) -> None:
        """Say something to one member, or to all while nobody knows where it is."""
        self._send(step, self.addresses.get(to, self.multicast), (message,))

    def broadcast(self, step: Step, messages: Iterable[ControlMessage]) -> None:
        self._send(step, self.multicast, messages)

    def _send(self, step: Step, to: Address, messages: Iterable[ControlMessage]) -> None:
        for datagram in self.writer.control(messages):
            step.send(to, datagram, self.settings.scope)
