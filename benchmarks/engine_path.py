"""What one message costs in the engine alone: a sender and a receiver node, no sockets, in one process.

Prints microseconds a message for sending, receiving, and receiving with a trace, measured side by side in one run.
"""

from __future__ import annotations

import argparse
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


class Bench:
    """Two nodes that hear each other at once."""

    def __init__(self, settings: Settings) -> None:
        self.now = SECOND
        self.nodes = {name: Node(name, Random(name), Random(name).randbytes) for name in ("a", "b")}
        for name in self.nodes:
            self.step(name, Start())
            self.step(name, Join("g", settings))
        for _ in range(20):
            self.now += 50 * MILLISECOND
            for name in self.nodes:
                self.step(name, TimePassed())

    def step(self, name: str, fact: Fact) -> list[Effect]:
        """Handle a fact and carry everything out, recursively, but for data of `a`."""
        effects = self.nodes[name].handle(fact, self.now, WALL + self.now)
        kept: list[Effect] = []
        for effect in effects:
            if isinstance(effect, ReadLog | SyncLog):
                self.step(name, StorageDone(effect.request))
            elif isinstance(effect, SendDatagram):
                if len(effect.data) > 500:
                    kept.append(effect)
                else:
                    self.step("b" if name == "a" else "a", self.received(name, effect.data))
        return kept

    def received(self, sender: str, data: bytes) -> DatagramReceived:
        return DatagramReceived(Address(sender), Address("multicast:g"), 1, self.now, 0, data)


def measure(size: int, datagram_bytes: int, batch: int, rounds: int, trace: bool) -> tuple[float, float]:
    """Microseconds a message to send and to receive."""
    bench = Bench(Settings(datagram_bytes=datagram_bytes, trace=trace, window_bytes=64 << 20))
    sending = receiving = 0.0
    payloads = (bytes(size),) * batch
    count = 0
    for turn in range(rounds):
        bench.now += MILLISECOND
        began = process_time()
        effects = bench.nodes["a"].handle(Send("g", turn, payloads), bench.now, WALL + bench.now)
        bench.nodes["a"].handle(EventsTaken("g", batch), bench.now, WALL + bench.now)
        sending += process_time() - began
        for effect in effects:
            if not isinstance(effect, SendDatagram):
                continue
            began = process_time()
            delivered = sum(
                isinstance(event, Message)
                for answer in bench.nodes["b"].handle(bench.received("a", effect.data), bench.now, WALL + bench.now)
                if isinstance(answer, Deliver)
                for event in answer.events
            )
            reports = bench.nodes["b"].handle(EventsTaken("g", delivered), bench.now, WALL + bench.now)
            receiving += process_time() - began
            count += delivered
            for report in reports:
                if isinstance(report, SendDatagram):
                    bench.step("a", bench.received("b", report.data))
        if turn % 50 == 49:
            bench.now += 50 * MILLISECOND
            for name in bench.nodes:
                bench.step(name, TimePassed())
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
