"""Every delivery service on real sockets, and the change from one to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import unisono
import unisono.sync
from tests.network.meeting import members_are, messages, run, together, until
from tests.network.sieve import first_forms, sift
from unisono import (
    Gap,
    Group,
    GroupError,
    Message,
    NotMember,
    SendRejected,
    Service,
    SettingError,
    Unrecovered,
    View,
    ViewReason,
    join,
)
from unisono.runtime.transports import TransportName

CASUAL: list[Service] = ["unordered", "source-latest", "timestamp-latest", "framed"]


def said(found: list[Message]) -> list[tuple[str, int]]:
    return [(message.source.name, message.number) for message in found]


def of(found: list[Message], name: str) -> list[int]:
    return [message.number for message in found if message.source.name == name]


async def chatter(group: Group, count: int) -> None:
    for number in range(count):
        await group.send(str(number).encode())


async def next_of(group: Group, kind: type[Gap] | type[Unrecovered] | type[View]) -> Any:
    async for event in group:
        if isinstance(event, kind):
            return event
    raise AssertionError("the group ended before")


@pytest.mark.parametrize("transport", ["multicast", "mesh"])
def test_four_members_in_timestamp_order_deliver_one_sequence(realm: str, transport: TransportName) -> None:
    async def main() -> None:
        names = ["ada", "bob", "eve", "joe"]
        async with together(names, realm, service="timestamp", transport=transport) as groups:
            speaking = [asyncio.create_task(chatter(group, 50)) for group in groups]
            found = await asyncio.gather(*(messages(group, 200) for group in groups))
            await asyncio.gather(*speaking)
            assert said(found[0]) == said(found[1]) == said(found[2]) == said(found[3])
            assert all(of(found[0], name) == list(range(1, 51)) for name in names)
            keys = [(message.timestamp, message.source) for message in found[0]]
            assert keys == sorted(keys)

    run(main())


def test_timestamp_order_does_not_wait_for_the_keep_alive_timer(realm: str) -> None:
    """A silent sender says the time as soon as somebody waits for it: nobody here has a timer that would."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            groups = [
                await stack.enter_async_context(
                    join("g", name=name, realm=realm, storage="memory", service="timestamp", keep_alive="60s")
                )
                for name in ("ada", "bob", "eve")
            ]
            for group in groups:
                await members_are(group, 3)
            await groups[0].send(b"soon")
            found = await asyncio.gather(*(messages(group, 1) for group in groups))
            assert [message.data for (message,) in found] == [b"soon"] * 3

    run(main())


@pytest.mark.parametrize("service", CASUAL)
def test_services_without_a_handshake_deliver(realm: str, service: Service) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"realm": realm, "storage": "memory", "service": service, "membership": True}
        async with join("g", name="ada", **options) as ada, join("g", name="bob", **options) as bob:
            for group in (ada, bob):
                await members_are(group, 2)
            for group in (ada, bob):
                await chatter(group, 20)
            for group in (ada, bob):
                found = await messages(group, 40)
                for name in ("ada", "bob"):
                    assert sorted(of(found, name)) == list(range(1, 21))
                    if service != "unordered":
                        assert of(found, name) == list(range(1, 21))
                if service == "timestamp-latest":
                    assert [message.timestamp for message in found] == sorted(message.timestamp for message in found)

    run(main())


@pytest.mark.parametrize("service", ["source-latest", "timestamp-latest"])
def test_the_latest_services_pass_over_what_is_lost(realm: str, service: Service) -> None:
    async def main() -> None:
        async with (
            join("g", name="ada", realm=realm, storage="memory") as ada,
            join("g", name="bob", realm=realm, storage="memory", service=service, membership=True) as bob,
        ):
            sieve = sift(bob, first_forms("ada", 2, 3))
            await members_are(bob, 2)
            await chatter(ada, 5)
            assert of(await messages(bob, 3), "ada") == [1, 4, 5]
            assert sieve.lost == 2

    run(main())


def test_membership_gives_views_to_a_receiver_that_is_promised_nothing(realm: str) -> None:
    async def main() -> None:
        async with join("g", name="bob", realm=realm, storage="memory", service="unordered", membership=True) as bob:
            first = await next_of(bob, View)
            assert [process.name for process in first.members] == ["bob"]
            async with join("g", name="ada", realm=realm, storage="memory"):
                second = await next_of(bob, View)
                assert [(process.name, reason) for process, reason in second.reasons] == [("ada", ViewReason.HEARD)]
                assert bob.view == second
                assert {process.name for process in bob.members} == {"ada", "bob"}

    run(main())


@asynccontextmanager
async def framed(realm: str, *lost: int, **options: Any) -> AsyncIterator[tuple[Group, Group]]:
    """A source and a framed receiver that loses some of it; another member does not report, so that all is kept."""
    common: dict[str, Any] = {"realm": realm, "storage": "memory"}
    async with (
        join("g", name="ada", **common) as ada,
        join("g", name="bob", report_interval="60s", **common) as bob,
        join("g", name="eve", service="framed", **common, **options) as eve,
    ):
        sift(eve, first_forms("ada", *lost))
        await members_are(ada, 3)
        await members_are(bob, 3)
        yield ada, eve


def test_a_framed_receiver_is_told_of_a_gap_and_recovers_by_sequences(realm: str) -> None:
    async def main() -> None:
        async with framed(realm, 2, 3) as (ada, eve):
            await chatter(ada, 5)
            gap = await next_of(eve, Gap)
            assert (gap.source, gap.first, gap.last) == (ada.process.id, 2, 3)
            eve.recover(gap.source, gap.first, gap.last)
            assert sorted(of(await messages(eve, 4), "ada")) == [2, 3, 4, 5]

    run(main())


def test_a_framed_receiver_recovers_by_name(realm: str) -> None:
    async def main() -> None:
        async with framed(realm, 2, 3) as (ada, eve):
            for page in range(1, 6):
                await ada.send(b"text", name=f"page/{page}")
            await next_of(eve, Gap)
            eve.recover(ada.process.id, name="page/3")
            found = await messages(eve, 3)
            assert {message.name for message in found} == {"page/3", "page/4", "page/5"}
            assert {message.data for message in found} == {b"text"}

    run(main())


def test_names_go_along_with_many_messages_and_with_none(realm: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob"], realm) as (ada, bob):
            bare = asyncio.create_task(ada.send(b"bare"))
            named = asyncio.create_task(ada.send_many([b"1", b"2", b"3"], ["one", "", "three"]))
            large = asyncio.create_task(ada.send(bytes(5000), name="large"))
            await asyncio.gather(bare, named, large)
            for group in (ada, bob):
                found = await messages(group, 5)
                assert [message.name for message in found] == ["", "one", "", "three", "large"]
                assert [len(message.data) for message in found] == [4, 1, 1, 1, 5000]

    run(main())


def test_what_nobody_has_is_unrecovered(realm: str) -> None:
    async def main() -> None:
        async with framed(realm, activation_tries=2) as (ada, eve):
            eve.recover(ada.process.id, name="never sent")
            assert await next_of(eve, Unrecovered) == Unrecovered(ada.process.id, 0, 0, "never sent")
            eve.recover(ada.process.id, 7)
            assert await next_of(eve, Unrecovered) == Unrecovered(ada.process.id, 7, 7)

    run(main())


def test_a_change_between_reliable_services_loses_and_repeats_nothing(realm: str) -> None:
    """The receiver changes both ways, several times, while it and the others send."""
    names = ["ada", "bob", "eve"]

    async def speak(group: Group, enough: asyncio.Event) -> None:
        while not enough.is_set():
            await group.send(b"more")
        await group.send(b"last")

    async def until_the_last(group: Group) -> AsyncIterator[Message | View]:
        speaking = set(names)
        async for event in group:
            if isinstance(event, (Message, View)):
                yield event
            if isinstance(event, Message) and event.data == b"last":
                speaking.remove(event.source.name)
                if not speaking:
                    return

    async def take_all(group: Group) -> list[Message]:
        return [event async for event in until_the_last(group) if isinstance(event, Message)]

    async def main() -> None:
        async with together(names, realm) as (ada, bob, eve):
            enough = asyncio.Event()
            others = [asyncio.create_task(take_all(group)) for group in (ada, bob)]
            speaking = [asyncio.create_task(speak(group, enough)) for group in (ada, bob, eve)]
            services: list[Service] = ["timestamp", "source", "timestamp", "source"]
            found: list[Message] = []
            next_change: int | None = 100
            async for event in until_the_last(eve):
                if isinstance(event, Message):
                    found.append(event)
                elif {reason for _, reason in event.reasons} == {ViewReason.SERVICE}:
                    next_change = len(found) + 100
                if len(found) == next_change:
                    next_change = None
                    if services:
                        await eve.change(services[0])
                        assert eve.settings.service == services.pop(0)
                    else:
                        enough.set()
            await asyncio.gather(*speaking)
            for taken in (found, *await asyncio.gather(*others)):
                for name in names:
                    assert of(taken, name) == list(range(1, len(of(found, name)) + 1))

    run(main())


def test_an_own_message_that_waits_for_its_turn_comes_when_the_order_is_given_up(realm: str) -> None:
    """Nobody says the time here, so that timestamp order waits; every other service does not."""

    async def main(service: Service) -> None:
        options: dict[str, Any] = {"early_keep_alives": 0, "keep_alive": "60s", "realm": realm, "storage": "memory"}
        async with (
            join("g", name="ada", service="timestamp", **options) as ada,
            join("g", name="bob", **options) as bob,
        ):
            await members_are(ada, 2)
            await members_are(bob, 2)
            await ada.send(b"waits")
            assert [message.data for message in await messages(bob, 1)] == [b"waits"]
            await ada.change(service)
            assert [message.data for message in await messages(ada, 1)] == [b"waits"]

    run(main("source"))
    run(main("unordered"))


def test_senders_learn_that_a_receiver_begins_to_wait_for_them(realm: str) -> None:
    """No timer of a sender would let the order go on before this test is given up."""

    async def main() -> None:
        async with together(["ada", "bob"], realm, keep_alive="60s") as (_, bob):
            await bob.change("timestamp")
            await bob.send(b"soon")
            assert said(await messages(bob, 1)) == [("bob", 1)]

    run(main())


def test_a_change_to_and_from_a_service_without_promises(realm: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob"], realm) as (ada, bob):
            await bob.change("unordered")
            assert bob.view is None
            await ada.send(b"one")
            assert of(await messages(bob, 1), "ada") == [1]
            await bob.change("source", ["ada"])
            assert bob.settings.sources == ("ada",)
            await members_are(bob, 1)
            await ada.send(b"two")
            assert of(await messages(bob, 1), "ada") == [2]
            await bob.change("framed")
            await ada.send(b"three")
            assert of(await messages(bob, 1), "ada") == [3]

    run(main())


def test_a_receiver_sends_nothing_and_nobody_waits_for_it(realm: str) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"keep_alive": "10ms", "realm": realm, "storage": "memory", "service": "timestamp"}
        async with (
            join("g", name="ada", **options) as ada,
            join("g", name="bob", **options) as bob,
            join("g", name="eve", role="receiver", **options) as eve,
        ):
            sieve = sift(bob)
            await members_are(ada, 2)
            await members_are(bob, 2)
            with pytest.raises(SendRejected, match='joined as a receiver; join with role="sender" to send'):
                await eve.send(b"no")
            await until(lambda: {"ada", "bob"} <= {process.name for process in eve.members})
            await chatter(ada, 10)
            assert said(await messages(bob, 10)) == said(await messages(eve, 10))
            await until(lambda: sieve.heard["ada", "KeepAlive"] >= 30 and sieve.heard["eve", "Report"] >= 2)
            await eve.leave()
            before = sieve.heard["ada", "KeepAlive"]
            await until(lambda: sieve.heard["ada", "KeepAlive"] >= before + 5)
            assert sieve.heard["eve", "Deactivation"] == 1
            assert sieve.heard["eve", "KeepAlive"] == sieve.heard["eve", "DataPacket"] == 0
            assert len(bob.members) == 2

    run(main())


def test_errors_of_change_and_recover_say_what_to_do(realm: str) -> None:
    async def main() -> None:
        async with join("g", name="ada", realm=realm, storage="memory") as ada:
            itself = ada.process.id
            with pytest.raises(SettingError, match=r"service: expected one of unordered, .*, got 'fast'"):
                await ada.change("fast")  # type: ignore[arg-type]  # the mistake under test
            with pytest.raises(SettingError, match='name the senders in "senders" instead'):
                await ada.change("timestamp", ["bob"])
            with pytest.raises(SettingError, match="expected \"all\" or a list of process names, got 'bob'"):
                await ada.change("source", "bob")
            assert (ada.settings.service, ada.settings.sources) == ("source", "all")
            with pytest.raises(GroupError, match="this one receives by 'source'; join with service=\"framed\""):
                ada.recover(itself, 1)
            with pytest.raises(SettingError, match="name: a name is made of printable characters"):
                await ada.send(b"", name="a\nb")
            with pytest.raises(SettingError, match="there are 1 names for 2 messages; name each, or none"):
                await ada.send_many([b"", b""], ["one"])
            with pytest.raises(SettingError, match="expected a list of names, got 'ab'"):
                await ada.send_many([b"", b""], "ab")
            await ada.change("framed")
            with pytest.raises(SettingError, match="say which sequences, first to last, or which name"):
                ada.recover(itself)
            with pytest.raises(SettingError, match="not both"):
                ada.recover(itself, 1, name="one")
            for first, last in ((0, 1), (2, 1), (1, 1 << 63)):
                with pytest.raises(SettingError, match="sequences begin with 1"):
                    ada.recover(itself, first, last)
            await ada.leave()
            with pytest.raises(NotMember, match="join it again"):
                await ada.change("source")
            with pytest.raises(NotMember, match="join it again"):
                ada.recover(itself, 1)

    run(main())


def test_scripts_change_name_and_recover_too(realm: str) -> None:
    with unisono.sync.join("g", name="ada", realm=realm, storage="memory") as group:
        group.send(b"1", name="one")
        group.send_many([b"2"], ["two"])
        with pytest.raises(GroupError, match='change\\("framed"\\)'):
            group.recover(group.members[0], 1)
        before = group.view
        group.change("framed")
        assert (isinstance(before, View), group.view) == (True, None)
        assert group.settings.service == "framed"
        found: list[Message] = []
        while len(found) < 2:
            found += [event for event in group.receive_many() if isinstance(event, Message)]
        assert [message.name for message in found] == ["one", "two"]
        group.recover(found[0].source, 1)
        group.recover(found[0].source, name="one")
