"""What one message costs in the engine alone: a sender and a receiver node, no sockets, in one process.

Prints microseconds a message for sending, receiving, and receiving with a trace, measured side by side in one run.
"""

from __future__ import annotations

import argparse
from collections import deque
from random import Random
from time import process_time

from unisono.engine import (
    Address,
    DatagramReceived,
    Deliver,
    Effect,
    EventsTaken,
    Fact,
    Join,
    ReadLog,
    Send,
    SendDatagram,
    Start,
    StorageDone,
    SyncLog,
    TimePassed,
)
from unisono.events import Message
from unisono.node import Node
from unisono.settings import Settings
from unisono.units import MILLISECOND, SECOND

WALL = 1_750_000_000 * SECOND
PATIENCE = 1000
"""For so many milliseconds a turn may wait for its messages."""


class Bench:
    """Two nodes that hear each other at once."""

    def __init__(self, settings: Settings) -> None:
        self.now = SECOND
        self.waiting: deque[bytes] = deque()
        """Data of `a` that `b` has not got yet."""
        self.nodes = {name: Node(name, Random(name), Random(name).randbytes) for name in ("a", "b")}
        for name in self.nodes:
            self.step(name, Start())
            self.step(name, Join("g", settings))
        for _ in range(20):
            self.now += 50 * MILLISECOND
            for name in self.nodes:
                self.step(name, TimePassed())

    def step(self, name: str, fact: Fact) -> None:
        """Handle a fact and carry everything out, recursively; data of `a` waits to be measured."""
        self.carry_out(name, self.nodes[name].handle(fact, self.now, WALL + self.now))

    def carry_out(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ReadLog | SyncLog):
                self.step(name, StorageDone(effect.request))
            elif isinstance(effect, SendDatagram) and name == "a" and len(effect.data) > 500:
                self.waiting.append(effect.data)
            elif isinstance(effect, SendDatagram):
                self.step("b" if name == "a" else "a", self.received(name, effect.data))

    def deliver(self, data: bytes) -> tuple[int, float]:
        """Let `b` take a datagram; how many messages came of it, and in how many seconds."""
        began = process_time()
        delivered, effects = self.take(data)
        seconds = process_time() - began
        self.carry_out("b", effects)
        return delivered, seconds

    def take(self, data: bytes) -> tuple[int, list[Effect]]:
        """Let `b` handle a datagram and take its messages; how many, and what is to be carried out."""
        effects = self.nodes["b"].handle(self.received("a", data), self.now, WALL + self.now)
        events = [event for effect in effects if isinstance(effect, Deliver) for event in effect.events]
        delivered = sum(isinstance(event, Message) for event in events)
        return delivered, effects + self.nodes["b"].handle(EventsTaken("g", delivered), self.now, WALL + self.now)

    def received(self, sender: str, data: bytes) -> DatagramReceived:
        return DatagramReceived(Address(sender), Address("multicast:g"), 1, self.now, 0, data)


def measure(size: int, datagram_bytes: int, batch: int, rounds: int, trace: bool) -> tuple[float, float]:
    """Microseconds a message to send and to receive."""
    bench = Bench(Settings(datagram_bytes=datagram_bytes, trace=trace, window_bytes=64 << 20))
    sending = receiving = 0.0
    payloads = (bytes(size),) * batch
    count = 0
    for turn in range(rounds):
        fact: Fact = Send("g", turn, payloads)
        for _ in range(PATIENCE):  # the window may hold something back until a report has come
            bench.now += MILLISECOND
            began = process_time()
            effects = bench.nodes["a"].handle(fact, bench.now, WALL + bench.now)
            bench.nodes["a"].handle(EventsTaken("g", batch), bench.now, WALL + bench.now)
            sending += process_time() - began
            bench.carry_out("a", effects)
            while bench.waiting:
                delivered, seconds = bench.deliver(bench.waiting.popleft())
                count += delivered
                receiving += seconds
            bench.step("b", TimePassed())
            if count == batch * (turn + 1):
                break
            fact = TimePassed()
    assert count == batch * rounds, f"{count} of {batch * rounds} delivered"
    return sending / count * 1e6, receiving / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    print("size  datagram  batch   send us  receive us  receive traced us  traced/untraced")
    for size, datagram_bytes, batch in ((1000, 60_000, 50), (100, 60_000, 300), (1000, 1400, 50)):
        send, plain = measure(size, datagram_bytes, batch, rounds, trace=False)
        _, traced = measure(size, datagram_bytes, batch, rounds, trace=True)
        times = f"{send:8.2f}  {plain:10.2f}  {traced:17.2f}  {traced / plain:15.2f}"
        print(f"{size:4}  {datagram_bytes:8}  {batch:5}  {times}")


if __name__ == "__main__":
    main()
