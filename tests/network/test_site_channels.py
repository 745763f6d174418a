"""The address SITE on real sockets: one has it, others reach it, and a killed one leaves it free."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from tests.network.meeting import run, until
from tests.network.processes import ROOT
from unisono.engine import (
    SITE,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Fact,
    FrameReceived,
    Listen,
    ListenFailed,
    Listening,
    OpenChannel,
    SendFrame,
    StopListening,
)
from unisono.runtime.channel_end import End
from unisono.runtime.channels import Channels
from unisono.runtime.loops import new_loop
from unisono.runtime.site_address import NamedSocket, SiteAddress, SiteTaken, SocketFile, is_own, site_address

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names without files are Linux's")
Make = Callable[[str], SiteAddress]


@pytest.fixture
def short_path() -> Iterator[Path]:
    """The path of a socket has a hundred characters or so, fewer than a test's own directory may take."""
    with TemporaryDirectory(prefix="u-") as directory:
        yield Path(directory) / "site"


@pytest.fixture(params=[pytest.param("name", marks=on_linux), "file"])
def make(request: pytest.FixtureRequest, short_path: Path) -> Make:
    if request.param == "name":
        return NamedSocket
    return lambda realm: SocketFile(realm, short_path)


class Post:
    """The channels of one process, and the facts they gave."""

    def __init__(self, realm: str, site: SiteAddress) -> None:
        self.facts: list[Fact] = []
        self.counters: list[str] = []
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        self.channels = Channels(realm, sock, site)
        self.channels.start(asyncio.get_running_loop(), self.facts.append, self.counters.append)
        self.do = self.channels.carry_out


def run_on(loop: str, main: Coroutine[None, None, None]) -> None:
    """On Python's own event loop, or on the fast one where it is installed."""
    if loop == "plain":
        run(main)
    else:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(asyncio.wait_for(main, 60))


async def told(post: Post, count: int) -> list[Fact]:
    await until(lambda: len(post.facts) >= count)
    return post.facts


@pytest.mark.parametrize("loop", ["plain", "fast"])
def test_one_hosts_and_another_reaches_it(realm: str, make: Make, loop: str) -> None:
    async def main() -> None:
        host, other = Post(realm, make(realm)), Post(realm, make(realm))
        other.do(OpenChannel(Channel(1), SITE))
        assert isinstance((await told(other, 1))[0], ChannelFailed)
        host.do(Listen(SITE))
        assert await told(host, 1) == [Listening(SITE)]
        other.do(Listen(SITE))
        assert (await told(other, 2))[1:] == [ListenFailed(SITE, "another process has it")]
        other.do(OpenChannel(Channel(2), SITE))
        assert (await told(other, 3))[2:] == [ChannelOpened(Channel(2), SITE, False)]
        assert (await told(host, 2))[1:] == [ChannelOpened(Channel(-1), SITE, True)]
        large = Random(3).randbytes(3_000_000)
        other.do(SendFrame(Channel(2), large))
        host.do(SendFrame(Channel(-1), b"answer"))
        assert (await told(host, 3))[2:] == [FrameReceived(Channel(-1), large)]
        assert (await told(other, 4))[3:] == [FrameReceived(Channel(2), b"answer")]
        other.do(CloseChannel(Channel(2)))
        assert (await told(host, 4))[3:] == [ChannelClosed(Channel(-1))]
        await other.channels.stop()
        await host.channels.stop()
        assert host.counters == other.counters == []

    run_on(loop, main())


@pytest.mark.parametrize("loop", ["plain", "fast"])
@pytest.mark.parametrize("ending", ["close", "stop"])
def test_a_channel_that_ends_at_the_moment_it_connects_ends_in_order(
    realm: str, make: Make, loop: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        host, other = Post(realm, make(realm)), Post(realm, make(realm))
        host.do(Listen(SITE))
        endings = []
        connected = Channels.connected

        async def end() -> None:
            if ending == "stop":
                await other.channels.stop()
            else:
                other.do(CloseChannel(Channel(1)))

        def end_when_connected(channels: Channels, stranger: End) -> bool:
            if channels is other.channels:
                endings.append(asyncio.create_task(end()))
            return connected(channels, stranger)

        monkeypatch.setattr(Channels, "connected", end_when_connected)
        other.do(OpenChannel(Channel(1), SITE))
        await until(lambda: len(endings) == 1)
        await endings[0]
        await told(host, 3)
        assert host.facts == [Listening(SITE), ChannelOpened(Channel(-1), SITE, True), ChannelClosed(Channel(-1))]
        assert other.facts == []
        await other.channels.stop()
        await host.channels.stop()

    run_on(loop, main())


def test_a_channel_that_does_not_open_in_time_fails_once(
    realm: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        given_up = asyncio.Event()

        async def connect(channels: Channels, channel: Channel) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()

        monkeypatch.setattr(Channels, "_connect_to_host", connect)
        monkeypatch.setattr("unisono.runtime.channels.CONNECT_SECONDS", 0.0)
        post = Post(realm, make(realm))
        post.do(OpenChannel(Channel(1), SITE))
        await given_up.wait()
        await post.channels.stop()
        assert post.facts == [ChannelFailed(Channel(1), "timed out")]

    run(main())


def test_who_stops_listening_or_ends_leaves_the_address_free(realm: str, make: Make) -> None:
    async def main() -> None:
        first, second, third = (Post(realm, make(realm)) for _ in range(3))
        first.do(Listen(SITE))
        second.do(OpenChannel(Channel(1), SITE))
        await told(second, 1)
        first.do(StopListening(SITE))
        second.do(Listen(SITE))
        assert second.facts == [ChannelOpened(Channel(1), SITE, False), Listening(SITE)]
        second.do(SendFrame(Channel(1), b"still"))
        assert (await told(first, 3))[2:] == [FrameReceived(Channel(-1), b"still")]
        await second.channels.stop()
        third.do(Listen(SITE))
        assert third.facts == [Listening(SITE)]
        assert (await told(first, 4))[3:] == [ChannelClosed(Channel(-1))]
        await first.channels.stop()
        await third.channels.stop()

    run(main())


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("loop", ["plain", "fast"])
def test_nothing_stays_open_beside_a_peer_that_never_closes(realm: str, make: Make, loop: str, closed: bool) -> None:
    """Like one that is stopped: it neither reads nor closes. The channel was closed before the end, or not."""

    async def main() -> None:
        address = make(realm)
        listener = address.listen()
        other = Post(realm, make(realm))
        other.do(OpenChannel(Channel(1), SITE))
        peer, _ = await asyncio.get_running_loop().sock_accept(listener)
        peer.sendall(other.channels.introduction)
        assert await told(other, 1) == [ChannelOpened(Channel(1), SITE, False)]
        if closed:
            other.do(CloseChannel(Channel(1)))
        await other.channels.stop()
        with pytest.raises(BrokenPipeError):
            peer.sendall(b"to one who is gone")
        peer.close()
        address.release(listener)

    run_on(loop, main())


def test_realms_are_apart(realm: str, make: Make) -> None:
    async def main() -> None:
        here, there = Post(realm, make(realm)), Post(realm + "-other", make(realm + "-other"))
        for post in (here, there):
            post.do(Listen(SITE))
            assert post.facts == [Listening(SITE)]
        await here.channels.stop()
        await there.channels.stop()

    run(main())


HOLD = """
import sys
from pathlib import Path
from unisono.runtime.site_address import NamedSocket, SocketFile
site = NamedSocket(sys.argv[1]) if sys.argv[2] == "name" else SocketFile(sys.argv[1], Path(sys.argv[2]))
listener = site.listen()
print("listens", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", [pytest.param("name", marks=on_linux), "file"])
def test_a_killed_process_leaves_the_address_free(realm: str, kind: str, short_path: Path) -> None:
    place = "name" if kind == "name" else str(short_path)
    site: SiteAddress = NamedSocket(realm) if kind == "name" else SocketFile(realm, short_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, realm, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "listens\n"
        with pytest.raises(SiteTaken):
            site.listen()
        site.connect().close()
        holder.kill()
        holder.wait()
        with pytest.raises(OSError, match="refused"):
            site.connect()
        site.release(site.listen())


def test_a_directory_that_others_can_use_is_refused(realm: str, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    site = SocketFile(realm, tmp_path / "open")
    for use in (site.listen, site.connect):
        with pytest.raises(PermissionError, match="open to other users"):
            use()


def test_the_other_end_is_of_the_same_user() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert is_own(here)


SQUAT = """
import os, socket, sys
try:
    os.setuid(65534)
except OSError:
    print("cannot", flush=True)
    sys.exit()
listener = socket.socket(socket.AF_UNIX)
listener.bind(bytes.fromhex(sys.argv[1]))
listener.listen()
print("listens", flush=True)
sys.stdin.read()
"""


@on_linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_process_of_another_user_is_no_host_even_under_our_name(realm: str) -> None:
    site = site_address(realm)
    listener = site.listen()
    name = listener.getsockname()
    site.release(listener)
    assert name.startswith(f"\0unisono/{os.getuid()}/".encode())
    with subprocess.Popen(
        [sys.executable, "-c", SQUAT, name.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as squatter:
        assert squatter.stdout is not None
        if squatter.stdout.readline() == "cannot\n":
            pytest.skip("there is no other user in this namespace")
        with pytest.raises(PermissionError, match="another user"):
            site.connect()
        squatter.kill()
