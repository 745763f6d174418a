"""The inbox of an application with a state: what comes while it is busy waits on disk, in order, and nobody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from unisono.events import Event, Message, View
from unisono.identity import Point, ProcessId, StartPoint, ViewId
from unisono.runtime.state import spool as spools
from unisono.runtime.state.inbox import BATCH, StateInbox, WorkItem
from unisono.runtime.state.spool import MARK, Spool

ADA = ProcessId("ada", 1)
VIEW = View(ViewId(1, ADA, 1), None, (ADA,), (StartPoint(ADA, 1, 1),), ())


def message(number: int) -> Message:
    return Message(ADA, number, number, number, b"." * 100, VIEW.id, 0)


def messages(first: int, last: int) -> list[Event]:
    return [message(number) for number in range(first, last + 1)]


class Reader:
    """An application that takes what is there, and what the group was told that it took."""

    def __init__(self, path: Path) -> None:
        self.reported = 0
        self.numbers: list[int] = []
        self.inbox = StateInbox(asyncio.get_running_loop(), self._report, Spool(path / "spool"))

    def _report(self, count: int) -> None:
        self.reported += count

    async def take(self, limit: int = 1000) -> None:
        for event in await self.inbox.take_many(limit):
            if isinstance(event, Message):
                self.numbers.append(event.number)


def play(path: Path, main: Callable[[Reader], Awaitable[None]]) -> None:
    async def start() -> None:
        await main(Reader(path))

    asyncio.run(start())


def test_what_comes_while_it_catches_up_does_not_hold_the_group_back(tmp_path: Path) -> None:
    async def main(reader: Reader) -> None:
        inbox = reader.inbox
        inbox.hold()
        inbox.put(messages(1, 1000))
        inbox.release()
        await reader.take(500)
        inbox.put(messages(1001, 1200))
        await asyncio.sleep(0)
        assert reader.reported == 1200, "there is room on disk for as many as there were"
        while len(reader.numbers) < 1200:
            await reader.take()
        assert reader.numbers == list(range(1, 1201))
        waiting = asyncio.create_task(reader.take())
        while list(tmp_path.glob("spool*")):  # who has caught up needs no disk
            await asyncio.sleep(0)
        inbox.put(messages(1201, 1202))
        assert not list(tmp_path.glob("spool*"))
        await waiting
        assert reader.numbers[-2:] == [1201, 1202]

    play(tmp_path, main)


def test_who_does_not_catch_up_holds_the_group_back_in_the_end(tmp_path: Path) -> None:
    async def main(reader: Reader) -> None:
        inbox = reader.inbox
        inbox.hold()
        inbox.put(messages(1, 100))
        inbox.release()
        inbox.put(messages(101, 300))
        await asyncio.sleep(0)
        assert reader.reported == 100, "more than there was at the release is not counted as taken"
        await reader.take(50)
        await asyncio.sleep(0)
        assert reader.reported == 150
        while len(reader.numbers) < 300:
            await reader.take()
        await asyncio.sleep(0)
        assert reader.reported == 300

    play(tmp_path, main)


def test_a_long_backlog_lets_others_run(tmp_path: Path) -> None:
    async def main(reader: Reader) -> None:
        inbox, turns, count = reader.inbox, 0, 20 * BATCH
        inbox.hold()
        inbox.put(messages(1, count))
        inbox.release()

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        while len(reader.numbers) < count:
            await reader.take()
        task.cancel()
        assert turns >= 20

    play(tmp_path, main)


def test_work_has_its_place_between_what_is_on_disk(tmp_path: Path) -> None:
    async def main(reader: Reader) -> None:
        inbox = reader.inbox
        seen: list[int] = []

        async def work() -> None:
            inbox.hold()
            seen.append(reader.numbers[-1])
            inbox.put(messages(8, 9))
            inbox.release()

        inbox.hold()
        inbox.put(messages(1, 3))
        inbox.release()
        inbox.put(messages(4, 5))
        inbox.put_now(WorkItem(work))
        inbox.put(messages(6, 7))
        while len(reader.numbers) < 9:
            await reader.take()
        assert seen == [5]
        assert reader.numbers == list(range(1, 10))

    play(tmp_path, main)


def test_only_what_is_after_the_point_is_taken(tmp_path: Path) -> None:
    async def main(reader: Reader) -> None:
        inbox = reader.inbox
        inbox.hold()
        inbox.put([VIEW, *messages(1, 600)])
        inbox.release(Point(VIEW.id, ((ADA, 551),)))
        inbox.put(messages(601, 700))
        while len(reader.numbers) < 150:
            await reader.take()
        assert reader.numbers == list(range(551, 701))

    play(tmp_path, main)


def test_files_go_when_they_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "SEGMENT_BYTES", 1000)
    spool = Spool(tmp_path / "spool")
    found: list[object] = []
    for first in range(1, 200, 5):
        spool.append([*messages(first, first + 4), MARK])
        if first % 3 == 0:
            found += spool.take(4)
            assert len(list(tmp_path.iterdir())) <= spool.count * 200 // 1000 + 2
    found += spool.take(10_000)
    assert [one.number for one in found if isinstance(one, Message)] == list(range(1, 201))
    assert found[5] is MARK
    assert found.count(MARK) == 40
    spool.clear()
    assert not list(tmp_path.iterdir())
