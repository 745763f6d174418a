"""A replicated data set: members that came along together are equal, so that only others are sent the data.

Run it with `python examples/replicated_set.py`: it starts three membership servers of its own. With every view each
member learns who came into it together with it (the transitional set). Those have delivered the same messages, so
their data are equal; what is left to do is to send the data to those who come from elsewhere, once for each side.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import unisono

SERVERS = 3


class Shelf:
    """Values by name. Of two writes the later one stays, at every member, in whatever order they come."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, str, str]] = {}
        self.transfers = 0

    @property
    def values(self) -> dict[str, str]:
        return {name: value for name, (_, _, value) in sorted(self._entries.items())}

    async def put(self, group: unisono.SessionGroup, name: str, value: str) -> None:
        """Write a value, everywhere."""
        version = self._entries.get(name, (0, "", ""))[0] + 1
        await group.send(json.dumps({name: (version, group.process.name, value)}).encode())

    def on_message(self, message: unisono.Message) -> None:
        """One write, or all the data of another side: both are entries, and the later of each name stays."""
        for name, entry in json.loads(message.data).items():
            self._entries[name] = max(self._entries.get(name, (0, "", "")), tuple(entry))

    async def on_view(self, group: unisono.SessionGroup, view: unisono.View) -> str:
        """Send the data to those who did not come along, if this member is to do so; what was done, in words."""
        together = view.transitional or ()
        others = [member.name for member in view.members if member not in together]
        if not others:
            return f"{names(view.members)} came along together: nothing is sent"
        if group.process.id != min(together) or not self._entries:
            return f"{' and '.join(others)} came: another sends the data" if self._entries else "empty: waits for data"
        self.transfers += 1
        await group.send(json.dumps(self._entries).encode())
        return f"{' and '.join(others)} came: {group.process.name} sends {count(len(self._entries), 'value')}"


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def names(members: tuple[unisono.ProcessId, ...]) -> str:
    return " and ".join(member.name for member in members)


async def follow(group: unisono.SessionGroup, shelf: Shelf, speaks: bool) -> None:
    """Keep the data; say what every view led to."""
    async for event in group:
        if isinstance(event, unisono.Message):
            shelf.on_message(event)
        elif isinstance(event, unisono.View):
            done = await shelf.on_view(group, event)
            if speaks and event.previous is not None:
                print(done)


async def start_servers(stack: AsyncExitStack, **options: Any) -> list[unisono.MembershipServer]:
    """Three servers in this program; usually they are programs of their own (`unisono membership-server`)."""
    started: list[unisono.MembershipServer] = []
    for _ in range(SERVERS):
        peers = [server.address for server in started]
        started.append(await stack.enter_async_context(unisono.MembershipServer(peers=peers, **options)))
    return started


async def main(**options: Any) -> list[dict[str, str]]:
    async with AsyncExitStack() as stack:
        servers = await start_servers(stack, **options)
        shelves: dict[str, Shelf] = {}
        groups: dict[str, unisono.SessionGroup] = {}
        work: list[asyncio.Task[None]] = []

        async def come(name: str) -> None:
            addresses = [server.address for server in servers]
            session = await stack.enter_async_context(
                unisono.Session(name, servers=addresses, storage="memory", **options)
            )
            group = groups[name] = await session.join("shelf")
            shelf = shelves[name] = Shelf()
            work.append(asyncio.create_task(follow(group, shelf, speaks=name == "ada")))

        await come("ada")
        await shelves["ada"].put(groups["ada"], "apples", "3")
        await come("bob")
        await until(lambda: shelves["bob"].values == {"apples": "3"})
        await shelves["bob"].put(groups["bob"], "pears", "5")
        await until(lambda: len(shelves["ada"].values) == 2)
        await come("eve")
        await until(lambda: len(shelves["eve"].values) == 2)
        await groups.pop("bob").leave()
        await until(lambda: all(len(group.members) == 2 for group in groups.values()))
        await servers[0].close()  # its clients go to another server, and the view stays
        await shelves["eve"].put(groups["eve"], "apples", "2")
        await until(lambda: shelves["ada"].values["apples"] == "2" == shelves["eve"].values["apples"])
        for group in groups.values():
            await group.leave()
        await asyncio.gather(*work)
        values = [shelves[name].values for name in groups]
    sent = sum(shelf.transfers for shelf in shelves.values())
    print(f"{json.dumps(values[0])} at {' and '.join(groups)}, the data sent {count(sent, 'time')}")
    return values


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main())
