"""A shop and a kitchen in one group: orders go in, every order comes out once, in the order in which it was placed.

Run it with `python examples/orders.py`. Both members could as well be programs of their own, on this machine or on this
network: they find each other by the name of the group.
"""

from __future__ import annotations

import asyncio
from typing import Any

import unisono

ORDERS = ("two coffees", "a cake", "the bill")


async def kitchen(group: unisono.Group) -> list[str]:
    """Prepare what is ordered until the shop leaves."""
    prepared = []
    async for event in group:
        if isinstance(event, unisono.Message):
            prepared.append(event.data.decode())
            print(f"kitchen: {event.source.name} wants {prepared[-1]}")
        elif isinstance(event, unisono.View) and gone(event, "shop"):
            print("kitchen: the shop left")
            break
    return prepared


def gone(view: unisono.View, name: str) -> bool:
    return any(process.name == name and reason is unisono.ViewReason.LEFT for process, reason in view.reasons)


async def shop(group: unisono.Group) -> None:
    """Wait until the kitchen is there, order, leave."""
    async for event in group:
        if isinstance(event, unisono.View) and any(process.name == "kitchen" for process in event.members):
            break
    for order in ORDERS:
        await group.send(order.encode())


async def main(**options: Any) -> list[str]:
    async with unisono.join("orders", name="kitchen", sources=["shop"], **options) as orders:
        cooking = asyncio.create_task(kitchen(orders))
        async with unisono.join("orders", name="shop", **options) as counter:
            await until_followed(orders, "shop")
            await shop(counter)
        return await cooking


async def until_followed(group: unisono.Group, name: str) -> None:
    """A member gets what a source sends from the moment it follows it; earlier messages are not for it."""
    while all(process.name != name for process in group.members):
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main())
