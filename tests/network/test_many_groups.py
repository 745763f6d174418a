"""Many groups of one process over one set of sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest

import unisono.runtime.multicast
from examples.rooms import BUSY
from examples.rooms import main as rooms
from tests.network.meeting import members_are, messages, run, until
from unisono import NetworkError, Process, join
from unisono.engine import multicast_address
from unisono.runtime.addresses import SHARED_HOSTS, multicast_host
from unisono.runtime.interfaces import Interface
from unisono.runtime.multicast import Multicast
from unisono.runtime.sockets import open_multicast
from unisono.runtime.transports import TransportName
from unisono.wire.refusals import Refusal

MANY = 600


def transport_of(process: Process) -> Multicast:
    assert isinstance(process._transport, Multicast)
    return process._transport


def neighbours(realm: str, group: str, families: tuple[socket.AddressFamily, ...] = (socket.AF_INET,)) -> str:
    """The name of another group with the same multicast address."""
    wanted = [multicast_host(realm, multicast_address(group), family) for family in families]
    return next(
        name
        for name in (f"other-{number}" for number in range(100 * SHARED_HOSTS))
        if [multicast_host(realm, multicast_address(name), family) for family in families] == wanted
    )


def test_the_groups_of_a_realm_share_a_bounded_set_of_addresses() -> None:
    for family in (socket.AF_INET, socket.AF_INET6):
        hosts = {multicast_host("r", multicast_address(f"g{number}"), family) for number in range(10_000)}
        assert SHARED_HOSTS - 8 < len(hosts) <= SHARED_HOSTS
        control = multicast_host("r", multicast_address("\0control"), family)
        others = {multicast_host("r", multicast_address(f"\0control/{number}"), family) for number in range(100)}
        assert not hosts & (others | {control})
    assert neighbours("r", "g", (socket.AF_INET, socket.AF_INET6))  # one family has the same neighbours as the other


def test_sockets_do_not_grow_with_the_groups(realm: str) -> None:
    async def main() -> None:
        async with Process("ada", realm=realm, storage="memory") as process:
            transport = transport_of(process)
            groups = [join(f"g{number}", process=process, role="receiver") for number in range(MANY)]
            await asyncio.gather(*(group.open() for group in groups))
            control = 2  # the addresses of the control hierarchy
            hosts = {multicast_host(realm, multicast_address(group.name), socket.AF_INET) for group in groups}
            assert len(hosts) <= transport.socket_count <= len(hosts) + control
            assert len(hosts) <= SHARED_HOSTS < MANY
            for group in groups[1:]:
                await group.close()
            assert 1 <= transport.socket_count <= 1 + control
            async with join("g0", name="bob", realm=realm, storage="memory") as other:
                await until(lambda: any(member.name == "bob" for member in groups[0].members))
                await other.send(b"still here")
                assert [message.data for message in await messages(groups[0], 1)] == [b"still here"]
            await groups[0].close()
            assert transport.socket_count <= control

    run(main())


@pytest.mark.parametrize("transport", ["multicast", "mesh"])
def test_groups_that_share_an_address_stay_apart(realm: str, transport: TransportName) -> None:
    async def main() -> None:
        other = neighbours(realm, "g")
        async with (
            Process("ada", realm=realm, storage="memory", transport=transport) as ada,
            Process("bob", realm=realm, storage="memory", transport=transport) as bob,
            join("g", process=ada) as ada_g,
            join("g", process=bob, service="timestamp") as bob_g,
            join(other, process=bob) as bob_other,
        ):
            await members_are(ada_g, 2)
            await members_are(bob_g, 2)
            await bob_other.send_many([b"not for ada"] * 50)
            await bob_g.send(b"for ada")
            assert [message.data for message in await messages(ada_g, 1)] == [b"for ada"]
            await until(lambda: ada.counters[Refusal.UNKNOWN_GROUP] > 0)
            assert len(ada_g.members) == 2
            assert {process.name for process in bob_other.members} == {"bob"}
            await bob_other.leave()  # the socket that both groups use stays open for the other
            await ada_g.send(b"for bob")
            assert [message.data for message in await messages(bob_g, 2)] == [b"for ada", b"for bob"]

    run(main())


def test_an_address_that_cannot_be_listened_on_is_an_error_of_its_groups_alone(
    realm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = multicast_host(realm, multicast_address("refused"), socket.AF_INET)

    def refusing(interface: Interface, host: str, port: int) -> socket.socket:
        if host == refused:
            raise NetworkError(f"cannot listen to multicast {host}")
        return open_multicast(interface, host, port)

    monkeypatch.setattr(unisono.runtime.multicast, "open_multicast", refusing)

    async def main() -> None:
        async with Process("ada", realm=realm, storage="memory") as process:
            names = ["refused", *(f"g{number}" for number in range(50)), neighbours(realm, "refused")]
            groups = [join(name, process=process) for name in names]
            answers = await asyncio.gather(*(group.open() for group in groups), return_exceptions=True)
            failed = {name for name, answer in zip(names, answers, strict=True) if isinstance(answer, NetworkError)}
            on_it = {
                name for name in names if multicast_host(realm, multicast_address(name), socket.AF_INET) == refused
            }
            assert failed == on_it >= {names[0], names[-1]}
            assert set(process.groups) == set(names) - failed

    run(main())


def test_the_example_listens_in_many_rooms(realm: str) -> None:
    async def main() -> None:
        assert await rooms(100, realm=realm) == ["is anybody here?"] * len(BUSY)

    run(main())
