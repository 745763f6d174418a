"""The application's face on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
from pathlib import Path
from typing import Any

import pytest

import unisono
import unisono.sync
from tests.network.meeting import members_are, messages, run, together, until, view_without
from unisono import GroupError, MessageTooLarge, NotMember, Process, SettingError, StorageError, ViewReason, join
from unisono.engine import multicast_address
from unisono.runtime.addresses import multicast_host, numeric, realm_port
from unisono.runtime.meeting import Word, realm_number, write_word
from unisono.runtime.transports import TransportName
from unisono.trace.schema import GaugeRow
from unisono.trace.spool import read_spool


def texts(found: list[unisono.Message]) -> list[bytes]:
    return [message.data for message in found]


def test_messages_and_views_are_typed_events(realm: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob"], realm) as (ada, bob):
            await ada.send(b"one")
            await ada.send_many([b"two", b"three"])
            got = await messages(bob, 3)
            assert texts(got) == [b"one", b"two", b"three"]
            assert [(message.source.name, message.number) for message in got] == [("ada", 1), ("ada", 2), ("ada", 3)]
            assert texts(await messages(ada, 3)) == [b"one", b"two", b"three"]
            assert bob.view is not None
            assert {process.name for process in bob.members} == {"ada", "bob"}
            await ada.leave()
            view = await view_without(bob, "ada")
            assert [reason for _, reason in view.reasons] == [ViewReason.LEFT]
            assert [event async for event in ada] == []
            with pytest.raises(NotMember, match="join it again"):
                await ada.send(b"late")

    run(main())


def test_agreed_views_say_who_comes_along_and_whether_they_are_primary(realm: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob", "eve"], realm, service="timestamp", primary=3) as groups:
            ada, bob, eve = groups
            await until(lambda: len({group.view.id for group in groups if group.view is not None}) == 1)
            assert [group.view is not None and group.view.primary for group in groups] == [True] * 3
            assert ada.view is not None
            assert ada.view.start == (eve.view and eve.view.start)
            assert len(ada.view.merged) >= 2
            await eve.leave()
            views = [await view_without(group, "eve") for group in (ada, bob)]
            assert views[0].id == views[1].id
            for view in views:
                assert {process.name for process in view.transitional or ()} == {"ada", "bob"}
                assert [(process.name, reason) for process, reason in view.reasons] == [("eve", ViewReason.LEFT)]
                assert view.primary

    run(main())


def test_what_happens_to_a_view_is_told_in_its_place(realm: str) -> None:
    async def main() -> None:
        async with join("g", name="ada", realm=realm, storage="memory", service="timestamp") as ada:
            assert isinstance(await anext(ada), unisono.View)
            told: list[unisono.Event] = [
                unisono.Excluded(unisono.ViewId(9, unisono.ProcessId("bob", 1), 1)),
                unisono.DroppedOut("a view was missed"),
            ]
            ada.on_events(told)
            assert await ada.receive_many() == told

    run(main())


def test_a_large_message_arrives_whole(realm: str) -> None:
    async def main() -> None:
        data = random.Random(1).randbytes(3_000_000)
        async with together(["ada", "bob"], realm) as (ada, bob):
            sending = asyncio.create_task(ada.send(data))
            own = asyncio.create_task(messages(ada, 1))
            assert texts(await messages(bob, 1)) == [data]
            await sending
            assert texts(await own) == [data]

    run(main())


def test_errors_say_what_to_do(realm: str) -> None:
    async def main() -> None:
        with pytest.raises(SettingError, match="expected one of intergroup"):
            join("g", protocol="carrier pigeon")
        with pytest.raises(SettingError, match="unknown setting"):
            join("g", patients="2s")
        with pytest.raises(SettingError, match="empty"):
            join("")
        with pytest.raises(SettingError, match="mesh"):
            await join("g", realm=realm, seeds=["127.0.0.1:1"]).open()
        with pytest.raises(unisono.NetworkError, match="no interface 'nowhere' is up here"):
            await join("g", realm=realm, interface="nowhere").open()
        with pytest.raises(NotMember, match="async with"):
            await join("g").send(b"early")
        async with join("g", realm=realm, message_limit_bytes="1KiB") as group:
            with pytest.raises(MessageTooLarge, match="1025 bytes and 'g' takes 1024"):
                await group.send(bytes(1025))
            with pytest.raises(TypeError, match="encode it first"):
                await group.send("text")  # type: ignore[arg-type]  # the mistake under test
            with pytest.raises(GroupError, match="already"):
                await join("g", realm=realm, message_limit_bytes="1KiB").open()
            await group.send(b"still works")
            assert texts(await messages(group, 1)) == [b"still works"]

    run(main())


def test_a_name_is_used_by_one_process_at_a_time(realm: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with join("g", name="ada", realm=realm) as first:
            with pytest.raises(StorageError, match="choose another name"):
                await join("g", name="ada", realm=realm, port=0, interface="127.0.0.1").open()
            before = first.process.id
        async with join("g", name="ada", realm=realm) as again:
            after = again.process.id
        assert after.incarnation > before.incarnation
        assert list((tmp_path / "state").rglob("incarnation.log"))

    run(main())


def test_groups_of_one_process_share_its_sockets(realm: str) -> None:
    async def main() -> None:
        async with join("a", realm=realm) as one, join("b", realm=realm) as two:
            assert one.process is two.process
            await one.send(b"to a")
            await two.send(b"to b")
            assert texts(await messages(one, 1)) == [b"to a"]
            assert texts(await messages(two, 1)) == [b"to b"]
            await one.leave()
            await two.send(b"goes on")
            assert texts(await messages(two, 1)) == [b"goes on"]
        async with Process("own", realm=realm, storage="memory") as process:
            async with join("a", process=process) as one, join("b", process=process) as two:
                assert process.groups == ["a", "b"]
                assert one.process is two.process is process
            async with join("a", process=process) as again:
                await again.send(b"once more")
                assert [message.number for message in await messages(again, 1)] == [1]
        with pytest.raises(GroupError, match="was closed"):
            await join("a", process=process).open()

    run(main())


def test_a_process_that_is_closed_leaves_its_groups(realm: str) -> None:
    async def main() -> None:
        async with join("g", name="bob", realm=realm, storage="memory") as bob:
            process = Process("ada", realm=realm, storage="memory")
            ada = await join("g", process=process).open()
            await members_are(bob, 2)
            await process.close()
            view = await view_without(bob, "ada")
            assert [reason for _, reason in view.reasons] == [ViewReason.LEFT]
            assert [event async for event in ada if isinstance(event, unisono.Message)] == []

    run(main())


@pytest.mark.parametrize("transport", ["multicast", "mesh"])
def test_many_groups_at_once(realm: str, transport: TransportName) -> None:
    async def main() -> None:
        names = [f"group {number}" for number in range(30)]
        options: dict[str, Any] = {"realm": realm, "transport": transport}
        async with (
            Process("ada", storage="memory", **options) as ada,
            Process("bob", storage="memory", **options) as bob,
            contextlib.AsyncExitStack() as stack,
        ):
            mine = [await stack.enter_async_context(join(name, process=ada)) for name in names]
            theirs = [await stack.enter_async_context(join(name, process=bob)) for name in names]
            for group in mine + theirs:
                await members_are(group, 2)
            await asyncio.gather(*(group.send(group.name.encode()) for group in mine))
            for group in theirs:
                assert texts(await messages(group, 1)) == [group.name.encode()]

    run(main())


def test_a_reader_that_stops_makes_send_wait(realm: str, tmp_path: Path) -> None:
    """And a send that is cancelled while it waits is not made, with those before and after it unharmed."""
    options = {
        "event_limit": 10,
        "window_bytes": "64KiB",
        "receive_buffer_bytes": "128KiB",
        "patience": "60s",
        "trace": str(tmp_path),
    }
    total = 600

    async def pump(group: unisono.Group) -> None:
        for number in range(total):
            await group.send(number.to_bytes(2, "big") + bytes(1000))

    def window_filled() -> bool:
        rows = [row for path in tmp_path.glob("ada~*.spool") for row in read_spool(path)]
        return any(isinstance(row, GaugeRow) and row.name == "window-full" for row in rows)

    async def main() -> None:
        async with together(["ada", "bob"], realm, **options) as (ada, bob):
            own = asyncio.create_task(messages(ada, total + 1))
            pumping = asyncio.create_task(pump(ada))
            await until(window_filled)
            assert not pumping.done()
            held = asyncio.create_task(ada.send(b"cancelled"))
            await asyncio.sleep(0)
            held.cancel()
            with pytest.raises(asyncio.CancelledError):
                await held
            assert not pumping.done()
            got = await messages(bob, total)
            assert [int.from_bytes(message.data[:2], "big") for message in got] == list(range(total))
            await pumping
            await ada.send(b"after")
            assert texts(await messages(bob, 1)) == [b"after"]
            assert b"cancelled" not in texts(await own)

    run(main())


def test_cancelled_sends_are_whole_or_not_there(realm: str) -> None:
    async def main() -> None:
        chance = random.Random(7)
        async with together(["ada", "bob"], realm) as (ada, bob):
            own = asyncio.create_task(messages(ada, 1 << 30))
            accepted: list[int] = []
            for number in range(300):
                sending = asyncio.create_task(ada.send(number.to_bytes(2, "big") * 700))
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sending
                    accepted.append(number)
            await ada.send(b"end")
            got = []
            while (message := (await messages(bob, 1))[0]).data != b"end":
                assert message.data == message.data[:2] * 700
                got.append(int.from_bytes(message.data[:2], "big"))
            assert got == sorted(set(got))
            assert set(accepted) <= set(got)
            assert 0 < len(accepted) < 300
            own.cancel()

    run(main())


def test_cancelled_iteration_loses_nothing(realm: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob"], realm) as (ada, bob):
            own = asyncio.create_task(messages(ada, 200))
            sending = asyncio.create_task(ada.send_many([str(number).encode() for number in range(200)]))
            got: list[bytes] = []
            while len(got) < 200:
                taking = asyncio.create_task(anext(bob))
                await asyncio.sleep(0)
                taking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    event = await taking
                    if isinstance(event, unisono.Message):
                        got.append(event.data)
                if len(got) % 3 == 0:
                    many = await bob.receive_many(5) if len(got) < 200 else []
                    got += [event.data for event in many if isinstance(event, unisono.Message)]
            assert got == [str(number).encode() for number in range(200)]
            await sending
            await own

    run(main())


@pytest.mark.parametrize("transport", ["multicast", "mesh"])
def test_garbage_changes_nothing_but_the_counters(realm: str, transport: TransportName) -> None:
    async def main() -> None:
        chance = random.Random(11)
        async with together(["ada", "bob"], realm, transport=transport) as (ada, bob):
            views = ada.view, bob.view
            address = ada.process.address
            counted = ada.process.counters
            host = multicast_host(realm, multicast_address("g"), socket.AF_INET)
            targets = [numeric(address, socket.AF_INET), (host, realm_port(realm))]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.bind(("127.0.0.1", 0))
                stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
                stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
                for number in range(400):
                    head = (b"", b"uo", b"uo\x01\x01", b"um", b"um\x01")[number % 5]
                    data = head + chance.randbytes(chance.choice((0, 1, 20, 300, 1400)))
                    stranger.sendto(data, targets[number % 2])
                for word in (Word("bye", bytes(8)), Word("here", bytes(8)), Word("hello", bytes(8))):
                    stranger.sendto(write_word(1, word), targets[0])
                    stranger.sendto(write_word(realm_number(realm), word), targets[0])
            await until(lambda: sum(count for reason, count in counted.items() if reason.startswith("wire: ")) >= 60)
            await ada.send(b"unharmed")
            assert texts(await messages(bob, 1)) == [b"unharmed"]
            await bob.send(b"neither")
            assert texts(await messages(ada, 2)) == [b"unharmed", b"neither"]
            assert (ada.view, bob.view) == views
            if transport == "mesh":
                assert counted["mesh: damaged"] > 0
                assert counted["mesh: another realm"] == 3
                assert counted["mesh: an answer to nobody's greeting"] == 2

    run(main())


@pytest.mark.parametrize("transport", ["multicast", "mesh"])
def test_realms_keep_strangers_apart(realm: str, transport: TransportName, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with together(["ada", "bob"], realm, transport=transport) as (ada, bob):
            monkeypatch.setenv("UNISONO_REALM", realm + "-other")
            async with (
                join("g", name="eve", transport=transport, storage="memory") as eve,
                join("g", name="mallory", transport=transport, storage="memory") as mallory,
            ):
                await until(lambda: len(eve.members) == 2)
                await eve.send(b"for mallory")
                assert texts(await messages(mallory, 1)) == [b"for mallory"]
                await ada.send(b"for bob")
                assert texts(await messages(bob, 1)) == [b"for bob"]
                assert {process.name for process in eve.members} == {"eve", "mallory"}
                assert {process.name for process in ada.members} == {"ada", "bob"}

    run(main())


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6 on this machine"))],
)
def test_a_mesh_grows_from_one_seed(realm: str, host: str) -> None:
    """Every member knows the first one only; they learn of each other from it."""

    async def main() -> None:
        options: dict[str, Any] = {"realm": realm, "transport": "mesh", "storage": "memory", "interface": host}
        async with join("g", name="first", **options) as first:
            seed = first.process.address
            async with (
                join("g", name="second", seeds=[seed], **options) as second,
                join("g", name="third", seeds=[seed], **options) as third,
            ):
                for group in (first, second, third):
                    await members_are(group, 3)
                await third.send(b"to all")
                for group in (first, second, third):
                    assert texts(await messages(group, 1)) == [b"to all"]

    run(main())


def test_unordered_delivery_needs_no_handshake(realm: str) -> None:
    async def main() -> None:
        async with (
            join("g", name="ada", realm=realm, storage="memory", service="unordered") as ada,
            join("g", name="bob", realm=realm, storage="memory", service="unordered") as bob,
        ):
            assert bob.view is None
            await ada.send(b"at once")
            assert texts(await messages(bob, 1)) == [b"at once"]

    run(main())


def test_a_trace_that_cannot_be_written_stops_the_process(realm: str, tmp_path: Path) -> None:
    async def main() -> None:
        blocked = tmp_path / "file"
        blocked.write_text("in the way")
        with pytest.raises(unisono.TraceError, match="cannot write the trace"):
            async with join("g", realm=realm, trace=blocked) as group:
                await group.send(b"never without a trace")

    run(main())


def test_scripts_need_no_event_loop(realm: str) -> None:
    with unisono.sync.join("g", name="ada", realm=realm, storage="memory") as group:
        group.send(b"one")
        group.send_many([b"two"])
        got: list[bytes] = []
        for event in group:
            if isinstance(event, unisono.Message):
                got.append(event.data)
            if len(got) == 2:
                break
        assert got == [b"one", b"two"]
        assert group.receive(timeout_seconds=0.01) is None
        assert [process.name for process in group.members] == ["ada"]
        assert group.members == (group.id,)
        group.leave()
        assert list(group) == []
    for call in (group.receive, lambda: group.send(b"three"), lambda: group.count_audience()):
        with pytest.raises(NotMember, match="'g' was closed; join it again"):
            call()
    group.leave()
    with pytest.raises(NotMember, match=r"write `with unisono\.sync\.join\('g'\) as group:`"):
        unisono.sync.join("g").receive()


def test_names_that_nobody_chose_differ() -> None:
    one, two = Process(), Process()
    assert one.name != two.name
    assert str(os.getpid()) in one.name
