"""Receivers that let others send, on real sockets; and what docs/proxy.md shows."""

from __future__ import annotations

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import unisono
from tests.network.meeting import members_are, messages, run, together
from unisono import Group, Message, SendRejected, join

PAGE = Path(__file__).parents[2] / "docs" / "proxy.md"


def said(found: list[Message]) -> list[tuple[str, int, bytes]]:
    return [(message.source.name, message.number, message.data) for message in found]


@pytest.mark.parametrize("service", ["timestamp", "source"])
def test_a_receiver_sends_through_a_sender_and_everybody_gets_it_as_its_own(realm: str, service: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob"], realm, service=service) as (ada, bob):
            options: dict[str, Any] = {"service": service, "role": "receiver", "storage": "memory"}
            async with join("g", name="eve", realm=realm, **options) as eve:
                big = bytes(range(256)) * 400
                await eve.send(b"one", proxy=True)
                await eve.send_many([b"two", big], proxy=True)
                for group in (ada, bob, eve):
                    found = await messages(group, 3)
                    assert said(found) == [("eve", 1, b"one"), ("eve", 2, b"two"), ("eve", 3, big)]
                    assert all(message.by is not None and message.by.name in ("ada", "bob") for message in found)
                assert [process.name for process in ada.members] == ["ada", "bob"]
                with pytest.raises(SendRejected, match="proxy=True"):
                    await eve.send(b"four")

    run(main())


def test_another_sender_goes_on_when_the_first_one_leaves(realm: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob"], realm, service="timestamp") as groups:
            options: dict[str, Any] = {"service": "timestamp", "role": "receiver", "storage": "memory"}
            async with join("g", name="eve", realm=realm, **options) as eve:
                await eve.send(b"0", proxy=True)
                first = (await messages(eve, 1))[0].by
                assert first is not None
                gone, stays = groups if first.name == "ada" else reversed(groups)
                sends = asyncio.ensure_future(eve.send_many([str(n).encode() for n in range(1, 200)], proxy=True))
                await gone.leave()
                await sends
                for group in (eve, stays):
                    numbers = [message.number for message in await messages(group, 199 if group is eve else 200)]
                    assert numbers == list(range(201 - len(numbers), 201))

    run(main())


def test_a_send_by_proxy_waits_for_a_sender_and_what_promises_nothing_cannot_ask(realm: str) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"role": "receiver", "storage": "memory", "realm": realm}
        async with (
            join("g", name="eve", service="timestamp", **options) as eve,
            join("g", name="uma", service="unordered", **options) as uma,
        ):
            with pytest.raises(SendRejected, match="unordered"):
                await uma.send(b"no", proxy=True)
            with pytest.raises(SendRejected, match="names"):
                await eve.send(b"no", name="x", proxy=True)
            waits = asyncio.ensure_future(eve.send(b"at last", proxy=True))
            async with join("g", name="ada", service="timestamp", storage="memory", realm=realm) as ada:
                await waits
                assert said(await messages(ada, 1)) == said(await messages(eve, 1)) == [("eve", 1, b"at last")]

    run(main())


def test_what_was_asked_for_before_a_leave_still_comes(realm: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob"], realm, service="timestamp") as (ada, bob):
            async with join("g", name="eve", realm=realm, service="timestamp", role="auto", storage="memory") as eve:
                await members_are(eve, 2)
                await eve.send_many([b"x" * 1000] * 50, proxy=True)
            for group in (ada, bob):
                assert len(await messages(group, 50)) == 50

    run(main())


def test_the_example_of_the_page_runs(realm: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    program = f"async def example(unisono):\n{textwrap.indent(shown, '    ')}"
    scope: dict[str, Any] = {}
    exec(compile(program, str(PAGE), "exec"), scope)  # our own page

    class Here:
        """The module, in this test's realm and under a name of its own."""

        Message = unisono.Message

        @staticmethod
        def join(group: str, **options: Any) -> Group:
            return unisono.join(group, name="display", realm=realm, storage="memory", **options)

    async def main() -> None:
        async with unisono.join("board", name="desk", realm=realm, storage="memory", service="timestamp") as desk:
            example = asyncio.ensure_future(scope["example"](Here))
            assert said(await messages(desk, 1)) == [("display", 1, b"who has the key?")]
            await desk.send(b"not me")
            async with asyncio.timeout(20):
                printed = ""
                while "not me" not in printed:
                    printed += capsys.readouterr().out
                    await asyncio.sleep(0.01)
            assert printed.splitlines() == ["display by desk: who has the key?", "desk: not me"]
            example.cancel()
            with pytest.raises(asyncio.CancelledError):
                await example

    run(main())
