"""A thousand rooms in one process: it listens in all of them, and hardly pays for those that are quiet.

Run it with `python examples/rooms.py`. The guests could as well be programs of their own.
"""

from __future__ import annotations

import asyncio
from typing import Any

import unisono

BUSY = ("room-7", "room-50")


async def listen(room: unisono.Group) -> str:
    """The first thing that is said in a room."""
    async for event in room:
        if isinstance(event, unisono.Message):
            print(f"{room.name}: {event.source.name} says {event.data.decode()}")
            return event.data.decode()
    raise AssertionError("nobody leaves before something was said")


async def visit(room: unisono.Group, **options: Any) -> None:
    """Come into a room as another process, and speak when the first one listens to it."""
    async with unisono.join(room.name, name=f"guest-{room.name}", **options) as door:
        while all(process != door.process.id for process in room.members):
            await asyncio.sleep(0.01)
        await door.send(b"is anybody here?")


async def main(rooms: int = 1000, **options: Any) -> list[str]:
    async with unisono.Process("porter", storage="memory", **options) as process:
        doors = [unisono.join(f"room-{number}", process=process, role="receiver") for number in range(rooms)]
        await asyncio.gather(*(door.open() for door in doors))
        print(f"{process.name} listens in {len(process.groups)} rooms")
        busy = [door for door in doors if door.name in BUSY]
        heard = asyncio.gather(*(listen(door) for door in busy))
        await asyncio.gather(*(visit(door, **options) for door in busy))
        return await heard


if __name__ == "__main__":
    asyncio.run(main())
