"""What many say is combined rightly, and who is counted never, or twice, shows (erratum E7)."""

from __future__ import annotations

from functools import reduce
from operator import xor
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from unisono.engine import multicast_address
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.aggregation import (
    CUT,
    STABILITY,
    WITHDRAWALS,
    Gathering,
    Stored,
    as_contributions,
    combine,
)
from unisono.wire.control_messages import Contributed, Contribution, Entry, Summary

GROUP = 77
S = ProcessId("s", 1)
AT = "member:0"


def says(value: int, fingerprint: int, topic: int = STABILITY, address: str = AT) -> tuple[Contribution, ...]:
    return (Contribution(GROUP, topic, (Entry(S, value, 1, fingerprint, address),)),)


processes = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, (1 << 64) - 1)), min_size=1, max_size=20)


@given(processes, st.integers(1, 5), st.sampled_from([STABILITY, CUT]), st.randoms(use_true_random=False))
def test_combining_in_any_tree_gives_what_combining_at_once_gives(
    drawn: list[tuple[int, int]], branches: int, topic: int, random: Random
) -> None:
    parts = [says(value, fingerprint, topic) for value, fingerprint in drawn]
    groups: list[list[tuple[Contribution, ...]]] = [[] for _ in range(branches)]
    for part in parts:
        random.choice(groups).append(part)
    by_tree = combine(as_contributions(combine(group), 10) for group in groups)
    assert by_tree == combine(parts)
    total = by_tree[GROUP, topic, S]
    values = [value for value, _ in drawn]
    assert total.value == (min(values) if topic == STABILITY else max(values))
    assert total.count == len(drawn)
    assert total.fingerprint == reduce(xor, (fingerprint for _, fingerprint in drawn))


@given(st.sets(st.integers(1, (1 << 64) - 1), min_size=2, max_size=12), st.data())
def test_who_is_counted_never_or_twice_shows(fingerprints: set[int], data: st.DataObject) -> None:
    everyone = sorted(fingerprints)
    wanted = (len(everyone), reduce(xor, everyone))
    one = data.draw(st.sampled_from(everyone))
    missed = [fingerprint for fingerprint in everyone if fingerprint != one]
    for counted in (missed, [*everyone, one]):
        total = combine(says(5, fingerprint) for fingerprint in counted)[GROUP, STABILITY, S]
        assert (total.count, total.fingerprint) != wanted


def test_unknown_topics_and_addresses_of_many_are_left_out() -> None:
    assert combine([says(1, 1, topic=9), says(1, 1, address=multicast_address("g")), says(1, 1, address="")]) == {}


def test_a_contribution_is_replaced_as_a_whole_and_never_by_an_older_one() -> None:
    stored = Stored()
    assert stored.add(Contributed(S, 5, 0, 1, says(10, 1))) is True
    assert stored.add(Contributed(S, 4, 0, 1, says(99, 1))) is None
    assert stored.add(Contributed(S, 5, 0, 1, says(99, 1))) is None
    assert stored.contributions == says(10, 1)
    assert stored.add(Contributed(S, 6, 0, 1, says(10, 1))) is False
    assert stored.add(Contributed(S, 7, 0, 1, ())) is True
    assert stored.contributions == ()


def test_parts_count_when_all_of_them_are_there() -> None:
    stored = Stored()
    assert stored.add(Contributed(S, 1, 1, 2, says(2, 2))) is False
    assert stored.contributions == ()
    assert stored.add(Contributed(S, 2, 0, 2, says(3, 3))) is False
    assert stored.add(Contributed(S, 1, 0, 2, says(1, 1))) is None
    assert stored.add(Contributed(S, 2, 1, 2, says(4, 4))) is True
    assert stored.contributions == says(3, 3) + says(4, 4)


CHILD, OTHER, HERE = ProcessId("child", 1), ProcessId("other", 1), ProcessId("here", 1)


def gathering() -> Gathering:
    made = Gathering()
    assert made.contribute(HERE, says(7, 0b100))
    made.receive(CHILD, Contributed(S, 1, 0, 1, says(5, 0b010)))
    made.receive(OTHER, Contributed(S, 1, 0, 1, says(9, 0b001)))
    return made


def test_a_coordinator_sums_up_itself_and_its_children() -> None:
    letters = gathering().gather((STABILITY, CUT), speaks=True)
    assert letters == {(GROUP, STABILITY, AT): [Summary(S, 5, 3, 0b111)]}


def test_a_child_that_left_is_counted_no_more() -> None:
    made = gathering()
    assert made.drop(CHILD)
    assert not made.drop(CHILD)
    assert made.gather((STABILITY,), speaks=True) == {(GROUP, STABILITY, AT): [Summary(S, 7, 2, 0b101)]}
    made.keep([])
    assert made.gather((STABILITY,), speaks=True) == {(GROUP, STABILITY, AT): [Summary(S, 7, 1, 0b100)]}


def test_what_a_coordinator_no_longer_says_is_withdrawn_a_few_times() -> None:
    made = gathering()
    made.gather((STABILITY,), speaks=True)
    for _ in range(WITHDRAWALS):
        assert made.gather((STABILITY,), speaks=False) == {(GROUP, STABILITY, AT): [Summary(S, 0, 0, 0)]}
    assert made.gather((STABILITY,), speaks=False) == {}
    assert made.gather((STABILITY,), speaks=True) != {}


def test_a_source_that_moved_is_withdrawn_where_it_was() -> None:
    made = Gathering()
    made.contribute(HERE, says(7, 1))
    made.gather((STABILITY,), speaks=True)
    made.contribute(HERE, says(8, 1, address="member:5"))
    assert made.gather((STABILITY,), speaks=True) == {
        (GROUP, STABILITY, AT): [Summary(S, 0, 0, 0)],
        (GROUP, STABILITY, "member:5"): [Summary(S, 8, 1, 1)],
    }


def test_topics_are_gathered_apart() -> None:
    made = Gathering()
    made.contribute(HERE, says(7, 1) + says(3, 1, topic=CUT))
    assert list(made.gather((CUT,), speaks=True)) == [(GROUP, CUT, AT)]
    assert list(made.gather((STABILITY,), speaks=True)) == [(GROUP, STABILITY, AT)]
