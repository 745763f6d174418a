"""Well-formed messages from liars, in every state: nothing raises, and nothing grows past its cap."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulation.hierarchies import hierarchy, observer, regions
from tests.unit.wire_samples import hierarchy_messages
from unisono.engine import Address, Effect, PacketReceived, SendDatagram, Start, TimePassed
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy import ControlProcess, control_number
from unisono.intergroup.hierarchy.home import TOLD_LIMIT
from unisono.intergroup.hierarchy.neighbourhood import CHILDREN_LIMIT, COORDINATORS_LIMIT, SIBLINGS_LIMIT
from unisono.sealing import NullSeal
from unisono.settings import Settings
from unisono.units import MILLISECOND, SECOND
from unisono.wire.control_messages import (
    CoordinatorControl,
    GlobalControl,
    HierarchyMessage,
    LocalControl,
    RingQuery,
    SearchResponse,
    pack_distances,
)
from unisono.wire.messages import ControlMessage, ControlPacket
from unisono.wire.reading import read_datagram

NUMBER = control_number("")
ME = ProcessId("me", 5)
names = st.sampled_from(["me", "a", "b", "c", "d"])
peers = st.builds(ProcessId, names, st.integers(4, 6))


def packet(source: ProcessId, message: ControlMessage, now: int, hops: int = 1) -> PacketReceived:
    inside = ControlPacket(source, NUMBER, [message])
    return PacketReceived(Address(f"at:{source.name}"), hops, now, 0, inside, 100)


def process(seed: int = 1) -> ControlProcess:
    return ControlProcess("", ME, Settings(), Random(seed), NullSeal())


def size_of(engine: ControlProcess) -> None:
    around = engine._neighbours
    assert len(around.children) <= CHILDREN_LIMIT
    assert len(around.siblings) <= SIBLINGS_LIMIT
    assert len(around.coordinators) <= COORDINATORS_LIMIT
    for home in around.homes():
        assert len(home._locals) <= TOLD_LIMIT
        assert len(home._coordinators) <= TOLD_LIMIT


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 50),
    st.lists(
        st.tuples(peers, hierarchy_messages(st.one_of(peers, st.just(ME))), st.integers(0, 3000), st.integers(0, 255)),
        max_size=40,
    ),
)
def test_nothing_that_a_peer_says_raises(seed: int, heard: list[tuple[ProcessId, HierarchyMessage, int, int]]) -> None:
    engine, now = process(seed), SECOND
    engine.handle(Start(), now, now)
    for source, message, wait, hops in heard:
        now += wait * MILLISECOND
        engine.handle(packet(source, message, now, hops), now, now)
        answer_ring(engine, now)
        for _ in range(3):
            due = engine.deadline()
            if due is not None and due <= now:
                engine.handle(TimePassed(), now, now)
        size_of(engine)
        assert engine.table.distance(engine.whereabouts) == 0


def answer_ring(engine: ControlProcess, now: int) -> None:
    """Let a search find somebody, so that liars meet children as well."""
    search = engine._maintenance.search
    if search is not None:
        stamps = list(engine._context._stamps.values())
        response = SearchResponse(1, search.number, stamps[-1], 3)
        engine.handle(packet(ProcessId("a", 5), response, now), now, now)


def test_a_crowd_of_liars_is_kept_within_the_caps() -> None:
    engine, now = process(), SECOND
    engine.handle(Start(), now, now)
    while not engine.state.leads:
        now += SECOND
        engine.handle(TimePassed(), now, now)
    for index in range(3000):
        liar = ProcessId(f"liar{index}", 1)
        engine.handle(packet(liar, GlobalControl(1, 1, 600_000, 1_000_000, 1_000_000, b""), now), now, now)
        engine.handle(packet(liar, LocalControl(1, 1, 600_000, ME, 0, b""), now), now, now)
    size_of(engine)
    assert len(engine._neighbours.children) == CHILDREN_LIMIT
    effects: list[Effect] = engine.handle(packet(ProcessId("z", 1), RingQuery(1, 1, 1, True), now), now, now)
    assert not any(isinstance(effect, SendDatagram) for effect in effects), "a full coordinator offers no place"
    for _ in range(50):
        now += 500 * MILLISECOND
        for effect in engine.handle(TimePassed(), now, now):
            if isinstance(effect, SendDatagram):
                assert len(effect.data) <= Settings().datagram_bytes


def test_distances_of_a_liar_stay_within_bounds() -> None:
    packed = pack_distances((index, index) for index in range(1000))
    world = hierarchy(8, regions(2), seconds=15)
    world.run()
    child = next(one for one in observer(world).processes().values() if not one.state.leads)
    home = child._neighbours.current
    assert home is not None
    for turn in range(5):
        shifted = pack_distances((turn * 1000 + index, 1) for index in range(1000))
        lie = CoordinatorControl(1, 1, 1, 0, 0, 0, 0, b"", packed, shifted)
        now = (child.deadline() or 0) - 1
        child.handle(packet(home.peer.process, lie, now), now, now)
    size_of(child)


def test_every_datagram_of_a_run_fits_even_with_long_names_and_small_datagrams() -> None:
    """Two hundred children of one coordinator, and datagrams of 576 bytes."""
    settings_ = Settings(datagram_bytes=576)
    name = "n" * 64
    engine = ControlProcess("", ProcessId(name, (1 << 63) - 1), settings_, Random(1), NullSeal())
    now = SECOND
    engine.handle(Start(), now, now)
    sent = 0
    for index in range(600):
        now += 100 * MILLISECOND
        peer = ProcessId(f"{index % 200:064}", (1 << 62) + 1)
        message = LocalControl(index, 3, 600_000, ProcessId(name, (1 << 63) - 1), 3, b"")
        for effect in engine.handle(packet(peer, message, now), now, now):
            if isinstance(effect, SendDatagram):
                assert len(effect.data) <= 576
                assert isinstance(read_datagram(effect.data, NullSeal()), ControlPacket)
                sent += 1
    assert sent > 50
    assert len(engine._neighbours.children) == 200
