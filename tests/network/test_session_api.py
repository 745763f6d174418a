"""Sessions, servers and their commands as programs and people use them, on real sockets."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

import unisono
import unisono.sync
from examples.replicated_set import main as replicated_set
from tests.network.meeting import run, until
from tests.network.processes import PATIENCE_SECONDS, ROOT, Talker
from unisono import (
    Block,
    Controller,
    DroppedOut,
    GroupError,
    MembershipServer,
    Message,
    NetworkError,
    NotMember,
    ServerChanged,
    Session,
    SessionGroup,
    Unblocked,
    View,
)
from unisono.cli.main import app
from unisono.trials.wiring import free_endpoints


@asynccontextmanager
async def sessions(names: list[str], realm: str, **options: Any) -> AsyncIterator[list[Session]]:
    """Clients of one server, all in this process."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(MembershipServer(realm=realm))
        yield [
            await stack.enter_async_context(
                Session(name, servers=[server.address], realm=realm, storage="memory", **options)
            )
            for name in names
        ]


async def joined(opened: list[Session], group: str = "g", **settings: Any) -> list[SessionGroup]:
    """All of them in one view of a group."""
    groups = [await session.join(group, **settings) for session in opened]
    await until(lambda: all(len(one.members) == len(opened) for one in groups))
    return groups


async def next_message(group: SessionGroup) -> Message:
    async for event in group:
        if isinstance(event, Message):
            return event
    raise AssertionError("the group ended before")


def test_a_session_has_a_server_an_identity_and_groups(realm: str) -> None:
    async def main() -> None:
        async with sessions(["ada", "bob"], realm) as (ada, bob):
            assert ada.server == bob.server
            assert ada.id.name == "ada"
            (one, two) = await joined([ada, bob])
            groups = [ada.groups]
            await one.send(b"hello")
            got = await next_message(two)
            assert (got.source, got.data, got.number) == (ada.id, b"hello", 1)
            with pytest.raises(GroupError, match="is in group 'g' already"):
                await ada.join("g")
            await one.leave()
            assert [*groups, ada.groups] == [(one,), ()]
            await until(lambda: two.members == (bob.id,))
            with pytest.raises(NotMember, match="join it again"):
                one.try_send(b"late")
            again = await ada.join("g")
            await until(lambda: len(two.members) == 2)
            assert again.transitional == (ada.id,)
        assert ada.server is None

    run(main())


def test_the_calls_that_never_wait(realm: str) -> None:
    async def main() -> None:
        async with sessions(["ada"], realm) as (ada,):
            group = await ada.join("g")
            buffer = bytearray(8)
            copied = group.receive_into(buffer)
            assert copied is not None
            assert (copied.length, copied.event) == (1, group.view)
            assert group.try_send(b"one")
            assert group.try_send(b"two bytes")
            await until(lambda: group.poll() == 2)
            copied = group.receive_into(buffer)
            assert copied is not None
            assert (copied.length, copied.source, bytes(buffer[:3])) == (3, ada.id, b"one")
            with pytest.raises(GroupError, match="it is still there"):
                group.receive_into(buffer)
            event = group.receive()
            assert isinstance(event, Message)
            assert event.data == b"two bytes"
            assert group.receive() is None

    run(main())


def test_a_callback_finishes_a_view_in_time(realm: str) -> None:
    async def main() -> None:
        async with sessions(["ada", "bob"], realm, block_timeout="30s") as (ada, bob):
            asked: list[Block] = []

            async def finish(block: Block) -> None:
                asked.append(block)
                await group.send(b"the last in this view")

            group = await ada.join("g", on_block=finish)
            first = group.view
            await bob.join("g")
            events = await group.receive_many()
            while not isinstance(events[-1], Unblocked):
                events += await group.receive_many()
            assert [type(event) for event in events] == [View, Message, View, Unblocked]
            (message,) = [event for event in events if isinstance(event, Message)]
            assert first is not None
            assert message.view == first.id
            assert [block.change for block in asked] == [group.view.change if group.view else None]

    run(main())


def test_optimistic_sending_goes_on_while_the_view_changes(realm: str) -> None:
    async def main() -> None:
        async with sessions(["ada", "bob"], realm) as (ada, bob):
            group = await ada.join("g", optimistic=True)

            async def load() -> None:
                for number in range(400):
                    await group.send(b"%d" % number)
                    await asyncio.sleep(0)

            sending = asyncio.create_task(load())
            await bob.join("g")
            await sending
            got: list[int] = []
            returned = 0
            while len(got) + returned < 400:
                for event in await group.receive_many():
                    if isinstance(event, Message):
                        got.append(int(event.data))
                    elif isinstance(event, unisono.Returned):
                        returned += 1
            assert got == sorted(got)
            assert len(set(got)) + returned == 400

    run(main())


def test_who_is_alone_gets_its_own_large_message(realm: str) -> None:
    async def main() -> None:
        data = Random(1).randbytes(2_000_000)
        async with sessions(["ada"], realm) as (ada,):
            group = await ada.join("g")
            sending = asyncio.create_task(group.send(data))
            assert (await next_message(group)).data == data
            await sending

    run(main())


def test_who_allows_smaller_messages_than_are_sent_drops_out_and_is_told(realm: str) -> None:
    async def main() -> None:
        async with sessions(["ada", "bob"], realm) as (ada, bob):
            one = await ada.join("g", message_limit_bytes=100_000)
            two = await bob.join("g", message_limit_bytes=10_000)
            await until(lambda: len(one.members) == 2)
            await one.send(b"a" * 10_000)
            await one.send(b"b" * 20_000)
            events = [event async for event in two if not isinstance(event, View)]
            assert [type(event) for event in events] == [Message, DroppedOut]
            assert ["larger" in event.reason for event in events if isinstance(event, DroppedOut)] == [True]
            await until(lambda: one.members == (ada.id,))
            await one.send(b"alone")
            async for event in one:
                if isinstance(event, Message) and event.data == b"alone":
                    break
            with pytest.raises(NotMember):
                await two.send(b"too late")
            again = await bob.join("g", message_limit_bytes=100_000)
            await until(lambda: len(again.members) == 2)

    run(main())


def test_a_large_message_goes_through_a_controller(realm: str) -> None:
    async def main() -> None:
        data = Random(1).randbytes(2_000_000)
        async with (
            MembershipServer(realm=realm) as server,
            Controller(servers=[server.address], realm=realm) as controller,
            Session("ada", controllers=[controller.address], realm=realm, storage="memory") as ada,
            Session("bob", controllers=[controller.address], realm=realm, storage="memory") as bob,
        ):
            one, two = await joined([ada, bob])
            sending = asyncio.create_task(one.send(data))
            own = asyncio.create_task(next_message(one))
            assert (await next_message(two)).data == data
            await sending
            assert (await own).data == data
            assert controller.status().clients == 2
            assert ada.server == controller.address

    run(main())


def test_without_any_server_views_stay_and_messages_flow(realm: str) -> None:
    async def main() -> None:
        (endpoint,) = free_endpoints(1)
        options: dict[str, Any] = {"servers": [endpoint], "realm": realm, "storage": "memory"}
        async with AsyncExitStack() as stack:
            server = await MembershipServer(endpoint, realm=realm).open()
            ada = await stack.enter_async_context(Session("ada", **options))
            bob = await stack.enter_async_context(Session("bob", **options))
            one, two = await joined([ada, bob])
            before = one.view
            await server.close()
            await until(lambda: ada.server is None and bob.server is None)
            await one.send(b"nobody keeps who is here")
            assert (await next_message(two)).data == b"nobody keeps who is here"
            assert one.view is before
            await stack.enter_async_context(MembershipServer(endpoint, realm=realm))
            await until(lambda: ada.server == bob.server == endpoint)
            eve = await stack.enter_async_context(Session("eve", **options))
            three = await eve.join("g")
            await until(lambda: all(len(group.members) == 3 for group in (one, two, three)))
            await three.send(b"here again")
            assert (await next_message(one)).data == b"nobody keeps who is here"
            assert (await next_message(one)).data == b"here again"

    run(main())


def test_clients_of_a_controller_that_ends_begin_anew_with_another(realm: str) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(MembershipServer(realm=realm))
            controllers = [
                await stack.enter_async_context(Controller(servers=[server.address], realm=realm)) for _ in range(2)
            ]
            places = [controller.address for controller in controllers]
            ada, bob = [
                await stack.enter_async_context(
                    Session(name, controllers=places, realm=realm, storage="memory", server_timeout="500ms")
                )
                for name in ("ada", "bob")
            ]
            one, two = await joined([ada, bob])
            lost = ada.server
            await next(controller for controller in controllers if controller.address == lost).close()
            await until(lambda: ada.server not in (None, lost) and bob.server not in (None, lost))
            seen: list[unisono.SessionEvent] = []
            while not any(isinstance(event, unisono.Excluded) for event in seen) or len(one.members) < 2:
                seen += await one.receive_many()
            after = seen[[type(event) for event in seen].index(unisono.Excluded) :]
            anew = next(event for event in after if isinstance(event, View))
            assert (anew.previous, anew.transitional) == (None, (ada.id,))
            await until(lambda: len(two.members) == 2)
            await one.send(b"by another way")
            assert (await next_message(two)).data == b"by another way"

    run(main())


def test_scripts_have_sessions_without_an_event_loop(realm: str) -> None:
    async def main() -> None:
        async with MembershipServer(realm=realm) as server:
            await asyncio.to_thread(script, server.address)

    def texts(group: unisono.sync.SyncSessionGroup, count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count:
            found += [event.data for event in group.receive_many() if isinstance(event, Message)]
        return found

    def script(endpoint: str) -> None:
        options: dict[str, Any] = {"servers": [endpoint], "realm": realm, "storage": "memory"}
        finished: list[Block] = []
        with (
            unisono.sync.Session("ada", **options) as ada,
            unisono.sync.Session("bob", **options) as bob,
            ada.join("g", on_block=finished.append) as one,
        ):
            assert (ada.name, ada.server, ada.groups) == ("ada", endpoint, (one,))
            with bob.join("g") as two:
                assert bob.groups == (two,)
                assert two.transitional == (bob.id,)
                assert two.try_send(b"from a script")
                assert not two.blocked
                assert texts(one, 1) == [b"from a script"]
                assert len(finished) == 1
                buffer = bytearray(100)
                copied = two.receive_into(buffer)
                assert copied is not None
                assert isinstance(copied.event, View)
            one.send_many([b"alone", b"again"])
            assert texts(one, 2) == [b"alone", b"again"]
            one.leave()
            assert ada.groups == ()
        with pytest.raises(NetworkError, match="no membership server took this session in"):
            unisono.sync.Session("eve", **{**options, "servers": free_endpoints(1), "timeout_seconds": 0.1}).open()

    run(main())


@pytest.mark.parametrize(
    ("here", "there"), [("one", "one"), ("one", "other"), ("one", "server"), ("server", "one"), ("server", "other")]
)
def test_of_two_processes_with_one_name_the_older_goes_from_its_controller_too(
    realm: str, here: str, there: str
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            first = await enter(MembershipServer(realm=realm))
            second = await enter(MembershipServer(realm=realm, peers=[first.address]))
            one = await enter(Controller(servers=[first.address], realm=realm))
            other = await enter(Controller(servers=[second.address], realm=realm))
            places: dict[str, dict[str, Any]] = {
                "one": {"controllers": [one.address]},
                "other": {"controllers": [other.address]},
                "server": {"servers": [first.address]},
            }
            options: dict[str, Any] = {"realm": realm, "storage": "memory"}
            eve = await enter(Session("eve", servers=[second.address], **options))
            older = await enter(Session("ada", **places[here], **options))
            watching, group = await joined([eve, older])
            async with Session("ada", **places[there], **options) as newer:
                await newer.join("g")
                events = [event async for event in group]
                assert isinstance(events[-1], DroppedOut)
                assert "has this name" in events[-1].reason
                await until(lambda: set(watching.members) == {eve.id, newer.id})
                with pytest.raises(unisono.UnisonoError, match="has this name"):
                    await older.join("g", timeout_seconds=0.2)

    run(main())


@pytest.mark.parametrize("apart", [False, True])
def test_of_two_processes_with_one_name_the_older_one_is_told_and_goes(realm: str, apart: bool) -> None:
    async def main() -> None:
        async with (
            MembershipServer(realm=realm) as first,
            MembershipServer(realm=realm, peers=[first.address]) as second,
            Session("eve", servers=[first.address], realm=realm, storage="memory") as eve,
            Session("ada", servers=[first.address], realm=realm, storage="memory") as older,
        ):
            watching, group = await joined([eve, older])
            place = second.address if apart else first.address
            async with Session("ada", servers=[place], realm=realm, storage="memory") as newer:
                await newer.join("g")
                events = [event async for event in group]
                assert isinstance(events[-1], DroppedOut)
                assert "has this name" in events[-1].reason
                await until(lambda: set(watching.members) == {eve.id, newer.id})
                with pytest.raises(NetworkError, match="has this name"):
                    await older.join("g", timeout_seconds=0.2)

    run(main())


def test_scripts_are_told_when_a_session_is_not_open(realm: str) -> None:
    async def main() -> None:
        async with MembershipServer(realm=realm) as server:
            await asyncio.to_thread(script, server.address)

    def calls(group: unisono.sync.SyncSessionGroup) -> list[Callable[[], object]]:
        return [
            lambda: group.send(b"one"),
            lambda: group.send_many([b"one"]),
            lambda: group.try_send(b"one"),
            group.receive,
            group.receive_many,
            lambda: list(group),
            lambda: group.receive_into(bytearray(8)),
            group.poll,
            group.block_ok,
            group.open,
        ]

    def script(endpoint: str) -> None:
        session = unisono.sync.Session("ada", servers=[endpoint], realm=realm, storage="memory")
        for call in calls(session.join("g")):
            with pytest.raises(NotMember, match=r"not open yet; write `with unisono\.sync\.Session"):
                call()
        with session:
            group = session.join("g", block="ask").open()
            with pytest.raises(GroupError, match="'ada' is open already"):
                session.open()
        for call in calls(group):
            with pytest.raises(NotMember, match="session 'ada' has ended"):
                call()
        group.leave()
        group.close()
        session.close()
        assert (session.groups, session.server, group.joined) == ((), None, False)
        with pytest.raises(GroupError, match="make a new one"):
            session.open()

    run(main())


def test_a_script_that_waits_in_another_thread_is_told_of_the_end(realm: str) -> None:
    async def main() -> None:
        server = await MembershipServer(realm=realm).open()
        session = unisono.sync.Session("ada", servers=[server.address], realm=realm, storage="memory")
        await asyncio.to_thread(session.open)
        await server.close()
        await until(lambda: session.server is None)
        waiting = asyncio.create_task(asyncio.to_thread(session.join("g", timeout_seconds=PATIENCE_SECONDS).open))
        await asyncio.to_thread(session.close)
        with pytest.raises(GroupError, match=r"session 'ada' has ended|'ada' was closed"):
            await waiting

    run(main())


def test_a_script_is_told_of_every_change_of_server(realm: str) -> None:
    async def main() -> None:
        server = await MembershipServer(realm=realm).open()
        told: SimpleQueue[ServerChanged] = SimpleQueue()

        def tell(change: ServerChanged) -> None:
            assert session.name == "ada"  # calls of the session may be made here
            told.put(change)

        session = unisono.sync.Session("ada", servers=[server.address], realm=realm, storage="memory")
        session.watch_server(tell)
        await asyncio.to_thread(session.open)
        try:
            assert (await asyncio.to_thread(told.get)).server == server.address
            await server.close()
            assert (await asyncio.to_thread(told.get)).server is None
        finally:
            await asyncio.to_thread(session.close)

    run(main())


OF_THE_LOOP = {
    "process",  # belongs to the event loop
    "on_joined",  # is called by the process
    "on_events",
    "on_failed",
    "on_state",
}


@pytest.mark.parametrize(
    ("asynchronous", "plain"),
    [
        (Session("ada", servers=["127.0.0.1:7500"]), unisono.sync.Session),
        (Session("ada", servers=["127.0.0.1:7500"]).join("g"), unisono.sync.SyncSessionGroup),
        (unisono.join("g"), unisono.sync.SyncGroup),
    ],
    ids=["session", "session group", "group"],
)
def test_scripts_have_what_event_loops_have(asynchronous: object, plain: type) -> None:
    names = {name for name in dir(asynchronous) if not name.startswith("_")} - OF_THE_LOOP
    assert names - set(dir(plain)) == set()
    for name in names:
        call = getattr(type(asynchronous), name, None)
        if inspect.isfunction(call):
            taken = inspect.signature(getattr(plain, name)).parameters
            assert set(inspect.signature(call).parameters) - set(taken) == set(), name


@pytest.mark.parametrize(("first", "second"), [("strong", "weak"), ("weak", "strong")])
def test_who_comes_with_other_semantics_is_told_and_the_group_goes_on(realm: str, first: str, second: str) -> None:
    async def main() -> None:
        async with sessions(["ada", "bob", "eve", "sam"], realm, semantics="weak") as (ada, bob, eve, sam):
            one, two = await joined([ada, bob], semantics=first)
            try:
                async with eve.join("g", semantics=second) as other:
                    told = [event.reason async for event in other if isinstance(event, DroppedOut)]
            except GroupError as error:  # it was known before the first view
                told = [str(error)]
            assert [f'with semantics="{first}", and this process with "{second}"' in reason for reason in told] == [
                True
            ]
            three = await sam.join("g", semantics=first)
            await until(lambda: one.members == two.members == three.members == (ada.id, bob.id, sam.id))
            await one.send(b"on")
            assert [(await next_message(group)).data for group in (one, two, three)] == [b"on"] * 3

    run(main())


def test_clients_of_a_controller_cannot_be_in_a_weak_group_and_the_group_goes_on(realm: str) -> None:
    async def main() -> None:
        async with (
            MembershipServer(realm=realm) as server,
            Controller(servers=[server.address], realm=realm) as controller,
            Session("ada", servers=[server.address], semantics="weak", realm=realm, storage="memory") as ada,
            Session("bob", controllers=[controller.address], realm=realm, storage="memory") as bob,
        ):
            one = await ada.join("g")
            try:
                async with bob.join("g") as other:
                    told = [event.reason async for event in other if isinstance(event, DroppedOut)]
            except GroupError as error:  # it was known before the first view
                told = [str(error)]
            assert ['with semantics="weak", and this process with "strong"' in reason for reason in told] == [True]
            await until(lambda: one.members == (ada.id,))

    run(main())


def test_without_a_server_the_error_says_what_to_do(realm: str) -> None:
    async def main() -> None:
        nobody = free_endpoints(2)
        with pytest.raises(NetworkError) as caught:
            async with Session("ada", servers=nobody, realm=realm, storage="memory", timeout_seconds=0.2):
                raise AssertionError("nobody is there")
        assert f"tried {nobody[0]}, {nobody[1]}" in str(caught.value)
        assert f"`unisono membership-server --listen {nobody[0]}`" in str(caught.value)
        assert f"of the realm {realm!r}" in str(caught.value)
        with pytest.raises(NetworkError, match="cannot find the membership server 'no such host:1'"):
            await Session("ada", servers=["no such host:1"], realm=realm, storage="memory").open()

    run(main())


def test_names_of_hosts_are_looked_up(realm: str) -> None:
    async def main() -> None:
        async with MembershipServer(realm=realm) as server:
            port = server.address.rpartition(":")[2]
            async with Session("ada", servers=[f"localhost:{port}"], realm=realm, storage="memory") as ada:
                assert ada.server == server.address

    run(main())


def test_joining_in_vain_says_why(realm: str) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            server = await MembershipServer(realm=realm).open()
            ada = await stack.enter_async_context(
                Session("ada", servers=[server.address], realm=realm, storage="memory")
            )
            await server.close()
            await until(lambda: ada.server is None)
            with pytest.raises(NetworkError, match=r"no view of 'g' .* this session is with no server now"):
                await ada.join("g", timeout_seconds=0.1)

    run(main())


def test_servers_say_who_is_here_and_end_when_they_are_told(realm: str) -> None:
    endpoints = free_endpoints(2)
    command = ["-m", "unisono", "membership-server", "--realm", realm]
    peers = [word for endpoint in endpoints for word in ("--peer", endpoint)]
    with (
        closing(Talker("one", [*command, "--listen", endpoints[0], *peers])) as one,
        closing(Talker("two", [*command, "--listen", endpoints[1], *peers, "--json"])) as two,
    ):
        one.wait_line(f"membership server server-{endpoints[0]} at {endpoints[0]}")
        together = sorted(f"server-{endpoint}" for endpoint in endpoints)
        one.wait_line(f"servers: {' '.join(together)}")

        async def main() -> None:
            async with Session("ada", servers=[endpoints[0]], realm=realm, storage="memory") as ada:
                await ada.join("g")
                await asyncio.to_thread(one.wait_line, "group g: ada")
                await asyncio.to_thread(two.wait, said({"event": "group", "group": "g", "members": ["ada"]}), "ada")

        run(main())
        one.wait_line("group g: nobody")
        for server in (one, two):
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(PATIENCE_SECONDS) == 0
        one.wait_line("ended")
        two.wait(said({"event": "ended"}), "that it ended")


def test_a_controller_says_where_it_looks_for_a_server_and_when_it_has_one(realm: str) -> None:
    nobody, place = free_endpoints(2)
    command = ["-m", "unisono", "controller", "--realm", realm, "--listen", "127.0.0.1:0"]
    with closing(Talker("controller", [*command, "--server", nobody, "--server", place])) as controller:
        controller.wait_line(f"looks for a membership server at {nobody}, {place}")

        async def main() -> None:
            async with MembershipServer(place, realm=realm):
                await asyncio.to_thread(controller.wait_line, f"with {place}")

        run(main())


def said(told: dict[str, Any]) -> Any:
    """Whether one of the lines is this object."""
    return lambda lines: any(json.loads(line) == told for line in lines)


def test_commands_that_cannot_be_say_so(realm: str) -> None:
    async def main() -> None:
        async with MembershipServer(realm=realm) as server:
            command = [sys.executable, "-m", "unisono", "membership-server", "--listen", server.address]
            taken = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, capture_output=True, text=True)
            assert taken.returncode == 2
            assert "Address already in use" in taken.stderr

    run(main())
    for words, complaint in (
        (["membership-server", "--listen", "nowhere"], "expected host:port"),
        (["membership-server", "--peer", "nowhere"], "expected host:port"),
        (["controller", "--server", "127.0.0.1"], "expected host:port"),
        (["chat", "lobby", "--server", "127.0.0.1:1", "--service", "timestamp"], "a session has no services"),
    ):
        done = CliRunner().invoke(app, words)
        assert complaint in str(done.exception), words
    assert CliRunner().invoke(app, ["controller"]).exit_code == 2
    for name in ("membership-server", "controller"):
        told = CliRunner().invoke(app, [name, "--help"])
        assert told.exit_code == 0
        assert f"unisono {name} --listen" in told.output


def test_two_chats_meet_in_a_session(realm: str) -> None:
    async def main() -> None:
        async with MembershipServer(realm=realm) as server:
            await asyncio.to_thread(talk, server.address)

    def talk(endpoint: str) -> None:
        command = ["-m", "unisono", "chat", "lobby", "--realm", realm, "--server", endpoint, "--name"]
        with closing(Talker("ada", [*command, "ada"])) as ada, closing(Talker("bob", [*command, "bob"])) as bob:
            ada.wait_line("* bob is here")
            ada.tell("hello bob")
            bob.wait_line("ada: hello bob")
            assert bob.process.stdin is not None
            bob.process.stdin.close()
            assert bob.process.wait(PATIENCE_SECONDS) == 0
            ada.wait_line("* bob left")
            with closing(Talker("eve", [*command, "eve"])) as eve:
                ada.wait_line("* eve is here")
                eve.kill()
                ada.wait_line("* eve is not heard any more")

    run(main())


def shown(language: str) -> list[str]:
    page = (ROOT / "docs" / "sessions.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_a_data_set_is_sent_to_those_alone_who_did_not_come_along(
    realm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        assert await replicated_set(realm=realm) == [{"apples": "2", "pears": "5"}] * 2

    run(main())
    assert capsys.readouterr().out in shown("text")


def test_the_first_program_of_the_page_runs(realm: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNISONO_REALM", realm)
    program = tmp_path / "program.py"
    program.write_text(shown("python")[0], encoding="utf-8")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "b'one more'\n"), done.stderr
