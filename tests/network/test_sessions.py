"""Virtual synchrony sessions on real sockets: three servers, several clients, some of which are killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from xxhash import xxh3_64_hexdigest

from tests.network.processes import Talker, judge, read_spools
from tests.network.sessions import Client, Servers, clients
from unisono.trace.schema import ViewRow

pytestmark = pytest.mark.slow

COUNT = 40
TEXTS = [f"message {number}" for number in range(COUNT)]
QUICK = ("--set", "server_timeout=500ms")
"""A client or a server that stops is missed so soon."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Three servers for all the tests here; who kills one starts it again."""
    with closing(Servers(3, f"sessions-{os.getpid()}-{os.urandom(6).hex()}", *QUICK)) as started:
        yield started


def finish(started: list[Client]) -> None:
    assert [client.finish() for client in started] == [0] * len(started)


def assert_kept(trace: Path) -> None:
    """Every promise holds over the traces of all clients."""
    assert judge(read_spools(trace)) == []


@pytest.mark.parametrize("transport", ["multicast", "mesh"])
def test_members_come_and_go_and_get_everything_in_order(tmp_path: Path, servers: Servers, transport: str) -> None:
    group, trace = f"flow-{transport}", tmp_path / "run"
    options = {"transport": transport, "trace": str(trace)}
    with clients(["ada", "bob", "eve"], servers, group, **options) as (ada, bob, eve):
        for client in (ada, bob, eve):
            client.do(f"burst {group} {COUNT}")
        for client in (ada, bob, eve):
            for source in ("ada", "bob", "eve"):
                client.wait_heard(source, COUNT, group)
                assert client.heard(source, group) == TEXTS
        eve.do(f"send {group} so long")
        eve.do(f"leave {group}")
        for client in (ada, bob):
            client.wait_view(["ada", "bob"], group)
            assert client.heard("eve", group) == [*TEXTS, "so long"]
            assert client.last(f"got {group} eve so long") < client.last(f"view {group} ada bob")
            assert f"gone {group} eve left" in client.lines
        with closing(Client("joe", servers, **options)) as joe:
            joe.do(f"join {group}")
            for client in (ada, bob, joe):
                client.wait_view(["ada", "bob", "joe"], group)
            assert joe.lines[joe.last(f"view {group} ada bob joe") - 1] == f"together {group} joe"
            joe.do(f"send {group} hello")
            for client in (ada, bob, joe):
                client.wait_heard("joe", 1, group)
            finish([ada, bob, eve, joe])
    assert_kept(trace)


def test_who_goes_on_without_a_killed_client_has_the_same_of_it(tmp_path: Path, servers: Servers) -> None:
    trace = tmp_path / "run"
    with clients(["ada", "bob", "victim"], servers, "kill", trace=str(trace)) as (ada, bob, victim):
        victim.tell("flood kill")
        ada.do("load kill 100")
        for client in (ada, bob):
            client.wait_heard("victim", 300, "kill")
        victim.kill()
        for client in (ada, bob):
            client.wait_view(["ada", "bob"], "kill")
            assert "gone kill victim suspected" in client.lines
        ada.do("halt kill")
        told = [client.lines[: client.last("view kill ada bob")] for client in (ada, bob)]
        before = [[line for line in lines if line.startswith("got kill victim ")] for lines in told]
        assert before[0] == before[1]
        assert len(before[0]) >= 300
        finish([ada, bob])
    assert_kept(trace)


def test_a_server_is_killed_and_its_clients_move_on_in_their_view(tmp_path: Path, servers: Servers) -> None:
    trace = tmp_path / "run"
    with clients(["ada", "bob", "eve"], servers, trace=str(trace), server_timeout="500ms") as three:
        views = [client.views() for client in three]
        lost = three[0].server
        assert lost is not None
        servers.kill(lost)
        for client in three:
            client.wait_elsewhere(lost)
        for client in three:
            client.do(f"burst g {COUNT}")
        for client in three:
            for source in ("ada", "bob", "eve"):
                client.wait_heard(source, COUNT)
        assert [client.views() for client in three] == views
        servers.start_again(lost)
        with closing(Client("joe", servers, servers=[lost], trace=str(trace))) as joe:
            joe.do("join g")
            for client in (*three, joe):
                client.wait_view(["ada", "bob", "eve", "joe"])
            finish([*three, joe])
    assert_kept(trace)


def test_the_application_is_asked_before_its_view_changes(tmp_path: Path, servers: Servers) -> None:
    trace = tmp_path / "run"
    settings = '{"block": "ask", "block_timeout": "300ms"}'
    with closing(Client("ada", servers, trace=str(trace))) as ada:
        ada.do(f"join ask {settings}")
        ada.wait_view(["ada"], "ask")
        with closing(Client("bob", servers, trace=str(trace))) as bob:
            bob.tell("join ask")
            ada.wait_line("block ask")
            ada.do("send ask the last in this view")
            ada.do("block_ok ask")
            ada.wait_view(["ada", "bob"], "ask")
            ada.wait_line("unblocked ask")
            said = [line for line in ada.lines if " ask" in line]
            assert said.index("got ask ada the last in this view") < said.index("view ask ada bob")
            assert said.index("view ask ada bob") < said.index("unblocked ask")
            bob.wait_view(["ada", "bob"], "ask")
            assert bob.heard("ada", "ask") == []
            bob.do("leave ask")  # ada does not answer, and is not waited for
            ada.wait(lambda lines: lines.count("block ask") == 2, "that it was asked again")
            ada.wait_view(["ada"], "ask")
            finish([ada, bob])
    assert_kept(trace)


def test_a_large_message_arrives_whole(servers: Servers) -> None:
    size = 5_000_000
    digest = xxh3_64_hexdigest(Random(1).randbytes(size))
    with clients(["ada", "bob"], servers, "large") as (ada, bob):
        ada.tell(f"large large {size}")
        for client in (ada, bob):
            client.wait_line(f"got large ada large {size} {digest}")
        finish([ada, bob])


def test_weak_groups_beside_strong_ones(tmp_path: Path, servers: Servers) -> None:
    trace = tmp_path / "run"
    options = {"trace": str(trace), "semantics": "weak"}
    with clients(["ada", "bob"], servers, "weak", **options) as (ada, bob):
        for client in (ada, bob):
            client.do('join strong {"semantics": "strong"}')
        for client in (ada, bob):
            client.wait_view(["ada", "bob"], "strong")
            client.do(f"burst weak {COUNT}")
            client.do(f"burst strong {COUNT}")
        for client in (ada, bob):
            for group in ("weak", "strong"):
                for source in ("ada", "bob"):
                    client.wait_heard(source, COUNT, group)
                    assert client.heard(source, group) == TEXTS
        bob.kill()
        for group in ("weak", "strong"):
            ada.wait_view(["ada"], group)
        finish([ada])
    assert_kept(trace)


def test_a_session_has_many_groups(tmp_path: Path, servers: Servers) -> None:
    trace = tmp_path / "run"
    groups = [f"many-{number}" for number in range(20)]
    with clients(["ada", "bob"], servers, groups[0], trace=str(trace)) as (ada, bob):
        for client in (ada, bob):
            for group in groups[1:]:
                client.do(f"join {group}")
        for client in (ada, bob):
            for group in groups:
                client.wait_view(["ada", "bob"], group)
                client.do(f"send {group} to {group}")
        for client in (ada, bob):
            for group in groups:
                client.wait_heard("ada", 1, group)
                client.wait_heard("bob", 1, group)
                assert client.heard("ada", group) == [f"to {group}"]
        finish([ada, bob])
    rows = [row for spool in read_spools(trace).values() for row in spool]
    assert {row.group for row in rows if isinstance(row, ViewRow)} == set(groups)
    assert_kept(trace)


def test_clients_of_controllers_are_members_as_others_are(tmp_path: Path, servers: Servers) -> None:
    trace = tmp_path / "run"
    command = [
        "-m",
        "unisono",
        "controller",
        "--realm",
        servers.realm,
        "--listen",
        "127.0.0.1:0",
        "--trace",
        str(trace),
    ]
    command += [word for endpoint in servers.endpoints for word in ("--server", endpoint)]
    with closing(Talker("controller", command)) as controller:
        controller.wait(lambda lines: any(line.startswith("with ") for line in lines), "which server it is with")
        place = controller.lines[0].rpartition(" ")[2]
        with clients(["ada", "bob"], servers, "below", servers=[], controllers=[place], trace=str(trace)) as (ada, bob):
            for client in (ada, bob):
                client.do(f"burst below {COUNT}")
            controller.wait_line("2 clients")
            for client in (ada, bob):
                for source in ("ada", "bob"):
                    client.wait_heard(source, COUNT, "below")
                    assert client.heard(source, "below") == TEXTS
            bob.kill()
            ada.wait_view(["ada"], "below")
            finish([ada])
    assert_kept(trace)
