"""The counter of the examples in processes of their own: killed, stopped, cut off, merged; no count is lost."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.network.processes import Talker
from tests.network.switch import Switch
from tests.network.test_namespaces import namespaces_work


def start(name: str, realm: str, directory: Path, before: Sequence[str] = (), **options: str) -> Talker:
    charge = {"name": name, "realm": realm, "storage": str(directory / name), **options}
    return Talker(name, ["-m", "tests.network.counter_member", json.dumps(charge)], before)


def last(lines: list[str], word: str) -> str:
    return next((line for line in reversed(lines) if line.startswith(word)), "")


def wait_for_count(total: int, *members: Talker) -> None:
    for member in members:
        member.wait(lambda lines: last(lines, "count") == f"count {total}", f"count {total}")


def wait_for_view(names: str, *members: Talker) -> None:
    for member in members:
        member.wait(lambda lines: last(lines, "view") == f"view {names}", f"view {names}")


def test_the_count_survives_kills_and_stops(realm: str, tmp_path: Path) -> None:
    with ExitStack() as stack:

        def member(name: str) -> Talker:
            return stack.enter_context(closing(start(name, realm, tmp_path)))

        ada, bob, eve = (member(name) for name in ("ada", "bob", "eve"))
        for amount, one in zip((1, 10, 100), (ada, bob, eve), strict=True):
            one.wait(lambda lines: last(lines, "count") not in ("", "count None"), "that it has the state")
            one.tell(f"add {amount}")
        wait_for_count(111, ada, bob, eve)
        bob.kill()
        ada.tell("add 1000")
        wait_for_count(1111, ada, eve)
        bob = member("bob")  # another life: it is given the count
        wait_for_count(1111, bob)
        bob.tell("add 10000")
        wait_for_count(11111, ada, bob, eve)
        wait_for_view("ada bob eve", ada, bob)
        eve.process.send_signal(signal.SIGSTOP)
        wait_for_view("ada bob", ada, bob)
        ada.tell("add 100000")
        wait_for_count(111111, ada, bob)
        eve.process.send_signal(signal.SIGCONT)
        wait_for_count(111111, eve)
        eve.tell("add 1000000")
        wait_for_count(1111111, ada, bob, eve)
        assert [one.finish() for one in (ada, bob, eve)] == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.skipif(not namespaces_work(), reason="network namespaces need root and `ip`")
def test_the_count_survives_a_cut_network(realm: str, tmp_path: Path) -> None:
    with Switch(4) as switch, ExitStack() as stack:

        def member(host: int, name: str) -> Talker:
            address = switch.address(host)
            return stack.enter_context(closing(start(name, realm, tmp_path, switch.command(host), interface=address)))

        ada, bob, eve = (member(host, name) for host, name in enumerate(("ada", "bob", "eve")))
        wait_for_count(0, ada, bob, eve)
        wait_for_view("ada bob eve", ada, bob, eve)
        ada.tell("add 1")
        wait_for_count(1, ada, bob, eve)
        switch.split([[0, 1], [2, 3]])
        wait_for_view("ada bob", ada, bob)
        wait_for_view("eve", eve)
        bob.tell("add 10")
        eve.tell("add 100")
        new = member(3, "new")  # on the smaller side, while the network is cut
        wait_for_count(11, ada, bob)
        wait_for_count(101, eve, new)
        new.tell("add 1000")
        wait_for_count(1101, eve, new)
        bob.kill()
        switch.heal()
        wait_for_view("ada eve new", ada, eve, new)
        wait_for_count(1111, ada, eve, new)
        ada.tell("add 10000")
        wait_for_count(11111, ada, eve, new)
