"""Distances: measured across clocks that do not agree, smoothed, and composed with every leg (errata E17, E19)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.distances import DistanceTable
from unisono.engine import Address
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.estimates import Estimate, one_way
from unisono.intergroup.hierarchy.peers import Peer
from unisono.units import MICROSECOND, MILLISECOND, SECOND
from unisono.wire.control_messages import WORD, find_pair, pack_distances, pack_pairs, short_id, unpack_distances
from unisono.wire.messages import Whereabouts

P, Q, CP, CQ = (ProcessId(name, 7) for name in ("p", "q", "cp", "cq"))


@given(
    offset=st.integers(-(10**12), 10**12),
    there=st.integers(0, 10**6),
    back=st.integers(0, 10**6),
    held=st.integers(0, 10**7),
    sent=st.integers(0, 10**12),
)
def test_clocks_need_not_agree(offset: int, there: int, back: int, held: int, sent: int) -> None:
    """t2 and t3 are read on a clock that is off by anything; only their difference travels."""
    t2 = sent + there + offset
    t3 = t2 + held
    t4 = t3 - offset + back
    assert one_way(sent, t3 - t2, t4) == (there + back) // 2


def test_a_pair_that_cannot_be_true_is_no_sample() -> None:
    assert one_way(sent=100, held=50, received=120) is None


@given(sent=st.integers(0, 1 << 50), arrived=st.integers(0, 1 << 50), held=st.integers(0, 15 * SECOND))
def test_e19_one_definition_of_a_pair_for_every_message(sent: int, arrived: int, held: int) -> None:
    """The pair that B sends about A is about the last message that A sent and B received, whoever coordinates whom."""
    a = Peer(P, Address("a"))
    a.hear(sent, arrived, arrived, Address("a"), 1, 1000)
    pair = a.pair(arrived + held)
    assert pair is not None
    assert pair == (short_id(P), sent & WORD, held // MICROSECOND)
    assert find_pair(pack_pairs([pair]), short_id(P)) == pair
    assert find_pair(pack_pairs([pair]), short_id(Q)) is None


def test_packed_distances_come_out_as_they_went_in() -> None:
    distances = [(short_id(P), 0), (short_id(Q), 123_456), (WORD, WORD)]
    assert list(unpack_distances(pack_distances(distances))) == distances
    assert list(unpack_distances(pack_distances([(1, WORD + 5)]))) == [(1, WORD)]


def test_the_first_sample_is_the_estimate() -> None:
    estimate = Estimate()
    assert estimate.value is None
    estimate.add(500)
    assert estimate.value == 500


@given(st.lists(st.integers(0, 30_000), min_size=30, max_size=60))
def test_delay_in_queues_hardly_moves_the_estimate(delays: list[int]) -> None:
    """Every fifth sample at least is clean: the estimate stays near what the path takes."""
    estimate = Estimate()
    for index, delay in enumerate(delays):
        estimate.add(20_000 + (delay if index % 5 else 0))
    assert estimate.value is not None
    assert 20_000 <= estimate.value <= 32_000


def test_one_outlier_is_not_believed_but_a_new_path_is() -> None:
    estimate = Estimate()
    for _ in range(5):
        estimate.add(10_000)
    estimate.add(200_000)
    assert estimate.value == 10_000
    for _ in range(3):
        estimate.add(200_000)
        estimate.add(10_000)
    assert estimate.value == 10_000
    for sample in (80_000, 70_000, 90_000, 85_000):
        estimate.add(sample)
    assert estimate.value == 70_000


def test_a_shorter_path_is_believed_soon() -> None:
    estimate = Estimate(100_000)
    for _ in range(8):
        estimate.add(10_000)
    assert estimate.value is not None
    assert estimate.value < 11_000


# ── table 2.1 ──

LEG_P, LEG_Q, BETWEEN = 3_000, 4_000, 50_000


def table(control: ProcessId, coordinator: ProcessId, leg: int, **others: dict[ProcessId, int]) -> DistanceTable:
    return DistanceTable(
        control,
        coordinator,
        leg,
        *({short_id(process): value for process, value in others[kind].items()} for kind in ("here", "there")),
    )


OF_CHILD = table(P, CP, LEG_P, here={CP: LEG_P}, there={CQ: BETWEEN})
OF_COORDINATOR = table(CP, CP, 0, here={P: LEG_P}, there={CQ: BETWEEN})


def at(control: ProcessId, coordinator: ProcessId, leg: int) -> Whereabouts:
    return Whereabouts(short_id(control), short_id(coordinator), leg)


CHILD_Q = at(Q, CQ, LEG_Q * MICROSECOND)
COORDINATOR_Q = at(CQ, CQ, 0)


@pytest.mark.parametrize(
    ("known", "to", "expected"),
    [
        (OF_CHILD, CHILD_Q, LEG_P + BETWEEN + LEG_Q),
        (OF_CHILD, COORDINATOR_Q, LEG_P + BETWEEN),
        (OF_COORDINATOR, CHILD_Q, BETWEEN + LEG_Q),
        (OF_COORDINATOR, COORDINATOR_Q, BETWEEN),
        (OF_CHILD, at(CP, CP, 0), LEG_P),
        (OF_COORDINATOR, at(P, CP, 9), LEG_P),
        (OF_CHILD, at(Q, CP, LEG_Q * MICROSECOND), LEG_P + LEG_Q),
        (OF_CHILD, at(P, CP, 0), 0),
    ],
)
def test_e17_table_2_1_with_the_leg_it_leaves_out(known: DistanceTable, to: Whereabouts, expected: int) -> None:
    assert known.distance(to) == expected * MICROSECOND


def test_what_was_measured_comes_before_what_is_composed() -> None:
    known = table(P, CP, LEG_P, here={CP: LEG_P, Q: 1_000}, there={})
    assert known.distance(at(Q, CP, LEG_Q * MICROSECOND)) == MILLISECOND


def test_a_coordinator_that_is_not_known_gives_no_distance() -> None:
    assert OF_CHILD.distance(at(Q, Q, 0)) is None


def test_whereabouts_are_in_nanoseconds() -> None:
    assert OF_CHILD.whereabouts == at(P, CP, LEG_P * MICROSECOND)
