"""How many are in a group, and receivers that stay while all senders leave, on real sockets."""

from __future__ import annotations

import asyncio

import pytest

import unisono
import unisono.sync
from tests.network.meeting import run, together
from unisono import DroppedOut, Message, NotMember, SettingError, View, join


def test_members_that_are_promised_nothing_are_counted(realm: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob"], realm) as (ada, bob):
            async with (
                join("g", name="eve", realm=realm, storage="memory", service="unordered", role="receiver") as eve,
                join("g", name="dan", realm=realm, storage="memory", service="source-latest", role="receiver"),
            ):
                before = ada.audience
                known = await ada.estimate_audience()
                assert (before, known.count, known.low, known.high) == (None, 4, 4, 4)
                assert ada.audience == known
                assert (await eve.estimate_audience(error=0.5)).count == 4
                with pytest.raises(SettingError, match="share"):
                    await bob.estimate_audience(error=0.001)
            assert (await bob.estimate_audience()).count == 2

    run(main())


def test_an_estimate_ends_with_the_membership(realm: str) -> None:
    async def main() -> None:
        async with join("g", name="ada", realm=realm, storage="memory") as ada:
            waiting = asyncio.ensure_future(ada.estimate_audience())
            await asyncio.sleep(0)
            await ada.leave()
            with pytest.raises(NotMember):
                await waiting

    run(main())


def test_a_script_counts_too(realm: str) -> None:
    with unisono.sync.join("g", name="ada", realm=realm, storage="memory") as ada:
        ada.count_audience()
        assert ada.estimate_audience().count == 1
        assert ada.audience is not None
        ada.count_audience(False)


def test_receivers_follow_a_sender_that_returns_after_all_have_left(realm: str) -> None:
    """N24 on sockets: what the one that returns sends is whole from some message on, or the gap is told."""

    async def main() -> None:
        def sender(name: str) -> unisono.Group:
            return join("g", name=name, realm=realm, storage="memory", service="timestamp")

        async with join("g", name="eve", realm=realm, storage="memory", service="timestamp", role="receiver") as eve:
            async with sender("ada") as ada, sender("bob") as bob:
                await _until_received(eve, ada, b"first")
                await bob.send(b"second")
                await _received(eve, b"second")
            async with sender("ada") as ada:
                told, got = await _until_received(eve, ada, b"again")
                numbers = [message.number for message in got if message.data == b"again"]
                assert numbers == list(range(numbers[0], numbers[-1] + 1))
                assert numbers[0] == min(numbers) == 1 or told

    run(main())


async def _received(group: unisono.Group, data: bytes) -> None:
    async for event in group:
        if isinstance(event, Message) and event.data == data:
            return


async def _until_received(
    receiver: unisono.Group, sender: unisono.Group, data: bytes
) -> tuple[bool, list[unisono.Message]]:
    """Send until it is received; whether a gap was told before, and the messages."""
    told, got = False, []
    sending = asyncio.ensure_future(_send_on(sender, data))
    try:
        async for event in receiver:
            told |= isinstance(event, DroppedOut) or (isinstance(event, View) and not event.whole)
            if isinstance(event, Message):
                got.append(event)
                if event.data == data and event.number >= 3:
                    break
    finally:
        sending.cancel()
    return told, got


async def _send_on(sender: unisono.Group, data: bytes) -> None:
    while True:
        await sender.send(data)
        await asyncio.sleep(0.02)
