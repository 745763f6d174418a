"""Members that let others send for them, in the simulator: nothing is lost, doubled or out of order, and bugs show."""

from __future__ import annotations

from collections import defaultdict

import pytest

from unisono.identity import Point, ProcessId
from unisono.intergroup import carrying
from unisono.intergroup.carrying import Carrying
from unisono.intergroup.handing import Handed
from unisono.intergroup.sending import Sending
from unisono.simulation.draw import draw
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow, DeliverRow, ProxyRow
from unisono.transfer.track import Track
from unisono.wire.proxy_messages import ProxyRequest

SMALL = """
name = "small-proxies"
members = 5
duration = "6s"
settle = "11s"

[options]
service = "{service}"
source_timeout = "2s"
patience = "2s"
{options}

[network]
loss = {loss}

[[member]]
index = 3
role = "receiver"

[[member]]
index = 4
role = "receiver"

[[workload]]
senders = [0, 1, 2]
rate = 5

[[workload]]
proxy = true
rate = 20
size = [50, 3000]
stop = "5s"
"""

FAULTS = {
    "nothing happens": "",
    "proxies crash": '[[fault]]\nat = "2s"\nkind = "crash"\nmember = [0, 1]\nrestart = "2s"\n',
    "all senders crash": '[[fault]]\nat = "2s"\nkind = "crash"\nmember = [0, 1, 2]\nrestart = "1s"\n',
    "two sides": '[[fault]]\nat = "2s"\nkind = "partition"\ngroups = [[0, 3], [1, 2, 4]]\nlasts = "2s"\n',
    "an origin is cut off": '[[fault]]\nat = "2s"\nkind = "isolate"\nmember = 3\nlasts = "3s"\n',
    "an origin restarts": '[[fault]]\nat = "2s"\nkind = "crash"\nmember = 3\nrestart = "1s"\n',
    "proxies do not hear": '[[fault]]\nat = "2s"\nkind = "one_way"\nfrom = [3]\nto = [0, 1]\nlasts = "3s"\n',
    "an origin is deaf": '[[fault]]\nat = "2s"\nkind = "one_way"\nfrom = [0, 1]\nto = [3]\nlasts = "3s"\n',
    "proxies leave": '[[fault]]\nat = "2s"\nkind = "leave"\nmember = [0, 1]\n',
    "an origin changes its service": '[[fault]]\nat = "2s"\nkind = "change"\nmember = 3\nservice = "source"\n',
}

Message = tuple[str, int, int]
"""Who asked for it, in which life, and its number."""


def play(service: str = "timestamp", fault: str = "", seed: int = 1, loss: float = 0.02, options: str = "") -> World:
    text = SMALL.format(service=service, loss=loss, options=options) + fault
    world = World(draw(read_scenario(text), seed), keep_rows=True)
    world.run()
    return world


def proxied(rows: list[AnyRow], kind: str) -> list[ProxyRow]:
    return [row for row in rows if isinstance(row, ProxyRow) and row.kind == kind]


def asked(world: World) -> set[Message]:
    return {(row.process, row.incarnation, row.number) for row in proxied(world.rows, "ASKED")}


def handed(world: World) -> dict[tuple[str, int], list[Message]]:
    found: dict[tuple[str, int], list[Message]] = defaultdict(list)
    for row in proxied(world.rows, "HANDED"):
        found[row.process, row.incarnation].append((row.origin, row.origin_incarnation, row.number))
    return found


def ended(world: World) -> set[tuple[str, int]]:
    return {(row.process, row.incarnation) for row in world.rows if row.kind == "END"}


@pytest.mark.parametrize("service", ["timestamp", "source"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_asked_for_comes_once_whatever_happens(service: str, fault: str) -> None:
    world = play(service, FAULTS[fault])
    assert world.monitors.violations == []
    living, got = ended(world), handed(world)
    wanted = {message for message in asked(world) if message[:2] in living}
    assert len(wanted) > 50
    last = {life: max((message[2] for message in wanted if message[:2] == life), default=0) for life in living}
    for life, number in last.items():
        back = [message[2] for message in got[life] if message[:2] == life]
        assert not number or back[-1] == number, f"{life} has not got its own last message back"
        if fault not in ("an origin is cut off", "two sides", "an origin changes its service"):
            assert back == list(range(1, number + 1))


def test_in_a_quiet_group_everybody_gets_everything_in_one_order() -> None:
    world = play(loss=0)
    assert world.monitors.violations == []
    orders = set(map(tuple, handed(world).values()))
    assert len(orders) == 1
    assert set(orders.pop()) == asked(world)
    assert len(handed(world)) == 5
    assert not world.monitors.violations
    assert not [row for row in world.rows if row.kind == "MARK" and getattr(row, "name", "") == "proxied-copy"]


def test_who_carries_under_timestamp_latest_knows_for_whom() -> None:
    text = SMALL.format(service="source", options="", loss=0.0)
    text += "".join(f'[[member]]\nindex = {index}\nservice = "timestamp-latest"\n' for index in (0, 1, 2))
    world = World(draw(read_scenario(text), 1), keep_rows=True)
    world.run()
    assert world.monitors.violations == []
    carried = [row for row in world.rows if isinstance(row, DeliverRow) and row.origin is not None]
    assert any(row.process == row.source for row in carried)


def test_a_receiver_that_asks_others_stays_one() -> None:
    world = play()
    assert {row.process for row in world.rows if row.kind == "SEND"} == {"p0", "p1", "p2"}
    assert not [row for row in world.rows if row.kind in ("TO_SENDER", "PADD")]


def test_a_proxy_that_has_too_much_to_send_refuses_and_nothing_is_lost() -> None:
    small = 'window_bytes = "64KiB"\nsend_queue_bytes = "8KiB"\n'
    fault = '[[fault]]\nat = "1s"\nkind = "stop_reading"\nmember = [0, 1, 2]\nlasts = "2s"\n'
    world = play(fault=fault, options=small + "event_limit = 20\n")
    assert world.monitors.violations == []
    marks = {getattr(row, "name", "") for row in world.rows if row.kind == "MARK"}
    assert "proxy-refused" in marks
    living = ended(world)
    assert {message for life in living for message in handed(world)[life] if message[:2] == life} == asked(world)


def test_a_proxy_that_forgets_who_asked_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "ERRAND_LIMIT", 1)
    world = play(service="source", loss=0.05, fault=FAULTS["proxies leave"])
    assert world.monitors.violations == []
    assert {message for life in ended(world) for message in handed(world)[life] if message[:2] == life} == asked(world)


# Bugs that D11 finds.


def is_always_next(self: Handed, origin: ProcessId, number: int, ordered: bool) -> bool:
    return True


_is_next = Handed.is_next
_enqueue_for = Sending.enqueue_for


def keeps_no_order(self: Handed, origin: ProcessId, number: int, ordered: bool) -> bool:
    return _is_next(self, origin, number, ordered=False)


def last_comes_first(self: Sending, origin: ProcessId, number: int, message: bytes) -> None:
    _enqueue_for(self, origin, number, message)
    if self.between_messages:
        self._queue.rotate(1)


def test_copies_that_nobody_suppresses_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handed, "is_next", is_always_next)
    assert any("D11" in play("source", FAULTS["an origin is deaf"], seed).monitors.counts for seed in range(4))


def test_messages_under_a_wrong_number_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Carrying.on_request

    def one_too_high(self: Carrying, step: object, origin: ProcessId, address: object, message: ProxyRequest) -> None:
        wrong = ProxyRequest(
            message.target,
            message.session,
            message.serial,
            message.number + message.session % 2,
            message.index,
            message.count,
            message.timestamp,
            message.payload,
        )
        taken(self, step, origin, address, wrong)  # type: ignore[arg-type]

    monkeypatch.setattr(Carrying, "on_request", one_too_high)
    assert "D11" in play().monitors.counts


def test_messages_that_overtake_each_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handed, "is_next", keeps_no_order)
    monkeypatch.setattr(Sending, "enqueue_for", last_comes_first)
    assert any("D11" in play(fault=FAULTS["two sides"], seed=seed).monitors.counts for seed in range(4))


STATES = """
[[member]]
index = 2
joins = "3500ms"

[[fault]]
at = "2s"
kind = "one_way"
from = [0, 1]
to = [3]
lasts = "3s"
"""


def play_states(seed: int) -> World:
    """An origin that hears nobody for a while asks anew, and meanwhile a newcomer is given the state."""
    text = 'state = "4kB"\n' + SMALL.format(service="timestamp", loss=0, options='state_chunk_bytes = "1KiB"') + STATES
    world = World(draw(read_scenario(text), seed), keep_rows=True)
    world.run()
    return world


def copies_after(world: World, name: str) -> int:
    """How many of its HANDED rows a process has whose message another process handed over before it came."""
    came = min(row.truth or 0 for row in world.rows if row.kind == "LOADED" and row.process == name)
    early = {
        (row.origin, row.origin_incarnation, row.number)
        for row in proxied(world.rows, "HANDED")
        if row.process == "p0" and (row.truth or 0) < came
    }
    return sum(
        (row.origin, row.origin_incarnation, row.number) in early
        for row in proxied(world.rows, "HANDED")
        if row.process == name and (row.truth or 0) > came
    )


def test_a_newcomer_does_not_take_a_copy_of_what_is_in_the_state_that_it_got() -> None:
    copies = 0
    for seed in range(3):
        world = play_states(seed)
        assert world.monitors.violations == []
        copies += copies_after(world, "p2")
        assert len({machine.states["g"].digest for machine in world.machines[:3]}) == 1
    assert copies, "some copies came to the newcomer"


def test_a_state_that_does_not_say_what_it_has_of_proxies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def learns_nothing(self: Track, point: Point) -> None:
        pass

    monkeypatch.setattr(Track, "learn", learns_nothing)
    assert any("D10" in play_states(seed).monitors.counts for seed in range(3))
