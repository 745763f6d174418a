"""A SEND row is in the system's hands before its datagram leaves: looked at from the moment of leaving."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.network.meeting import run, until
from unisono.engine import (
    Address,
    Deliver,
    FoundState,
    Join,
    Leave,
    LoadState,
    Record,
    SaveState,
    Send,
    multicast_address,
)
from unisono.errors import NetworkError
from unisono.events import Left, Message
from unisono.node import Node
from unisono.runtime.channels import Channels
from unisono.runtime.driver import Driver
from unisono.runtime.sockets import Count, Receive
from unisono.runtime.storage import MemoryStorage
from unisono.runtime.tracing import Tracer
from unisono.sealing import NullSeal
from unisono.settings import Settings
from unisono.trace.schema import MembershipRow, SendRow
from unisono.trace.spool import read_spool
from unisono.wire.messages import DataPacket
from unisono.wire.reading import read_datagram


class Witness:
    """A transport that sends nothing, but looks into the spool whenever something should leave."""

    address = Address("127.0.0.1:1")

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.channel_socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.channel_socket.bind(("127.0.0.1", 0))
        self.left = 0

    async def start(self, loop: asyncio.AbstractEventLoop, receive: Receive, count: Count) -> None:
        pass

    def send(self, to: Address, datagrams: Sequence[bytes], scope: int) -> None:
        assert to == multicast_address("g")
        written = {
            row.sequence
            for path in self._directory.glob("*.spool")
            for row in read_spool(path)
            if isinstance(row, SendRow)
        }
        for data in datagrams:
            packet = read_datagram(data, NullSeal())
            if isinstance(packet, DataPacket):
                sequences = {message.sequence for message in packet.messages if not message.flags}
                assert sequences <= written
                self.left += len(sequences)

    def join(self, address: Address) -> None:
        pass

    def leave(self, address: Address) -> None:
        pass

    def close(self) -> None:
        self.channel_socket.close()


class Application:
    def __init__(self) -> None:
        self.messages = 0
        self.left = False
        self.errors: list[BaseException] = []

    def deliver(self, effect: Deliver) -> None:
        self.messages += sum(isinstance(event, Message) for event in effect.events)
        self.left = self.left or any(isinstance(event, Left) for event in effect.events)

    def state(self, effect: SaveState | LoadState | FoundState) -> None:
        raise AssertionError(f"nobody has a state here: {effect}")

    def joined(self, address: Address, error: NetworkError | None) -> None:
        assert error is None

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)


def test_rows_are_written_before_their_datagrams_leave(tmp_path: Path) -> None:
    async def main() -> None:
        witness, application = Witness(tmp_path), Application()
        node = Node("ada", Random(1), Random(2).randbytes)
        channels = Channels("", witness.channel_socket)
        driver = Driver(node, witness, channels, MemoryStorage(), application, Tracer(tmp_path, "ada"))
        await driver.start()
        driver.give(Join("g", Settings()))
        for ticket in range(1, 40):
            driver.give(Send("g", ticket, tuple(bytes(100) for _ in range(ticket))))
        total = sum(range(1, 40))
        await until(lambda: application.messages == total or bool(application.errors))
        driver.give(Leave("g"))
        await until(lambda: application.left or bool(application.errors))
        await driver.stop()
        assert application.errors == []
        assert witness.left == total
        rows = list(read_spool(next(tmp_path.glob("ada~*.spool"))))
        assert [row.kind for row in rows[-2:]] == ["LEAVE", "END"]

    run(main())


def test_what_is_written_in_the_middle_of_a_step_does_not_turn_its_clock_back(tmp_path: Path) -> None:
    """An application reports, or reports are given up, while the effects of a step are carried out at its one time."""
    tracer = Tracer(tmp_path, "p")
    tracer.observe(Record(MembershipRow(kind="START", process="p", incarnation=1)), 100)
    tracer.report("temperature", {"value": 1.0}, "", 250)
    tracer.observe(Record(MembershipRow(kind="JOIN", group="g")), 200)
    tracer.close(300, ended=True)
    (spool,) = tmp_path.iterdir()
    assert [(row.kind, row.at) for row in read_spool(spool)] == [
        ("START", 100),
        ("temperature", 250),
        ("JOIN", 250),
        ("END", 300),
    ]
