"""A meeting in which everybody listens, and is a sender only while it has something to say.

Run it with `python examples/meeting.py`. Each member could as well be a program of its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

import unisono

SPEAKERS = ("ada", "bob", "eve")


async def take_minutes(group: unisono.Group, lines: int) -> list[str]:
    """What a member hears, and how the circle of those who speak changes meanwhile."""
    minutes: list[str] = []
    async for event in group:
        if isinstance(event, unisono.View):
            print(f"  {group.process.name}: {', '.join(member.name for member in event.members) or 'nobody'} may speak")
        elif isinstance(event, unisono.Message):
            minutes.append(f"{event.source.name}: {event.data.decode()}")
            if len(minutes) == lines:
                break
    return minutes


async def main(**options: Any) -> list[list[str]]:
    options = {"service": "timestamp", "role": "auto", "idle": "200ms", **options}
    members = [unisono.join("meeting", name=name, storage="memory", **options) for name in SPEAKERS]
    await asyncio.gather(*(member.open() for member in members))
    minutes = [asyncio.ensure_future(take_minutes(member, len(SPEAKERS))) for member in members]
    for member in members:
        await member.send(f"{member.process.name} has a point".encode())
    heard = await asyncio.gather(*minutes)
    await asyncio.gather(*(member.close() for member in members))
    return list(heard)


if __name__ == "__main__":
    for line in asyncio.run(main())[0]:
        print(line)
