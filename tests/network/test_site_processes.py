"""Real processes of one site: one hosts, another takes over when it is killed, a daemon has precedence."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.network.processes import PATIENCE_SECONDS, Talker


@contextmanager
def residents(realm: str, *names: str) -> Iterator[list[Talker]]:
    """Processes that started one after the other, each when the last had its place."""
    talkers: list[Talker] = []
    try:
        for name in names:
            talkers.append(resident(realm, name))
            talkers[-1].wait(lambda lines: bool(lines), "anything")
        yield talkers
    finally:
        for talker in talkers:
            talker.close()


def resident(realm: str, name: str) -> Talker:
    return Talker(name, ["-m", "tests.network.resident", json.dumps({"name": name, "realm": realm})])


@contextmanager
def control(realm: str, *options: str) -> Iterator[Talker]:
    talker = Talker("control", ["-m", "unisono", "control", "--realm", realm, *options])
    try:
        yield talker
    finally:
        talker.close()


def test_a_killed_host_is_replaced_by_one_of_the_others(realm: str) -> None:
    with residents(realm, "ada", "bob", "eve") as (ada, bob, eve):
        ada.wait_line("hosting bob eve")
        assert bob.lines == ["host ada"]
        assert eve.lines == ["host ada"]
        os.kill(ada.process.pid, signal.SIGKILL)
        for talker in (bob, eve):
            talker.wait(lambda lines: len(lines) > 2, "who takes over")
        heirs = [talker for talker in (bob, eve) if "hosting" in talker.lines]
        assert len(heirs) == 1
        heir, other = heirs[0], next(talker for talker in (bob, eve) if talker is not heirs[0])
        heir.wait_line(f"hosting {other.name}")
        assert other.lines == ["host ada", "alone", f"host {heir.name}"]
        with residents(realm, "ada") as (again,):
            assert again.lines == [f"host {heir.name}"]
            heir.wait_line("hosting " + " ".join(sorted(["ada", other.name])))


def test_a_stopped_host_keeps_the_site_and_the_others_say_that_they_are_alone(realm: str) -> None:
    with residents(realm, "ada", "bob") as (ada, bob):
        ada.wait_line("hosting bob")
        os.kill(ada.process.pid, signal.SIGSTOP)
        try:
            bob.wait_line("alone")
        finally:
            os.kill(ada.process.pid, signal.SIGCONT)
        bob.wait(lambda lines: lines.count("host ada") == 2, "host ada again")
        assert "hosting" not in bob.lines


def test_a_control_daemon_is_found_and_takes_the_site_from_the_first_process(realm: str) -> None:
    with residents(realm, "ada", "bob") as (ada, bob):
        ada.wait_line("hosting bob")
        with control(realm) as daemon:
            daemon.wait_line(f"hosts the site in realm {realm!r}: 2 processes connected")
            for talker in (ada, bob):
                talker.wait(lambda lines: lines[-1].startswith("host "), "the daemon as its host")
            daemon.process.send_signal(signal.SIGTERM)
            assert daemon.process.wait(PATIENCE_SECONDS) == 0
        for talker, other in ((ada, "bob"), (bob, "ada")):
            places = (f"host {other}", f"hosting {other}")
            talker.wait(lambda lines, places=places: lines.count("alone") == 2 and lines[-1] in places, "its new place")  # type: ignore[misc]  # bound for this turn


def test_processes_join_a_daemon_that_was_there_first(realm: str) -> None:
    with control(realm, "--json") as daemon:
        daemon.wait(lambda lines: bool(lines), "that it hosts")
        with residents(realm, "ada", "bob") as (ada, bob):
            assert ada.lines[0].startswith("host ")
            assert bob.lines == ada.lines
            daemon.wait(lambda lines: len(lines) == 3, "that two are connected")
            told = [json.loads(line) for line in daemon.lines]
        assert [line["connected"] for line in told] == [0, 1, 2]
        assert told[2] == {"realm": realm, "hosting": True, "connected": 2, "processes": ["ada", "bob"]}
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(PATIENCE_SECONDS) == 0


def test_a_second_daemon_is_refused(realm: str) -> None:
    with control(realm) as first:
        first.wait_line(f"hosts the site in realm {realm!r}: 0 processes connected")
        with control(realm) as second:
            assert second.process.wait(PATIENCE_SECONDS) == 2
            second.wait(lambda lines: any("hosts this site already" in line for line in lines), "why")
        with control(realm + "-other") as other:
            other.wait_line(f"hosts the site in realm {realm + '-other'!r}: 0 processes connected")
