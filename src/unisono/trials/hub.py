"""The hub between the members of a trial: the simulator's network, run by the clock, for packets of the kernel."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from ipaddress import IPv4Address

from unisono.simulation.network import Network
from unisono.trials.hosts import MTU, address_of
from unisono.trials.packets import IpPacket, read_packet, with_payload
from unisono.units import SECOND

PACKETS_A_TURN = 64
"""Packets taken from one member before the others get their turn."""


class Hub:
    """Takes packets from every member and hands them to others when, and as what, the network says."""

    def __init__(self, network: Network, descriptors: list[int], clock: Callable[[], int]) -> None:
        self._network = network
        self._descriptors = descriptors
        self._clock = clock
        self._members = {address_of(member): member for member in range(len(descriptors))}
        self._loop = asyncio.get_running_loop()
        self.refused = 0
        for member, descriptor in enumerate(descriptors):
            self._loop.add_reader(descriptor, self._take, member, descriptor)

    def close(self) -> None:
        for descriptor in self._descriptors:
            self._loop.remove_reader(descriptor)

    def _take(self, member: int, descriptor: int) -> None:
        for _ in range(PACKETS_A_TURN):
            try:
                raw = os.read(descriptor, MTU + 100)
            except BlockingIOError:
                return
            packet = read_packet(raw)
            if packet is not None:
                self._pass_on(member, packet)

    def _pass_on(self, member: int, packet: IpPacket) -> None:
        multicast = packet.destination.is_multicast
        receivers = self._receivers(member, packet.destination)
        if not receivers:
            return
        now = self._clock()
        content = packet.raw if packet.payload is None else packet.payload
        scope = packet.scope if multicast else 255
        for arrival in self._network.transmit(now, member, receivers, multicast, scope, content):
            if packet.payload is None:
                raw = packet.raw  # what is not a datagram is delayed or lost, but not damaged
            else:
                raw = packet.raw if arrival.data == packet.payload else with_payload(packet, arrival.data)
            self._loop.call_later((arrival.at - now) / SECOND, self._hand_over, arrival.receiver, raw)

    def _receivers(self, member: int, destination: IPv4Address) -> list[int]:
        if destination.is_multicast:
            return [other for other in self._members.values() if other != member]
        receiver = self._members.get(destination)
        return [] if receiver is None or receiver == member else [receiver]

    def _hand_over(self, receiver: int, raw: bytes) -> None:
        brought = self._network.take_in(self._clock(), receiver, len(raw))
        if brought is None:
            return
        delay = (brought - self._clock()) / SECOND
        if delay > 0:
            self._loop.call_later(delay, self._write, receiver, raw)
        else:
            self._write(receiver, raw)

    def _write(self, receiver: int, raw: bytes) -> None:
        try:
            os.write(self._descriptors[receiver], raw)
        except (BlockingIOError, OSError):
            self.refused += 1  # the interface is full, or its namespace is going away: a lost packet
