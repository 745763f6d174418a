"""The driver's other services, with an engine made for tests: channels over TCP, logs on disk, datagrams."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.network.meeting import run, until
from tests.simulation.courier import FRAMES, Courier
from unisono.engine import (
    Address,
    AppendLog,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Deliver,
    Fact,
    FoundState,
    FrameReceived,
    Listen,
    LoadState,
    OpenChannel,
    ReadLog,
    SaveState,
    SendFrame,
    StorageDone,
    StorageFailed,
    SyncLog,
)
from unisono.errors import NetworkError
from unisono.runtime import channels as channels_module
from unisono.runtime.addresses import numeric, spell, split
from unisono.runtime.channels import Channels
from unisono.runtime.driver import Driver
from unisono.runtime.interfaces import choose_interface
from unisono.runtime.multicast import Multicast
from unisono.runtime.storage import DiskStorage
from unisono.wire.frames import frame


class Nobody:
    """An application that expects nothing."""

    def deliver(self, effect: Deliver) -> None:
        raise AssertionError(f"a courier delivers nothing: {effect}")

    def state(self, effect: SaveState | LoadState | FoundState) -> None:
        raise AssertionError(f"a courier has no state: {effect}")

    def joined(self, address: Address, error: NetworkError | None) -> None:
        assert error is None

    def failed(self, error: BaseException) -> None:
        raise AssertionError("a courier does not fail") from error


def drive(peer: Address | None, realm: str, directory: Path) -> tuple[Driver, Courier, Address]:
    transport = Multicast(realm, choose_interface(None))
    courier = Courier(peer, Random(1))
    channels = Channels(realm, transport.channel_socket)
    driver = Driver(courier, transport, channels, DiskStorage(directory), Nobody())
    return driver, courier, transport.address


def test_the_courier_runs_on_tcp_and_disk_as_in_simulation(realm: str, tmp_path: Path) -> None:
    async def live(life: int) -> None:
        first, listener, address = drive(None, realm, tmp_path / "first")
        second, courier, _ = drive(address, realm, tmp_path / "second")
        await first.start()
        await until(lambda: listener.lives == life)
        await second.start()
        await until(lambda: "closed" in listener.trouble)
        sent = [f"frame {number}".encode() for number in range(1, FRAMES + 1)]
        assert listener.received == sent
        assert courier.received == [b"re:" + data for data in sent]
        assert courier.trouble == []
        assert courier.lives == life
        assert "DatagramReceived" in listener.facts
        await second.stop()
        await first.stop()

    async def main() -> None:
        for life in (1, 2):
            await live(life)

    run(main())


class Post:
    """Channels of one endpoint, and the facts they gave."""

    def __init__(self, realm: str) -> None:
        self.facts: list[Fact] = []
        self.counters: Counter[str] = Counter()
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        self.endpoint: tuple[str, int] = sock.getsockname()
        self.channels = Channels(realm, sock)
        self.channels.start(asyncio.get_running_loop(), self.facts.append, self._count)

    @property
    def address(self) -> Address:
        return spell(self.endpoint)

    def _count(self, reason: str) -> None:
        self.counters[reason] += 1


def last(post: Post, kind: type) -> bool:
    return bool(post.facts) and isinstance(post.facts[-1], kind)


def test_a_channel_carries_large_frames_both_ways_and_closes(realm: str) -> None:
    async def main() -> None:
        here, there = Post(realm), Post(realm)
        there.channels.carry_out(Listen())
        await until(lambda: there.channels.listening)
        here.channels.carry_out(OpenChannel(Channel(1), there.address))
        await until(lambda: bool(here.facts and there.facts))
        assert here.facts == [ChannelOpened(Channel(1), there.address, False)]
        assert there.facts == [ChannelOpened(Channel(-1), here.address, True)]
        large = Random(3).randbytes(5_000_000)
        here.channels.carry_out(SendFrame(Channel(1), large))
        here.channels.carry_out(SendFrame(Channel(1), b""))
        there.channels.carry_out(SendFrame(Channel(-1), b"answer"))
        here.channels.carry_out(CloseChannel(Channel(1)))
        await until(lambda: last(there, ChannelClosed))
        assert there.facts[1:] == [
            FrameReceived(Channel(-1), large),
            FrameReceived(Channel(-1), b""),
            ChannelClosed(Channel(-1)),
        ]
        await here.channels.stop()
        await there.channels.stop()

    run(main())


def test_a_channel_to_nobody_fails(realm: str) -> None:
    async def main() -> None:
        here, deaf = Post(realm), Post(realm)
        here.channels.carry_out(OpenChannel(Channel(1), deaf.address))
        here.channels.carry_out(OpenChannel(Channel(2), Address("nowhere")))
        await until(lambda: len(here.facts) == 2)
        assert {fact.channel for fact in here.facts if isinstance(fact, ChannelFailed)} == {1, 2}
        await here.channels.stop()
        await deaf.channels.stop()

    run(main())


@pytest.mark.parametrize("closed", [False, True])
def test_a_stopped_peer_delays_no_end_and_leaves_nothing_open(
    realm: str, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other end stands, and then neither reads nor closes; the channel is closed here before, or in the end."""
    monkeypatch.setattr(channels_module, "FLUSH_SECONDS", 3600.0)
    monkeypatch.setattr(channels_module, "PART_SECONDS", 0.01)
    peers: list[socket.socket] = []

    async def main() -> None:
        here = Post(realm)
        here.channels.carry_out(OpenChannel(Channel(1), spell(listener.getsockname())))
        peer, _ = await asyncio.get_running_loop().sock_accept(listener)
        peers.append(peer)
        await asyncio.get_running_loop().sock_sendall(peer, here.channels.introduction)
        await until(lambda: last(here, ChannelOpened))
        here.channels.carry_out(SendFrame(Channel(1), b"the last"))
        if closed:
            here.channels.carry_out(CloseChannel(Channel(1)))
        await here.channels.stop()

    with socket.create_server(("127.0.0.1", 0)) as listener, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        listener.setblocking(False)
        run(main())
        gc.collect()
        peers[0].close()
    assert not [str(one.message) for one in caught if "unclosed" in str(one.message)]


def test_strangers_and_other_realms_get_no_channel(realm: str) -> None:
    async def main() -> None:
        there, other = Post(realm), Post(realm + "-other")
        there.channels.carry_out(Listen())
        await until(lambda: there.channels.listening)
        other.channels.carry_out(OpenChannel(Channel(1), there.address))
        await until(lambda: last(other, ChannelFailed))
        reader, writer = await asyncio.open_connection(*there.endpoint)
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 20)
        while await _ignoring_reset(reader.read):
            pass
        writer.close()
        await _ignoring_reset(writer.wait_closed)
        assert there.facts == []
        assert there.counters["channel: a stranger"] == 1
        await there.channels.stop()
        await other.channels.stop()

    run(main())


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (frame(b"cut short")[:-3], "closed in the middle of a frame"),
        (frame(b"damaged")[:-1] + b"?", "a damaged frame"),
        ((1 << 31).to_bytes(4, "little"), "a damaged frame"),
    ],
)
def test_an_end_in_mid_frame_is_a_failure(realm: str, tail: bytes, reason: str) -> None:
    async def main() -> None:
        there = Post(realm)
        there.channels.carry_out(Listen())
        await until(lambda: there.channels.listening)
        reader, writer = await asyncio.open_connection(*there.endpoint)
        writer.write(there.channels.introduction + frame(b"whole") + tail)
        await until(lambda: len(there.facts) >= 2)
        writer.close()
        await until(lambda: len(there.facts) >= 3)
        assert there.facts[1:] == [FrameReceived(Channel(-1), b"whole"), ChannelFailed(Channel(-1), reason)]
        await _ignoring_reset(writer.wait_closed)
        await there.channels.stop()
        del reader

    run(main())


async def _ignoring_reset(call: Callable[[], object]) -> object:
    try:
        return await call()  # type: ignore[misc]  # whatever a stream offers
    except ConnectionError:
        return None


def test_logs_are_durable_and_torn_ends_are_cut(tmp_path: Path) -> None:
    async def main() -> None:
        async def do(*requests: AppendLog | SyncLog | ReadLog) -> list[StorageDone | StorageFailed]:
            answers: list[StorageDone | StorageFailed] = []
            storage = DiskStorage(tmp_path)
            storage.start(asyncio.get_running_loop(), answers.append)
            for request in requests:
                storage.request(request)
            await until(lambda: len(answers) == len(requests))
            storage.close()
            return answers

        log = "a log/with a slash"
        assert await do(ReadLog(log, 1), AppendLog(log, 2, b"one"), AppendLog(log, 3, b"two"), SyncLog(log, 4)) == [
            StorageDone(1),
            StorageDone(2),
            StorageDone(3),
            StorageDone(4),
        ]
        file = next(tmp_path.glob("*.log"))
        file.write_bytes(file.read_bytes()[:-1])
        assert await do(AppendLog(log, 1, b"three"), ReadLog(log, 2)) == [
            StorageDone(1),
            StorageDone(2, (b"one", b"three")),
        ]
        file.unlink()
        file.mkdir()
        assert isinstance((await do(AppendLog(log, 1, b"four")))[0], StorageFailed)

    run(main())


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "::1:80", "host:x", "[::1]"])
def test_endpoints_are_spelled_in_one_way(text: str) -> None:
    with pytest.raises(NetworkError, match="expected host:port"):
        split(text)
    assert split("[::1]:80") == ("::1", 80)
    assert spell(numeric("[::1]:80", socket.AF_INET6)) == "[::1]:80"
    assert numeric("127.0.0.1:80", socket.AF_INET) == ("127.0.0.1", 80)
