"""Carries datagrams between machines: knows who listens where, and hands the network's arrivals to sockets in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from unisono.engine import Address, DatagramReceived, Fact, SendDatagram, is_multicast
from unisono.simulation.machine import Machine
from unisono.simulation.network import Arrival, Network
from unisono.units import MICROSECOND

LOOPBACK_DELAY = 20 * MICROSECOND
"""What a datagram of a process to itself takes."""


def member_address(index: int) -> Address:
    """The endpoint of a member."""
    return Address(f"member:{index}")


class Stage(Protocol):
    """What it needs of the world."""

    now: int
    machines: list[Machine]
    network: Network

    def schedule(self, at: int, call: Callable[[int], None]) -> None: ...
    def give_later(self, machine: Machine, at: int, fact: Fact) -> None: ...


class Ether:
    """Every socket of a run."""

    __slots__ = ("_by_address", "_listeners", "_stage")

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._by_address = {member_address(machine.index): machine for machine in stage.machines}
        self._listeners: dict[Address, dict[int, None]] = {}

    def at(self, address: Address) -> Machine:
        return self._by_address[address]

    def listen(self, machine: Machine, address: Address, listens: bool) -> None:
        """A machine begins or ceases to listen on a multicast address."""
        if listens:
            self._listeners.setdefault(address, {})[machine.index] = None
        elif address in self._listeners:
            self._listeners[address].pop(machine.index, None)
            if not self._listeners[address]:
                del self._listeners[address]

    def transmit(self, machine: Machine, effect: SendDatagram) -> None:
        stage, multicast = self._stage, is_multicast(effect.to)
        if multicast:
            receivers = sorted(index for index in self._listeners.get(effect.to, ()) if index != machine.index)
        else:
            receiver = self._by_address.get(effect.to)
            if receiver is machine:
                stage.give_later(machine, stage.now + LOOPBACK_DELAY, self._to_itself(machine, effect))
                return
            receivers = [receiver.index] if receiver is not None else []
        source = member_address(machine.index)
        arrivals = stage.network.transmit(stage.now, machine.index, receivers, multicast, effect.scope, effect.data)
        for arrival in arrivals:
            stage.schedule(arrival.at, self._arrival(source, effect.to, arrival))

    def _to_itself(self, machine: Machine, effect: SendDatagram) -> Fact:
        """A datagram that a process sends to its own endpoint never leaves the machine."""
        arrives = machine.monotonic.read(self._stage.now + LOOPBACK_DELAY)
        return DatagramReceived(effect.to, effect.to, 0, arrives, 0, effect.data)

    def _arrival(self, source: Address, destination: Address, arrival: Arrival) -> Callable[[int], None]:
        stage = self._stage
        machine = stage.machines[arrival.receiver]

        def hand_over(now: int) -> None:
            machine.datagram(source, destination, arrival.hops, arrival.data)

        def arrive(now: int) -> None:
            brought = stage.network.take_in(now, arrival.receiver, len(arrival.data))
            if brought == now:
                hand_over(now)
            elif brought is not None:
                stage.schedule(brought, hand_over)

        return arrive
