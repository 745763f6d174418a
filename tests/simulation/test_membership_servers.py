"""Membership servers under any order of delivery: views agree, identifiers grow, and quiet brings one view."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.simulation.server_chaos import Chaos
from tests.simulation.server_clients import Broken
from tests.simulation.server_model import GROUP, SETTINGS, World
from unisono.identity import ProcessId, ViewId
from unisono.settings import read_settings
from unisono.units import MILLISECOND, SECOND
from unisono.virtual_synchrony.servers import clients, rounds
from unisono.virtual_synchrony.servers.attendance import Attendance
from unisono.virtual_synchrony.servers.group import Group
from unisono.virtual_synchrony.servers.parts import Part
from unisono.wire.server_frames import Entry, Standing, StartChange, write_server_frame

SEEDS = range(20)
Counts = dict[str, tuple[int, int]]
Plant = Callable[[pytest.MonkeyPatch], None]


def settled(seed: int, servers: int, members: int) -> World:
    world = World(seed, servers)
    world.run(2 * SECOND)
    for number in range(members):
        world.start_client(f"c{number}", f"s{number % servers}").join(GROUP)
    world.run(SECOND)
    world.check_settled()
    return world


def counts(world: World) -> Counts:
    """How many start-changes and views each client was told."""
    books = {name: client.books[GROUP] for name, client in world.clients.items() if GROUP in client.books}
    return {name: (book.starts, book.views) for name, book in books.items()}


def more(before: Counts, after: Counts) -> set[tuple[int, int]]:
    return {
        (starts - before.get(name, (0, 0))[0], views - before.get(name, (0, 0))[1])
        for name, (starts, views) in after.items()
    }


@pytest.mark.parametrize("servers", [1, 2, 3, 4])
def test_a_join_alone_takes_one_round(servers: int) -> None:
    for seed in SEEDS:
        world = settled(seed, servers, 4)
        before = counts(world)
        world.start_client("new", world.random.choice(world.names)).join(GROUP)
        world.settle()
        world.check_settled()
        assert more(before, counts(world)) == {(1, 1)}, seed


@pytest.mark.parametrize("change", ["leave", "end", "silence"])
def test_who_goes_is_gone_after_one_round(change: str) -> None:
    for seed in SEEDS:
        world = settled(seed, 3, 5)
        before = counts(world)
        if change == "leave":
            world.clients["c4"].leave(GROUP)
        elif change == "end":
            world.end_client("c4")
        else:
            world.cuts.add(frozenset(("c4", "s1")))
            del world.clients["c4"]
            world.run(2 * SETTINGS.server_timeout)
        world.settle()
        world.check_settled()
        assert more(before, counts(world)) == {(1, 1)}, seed


def test_clients_of_a_server_that_fails_stay_in_their_view() -> None:
    for seed in SEEDS:
        world = settled(seed, 3, 6)
        before = counts(world)
        world.kill("s1")
        world.run(4 * SECOND)
        assert {world.places[name] for name in world.clients} <= {"s0", "s2"}
        world.check_settled()
        assert more(before, counts(world)) == {(0, 0)}, seed


def test_a_client_whose_channel_breaks_stays_in_its_view() -> None:
    for seed in SEEDS:
        world = settled(seed, 2, 4)
        before = counts(world)
        world.break_channels("c2", "s0")
        world.run(4 * SECOND)
        world.check_settled()
        assert more(before, counts(world)) == {(0, 0)}, seed


def test_who_does_not_come_back_is_gone_after_the_failover() -> None:
    for seed in SEEDS:
        world = settled(seed, 3, 6)
        before = counts(world)
        world.kill("c2")
        world.run(SETTINGS.failover - 200 * MILLISECOND)
        assert more(before, counts(world)) == {(0, 0)}
        world.run(SECOND)
        world.check_settled()
        assert more(before, counts(world)) == {(1, 1)}, seed


def test_without_failover_a_lost_client_goes_at_once() -> None:
    world = World(1, 2, read_settings({"failover": "0s"}))
    world.run(2 * SECOND)
    for number in range(4):
        world.start_client(f"c{number}", f"s{number % 2}").join(GROUP)
    world.settle()
    world.kill("c0")
    world.settle()
    world.check_settled()


def test_a_restarted_server_goes_on_above_what_clients_saw() -> None:
    for seed in SEEDS:
        world = settled(seed, 1, 3)
        seen = {name: client.books[GROUP].change for name, client in world.clients.items()}
        world.kill("s0")
        world.start_server("s0")
        world.run(4 * SECOND)
        world.check_settled()
        assert all(client.books[GROUP].change > seen[name] for name, client in world.clients.items())


def test_servers_that_are_cut_apart_go_on_apart_and_come_together() -> None:
    for seed in SEEDS:
        world = settled(seed, 4, 8)
        for one in ("s0", "s1"):
            for other in ("s2", "s3"):
                world.cuts.add(frozenset((one, other)))
        world.run(4 * SECOND)
        here = {name for name, place in world.places.items() if place in ("s0", "s1")}
        world.check_settled(parts=[here, set(world.clients) - here])
        world.cuts.clear()
        world.run(4 * SECOND)
        world.check_settled()


def test_a_newer_life_takes_the_place_of_the_older_at_once() -> None:
    for seed in SEEDS:
        world = settled(seed, 3, 4)
        world.kill("c1")
        world.start_client("c1", "s2").join(GROUP)
        world.settle()
        world.check_settled()


def test_a_controller_brings_its_clients_and_takes_them_along() -> None:
    for seed in SEEDS:
        world = settled(seed, 3, 3)
        charges = [ProcessId(f"d{number}", 1) for number in range(3)]
        controller = world.start_client("k", "s0", controller=True)
        controller.join(GROUP)
        controller.charge(GROUP, *charges)
        world.settle()
        world.check_settled()
        before = counts(world)
        world.kill("s0")
        world.run(4 * SECOND)
        world.check_settled()
        assert more(before, counts(world)) == {(0, 0)}, seed
        world.clients["c1"].accuse(GROUP, charges[0])
        world.settle()
        apart = {name for name, client in world.clients.items() if charges[1] in client.books[GROUP].members}
        assert "k" in apart or "c1" not in apart
        assert set(world.clients["k"].books[GROUP].members) >= {controller.process, *charges}
        assert world.clients["c1"].process not in world.clients["k"].books[GROUP].members
        world.clients["c1"].accuse(GROUP)
        world.end_client("k")
        world.settle()
        world.check_settled()


def crowd(seed: int) -> None:
    """Many come at the same time."""
    world = World(seed, 3)
    world.run(2 * SECOND)
    for number in range(6):
        world.start_client(f"c{number}", world.random.choice(world.names)).join(GROUP)
    while world.deliver():
        world.check_announced()
    world.check_settled()


def interrupted(seed: int) -> None:
    """A server dies, and who joined, when a change was told to some of its clients and to nobody else."""
    world = settled(seed, 3, 6)
    world.start_client("new", "s0").join(GROUP)
    world.cuts |= {frozenset(("s0", other)) for other in ("s1", "s2")}
    world.settle()
    world.cuts.clear()
    world.kill("s0")
    world.kill("new")
    world.run(4 * SECOND)
    world.check_settled()


def accused(seed: int) -> None:
    """Two are apart until no accusation stands between them."""
    world = settled(seed, 2, 4)
    accuser, other = world.clients["c0"], world.clients["c3"]
    accuser.accuse(GROUP, other.process)
    world.settle()
    world.check_settled(parts=[{"c0", "c1", "c2"}, {"c3"}])
    other.accuse(GROUP, *(world.clients[name].process for name in ("c1", "c2")))
    world.settle()
    accuser.accuse(GROUP)
    world.settle()
    world.check_settled(parts=[{"c0", "c1", "c2"}, {"c3"}])
    other.accuse(GROUP)
    world.settle()
    world.check_settled()


def chaos(seed: int) -> None:
    world = World(seed, 1 + seed % 4)
    script = Chaos(world, 2 + seed % 7)
    script.run(300)
    script.calm()
    world.check_settled()


def run(scripts: Iterable[Callable[[int], None]], seeds: Iterable[int]) -> None:
    for seed in seeds:
        for script in scripts:
            try:
                script(seed)
            except Broken as error:
                raise Broken(f"{script.__name__}({seed}): {error}") from error


def test_many_come_at_the_same_time() -> None:
    run([crowd], SEEDS)


def test_accused_members_are_apart_until_it_is_withdrawn() -> None:
    run([accused], SEEDS)


def test_a_change_that_died_with_its_server_is_made_up_for() -> None:
    run([interrupted], SEEDS)


def test_all_that_can_happen_ends_in_one_view() -> None:
    run([chaos], range(60))


@pytest.mark.slow
def test_all_that_can_happen_ends_in_one_view_for_many_seeds() -> None:
    run([chaos], range(60, 600))


# Errors that are planted, to see that they are caught.


def nobody_compares(patch: pytest.MonkeyPatch) -> None:
    """Views stand whatever the proposals say."""
    patch.setattr(rounds, "digest_of_parts", lambda parts: 0)


def nobody_asks_what_clients_saw(patch: pytest.MonkeyPatch) -> None:
    """Rounds begin with any number."""
    join = Attendance.join
    patch.setattr(Attendance, "join", lambda self, client, standing: join(self, client, Standing(standing.group)))


def those_who_went_are_not_told(patch: pytest.MonkeyPatch) -> None:
    def announce(
        group: str, number: int, part: Part, view: ViewId, before: dict[ProcessId, Entry] | None, why: object
    ) -> bytes:
        added = tuple(part.entries.values())
        return write_server_frame(StartChange(group, number, view, before is None, added, (), part.check))

    patch.setattr(clients, "_announcement", announce)


def identifiers_know_nothing_of_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Part, "view", lambda part, number, servers: ViewId(number, servers[0], 0))


def whoever_comes_is_believed(patch: pytest.MonkeyPatch) -> None:
    """Who says that it is in a view is in it, although it saw the start-change of a later one."""

    def held_by(group: Group, process: ProcessId, standing: Standing) -> ViewId | None:
        return standing.view if standing.view in group.views else None

    patch.setattr(Group, "held_by", held_by)


def orphans_are_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    def expire(attendance: Attendance, now: int) -> None:
        for group in attendance:
            group.orphans.clear()

    patch.setattr(Attendance, "expire", expire)


def all_clients_are_told_of_the_first_part(patch: pytest.MonkeyPatch) -> None:
    def start_change(desk: clients.Clients, group: Group, number: int, parts: list[tuple[Part, ViewId]]) -> None:
        original(desk, group, number, parts[:1])

    original = clients.Clients.start_change
    patch.setattr(clients.Clients, "start_change", start_change)


PLANTED: tuple[Plant, ...] = (
    nobody_compares,
    nobody_asks_what_clients_saw,
    those_who_went_are_not_told,
    identifiers_know_nothing_of_members,
    whoever_comes_is_believed,
    orphans_are_kept_for_ever,
    all_clients_are_told_of_the_first_part,
)


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_error_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(Broken):
        run([crowd, interrupted, accused, chaos], range(100))
