"""Which life of a name counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unisono.identity import ProcessId
from unisono.intergroup.peers import WITHOUT_PROOF, Peers
from unisono.units import MILLISECOND, SECOND

LEAST = SECOND
LOW, HIGH = ProcessId("p", 5), ProcessId("p", 9)


def heard(first: ProcessId, now: int = 0, said: int | None = 100) -> Peers:
    peers = Peers()
    assert peers.may_follow(first, said, now, LEAST)
    assert peers.hear(first, now, said) is None
    return peers


def test_a_higher_life_that_was_never_heard_counts_at_once() -> None:
    peers = heard(LOW)
    assert peers.may_follow(HIGH, None, 1, LEAST)
    assert peers.hear(HIGH, 1) == LOW


def test_a_lower_life_counts_when_the_other_is_silent_and_it_speaks_of_a_later_time() -> None:
    peers = heard(HIGH)
    assert not peers.may_follow(LOW, 101, LEAST - 1, LEAST)
    assert not peers.may_follow(LOW, 100, LEAST, LEAST), "it may be an old packet"
    assert not peers.may_follow(LOW, None, LEAST, LEAST)
    assert peers.may_follow(LOW, 101, LEAST, LEAST)
    assert peers.may_follow(LOW, 100, WITHOUT_PROOF * LEAST, LEAST)
    assert peers.may_follow(LOW, None, WITHOUT_PROOF * LEAST, LEAST)


def test_a_life_that_another_replaced_does_not_come_back_by_an_old_packet() -> None:
    peers = heard(HIGH)
    assert peers.hear(LOW, LEAST, 101) == HIGH
    assert not peers.may_follow(HIGH, 100, LEAST + 1, LEAST)
    assert not peers.may_follow(HIGH, 100, 2 * LEAST, LEAST)
    assert peers.may_follow(HIGH, 102, 2 * LEAST, LEAST), "it lives, and was taken for dead"


def test_who_speaks_seldom_is_given_time() -> None:
    peers = heard(HIGH)
    peers.hear(HIGH, 5 * SECOND, 110)
    assert not peers.may_follow(LOW, 111, 5 * SECOND + 2 * LEAST, LEAST)
    assert peers.may_follow(LOW, 111, 5 * SECOND + 5 * SECOND * 5 // 2, LEAST)


def test_who_was_forgotten_keeps_nobody_out() -> None:
    peers = heard(HIGH)
    assert peers.forget_silent(30 * SECOND, 30 * SECOND, leniently=False) == [HIGH]
    assert peers.may_follow(LOW, None, 30 * SECOND, LEAST)
    assert peers.hear(LOW, 30 * SECOND) is None


@given(st.lists(st.tuples(st.sampled_from([LOW, HIGH, ProcessId("p", 7)]), st.integers(0, 3 * SECOND)), max_size=30))
def test_whoever_goes_on_speaking_alone_counts_in_the_end(packets: list[tuple[ProcessId, int]]) -> None:
    peers, now = Peers(), 0
    for life, wait in packets:
        now += wait
        if peers.may_follow(life, None, now, LEAST):
            peers.hear(life, now)
    speaks, deadline = LOW, now + 10 * SECOND
    while now < deadline:
        now += 200 * MILLISECOND
        if peers.may_follow(speaks, None, now, LEAST):
            peers.hear(speaks, now)
    assert peers.last("p") == speaks
