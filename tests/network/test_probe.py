"""`unisono probe` and `unisono top` as a person runs them, against real processes on this machine."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, closing
from typing import Any

import pytest

from tests.network.meeting import members_are, run
from tests.network.processes import PATIENCE_SECONDS, ROOT, Talker, members, until
from unisono import Group, join
from unisono.runtime.mesh import Mesh
from unisono.runtime.prober import Prober
from unisono.units import MILLISECOND


def unisono(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unisono", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def probe(realm: str, transport: str, *more: str) -> dict[str, Any]:
    done = unisono("probe", "g", "--realm", realm, "--transport", transport, "--json", *more)
    told: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == told["exit"] == (0 if told["answered"] else 1), done.stderr
    return told


def present(told: dict[str, Any]) -> list[list[str]]:
    """Who is in each view that stands."""
    return [[process.split("~")[0] for process in view["present"]] for view in told["views"]]


@pytest.mark.parametrize("transport", ["multicast", "mesh"])
def test_three_processes_answer_and_one_that_is_killed_is_missed(realm: str, transport: str) -> None:
    names = ["ada", "bob", "cyd"]
    with members(names, realm=realm, transport=transport, service="timestamp") as (ada, bob, cyd):
        ada.tell("burst 40")
        for talker in (ada, bob, cyd):
            talker.wait(lambda lines: sum(line.startswith("got ada") for line in lines) == 40, "40 messages")
        pictures: list[dict[str, Any]] = []

        def all_answer() -> bool:
            pictures.append(probe(realm, transport))
            return present(pictures[-1]) == [names]

        until(all_answer, "a picture of all three")
        told = {member["name"]: member for member in pictures[-1]["members"]}
        assert sorted(told) == names
        assert [told[name]["total"]["messages_sent"] for name in names] == [40, 0, 0]
        assert [told[name]["total"]["messages_delivered"] for name in names] == [40] * 3
        assert {member["role"] for member in told.values()} == {"sender"}
        assert {member["service"] for member in told.values()} == {"timestamp"}
        assert [member["follows"] for member in told.values()] == [2, 2, 2]
        assert all(member["application_sees_it"] for member in told.values())
        cyd.kill()

        def missed() -> bool:
            after = probe(realm, transport, "--wait", "400ms")
            suspects = {one["process"].split("~")[0] for member in after["members"] for one in member["suspects"]}
            return suspects == {"cyd"} or present(after) == [["ada", "bob"]]

        until(missed, "cyd is suspected, or not in the next view")

        def settled() -> bool:
            after = probe(realm, transport, "--wait", "400ms")
            return present(after) == [["ada", "bob"]] and {one["state"] for one in after["members"]} == {"settled"}

        until(settled, "the next view")
        assert [ada.finish(), bob.finish()] == [0, 0]


def peers_of(group: Group) -> list[str]:
    transport = group.process._transport
    assert isinstance(transport, Mesh)
    return [str(peer) for peer in transport.peers]


@pytest.mark.parametrize("meets", [True, False])
def test_who_asks_a_mesh_finds_it_and_is_no_peer(realm: str, meets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By greetings to all, or by one seed alone, which names the others."""
    if not meets:
        monkeypatch.setattr(Mesh, "_open_meeting", lambda mesh, loop: None)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            groups: list[Group] = []
            for name in ("ada", "bob", "cyd"):
                seeds = () if meets else [group.process.address for group in groups[:1]]
                joined = join("g", name=name, realm=realm, transport="mesh", seeds=seeds, storage="memory")
                groups.append(await stack.enter_async_context(joined))
            for group in groups:
                await members_are(group, 3)
            addresses = {group.process.address for group in groups}
            seeds = () if meets else [groups[0].process.address]
            found: set[str] = set()
            async with Prober(
                "g", realm=realm, transport="mesh", seeds=seeds, wait=200 * MILLISECOND, every=250 * MILLISECOND
            ) as prober:
                while found != {"ada", "bob", "cyd"}:
                    found = {process.name for process in (await prober.round()).answers}
                    for group in groups:
                        assert set(peers_of(group)) == addresses - {group.process.address}
                await prober.round()
                assert all(set(peers_of(group)) == addresses - {group.process.address} for group in groups)

    run(main())


def test_the_table_shows_members_by_view(realm: str) -> None:
    with members(["ada", "bob"], realm=realm, service="timestamp") as (ada, bob):
        until(lambda: present(probe(realm, "multicast")) == [["ada", "bob"]], "both answer")
        shown = ""

        def both() -> bool:
            nonlocal shown
            shown = unisono("probe", "g", "--realm", realm).stdout
            return "2 members answered" in shown

        until(both, "both answer")
        lines = [line.split() for line in shown.splitlines() if line.strip()]
        assert lines[0] == f"group g in realm {realm}: 2 members answered, 1 view stands".split()
        assert lines[1][:2] + lines[1][-2:] == ["view", "1,", "ada", "bob"]
        rows = {line[0]: line for line in lines if "sender" in line}
        assert [rows[name][1:5] for name in ("ada", "bob")] == [["sender", "timestamp", "1", "settled"]] * 2
        assert any(line[:2] == ["member", "incarnation"] for line in lines)
        assert [ada.finish(), bob.finish()] == [0, 0]


def test_nobody_answers(realm: str) -> None:
    done = unisono("probe", "g", "--realm", realm, "--wait", "50ms")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"nobody in group 'g' of realm '{realm}' answered" in done.stderr
    for word in ("--realm", "--transport mesh", "unisono doctor g"):
        assert word in done.stderr
    told = unisono("probe", "g", "--realm", realm, "--wait", "50ms", "--json")
    assert (told.returncode, json.loads(told.stdout)["members"]) == (1, [])
    assert unisono("top", "g", "--realm", realm, "--every", "100ms", "--count", "2").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["probe", "g", "--wait", "soon"], "wait: expected a number with a unit"),
        (["probe", "g", "--wait", "2h"], "wait: expected 10ms to 1min, got 2h"),
        (["probe", "g", "--seed", "127.0.0.1:4711"], "seeds are for the mesh"),
        (["top", "g", "--interface", "nowhere"], "no interface 'nowhere' is up here"),
        (["top", "\x07"], "a name is made of printable characters"),
    ],
)
def test_a_bad_call_is_refused(arguments: list[str], complaint: str) -> None:
    done = unisono(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr


def top(realm: str, *more: str) -> Talker:
    return Talker("top", ["-m", "unisono", "top", "g", "--realm", realm, "--every", "400ms", *more])


def test_top_prints_a_line_of_json_for_every_refresh(realm: str) -> None:
    with members(["ada", "bob"], realm=realm) as (ada, bob), closing(top(realm, "--json")) as watcher:
        ada.tell("load 50")

        def busy(lines: list[str]) -> bool:
            rates = [member["a_second"] for line in lines for member in json.loads(line)["members"]]
            return any(rate is not None and rate["messages_sent"] > 5 for rate in rates)

        watcher.wait(busy, "that ada sends")
        ada.tell("halt")
        watcher.process.send_signal(signal.SIGINT)
        assert watcher.process.wait(PATIENCE_SECONDS) == 0
        assert [ada.finish(), bob.finish()] == [0, 0]


def test_top_on_a_terminal_ends_with_q(realm: str) -> None:
    with members(["ada", "bob"], realm=realm) as (ada, bob):
        controller, terminal = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
        command = [sys.executable, "-m", "unisono", "top", "g", "--realm", realm, "--every", "400ms"]
        watcher = subprocess.Popen(
            command, cwd=ROOT, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, close_fds=True
        )
        try:
            os.close(terminal)
            shown = b""
            while b"2 members answered" not in shown:
                shown += os.read(controller, 65_536)
            assert b"ada" in shown + os.read(controller, 65_536)
            os.write(controller, b"q")
            assert watcher.wait(PATIENCE_SECONDS) == 0
        finally:
            watcher.kill()
            watcher.wait()
            os.close(controller)
        assert [ada.finish(), bob.finish()] == [0, 0]
