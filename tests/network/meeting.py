"""Members inside the test's own process, on real sockets all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from unisono import Group, Message, View, join

PATIENCE_SECONDS = 60.0


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test on the loop that every Python has; commands and members in processes use the faster one."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await main

    asyncio.run(bounded())


@asynccontextmanager
async def together(names: Sequence[str], realm: str, **options: Any) -> AsyncIterator[list[Group]]:
    """Members of the group `g`, each following all of them."""
    async with AsyncExitStack() as stack:
        group = options.pop("group", "g")
        options.setdefault("storage", "memory")
        groups = [await stack.enter_async_context(join(group, name=name, realm=realm, **options)) for name in names]
        for one in groups:
            await members_are(one, len(names))
        yield groups


async def members_are(group: Group, count: int) -> None:
    await until(lambda: len(group.members) == count)


async def until(condition: Callable[[], bool]) -> None:
    """The test's own time limit ends this where the condition never comes."""
    while not condition():
        await asyncio.sleep(0.005)


async def messages(group: Group, count: int) -> list[Message]:
    """The next messages, passing over other events."""
    found: list[Message] = []
    async for event in group:
        if isinstance(event, Message):
            found.append(event)
            if len(found) == count:
                break
    return found


async def view_without(group: Group, name: str) -> View:
    """The next view that a process of that name is not in any more."""
    async for event in group:
        if isinstance(event, View) and any(process.name == name for process, _ in event.reasons):
            gone = all(process.name != name for process in event.members)
            if gone:
                return event
    raise AssertionError("the group ended before")
