"""Two hosts on one network, as network namespaces: members find each other there without configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.network.processes import Talker, until


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def namespaces_work() -> bool:
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    name = f"unisono-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made


pytestmark = pytest.mark.skipif(not namespaces_work(), reason="network namespaces need root and `ip`")


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Two namespaces on one bridge, in a third, with addresses of both kinds."""
    monkeypatch.delenv("UNISONO_INTERFACE", raising=False)
    number = os.getpid()
    names = [f"unisono-{number}-{side}" for side in "ab"]
    hub = f"unisono-{number}-hub"
    try:
        for name in (hub, *names):
            ip("netns", "add", name)
        ip("-n", hub, "link", "add", "br0", "type", "bridge")
        ip("-n", hub, "link", "set", "br0", "up")
        for index, name in enumerate(names, 1):
            port = f"port{index}"
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", hub)
            ip("-n", hub, "link", "set", port, "master", "br0", "up")
            ip("-n", name, "addr", "add", f"10.77.0.{index}/24", "dev", "eth0")
            ip("-n", name, "-6", "addr", "add", f"fd77::{index}/64", "dev", "eth0", "nodad")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")
        for name in names:
            until(lambda name=name: "LOWER_UP" in ip("-n", name, "link", "show", "eth0"), "the link is up")  # type: ignore[misc]  # bound for this turn
            ip("-n", name, "route", "add", "default", "dev", "eth0")
        yield names
    finally:
        for name in (hub, *names):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="multicast"),
        pytest.param(("--transport", "mesh"), id="mesh"),
        pytest.param(("--interface", "fd77::{}"), id="multicast-ipv6"),
        pytest.param(("--interface", "fd77::{}", "--transport", "mesh"), id="mesh-ipv6"),
    ],
)
def test_two_hosts_meet(hosts: list[str], realm: str, options: tuple[str, ...]) -> None:
    def chat(index: int, name: str) -> Talker:
        words = ["-m", "unisono", "chat", "lobby", "--name", name, "--realm", realm]
        words += [option.format(index) for option in options]
        return Talker(name, words, before=["ip", "netns", "exec", hosts[index - 1]])

    with closing(chat(1, "ada")) as ada, closing(chat(2, "bob")) as bob:
        ada.wait_line("* bob is here")
        bob.wait_line("* ada is here")
        ada.tell("across the wire")
        bob.wait_line("ada: across the wire")
