"""Clock, identity, units, settings and fingerprints: the small things that everything else leans on."""

from __future__ import annotations

import copy
import random
from collections import deque

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unisono.clock import TIMESTAMP_LIMIT, WALL_LIMIT, LamportClock
from unisono.engine import Address, DatagramReceived, Effect, Fact, Join, Send, SendDatagram, Start, StorageDone
from unisono.errors import SettingError
from unisono.fingerprint import fingerprint
from unisono.identity import NAME_LIMIT_BYTES, MessageId, ProcessId, ViewId, new_incarnation, why_bad_name
from unisono.node import Node
from unisono.settings import FIELDS, Settings, read_setting, read_settings
from unisono.units import (
    DURATION_UNITS,
    MILLISECOND,
    SECOND,
    parse_bandwidth,
    parse_duration,
    parse_size,
    render_bandwidth,
    render_duration,
    render_size,
)

DRIFT = 10 * SECOND
EPOCH = 1_700_000_000 * SECOND
WALLS = st.integers(-SECOND, EPOCH * 2)


class Reading:
    """What a process does with its clock, after how long, with its wall clock and a peer's timestamp."""

    def __init__(self, ticks: bool, elapsed: int, wall: int, timestamp: int) -> None:
        self.ticks = ticks
        self.elapsed = elapsed
        self.wall = wall
        self.timestamp = timestamp


NEAR_EPOCH = st.integers(EPOCH - 2 * DRIFT, EPOCH + 2 * DRIFT)
READINGS = st.builds(
    Reading,
    st.booleans(),
    st.integers(0, SECOND),
    st.one_of(NEAR_EPOCH, WALLS),
    st.one_of(NEAR_EPOCH, st.integers(0, TIMESTAMP_LIMIT)),
)


@given(st.integers(0, 1 << 40), st.lists(READINGS, max_size=30))
def test_the_clock_grows_stands_above_what_it_believed_and_believes_nothing_too_far_ahead(
    now: int, readings: list[Reading]
) -> None:
    """Whatever the wall clock does and peers say; what is not believed changes nothing."""
    clock = LamportClock(DRIFT)
    began = None
    for reading in readings:
        now += reading.elapsed
        if began is None:
            began = min(max(reading.wall, 0), WALL_LIMIT) - now
        before = clock.last
        if reading.ticks:
            assert clock.tick(now, reading.wall) == clock.last > before
            assert clock.last >= now + began
            continue
        bound = max(now + began, min(reading.wall, WALL_LIMIT)) + DRIFT
        twin = copy.deepcopy(clock)
        believed = clock.observe(reading.timestamp, now, reading.wall)
        assert believed == (reading.timestamp <= bound)
        if believed:
            assert clock.last == max(before, reading.timestamp)
            assert clock.tick(now, reading.wall) > reading.timestamp
        else:
            assert clock.last == before
            later = now + SECOND
            assert clock.tick(later, reading.wall) == twin.tick(later, reading.wall) or before == 0


def test_a_wall_clock_that_is_set_moves_no_timestamp() -> None:
    clock = LamportClock(DRIFT)
    assert clock.tick(5, 1000) == 1000
    day = 86_400 * SECOND
    assert [clock.tick(6, 1000 + day), clock.tick(7, 1000 - day), clock.tick(107, 0)] == [1001, 1002, 1102]


def test_timestamps_of_one_instant_never_repeat() -> None:
    clock = LamportClock(DRIFT)
    assert [clock.tick(5, 1000), clock.tick(5, 1000), clock.tick(5, 1000), clock.tick(9, 1004)] == [
        1000,
        1001,
        1002,
        1004,
    ]


def test_a_faster_peer_is_caught_up_with_and_kept_up_with() -> None:
    """A second later this clock shows a second more than the peer did, and not its own time again."""
    clock = LamportClock(DRIFT)
    assert clock.tick(0, EPOCH) == EPOCH
    assert clock.observe(EPOCH + 3 * SECOND, 10, EPOCH + 10)
    assert clock.last == EPOCH + 3 * SECOND
    assert clock.tick(SECOND + 10, EPOCH + SECOND + 10) == EPOCH + 4 * SECOND


def test_a_slower_peer_takes_nothing_back() -> None:
    clock = LamportClock(DRIFT)
    clock.tick(0, EPOCH)
    assert clock.observe(EPOCH - DRIFT, 10, EPOCH + 10)
    assert clock.observe(0, 10, EPOCH + 10)
    assert clock.tick(20, EPOCH + 20) == EPOCH + 20


def test_a_peer_too_far_ahead_is_not_believed_and_not_followed_a_step() -> None:
    clock = LamportClock(DRIFT)
    clock.tick(0, EPOCH)
    before = fingerprint(clock)
    assert not clock.observe(EPOCH + DRIFT + 1, 0, EPOCH)
    assert not clock.observe(TIMESTAMP_LIMIT, 0, EPOCH)
    assert fingerprint(clock) == before
    assert clock.observe(EPOCH + DRIFT, 0, EPOCH)
    assert clock.tick(0, EPOCH) == EPOCH + DRIFT + 1


def test_peers_cannot_drag_the_clock_beyond_the_drift_limit_one_after_the_other() -> None:
    """The limit is counted from the own time, and not from where the last peer took the clock."""
    clock = LamportClock(DRIFT)
    clock.tick(0, EPOCH)
    assert clock.observe(EPOCH + DRIFT, 0, EPOCH)
    assert not clock.observe(EPOCH + DRIFT + 2, 1, EPOCH + 1)
    assert clock.observe(EPOCH + DRIFT + 1, 1, EPOCH + 1)


def test_a_life_that_began_with_a_slow_wall_clock_believes_its_peers_once_that_is_set_right() -> None:
    clock = LamportClock(DRIFT)
    clock.tick(0, EPOCH - 86_400 * SECOND)
    assert not clock.observe(EPOCH, 1, EPOCH - 86_400 * SECOND)
    assert clock.observe(EPOCH, 2, EPOCH)
    assert clock.tick(2, EPOCH) == EPOCH + 1


@pytest.mark.parametrize("wall", [WALL_LIMIT, TIMESTAMP_LIMIT, 1 << 63, 1 << 80])
def test_whatever_a_wall_clock_says_there_is_room_to_tick_on(wall: int) -> None:
    """Also for the largest drift limit that settings allow, and for a billion messages a second for years."""
    clock = LamportClock(86_400 * SECOND)
    assert [clock.tick(0, wall), clock.tick(1, wall)] == [WALL_LIMIT, WALL_LIMIT + 1]
    assert not clock.observe(TIMESTAMP_LIMIT, 1, wall)
    assert clock.observe(WALL_LIMIT + 86_400 * SECOND, 1, wall)
    assert clock.tick(2, wall) == WALL_LIMIT + 86_400 * SECOND + 1
    assert clock.last + 365 * 86_400 * SECOND < TIMESTAMP_LIMIT


def test_a_wall_clock_before_the_epoch_is_read_as_the_epoch() -> None:
    clock = LamportClock(DRIFT)
    assert [clock.tick(7, -SECOND), clock.tick(9, -SECOND)] == [1, 2]


ENTROPY = st.binary(min_size=4, max_size=4)


@given(WALLS, ENTROPY, st.integers(0, (1 << 62) - 1))
def test_an_incarnation_stands_above_the_last_one_on_disk(wall: int, entropy: bytes, last: int) -> None:
    """Also when the clock was set back meanwhile."""
    incarnation = new_incarnation(wall, entropy, last)
    assert last < incarnation < 1 << 63 or last == 0 == incarnation


@given(st.lists(st.tuples(WALLS, ENTROPY), min_size=2, max_size=8))
def test_lives_with_a_disk_never_repeat(lives: list[tuple[int, bytes]]) -> None:
    incarnations = [0]
    for wall, entropy in lives:
        incarnations.append(new_incarnation(max(wall, MILLISECOND), entropy, incarnations[-1]))
    assert sorted(set(incarnations)) == incarnations


@given(WALLS, st.integers(0, (1 << 21) - 1), st.integers(0, (1 << 21) - 1))
def test_a_lost_disk_and_a_clock_set_back_still_give_another_life(wall: int, one: int, other: int) -> None:
    first, second = (new_incarnation(wall, entropy.to_bytes(4, "big"), 0) for entropy in (one, other))
    assert (first == second) == (one == other)


@given(st.one_of(WALLS, st.just(1 << 80)), ENTROPY, st.integers(0, (1 << 63) - 1))
@example(EPOCH, bytes(4), (1 << 63) - 1)
@example(EPOCH, b"\xff" * 4, (1 << 63) - 1)
def test_an_incarnation_always_fits_its_63_bits(wall: int, entropy: bytes, last: int) -> None:
    """Also when a damaged record or clock says the largest number."""
    assert 0 <= new_incarnation(wall, entropy, last) < 1 << 63


def test_later_times_give_higher_incarnations() -> None:
    assert new_incarnation(EPOCH, b"\xff" * 4, 0) < new_incarnation(EPOCH + MILLISECOND, bytes(4), 0)


def test_identifiers_are_ordered_by_their_parts() -> None:
    assert ProcessId("a", 9) < ProcessId("b", 1) < ProcessId("b", 2)
    assert ViewId(1, ProcessId("b", 1), 9) < ViewId(2, ProcessId("a", 1), 1)
    assert MessageId("g", ProcessId("a", 1), 2) < MessageId("g", ProcessId("a", 1), 10)
    assert str(ViewId(7, ProcessId("a", 255), 3)) == "7/a~ff/3"


@pytest.mark.parametrize("name", ["a", "node-7", "größe", "名前", "a b", "n" * NAME_LIMIT_BYTES])
def test_a_good_name(name: str) -> None:
    assert why_bad_name(name) is None


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "cannot be empty"),
        ("n" * (NAME_LIMIT_BYTES + 1), "at most 64 bytes, this one has 65"),
        ("ö" * 33, "this one has 66"),
        ("a\nb", "printable"),
        ("a\x00", "printable"),
        ("\ud800", "printable"),  # half a character
        ("a" * 64 + "\udfff", "printable"),
    ],
)
def test_a_bad_name(name: str, complaint: str) -> None:
    assert complaint in (why_bad_name(name) or "")


@given(st.integers(-(10**15), 10**15), st.sampled_from(sorted(DURATION_UNITS.values())))
def test_durations_are_read_as_they_are_rendered(count: int, unit: int) -> None:
    assert parse_duration(render_duration(count * unit)) == count * unit


@given(st.integers(0, 1 << 50))
def test_sizes_and_rates_are_read_as_they_are_rendered(value: int) -> None:
    assert parse_size(render_size(value)) == value
    assert parse_bandwidth(render_bandwidth(value)) == value


def test_units_are_read_exactly() -> None:
    assert parse_duration("1.5s") == 1_500_000_000
    assert parse_duration("-0.5s") == -500_000_000
    assert parse_duration(" 200 ms ") == 200 * MILLISECOND
    assert (parse_size("1kB"), parse_size("1KiB")) == (1000, 1024)
    assert parse_bandwidth("100Mbit") == 100_000_000
    assert (render_duration(0), render_size(0)) == ("0ns", "0B")
    assert (render_duration(90 * SECOND), render_duration(-86400 * SECOND)) == ("90s", "-1d")


@pytest.mark.parametrize("text", ["", "5", "ms", "5 parsecs", "5MS", "1e3ms", "1,5s", "5ms later", "--5ms", "0x5ms"])
def test_what_is_not_a_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as '200ms'"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("keepalive", "1s", 'keepalive: unknown setting; did you mean "keep_alive"?'),
        ("keep_alive", 200, 'expected a duration with a unit such as "200ms", got 200'),
        ("keep_alive", "fast", "such as '200ms'"),
        ("keep_alive", "2min", "keep_alive: expected 1ms to 1min"),
        ("keep_alive", "0ms", "expected 1ms to 1min"),
        ("window_bytes", "1KiB", "window_bytes: expected 64KiB to 1GiB"),
        ("window_bytes", "2GiB", "expected 64KiB to 1GiB"),
        ("datagram_bytes", "100B", "expected 576B to"),
        ("activation_tries", 0, "activation_tries: expected 1 to 1000"),
        ("activation_tries", "3", "expected 1 to 1000"),
        ("rejoin", "yes", "Expected `bool`"),
        ("sources", "a", "sources"),
        ("service", "fifo", "service"),
        ("secure", True, "not offered yet"),
    ],
)
def test_a_setting_that_cannot_be_says_so(name: str, value: object, complaint: str) -> None:
    with pytest.raises(SettingError) as caught:
        read_setting(name, value)
    assert complaint in str(caught.value)
    assert caught.value.name == name


def test_settings_are_read_over_a_base() -> None:
    base = read_settings({"keep_alive": "50ms", "sources": ["a", "b"]})
    settings = read_settings({"window_bytes": "1MiB"}, base)
    assert (settings.keep_alive, settings.sources, settings.window_bytes) == (50 * MILLISECOND, ("a", "b"), 1 << 20)


@pytest.mark.parametrize("name", FIELDS)
def test_every_default_is_read_back_as_it_is_shown(name: str) -> None:
    field = FIELDS[name]
    shown = field.shown(field.default)
    written: object = shown if field.unit is not None or isinstance(field.default, str) else field.default
    assert read_setting(name, written) == field.default == getattr(Settings(), name)
    assert field.says.endswith(".")


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.binary(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=6), st.randoms())
def test_equal_states_have_equal_fingerprints_whatever_the_order_of_insertion(
    state: dict[str, object], shuffler: random.Random
) -> None:
    items = list(state.items())
    shuffler.shuffle(items)
    assert fingerprint(dict(items)) == fingerprint(state) == fingerprint(copy.deepcopy(state))


def exact(value: object) -> object:
    """A value that equals another only when a fingerprint should: True is not 1."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return (type(value).__name__, value)


@given(VALUES, VALUES)
def test_different_values_have_different_fingerprints(one: object, other: object) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (exact(one) == exact(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["ab", "c"], ["a", "bc"]),
        ([1, [2]], [[1], 2]),
        ([1], (1,)),
        ([1], deque([1])),
        ({"a": 1}, {"a": 2}),
        ({1: 2}, {2: 1}),
        ({1}, [1]),
        (b"1", "1"),
        (1, 1.0),
        (ProcessId("a", 1), ("a", 1)),
        (random.Random(1), random.Random(2)),
    ],
)
def test_what_differs_has_another_fingerprint(one: object, other: object) -> None:
    assert fingerprint(one) != fingerprint(other)


def run(node: Node, facts: list[tuple[Fact, int]]) -> list[Effect]:
    effects: list[Effect] = []
    for fact, now in facts:
        effects += node.handle(fact, now, EPOCH + now)
    return effects


def started(name: str, seed: int) -> tuple[Node, list[bytes]]:
    """A node that has joined a group, and the datagrams it has sent since."""
    generator = random.Random(seed)
    node = Node(name, generator, generator.randbytes)
    effects = run(
        node,
        [
            (Start(), 0),
            (StorageDone(1), 0),
            (StorageDone(3), 0),
            (Join("g", Settings()), 1),
            (Send("g", 1, (b"hello", b"there")), 2),
        ],
    )
    return node, [effect.data for effect in effects if isinstance(effect, SendDatagram)]


def test_a_copy_of_a_running_node_has_its_fingerprint_and_behaves_like_it() -> None:
    node, _ = started("a", 1)
    _, datagrams = started("b", 2)
    assert len(datagrams) == 2
    facts: list[tuple[Fact, int]] = [
        (DatagramReceived(Address("b"), Address("multicast:g"), 1, 3, 0, data), 3 + index)
        for index, data in enumerate(datagrams)
    ]
    facts += [(Send("g", 2, (bytes(5000),)), 10), (Send("g", 3, (b"bye",)), 11)]
    double = copy.deepcopy(node)
    assert fingerprint(double) == fingerprint(node)
    for fact in facts:
        before = fingerprint(node)
        effects = run(node, [fact])
        assert fingerprint(double) == before, "a copy shares nothing with the original"
        assert run(double, [fact]) == effects
        assert fingerprint(double) == fingerprint(node) != before
    assert node.deadline() == double.deadline()


def test_nodes_that_differ_in_one_thing_have_different_fingerprints() -> None:
    node, _ = started("a", 1)
    for other in (started("a", 2)[0], started("c", 1)[0]):
        assert fingerprint(other) != fingerprint(node)
    double = copy.deepcopy(node)
    double.handle(Send("g", 2, (b"x",)), 3, EPOCH + 3)
    assert fingerprint(double) != fingerprint(node)
