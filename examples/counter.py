"""A counter that every member shares: it survives crashes, a cut network, and members that come later.

`python examples/counter.py` shows three members in one process: one crashes, another comes and is given the count.
`python examples/counter.py NAME` is one member for a terminal of its own; start some, kill some, cut the network.

A member says how much it has added in all, and the count is the sum over all members. So a number that comes twice, or
late, does no harm, and two sides of a cut network are put together by taking the higher number of each member.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, BinaryIO

import unisono


class Counter:
    """What each member has added: the state that newcomers are given, and that sides tell each other."""

    def __init__(self) -> None:
        self._added: dict[str, int] = {}
        self._own = 0

    @property
    def total(self) -> int:
        return sum(self._added.values())

    def save(self, file: BinaryIO) -> None:
        file.write(self.encode())

    def load(self, file: BinaryIO) -> None:
        self._added = json.loads(file.read())

    def encode(self) -> bytes:
        return json.dumps(self._added, sort_keys=True).encode()

    def merge(self, told: bytes) -> None:
        """Take what another side tells; b"" tells nothing."""
        for member, added in json.loads(told or b"{}").items():
            self._take(member, added)

    def add(self, amount: int) -> bytes:
        """The message that adds something, for this member."""
        self._own += amount
        return str(self._own).encode()

    def apply(self, message: unisono.Message) -> None:
        self._take(str(message.source), int(message.data))

    def _take(self, member: str, added: int) -> None:
        self._added[member] = max(added, self._added.get(member, 0))


class CounterMember:
    """One member: keeps its counter up to date, whatever happens to the group."""

    def __init__(self, name: str, speaks: bool = True, **options: Any) -> None:
        self.name = name
        self.counter = Counter()
        self.group = unisono.join("counter", name=name, service="timestamp", state=self.counter, **options)
        self._speaks = speaks
        self._work: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.group.open()
        self._work = asyncio.create_task(self._follow())

    async def add(self, amount: int) -> None:
        await self.group.send(self.counter.add(amount))

    async def stop(self) -> None:
        await self.group.close()
        if self._work is not None:
            await self._work

    async def crash(self) -> None:
        """End without a word to the others."""
        await self.group.process.close(leave=False)
        if self._work is not None:
            self._work.cancel()

    async def _follow(self) -> None:
        counter, group = self.counter, self.group
        reconciliation = unisono.Reconciliation(group.process.id, transfer=True)
        async for event in group:
            if isinstance(event, unisono.StateReceived):
                reconciliation.on_received(event)
                self._say("starts the count" if event.provider is None else f"is given the count, {counter.total}")
            elif isinstance(event, unisono.View):
                self._say(f"counts with {' '.join(process.name for process in event.members)}")
                if reconciliation.on_view(event):
                    await group.send(reconciliation.wrap(counter.encode))
            elif isinstance(event, unisono.Message):
                told = reconciliation.unwrap(event)
                if told is None:
                    counter.apply(event)
                else:
                    counter.merge(told)
                    if reconciliation.owes:
                        await group.send(reconciliation.wrap(counter.encode))

    def _say(self, text: str) -> None:
        if self._speaks:
            print(f"{self.name} {text}", flush=True)


async def until_all_count(total: int, *members: CounterMember) -> None:
    while any(member.counter.total != total or not member.group.has_state for member in members):
        await asyncio.sleep(0.01)


async def main(**options: Any) -> list[int]:
    ada, bob, eve = (CounterMember(name, **options) for name in ("ada", "bob", "eve"))
    await ada.start()
    await ada.add(3)
    await until_all_count(3, ada)
    await bob.start()
    await until_all_count(3, ada, bob)
    await bob.add(4)
    await until_all_count(7, ada, bob)
    await bob.crash()
    print("bob crashes")
    await eve.start()
    await until_all_count(7, ada, eve)
    await eve.add(5)
    await until_all_count(12, ada, eve)
    totals = [ada.counter.total, eve.counter.total]
    print(f"the count is {totals[0]} at ada and {totals[1]} at eve")
    await eve.stop()
    await ada.stop()
    return totals


async def one_member(name: str) -> None:
    """Add one every second, and tell the count."""
    member = CounterMember(name)
    await member.start()
    while True:
        await asyncio.sleep(1)
        await member.add(1)
        print(f"{name} counts {member.counter.total}", flush=True)


if __name__ == "__main__":
    asyncio.run(one_member(sys.argv[1]) if len(sys.argv) > 1 else main())
