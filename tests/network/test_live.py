"""Scenarios on real processes of this machine, watched by `unisono top` while they run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.network.processes import PATIENCE_SECONDS, ROOT
from unisono.runtime.interfaces import LOOPBACK

ROLE_CHURN = """
name = "roles"
members = 4
duration = "15s"
settle = "5s"
options = {service = "timestamp"}

[[workload]]
senders = [0]
rate = 20
"""
FLIP = '[[fault]]\nat = "{at}s"\nkind = "{kind}"\nmember = {member}\n'

Picture = dict[str, Any]


@contextmanager
def scenario(realm: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "unisono", "simulate", *arguments, "--live", "--realm", realm, "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.terminate()


def watch(realm: str, seen: Callable[[list[Picture]], bool]) -> list[Picture]:
    """What `unisono top` shows, from when somebody answers until all that was to be seen was."""
    command = [sys.executable, "-m", "unisono", "top", "g", "--realm", realm, "--interface", LOOPBACK]
    command += ["--json", "--every", "400ms", "--wait", "300ms", "--count", "100"]
    pictures: list[Picture] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None
        for line in top.stdout:
            pictures.append(json.loads(line))
            if seen(pictures):
                top.terminate()
                return pictures
    raise AssertionError(f"not seen in {len(pictures)} pictures; the last one: {pictures[-1:]}")


def names(picture: Picture, role: str) -> set[str]:
    return {member["name"] for member in picture["members"] if member["role"] == role}


def ended(running: subprocess.Popen[str]) -> dict[str, Any]:
    """What the run says of itself; every property held."""
    output, complaints = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0, output + complaints
    assert f"--interface {LOOPBACK}" in complaints
    told: dict[str, Any] = json.loads(output)
    return told


@pytest.mark.slow
def test_top_shows_receivers_that_come_and_go(realm: str) -> None:
    changes = ["members=14", "churn[0].rate=3", "duration=12s", "settle=3s"]
    with scenario(realm, "receiver-churn", *(part for change in changes for part in ("--set", change))) as running:
        senders = {f"p{index}" for index in range(8)}

        def seen(pictures: list[Picture]) -> bool:
            """Two different audiences around the same eight senders in one view, and what they send a second."""
            whole = [one for one in pictures if names(one, "sender") == senders and len(one["views"]) == 1]
            audiences = {frozenset(names(one, "receiver")) for one in whole} - {frozenset()}
            followed = any(one["views"][0]["followers"] for one in whole)
            flows = any(
                member["a_second"] and member["a_second"]["messages_sent"] > 0
                for one in whole
                for member in one["members"]
            )
            return len(audiences) > 1 and followed and flows

        watch(realm, seen)
        told = ended(running)
    assert told["runs"][0]["counters"]["LEAVE"] > 5


@pytest.mark.slow
def test_top_shows_who_sends_and_who_only_receives_by_turns(realm: str, tmp_path: Path) -> None:
    path = tmp_path / "roles.toml"
    flips = [
        FLIP.format(at=at, kind="become_receiver" if (at + member) % 4 < 2 else "become_sender", member=member)
        for at in range(2, 14)
        for member in (1, 2, 3)
    ]
    path.write_text(ROLE_CHURN + "\n".join(flips))
    with scenario(realm, str(path)) as running:

        def seen(pictures: list[Picture]) -> bool:
            """One process in both roles, and p0 in a view with it and without it."""
            both = {
                name
                for name in ("p1", "p2", "p3")
                if any(name in names(one, "sender") for one in pictures)
                and any(name in names(one, "receiver") for one in pictures)
            }
            views = {tuple(view["members"]) for one in pictures for view in one["views"]}
            return both == {"p1", "p2", "p3"} and len(views) > 2

        watch(realm, seen)
        told = ended(running)
    counters = told["runs"][0]["counters"]
    assert counters["PADD"] > 0
    assert counters["PLEAVE"] > 0


@pytest.mark.slow
def test_an_interrupt_ends_every_process_that_runs_live(realm: str) -> None:
    # A test run that was itself put into the background ignores interrupts, and its children would too.
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from unisono.cli.main import run; run(sys.argv[1:])"
    command = [sys.executable, "-c", program, "simulate", "quiet-lan", "--live", "--realm", realm]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "under faults" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
