"""A state on real sockets and disks: it comes whole to who joins, whoever fails meanwhile."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import unisono
import unisono.sync
from examples.counter import CounterMember
from examples.counter import main as count_together
from tests.network.meeting import run, until
from tests.network.processes import Talker
from tests.network.sieve import sift
from unisono import GroupError, SettingError, join

CHUNK = "64KiB"


class Notes:
    """A state of lines, kept in memory."""

    def __init__(self, *lines: bytes) -> None:
        self.lines = list(lines)
        self.saves = 0

    def save(self, file: BinaryIO) -> None:
        self.saves += 1
        file.write(b"\n".join(self.lines))

    def load(self, file: BinaryIO) -> None:
        self.lines = file.read().split(b"\n")


class AsyncNotes(Notes):
    async def save(self, file: BinaryIO) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().save(file)

    async def load(self, file: BinaryIO) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().load(file)


async def follow(group: unisono.Group, notes: Notes, events: list[unisono.Event]) -> None:
    """An application: every message is a line of its state."""
    async for event in group:
        events.append(event)
        if isinstance(event, unisono.Message):
            notes.lines.append(event.data)


@pytest.mark.parametrize("kind", [Notes, AsyncNotes])
def test_who_joins_late_gets_the_state_and_then_what_follows(realm: str, kind: type[Notes]) -> None:
    async def main() -> None:
        old, new = kind(b"zero"), kind(b"of no account")
        before: list[unisono.Event] = []
        after: list[unisono.Event] = []
        options: dict[str, Any] = {"realm": realm, "storage": "memory", "service": "timestamp"}
        async with asyncio.TaskGroup() as tasks, join("g", name="ada", state=old, **options) as ada:
            tasks.create_task(follow(ada, old, before))
            await until(lambda: ada.has_state)
            await ada.send_many([b"one", b"two"])
            await until(lambda: len(old.lines) == 3)
            async with join("g", name="bob", state=new, **options) as bob:
                tasks.create_task(follow(bob, new, after))
                await until(lambda: bob.has_state)
                await ada.send(b"three")
                await bob.send(b"four")
                await until(lambda: len(old.lines) == len(new.lines) == 5)
                assert old.lines == new.lines
                assert set(new.lines) == {b"zero", b"one", b"two", b"three", b"four"}
                assert not any(isinstance(event, unisono.Message) for event in after[: after.index(_received(after))])
                assert _received(before).provider is None
                assert _received(after).provider == ada.process.id
                assert old.saves == 1

    run(main())


def _received(events: list[unisono.Event]) -> unisono.StateReceived:
    return next(event for event in events if isinstance(event, unisono.StateReceived))


def test_scripts_without_asyncio_have_it_too(realm: str) -> None:
    old, new = Notes(b"zero"), Notes()
    options: dict[str, Any] = {"realm": realm, "storage": "memory", "service": "timestamp"}
    with unisono.sync.join("g", name="ada", state=old, **options) as ada:
        while not ada.has_state:
            ada.receive(0.1)
        with unisono.sync.join("g", name="bob", state=new, **options) as bob:
            while not bob.has_state:
                ada.receive(0.05)
                bob.receive(0.05)
    assert new.lines == [b"zero"]


def test_what_is_wrong_with_a_state_is_said(realm: str) -> None:
    with pytest.raises(SettingError, match="timestamp"):
        join("g", realm=realm, state=Notes())
    with pytest.raises(SettingError, match="save"):
        join("g", realm=realm, service="timestamp", state=object())  # type: ignore[arg-type]

    async def main() -> None:
        async with join("g", realm=realm, service="timestamp") as group:
            with pytest.raises(GroupError, match="without `state`"):
                group.claim_state()

    run(main())


def start(name: str, realm: str, directory: Path, size: int, **settings: object) -> Talker:
    options = {"name": name, "realm": realm, "directory": str(directory / name), "size": size, **settings}
    return Talker(name, ["-m", "tests.network.state_member", json.dumps(options)])


def test_a_provider_is_killed_half_way_and_another_goes_on(realm: str, tmp_path: Path) -> None:
    size = 4_000_000
    settings = {"state_chunk_bytes": CHUNK, "state_rate_bytes": "2MB"}
    with ExitStack() as stack:

        def member(name: str, size: int) -> Talker:
            return stack.enter_context(closing(start(name, realm, tmp_path, size, **settings)))

        source = member("source", 0)
        old = {name: member(name, size) for name in ("ada", "bob")}
        for one in old.values():
            one.wait(lambda lines: any(line.startswith("received") for line in lines), "that it has the state")
        source.tell("load 200 1000")
        new = member("new", size)
        new.wait(lambda lines: _progress(lines) > 0.4, "that half has come")
        provider = next(line.split()[3] for line in new.lines if line.startswith("progress"))
        old[provider].kill()
        new.wait(lambda lines: any(line.startswith("received") for line in lines), "that it has the state")
        received = next(line.split() for line in new.lines if line.startswith("received"))
        survivor = next(one for name, one in old.items() if name != provider)
        assert received[1] == survivor.name
        source.tell("halt")
        source.wait_line("halted")
        _wait_until_equal(new, survivor)
        new.tell("counters")
        new.wait(lambda lines: any(line.startswith("counters") for line in lines), "its counters")
        counters = json.loads(next(line for line in new.lines if line.startswith("counters"))[len("counters ") :])
        chunks = -(-(size + 8) // (64 * 1024))
        assert chunks <= counters["transfer: chunks received"] < 2 * chunks, "not all of them came twice"


def _progress(lines: list[str]) -> float:
    told = [line.split() for line in lines if line.startswith("progress")]
    return int(told[-1][1]) / max(int(told[-1][2]), 1) if told else 0.0


def _wait_until_equal(one: Talker, other: Talker) -> None:
    """Both have taken the same messages in the end, and then their states are the same."""
    digests: list[list[str]] = []
    for _ in range(100):
        digests = [_ask(talker, "digest") for talker in (one, other)]
        if digests[0] == digests[1]:
            return
    raise AssertionError(f"the states stay different: {digests}")


def _ask(talker: Talker, word: str) -> list[str]:
    asked = sum(line.startswith(word) for line in talker.lines)
    talker.tell(word)
    talker.wait(lambda lines: sum(line.startswith(word) for line in lines) > asked, word)
    return [line for line in talker.lines if line.startswith(word)][-1].split()


def test_the_counter_survives_a_crash(realm: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        assert await count_together(realm=realm) == [12, 12]

    run(main())
    said = capsys.readouterr().out.splitlines()
    assert "bob is given the count, 3" in said
    assert "eve is given the count, 7" in said


def test_the_counter_survives_a_cut_and_a_merge(realm: str) -> None:
    async def main() -> None:
        members = [CounterMember(name, speaks=False, realm=realm) for name in ("ada", "bob", "eve")]
        for count, member in enumerate(members, 1):
            await member.start()
            await until(lambda count=count: all(one.group.has_state for one in members[:count]))  # type: ignore[misc]
        await members[0].add(1)
        await until(lambda: all(member.counter.total == 1 for member in members))
        cut = True
        sides = {"ada": 0, "bob": 0, "eve": 1}
        for member in members:
            sift(member.group, lambda packet, own=sides[member.name]: cut and sides[packet.source.name] != own)  # type: ignore[misc]
        await until(lambda: [len(member.group.members) for member in members] == [2, 2, 1])
        await members[0].add(10)
        await members[2].add(100)
        await until(lambda: [member.counter.total for member in members] == [11, 11, 101])
        cut = False
        await until(lambda: all(member.counter.total == 111 for member in members))
        newcomer = CounterMember("new", speaks=False, realm=realm)
        await newcomer.start()
        await until(lambda: newcomer.counter.total == 111)
        await newcomer.add(1000)
        await until(lambda: all(member.counter.total == 1111 for member in (*members, newcomer)))
        for member in (*members, newcomer):
            await member.stop()

    run(main())


def test_who_gives_its_state_up_is_given_that_of_the_others(realm: str) -> None:
    async def main() -> None:
        ada, bob = (CounterMember(name, speaks=False, realm=realm) for name in ("ada", "bob"))
        await ada.start()
        await until(lambda: ada.group.has_state)
        await bob.start()
        await until(lambda: bob.group.has_state)
        await ada.add(5)
        await until(lambda: bob.counter.total == 5)
        bob.counter._added.clear()
        bob.group.renew_state()
        assert not bob.group.has_state
        await until(lambda: bob.group.has_state)
        await ada.add(1)
        await until(lambda: ada.counter.total == bob.counter.total == 6)
        await bob.stop()
        await ada.stop()

    run(main())
