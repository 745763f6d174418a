"""What is handed to the engine of what the application sends: together, in order, with names or without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from unisono import Group, MessageTooLarge, NotMember, SendRejected, Settings, join
from unisono.engine import Fact, Send
from unisono.identity import ProcessId
from unisono.runtime.outbox import Outbox
from unisono.units import KIB


def with_outbox(work: Callable[[Outbox, list[Fact]], Coroutine[Any, Any, None]], settings: Settings) -> None:
    async def main() -> None:
        facts: list[Fact] = []
        await work(Outbox("g", settings, asyncio.get_running_loop(), facts.append), facts)

    asyncio.run(main())


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_fact_names_all_of_its_messages_or_none() -> None:
    async def work(outbox: Outbox, facts: list[Fact]) -> None:
        sends = [
            outbox.send([b"a"]),
            outbox.send([b"b", b"c"]),
            outbox.send([b"d"], ["four"]),
            outbox.send([b"e", b"f"], ["", "six"]),
            outbox.send([b"g"]),
        ]
        tasks = [asyncio.create_task(send) for send in sends]
        await some_turns()
        assert facts == [
            Send("g", 1, (b"a",)),
            Send("g", 2, (b"b", b"c")),
            Send("g", 3, (b"d", b"e", b"f"), ("four", "", "six")),
            Send("g", 4, (b"g",)),
        ]
        outbox.answered(1, None)
        outbox.answered(2, None)
        outbox.answered(3, "no")
        outbox.answered(4, None)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(answer) for answer in answers] == [type(None)] * 2 + [SendRejected] * 2 + [type(None)]

    with_outbox(work, Settings())


def test_the_first_of_a_turn_goes_at_once_and_the_others_together() -> None:
    async def work(outbox: Outbox, facts: list[Fact]) -> None:
        tasks = [asyncio.create_task(outbox.send([data])) for data in (b"a", b"b", b"c")]
        await asyncio.sleep(0)
        assert facts == [Send("g", 1, (b"a",))]
        outbox.answered(1, None)
        await asyncio.sleep(0)
        assert facts[1:] == [Send("g", 2, (b"b", b"c"))]
        outbox.answered(2, None)
        await asyncio.gather(*tasks)
        await some_turns()
        again = asyncio.create_task(outbox.send([b"d"]))
        await asyncio.sleep(0)
        assert facts[2:] == [Send("g", 3, (b"d",))]
        outbox.answered(3, None)
        await again

    with_outbox(work, Settings())


def test_names_stay_with_their_messages_where_a_call_is_cut() -> None:
    async def work(outbox: Outbox, facts: list[Fact]) -> None:
        count = 700
        names = [f"name {number}" for number in range(count)]
        task = asyncio.create_task(outbox.send([name.encode() for name in names], names))
        handed: list[Send] = []
        while sum(len(fact.messages) for fact in handed) < count:
            await some_turns()
            new = [fact for fact in facts[len(handed) :] if isinstance(fact, Send)]
            assert new, "what was accepted makes room for more"
            handed += new
            for fact in new:
                outbox.answered(fact.ticket, None)
        await task
        assert len(handed) > 1
        assert [name for fact in handed for name in fact.names] == names
        assert all(tuple(name.encode() for name in fact.names) == fact.messages for fact in handed)

    with_outbox(work, Settings())


def test_a_name_takes_room_from_its_message() -> None:
    async def work(outbox: Outbox, facts: list[Fact]) -> None:
        with pytest.raises(MessageTooLarge, match="has 1024 bytes and 'g' takes 959 beside a name"):
            await outbox.send([bytes(KIB)], ["one"])
        assert facts == []

    with_outbox(work, Settings(message_limit_bytes=KIB))


@pytest.mark.parametrize(
    "call",
    [
        lambda group: group.change("timestamp"),
        lambda group: group.send(b"", name="one"),
        lambda group: group.send_many([b""], ["one"]),
    ],
)
def test_a_group_is_used_inside_async_with(call: Callable[[Group], Coroutine[Any, Any, None]]) -> None:
    with pytest.raises(NotMember, match="async with"):
        asyncio.run(call(join("g")))


def test_nothing_is_recovered_before_a_group_is_joined() -> None:
    with pytest.raises(NotMember, match="async with"):
        join("g", service="framed").recover(ProcessId("ada", 1), 1)
