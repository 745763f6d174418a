"""A roster and a notebook: who is in the group and why, and notes that all members share, also after they were apart.

Run it with `python examples/roster.py`. Every member is at first in a view of its own, with the notes that it brings,
as the sides of a network that was cut are; when views merge, one of each side tells its notes and everybody takes the
latest note of each name.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import unisono

BROUGHT = {
    "north": {"soup": "leek", "bread": "rye"},
    "east": {"cheese": "blue"},
    "south": {"wine": "red"},
}


class Notes:
    """The latest note of each name; the same at every member that was told the same, in whatever order."""

    def __init__(self, process: unisono.ProcessId, brought: Mapping[str, str]) -> None:
        self._notes = {name: (0, str(process), text) for name, text in brought.items()}
        self.reconciliation = unisono.Reconciliation(process)

    @property
    def texts(self) -> dict[str, str]:
        return {name: text for name, (_, _, text) in sorted(self._notes.items())}

    async def on_view(self, group: unisono.Group, view: unisono.View) -> None:
        """Tell the notes of this side, if this process is to do so."""
        if self.reconciliation.on_view(view):
            await group.send(self.reconciliation.wrap(json.dumps(self._notes).encode()))

    def on_message(self, message: unisono.Message) -> None:
        """Take what another side tells, or one new note, each if it is the later one."""
        told = self.reconciliation.unwrap(message)
        if told is None:
            name, text = json.loads(message.data)
            self._take(name, (message.timestamp, str(message.source), text))
        else:
            for name, note in json.loads(told).items():
                self._take(name, tuple(note))

    def _take(self, name: str, note: tuple[int, str, str]) -> None:
        self._notes[name] = max(note, self._notes.get(name, note))


def roster(view: unisono.View) -> str:
    """One line for a view: who is in it, who came, who went and why."""
    here = " ".join(process.name for process in view.members)
    why = ", ".join(f"{process.name} {reason}" for process, reason in view.reasons)
    side = {True: "primary", False: "not primary", None: ""}[view.primary]
    return f"{here} ({why})" + (f", {side}" if side else "")


async def member(group: unisono.Group, notes: Notes, speaks: bool) -> None:
    """Keep the notes; say who is here."""
    async for event in group:
        if isinstance(event, unisono.View):
            if speaks:
                print(roster(event))
            await notes.on_view(group, event)
        elif isinstance(event, unisono.Message):
            notes.on_message(event)
        elif isinstance(event, unisono.Excluded) and speaks:
            print("the others went on without this member; it comes back by itself")


async def main(**options: Any) -> list[dict[str, str]]:
    books: list[Notes] = []
    groups: list[unisono.Group] = []
    work: list[asyncio.Task[None]] = []
    for name, brought in BROUGHT.items():
        group = unisono.join("notes", name=name, service="timestamp", primary=len(BROUGHT), **options)
        groups.append(await group.open())
        books.append(Notes(group.process.id, brought))
        work.append(asyncio.create_task(member(group, books[-1], speaks=name == "north")))
        await until_settled(books, len(groups))
    await groups[1].send(json.dumps(["soup", "pumpkin"]).encode())
    while any(book.texts.get("soup") != "pumpkin" for book in books):
        await asyncio.sleep(0.01)
    for group in reversed(groups):
        await group.close()
    await asyncio.gather(*work)
    print("\n".join(f"{name}: {text}" for name, text in books[0].texts.items()))
    return [book.texts for book in books]


async def until_settled(books: list[Notes], count: int) -> None:
    """Wait until so many members are in one view and have the same notes."""
    while any(not book.reconciliation.settled or len(book.reconciliation.side) < count for book in books):
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main())
