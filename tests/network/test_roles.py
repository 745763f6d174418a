"""Members that become senders and receivers on real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from examples.meeting import SPEAKERS
from examples.meeting import main as meeting
from tests.network.meeting import messages, run, together
from unisono import Group, GroupError, SettingError, View, join


async def until_members(group: Group, *names: str) -> View:
    """The next view with these senders."""
    async for event in group:
        if isinstance(event, View) and tuple(process.name for process in event.members) == names:
            return event
    raise AssertionError("the group ended before")


def test_a_sender_becomes_a_receiver_and_a_sender_again_and_nobody_misses_anything(realm: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob", "eve"], realm, service="timestamp") as (ada, bob, eve):
            await eve.send(b"one")
            eve.become("receiver")
            views = await asyncio.gather(*(until_members(group, "ada", "bob") for group in (ada, bob, eve)))
            assert len({view.id for view in views}) == 1
            assert [view.role for view in views] == ["sender", "sender", "receiver"]
            await ada.send(b"two")
            await eve.send(b"three")  # by this it is a sender again
            views = await asyncio.gather(*(until_members(group, "ada", "bob", "eve") for group in (ada, bob, eve)))
            assert len({view.id for view in views}) == 1
            for group in (ada, bob, eve):
                assert [message.data for message in await messages(group, 1)] == [b"three"]

    run(main())


def test_members_that_send_now_and_then_need_no_repair(realm: str) -> None:
    options: dict[str, Any] = {"service": "timestamp", "role": "auto", "idle": "50ms", "realm": realm}

    async def main() -> None:
        async with (
            join("g", name="ada", storage="memory", **options) as ada,
            join("g", name="bob", storage="memory", **options) as bob,
        ):
            for text in (b"1", b"2", b"3"):
                for speaker in (ada, bob):
                    await speaker.send(text)
                    found = [await messages(group, 1) for group in (ada, bob)]
                    assert [[message.data for message in each] for each in found] == [[text], [text]]

    run(main())


def test_bad_wishes_are_refused(realm: str) -> None:
    async def main() -> None:
        async with join("g", name="ada", role="receiver", realm=realm, storage="memory") as ada:
            with pytest.raises(SettingError, match="expected one of sender, receiver"):
                ada.become("listener")  # type: ignore[arg-type]
            with pytest.raises(GroupError, match='role="auto"'):
                ada.become("sender")

    run(main())


def test_the_example_of_a_meeting(realm: str) -> None:
    async def main() -> None:
        minutes = await meeting(realm=realm)
        assert minutes[0] == minutes[1] == minutes[2]
        assert sorted(minutes[0]) == [f"{name}: {name} has a point" for name in SPEAKERS]

    run(main())
