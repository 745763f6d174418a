"""The calls of a session and of its groups, without a network: what they hand to the engine, and what they say."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

import unisono
from unisono import (
    Block,
    Controller,
    Copied,
    GroupError,
    MembershipServer,
    Message,
    MessageTooLarge,
    NetworkError,
    NotMember,
    ProcessId,
    SendRejected,
    Session,
    SessionGroup,
    SettingError,
    Unblocked,
    View,
    ViewId,
)
from unisono.engine import BlockOk, EventsTaken, Fact, Leave, Send
from unisono.events import Event, Left, SendAccepted, SendRefused
from unisono.runtime.process import Member, Process
from unisono.session_group import OnBlock
from unisono.session_settings import OF_SESSIONS
from unisono.settings import Settings, read_settings

ADA, BOB = ProcessId("ada", 1), ProcessId("bob", 1)
FIRST = View(ViewId(1, ADA, 1), None, (ADA,), (), (), transitional=(ADA,), change=1)
SECOND = View(ViewId(2, ADA, 2), FIRST.id, (ADA, BOB), (), (), transitional=(ADA,), change=2)


def message(number: int, data: bytes = b"data") -> Message:
    return Message(ADA, number, number, 0, data, FIRST.id, number - 1)


class FakeProcess:
    """A process whose engine is the test: keeps the facts, and lets the test deliver events."""

    name = "ada"
    traced = traces_messages = False

    def __init__(self, accepts: bool = True, view: bool = True) -> None:
        self.facts: list[Fact] = []
        self.accepts = accepts
        self.refusal = ""
        self._view = view
        self.member: Member | None = None

    async def start(self) -> None: ...

    async def attach(self, group: str, member: Member, settings: Settings, protocol: str, stateful: bool) -> None:
        assert protocol == "virtual_synchrony"
        self.member = member
        member.on_joined(None)
        if self._view:
            asyncio.get_running_loop().call_soon(self.deliver, FIRST)

    def detach(self, group: str) -> None: ...

    def leave(self, group: str) -> None:
        self.facts.append(Leave(group))
        self.deliver(Left())

    def give(self, fact: Fact) -> None:
        self.facts.append(fact)
        if isinstance(fact, Send) and self.refusal:
            self.deliver(SendRefused(fact.ticket, self.refusal))
        elif isinstance(fact, Send) and self.accepts:
            self.deliver(SendAccepted(fact.ticket))

    def deliver(self, *events: Event) -> None:
        assert self.member is not None
        self.member.on_events(events)


def group_of(process: FakeProcess, on_block: OnBlock | None = None, **settings: object) -> SessionGroup:
    return SessionGroup(
        "g",
        lambda: cast(Process, process),
        read_settings(settings),
        "virtual_synchrony",
        0.01,
        lambda group, seconds: f"no view of {group!r} came within {seconds:g} s",
        on_block,
    )


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_group_is_joined_when_its_first_view_is_there() -> None:
    async def main() -> None:
        process = FakeProcess()
        group = group_of(process)
        states = [group.joined]
        async with group:
            states.append(group.joined)
            members = [group.members]
            assert await anext(group) == FIRST
            process.deliver(SECOND)
            assert [*members, group.members] == [(ADA,), (ADA, BOB)]
            assert group.transitional == (ADA,)
            assert await group.receive_many() == [SECOND]
        assert [*states, group.joined] == [False, True, False]

    run(main())


def test_a_group_may_be_awaited_and_then_used_as_a_context() -> None:
    async def main() -> None:
        group = await group_of(FakeProcess())
        assert group.joined
        async with group as same:
            assert same is group
        with pytest.raises(NotMember, match="join it again"):
            await group.send(b"late")

    run(main())


def test_joining_without_a_view_fails_in_time_and_leaves_nothing_behind() -> None:
    async def main() -> None:
        process = FakeProcess(view=False)
        with pytest.raises(NetworkError, match=r"no view of 'g' came within 0\.01 s"):
            await group_of(process)
        assert process.facts == [Leave("g")]

    run(main())


def test_receiving_never_waits_and_says_when_it_is_over() -> None:
    async def main() -> None:
        process = FakeProcess()
        async with group_of(process) as group:
            assert (group.poll(), group.receive(), group.poll(), group.receive()) == (1, FIRST, 0, None)
            process.deliver(message(1), message(2))
            assert group.poll() == 2
            assert group.receive() == message(1)
            await asyncio.sleep(0)
            assert process.facts == [EventsTaken("g", 1)]
            await group.leave()
            assert group.receive() == message(2)
            with pytest.raises(NotMember, match="every event was taken"):
                group.receive()

    run(main())


def test_a_message_is_copied_if_it_fits_and_else_it_stays() -> None:
    async def main() -> None:
        process = FakeProcess()
        async with group_of(process) as group:
            buffer = bytearray(6)
            assert group.receive_into(buffer) == Copied(1, event=FIRST)
            assert group.receive_into(buffer) is None
            process.deliver(message(1, b"seven b"), message(2, b"four"), Block(2))
            with pytest.raises(GroupError, match="has 7 bytes and the buffer 6; it is still there"):
                group.receive_into(buffer)
            assert group.receive_into(bytearray(7)) == Copied(7, ADA, 1)
            assert group.receive_into(memoryview(buffer)[:4]) == Copied(4, ADA, 2)
            assert buffer == b"four\0\0"
            assert group.receive_into(buffer) == Copied(0, event=Block(2))

    run(main())


def test_trying_to_send_never_waits_and_keeps_the_order() -> None:
    async def main() -> None:
        process = FakeProcess()
        async with group_of(process, message_limit_bytes="1KiB") as group:
            assert group.try_send(b"one")
            process.accepts = False
            assert group.try_send(b"two")
            assert not group.try_send(b"three")
            process.deliver(SendAccepted(2))
            assert group.try_send(b"three")
            process.deliver(SendAccepted(3))
            sent = [fact.messages for fact in process.facts if isinstance(fact, Send)]
            assert sent == [(b"one",), (b"two",), (b"three",)]
            with pytest.raises(MessageTooLarge):
                group.try_send(bytes(1025))
            with pytest.raises(TypeError, match="encode it first"):
                group.try_send("text")  # type: ignore[arg-type]  # the mistake under test
            process.refusal = "not now"
            with pytest.raises(SendRejected, match="not now"):
                group.try_send(b"four")

    run(main())


def test_a_block_is_answered_once_the_application_is_done() -> None:
    async def main() -> None:
        process = FakeProcess()
        async with group_of(process, block="ask") as group:
            group.block_ok()
            assert process.facts == []
            process.deliver(Block(2))
            states = [group.blocked]
            assert group.try_send(b"last")
            group.block_ok()
            assert process.facts[1:] == [BlockOk("g")]
            assert not group.try_send(b"too late")
            process.deliver(SECOND, Unblocked(2))
            assert [*states, group.blocked] == [True, False]
            assert group.try_send(b"in the next view")

    run(main())


def test_an_application_that_is_not_asked_does_not_answer() -> None:
    async def main() -> None:
        async with group_of(FakeProcess()) as group:
            with pytest.raises(GroupError, match='join with block="ask"'):
                group.block_ok()

    run(main())


def test_a_block_may_be_a_call() -> None:
    async def main() -> None:
        process = FakeProcess()
        asked: list[Block] = []

        async def finish(block: Block) -> None:
            asked.append(block)
            await group.send(b"last")

        group = group_of(process, finish, block="ask")
        async with group:
            process.deliver(Block(2))
            await until(lambda: BlockOk("g") in process.facts)
            assert asked == [Block(2)]
            assert [type(fact) for fact in process.facts] == [Send, BlockOk]
            assert await group.receive_many() == [FIRST]

    run(main())


def test_an_older_block_is_not_answered_for_a_newer_one() -> None:
    async def main() -> None:
        process = FakeProcess()
        gates = {2: asyncio.Event(), 3: asyncio.Event()}

        async def finish(block: Block) -> None:
            await gates[block.change].wait()

        async with group_of(process, finish, block="ask"):
            process.deliver(Block(2))
            await asyncio.sleep(0)
            process.deliver(Block(3))
            gates[2].set()
            for _ in range(5):
                await asyncio.sleep(0)
            assert process.facts == []
            gates[3].set()
            await until(lambda: process.facts == [BlockOk("g")])

    run(main())


def test_a_call_that_fails_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        def finish(block: Block) -> None:
            raise RuntimeError("no")

        process = FakeProcess()
        async with group_of(process, finish, block="ask"):
            process.deliver(Block(2))
            await until(lambda: process.facts == [BlockOk("g")])

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "on_block of g failed" in caplog.text


def test_options_that_cannot_be() -> None:
    servers = ["127.0.0.1:7500"]
    for both in ([], servers):
        with pytest.raises(SettingError, match="give the endpoints of membership servers"):
            Session("ada", servers=both, controllers=both)
    with pytest.raises(SettingError, match="clients of controllers have strong groups"):
        Session("ada", controllers=servers, semantics="weak")
    with pytest.raises(SettingError, match="clients of controllers wait while the view changes"):
        Session("ada", controllers=servers).join("g", optimistic=True)
    with pytest.raises(SettingError, match="expected a list such as"):
        Session("ada", servers="127.0.0.1:7500")
    with pytest.raises(NetworkError, match="expected host:port"):
        Session("ada", servers=["127.0.0.1"])
    with pytest.raises(SettingError, match="unknown setting"):
        Session("ada", servers=servers, patients="2s")
    session = Session("ada", servers=servers)
    with pytest.raises(SettingError, match='open it with semantics="weak"'):
        session.join("g", semantics="weak")
    with pytest.raises(SettingError, match="on_block is for"):
        session.join("g", on_block=print, block="auto")
    with pytest.raises(SettingError, match="empty"):
        session.join("")
    weak = Session("ada", servers=servers, semantics="weak", server_timeout="2s")
    assert weak.join("g").settings.semantics == "weak"
    assert weak.join("g", semantics="strong").settings.semantics == "strong"
    assert weak.join("g", on_block=print).settings.block == "ask"
    assert weak.join("g").settings.server_timeout == 2 * 10**9


def test_a_session_that_is_not_open_has_no_groups() -> None:
    async def main() -> None:
        session = Session("ada", servers=["127.0.0.1:7500"])
        assert session.groups == ()
        assert session.server is None
        with pytest.raises(GroupError, match="is not open yet"):
            await session.join("g")

    run(main())


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


@pytest.mark.parametrize("setting", [{"service": "timestamp"}, {"role": "receiver"}, {"sources": ["z"]}])
def test_what_is_for_groups_of_peers_is_refused(setting: dict[str, Any]) -> None:
    servers = ["127.0.0.1:7500"]
    with pytest.raises(SettingError, match="for groups of peers"):
        Session("ada", servers=servers, **setting)
    with pytest.raises(SettingError, match="for groups of peers"):
        Session("ada", servers=servers).join("g", **setting)
    with pytest.raises(SettingError, match="for groups of peers"):
        MembershipServer(**setting)
    with pytest.raises(SettingError, match="for groups of peers"):
        Controller(servers=servers, **setting)


def test_groups_of_peers_refuse_what_is_for_sessions() -> None:
    with pytest.raises(SettingError, match=r"see unisono\.Session"):
        unisono.join("g", semantics="weak")
    with pytest.raises(SettingError, match=r"open a unisono\.Session"):
        unisono.join("g", protocol="virtual_synchrony")


def test_sessions_take_the_settings_that_their_engines_read() -> None:
    package = Path(unisono.__file__).parent
    own = "\n".join(source.read_text() for source in package.joinpath("virtual_synchrony").rglob("*.py"))
    shared = [package / "reliable" / f"{name}.py" for name in set(re.findall(r"from unisono\.reliable\.(\w+)", own))]
    texts = [own, *(source.read_text() for source in shared)]
    read = {name for text in texts for name in re.findall(r"settings\.([a-z_]+)", text)}
    given_by_process = {"trace", "trace_messages"}
    assert read & set(Settings.__struct_fields__) | {"clock_drift_limit"} == OF_SESSIONS | given_by_process
