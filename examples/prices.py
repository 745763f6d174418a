"""A price feed: of two members of one group, one keeps a ledger in one order for all, one shows the latest prices.

Run it with `python examples/prices.py`. Who sends knows nothing of how it is received: each receiver chooses.
"""

from __future__ import annotations

import asyncio
from typing import Any

import unisono

PRICES = {"north": (100, 103, 101), "south": (250, 248, 251)}
CLOSED = b"closed"


async def exchange(group: unisono.Group) -> None:
    """Send the prices of one exchange, then say that it is closed."""
    for price in PRICES[group.process.name]:
        await group.send(str(price).encode())
    await group.send(CLOSED)


async def ledger(group: unisono.Group) -> list[tuple[str, int]]:
    """Write down every price, in the order of timestamps: every ledger of this group has the same lines."""
    lines: list[tuple[str, int]] = []
    closed: set[str] = set()
    async for event in group:
        if isinstance(event, unisono.Message):
            if event.data == CLOSED:
                closed.add(event.source.name)
            else:
                lines.append((event.source.name, int(event.data)))
        if closed == set(PRICES):
            break
    return lines


async def display(group: unisono.Group) -> dict[str, int]:
    """Show the latest price of each exchange; one that is lost or overtaken is of no use any more."""
    shown: dict[str, int] = {}
    closed: set[str] = set()
    async for event in group:
        if isinstance(event, unisono.Message):
            if event.data == CLOSED:
                closed.add(event.source.name)
            else:
                shown[event.source.name] = int(event.data)
        if closed == set(PRICES):
            break
    return shown


async def main(**options: Any) -> tuple[list[tuple[str, int]], list[tuple[str, int]], dict[str, int]]:
    reader = {"service": "timestamp", "role": "receiver", **options}
    viewer = {"service": "source-latest", "role": "receiver", **options}
    async with (
        unisono.join("prices", name="north", sources=[], **options) as north,
        unisono.join("prices", name="south", sources=[], **options) as south,
        unisono.join("prices", name="ledger", **reader) as first,
        unisono.join("prices", name="copy", **reader) as second,
        unisono.join("prices", name="display", **viewer) as window,
    ):
        for group in (first, second):
            await until_followed(group, *PRICES)
        reading = asyncio.gather(ledger(first), ledger(second), display(window))
        await asyncio.gather(exchange(north), exchange(south))
        lines, copied, shown = await reading
    print(f"ledger: {len(lines)} lines, and the copy has {'the same' if copied == lines else 'others'}")
    for name in PRICES:
        prices = ", ".join(str(price) for source, price in lines if source == name)
        print(f"{name}: the ledger has {prices}; the display shows {shown[name]}")
    return lines, copied, shown


async def until_followed(group: unisono.Group, *names: str) -> None:
    """A member gets what a source sends from the moment it follows it."""
    while not set(names) <= {process.name for process in group.members}:
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main())
