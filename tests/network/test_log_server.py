"""A retained log over TCP: readers get what was synced; whoever asks nonsense gets a reason, and others go on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.network.meeting import run
from unisono.errors import LogError, LogGone, NetworkError
from unisono.runtime import log_server
from unisono.runtime.log_server import LogServer
from unisono.trace.log.client import LogClient
from unisono.trace.log.messages import GREETING, Refused, decode_answer, encode
from unisono.trace.log.retained import RetainedLog
from unisono.wire.frames import frame, read_frames


@asynccontextmanager
async def serving(directory: Path, segment_bytes: int = 1000) -> AsyncIterator[tuple[RetainedLog, LogServer]]:
    with RetainedLog(directory, segment_bytes) as log:
        server = LogServer(log)
        await server.start()
        try:
            yield log, server
        finally:
            await server.close()


def fill(log: RetainedLog, count: int) -> list[bytes]:
    for _ in range(count):
        log.append([bytes([log.end % 256]) * (1 + log.end % 90)])
    log.sync()
    return [bytes([offset % 256]) * (1 + offset % 90) for offset in range(log.end)]


def read_all(address: str, limit_bytes: int) -> list[bytes]:
    with LogClient(address) as client:
        begin, end = client.bounds()
        found: list[bytes] = []
        while begin + len(found) < end:
            found += client.read(begin + len(found), limit_bytes)
        assert client.read(end) == []
        return found


def talk(address: str, data: bytes) -> bytes:
    """Everything that comes back, until the connection is closed."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        found = bytearray()
        while part := connection.recv(4096):
            found += part
    return bytes(found)


def refusal(data: bytes) -> str:
    answer = decode_answer(next(read_frames(data)))
    assert isinstance(answer, Refused)
    return answer.reason


def test_readers_get_what_was_synced(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (log, server):
            payloads = fill(log, 300)
            log.append([b"not synced"])
            found = await asyncio.gather(*(asyncio.to_thread(read_all, server.address, size) for size in (1, 10**9)))
            assert found == [payloads, payloads]
            log.retain_from(200)
            assert await asyncio.to_thread(read_all, server.address, 500) == payloads[log.begin :]

    run(main())


def test_a_reader_waits_for_what_comes(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (log, server):
            with LogClient(server.address) as client, ThreadPoolExecutor(1) as pool:
                loop = asyncio.get_running_loop()
                asked = loop.run_in_executor(pool, client.read, 0, 100, 25.0)
                while not server.readers:
                    await asyncio.sleep(0.001)
                log.append([b"one"])
                await asyncio.to_thread(log.sync)
                assert await asked == [b"one"]
                assert await loop.run_in_executor(pool, client.read, 1, 100, 0.01) == []

    run(main())


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (log, server):
            fill(log, 100)
            log.retain_from(90)
            with LogClient(server.address) as client:
                with pytest.raises(LogGone, match=f"the log begins at {log.begin}"):
                    await asyncio.to_thread(client.read, 0)
                with pytest.raises(LogError, match="there is no offset 101: the log's end is 100"):
                    await asyncio.to_thread(client.read, 101)
                assert await asyncio.to_thread(client.bounds) == (log.begin, 100)

    run(main())


def test_nonsense_gets_a_reason_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hello = frame(GREETING)
    cases = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "longer than 1024"),
        (frame(b"unisono log reader 99"), "another protocol or version"),
        (hello + frame(b"\xc1"), "cannot be read"),
        (hello + frame(encode(["read", -1, 5])), "cannot be read"),
        (hello + frame(encode(["read", (1 << 64) - 1, 5])), "cannot be read"),
        (hello + frame(encode(["read", 0, 5, 10**9])), "cannot be read"),
        (hello + hello[:-1] + b"?", "wrong checksum"),
        (hello + (1 << 31).to_bytes(4, "little") + b"much", "longer than 1024"),
    ]

    async def main() -> None:
        async with serving(tmp_path) as (log, server):
            payloads = fill(log, 10)
            for data, word in cases:
                assert word in refusal(await asyncio.to_thread(talk, server.address, data))
            for data in (b"", b"\x05\x00", hello, hello[:9]):
                assert await asyncio.to_thread(talk, server.address, data) == b""
            assert await asyncio.to_thread(read_all, server.address, 10) == payloads
            assert server.counters.total() == len(cases)
            monkeypatch.setattr(server, "_connection_limit", 0)
            assert "try later" in refusal(await asyncio.to_thread(talk, server.address, hello))

    run(main())


def test_who_says_nothing_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_server, "GREETING_SECONDS", 0.01)

    async def main() -> None:
        async with serving(tmp_path) as (_, server):
            reader, writer = await asyncio.open_connection(*server.address.split(":"))
            assert await reader.read() == b""
            writer.close()

    run(main())


def test_a_client_finds_the_server_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (log, server):
            payloads = fill(log, 5)
            client = LogClient(server.address)
            assert await asyncio.to_thread(client.read, 0) == payloads
            host, port = server.address.split(":")
            await server.close()
            again = asyncio.ensure_future(asyncio.to_thread(client.read, 4))
            other = LogServer(log)
            await other.start(host, int(port))
            assert await again == payloads[4:]
            with pytest.raises(NetworkError, match="cannot listen"):
                await LogServer(log).start(host, int(port))
            await other.close()
            client.close()
            with pytest.raises(LogError, match="is it running"):
                await asyncio.to_thread(LogClient(server.address, patience_seconds=0.0).bounds)
            with pytest.raises(NetworkError, match="expected host:port"):
                LogClient("here")

    run(main())
