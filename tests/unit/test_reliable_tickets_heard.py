"""Tickets stay disjoint, in order and complete, whatever others ask for and wherever the horizon lies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unisono.reliable.suppression import Wait
from unisono.reliable.tickets import Tickets

LAST = 30
SPANS = st.tuples(st.integers(1, LAST), st.integers(0, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))
STEPS = st.one_of(
    st.tuples(st.just("fill"), st.integers(1, LAST), st.none()),
    st.tuples(st.just("ask"), st.integers(0, LAST + 10), st.none()),
    st.tuples(st.just("hear"), st.integers(0, LAST + 10), SPANS),
)


def again(tries: int) -> Wait:
    return Wait(1, 2 + tries)


@given(st.lists(STEPS, max_size=30))
def test_what_is_missing_stays_in_exactly_one_ticket_and_is_due_again(
    steps: list[tuple[str, int, tuple[int, int] | None]],
) -> None:
    tickets = Tickets()
    tickets.open(1, LAST, 0)
    missing = set(range(1, LAST + 1))
    for now, (what, number, span) in enumerate(steps):
        if what == "fill":
            assert tickets.fill(number) == (number in missing)
            missing.discard(number)
        elif what == "ask":
            ranges, _ = tickets.request(now, again, 64, number)
            asked = [sequence for first, last in ranges for sequence in range(first, last + 1)]
            assert len(asked) == len(set(asked))
            assert set(asked) <= {sequence for sequence in missing if sequence <= number}
            due = tickets.next_due(number)
            assert due is None or due > now, "who asks now does not ask again at once"
        else:
            assert span is not None
            first, last = span
            assert tickets.heard([span], now, again, number) == [any(first <= seq <= last for seq in missing)]
        assert {sequence for sequence in range(LAST + 12) if sequence in tickets} == missing
    ranges, _ = tickets.request(10_000, again, 64, LAST)
    asked = [sequence for first, last in ranges for sequence in range(first, last + 1)]
    assert sorted(asked) == asked == sorted(missing)


def test_a_request_beyond_the_horizon_changes_no_ticket() -> None:
    """The gap reaches from below the horizon to beyond it, and another asks for its end."""
    tickets = Tickets()
    tickets.open(1, 20, 5)
    assert tickets.heard([(15, 18)], 6, again, 10) == [True]
    assert tickets.request(7, again, 64, 30) == ([(1, 20)], 0)
