"""Datagrams one by one and in runs: what is sent is received, in order and with its boundaries."""

from __future__ import annotations

import asyncio
import socket
from random import Random

import pytest

from tests.network.meeting import run, until
from unisono.engine import Address, DatagramReceived
from unisono.runtime import sockets
from unisono.runtime.addresses import AddressBook
from unisono.runtime.interfaces import choose_interface
from unisono.runtime.sockets import DatagramSocket, open_endpoint


def sizes() -> list[int]:
    chance = Random(5)
    mixed = [chance.choice((0, 1, 500, 500, 1400, 1400, 1400, 9000)) for _ in range(200)]
    return [1400] * 70 + [300] + [40_000, 40_000, 60_000] + mixed


@pytest.mark.parametrize("in_runs", [True, False])
def test_runs_keep_order_and_boundaries(monkeypatch: pytest.MonkeyPatch, in_runs: bool) -> None:
    if not in_runs:
        monkeypatch.setattr(sockets, "runs_work", lambda sock: False)

    async def main() -> None:
        received: list[DatagramReceived] = []
        counted: list[str] = []
        loop, book = asyncio.get_running_loop(), AddressBook(socket.AF_INET)
        ends = []
        for _ in range(2):
            datagrams, channels = open_endpoint(choose_interface(None), 0)
            channels.close()
            own = datagrams.getsockname()
            ends.append(
                (DatagramSocket(datagrams, Address("here"), own, book, loop, received.extend, counted.append), own)
            )
        (mouth, source), (ear, target) = ends
        data = [Random(number).randbytes(size) for number, size in enumerate(sizes())]
        mouth.send_all(data, target)
        await until(lambda: len(received) == len(data))
        assert [datagram.data for datagram in received] == data
        assert {datagram.source for datagram in received} == {book.spell(source)}
        assert sum(datagram.drops for datagram in received) == 0
        assert counted == []
        mouth.send(bytes(70_000), target)
        assert counted == ["socket: cannot send: Message too long"]
        mouth.close()
        ear.close()

    run(main())


def test_a_flood_is_dropped_and_counted() -> None:
    async def main() -> None:
        received: list[DatagramReceived] = []
        loop, book = asyncio.get_running_loop(), AddressBook(socket.AF_INET)
        datagrams, channels = open_endpoint(choose_interface(None), 0)
        channels.close()
        datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        own = datagrams.getsockname()
        ear = DatagramSocket(datagrams, Address("here"), own, book, loop, received.extend, lambda reason: None)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
            for _ in range(100):
                mouth.sendto(bytes(1000), own)
            await until(lambda: bool(received))
            assert len(received) < 100
            got = len(received)
            mouth.sendto(b"after", own)
            await until(lambda: len(received) > got)
        assert sum(datagram.drops for datagram in received) == 100 - got
        ear.close()

    run(main())
