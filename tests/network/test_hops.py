"""How far a datagram came is counted from its TTL: over a router, on one network, on one machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from tests.network.echo_sounder import SCOPE
from tests.network.processes import Talker, until
from tests.network.test_namespaces import ip, namespaces_work
from unisono.engine import Address, DatagramReceived, hops_of, multicast_address


def test_who_knows_the_scope_counts_the_hops() -> None:
    plain = DatagramReceived(Address("a"), Address("b"), 3, 0, 0, b"")
    assert hops_of(plain, 9) == 3
    multicast = DatagramReceived(Address("a"), Address("b"), 0, 0, 0, b"", 7)
    assert hops_of(multicast, 9) == 2
    assert hops_of(multicast, 5) == 0


def sounder(name: str, interface: str, realm: str, namespace: str | None = None, *seed: str) -> Talker:
    before = [] if namespace is None else ["ip", "netns", "exec", namespace]
    talker = Talker(name, ["-m", "tests.network.echo_sounder", interface, realm, *seed], before=before)
    talker.wait(lambda lines: any(line.startswith("at ") for line in lines), "where it is")
    return talker


def address(talker: Talker) -> str:
    return next(line[3:] for line in talker.lines if line.startswith("at "))


def test_one_machine_is_no_hop_away(realm: str) -> None:
    with closing(sounder("ada", "127.0.0.1", realm)) as ada, closing(sounder("bob", "127.0.0.1", realm)) as bob:
        for to in (address(bob), multicast_address("g")):
            ada.tell(to)
        bob.wait(lambda lines: lines.count("heard 0 None") == 2, "two from here")


def is_up(namespace: str, device: str) -> bool:
    return "state UP" in ip("-n", namespace, "link", "show", device)


needs_namespaces = pytest.mark.skipif(not namespaces_work(), reason="network namespaces need root and `ip`")


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Two hosts with a router between them, as namespaces: first host, router, second host."""
    monkeypatch.delenv("UNISONO_INTERFACE", raising=False)
    names = [f"unisono-{os.getpid()}-{place}" for place in ("left", "router", "right")]
    left, router, right = names
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for number, name in ((1, left), (2, right)):
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"port{number}", "netns", router)
            for where, device, last in ((name, "eth0", 2), (router, f"port{number}", 1)):
                ip("-n", where, "addr", "add", f"10.78.{number}.{last}/24", "dev", device)
                ip("-n", where, "-6", "addr", "add", f"fd78:{number}::{last}/64", "dev", device, "nodad")
                ip("-n", where, "link", "set", device, "up")
            ip("-n", name, "route", "add", "default", "via", f"10.78.{number}.1")
            ip("-n", name, "-6", "route", "add", "default", "via", f"fd78:{number}::1")
        for where, device in ((left, "eth0"), (router, "port1"), (router, "port2"), (right, "eth0")):
            until(partial(is_up, where, device), "a link is up")
        for setting in ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"):
            ip("netns", "exec", router, "sh", "-c", f"echo 1 > /proc/sys/{setting}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@needs_namespaces
@pytest.mark.parametrize("place", ["10.78.{}.{}", "fd78:{}::{}"])
def test_a_router_and_a_network_are_counted(routed: list[str], realm: str, place: str) -> None:
    left, router, right = routed
    with (
        closing(sounder("ada", place.format(1, 2), realm, left)) as ada,
        closing(sounder("rue", place.format(1, 1), realm, router)) as rue,
        closing(sounder("bob", place.format(2, 2), realm, right)) as bob,
    ):
        ada.tell(address(bob))
        bob.wait_line("heard 2 None")
        ada.tell(address(rue))
        rue.wait_line("heard 1 None")
        ada.tell(multicast_address("g"))
        rue.wait_line(f"heard 0 {SCOPE - 1}")


@needs_namespaces
@pytest.mark.parametrize("place", ["10.78.{}.{}", "fd78:{}::{}"])
def test_a_scope_holds_on_a_mesh(routed: list[str], realm: str, place: str) -> None:
    """Two hops away is out of the scope of one; what goes further reaches both."""
    left, router, right = routed
    with closing(sounder("rue", place.format(1, 1), realm, router, "-")) as rue:
        seed = address(rue)
        with (
            closing(sounder("ada", place.format(1, 2), realm, left, seed)) as ada,
            closing(sounder("bob", place.format(2, 2), realm, right, seed)) as bob,
        ):
            everybody = multicast_address("g")
            hears = {"heard 2 None": bob, "heard 1 None": rue}

            def both_hear() -> bool:
                ada.tell(everybody)
                return all(line in talker.lines for line, talker in hears.items())

            until(both_hear, "the mesh stands")
            ada.tell(f"{everybody}=1=near")
            ada.tell(f"{everybody}=2=far")
            bob.wait_line("heard 2 None far")
            rue.wait_line("heard 1 None far")
            assert "heard 1 None near" in rue.lines
            assert "heard 2 None near" not in bob.lines
