"""The agenda knows the earliest of many due times, and who is due, whatever was put off or brought forward."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from unisono.fingerprint import fingerprint
from unisono.reliable.agenda import Agenda

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
CALLS = st.one_of(
    st.tuples(st.just("set"), NAMES, st.one_of(st.none(), st.integers(0, 50))),
    st.tuples(st.just("remove"), NAMES, st.none()),
    st.tuples(st.just("take"), st.just(""), st.integers(0, 50)),
)


@given(st.lists(CALLS, max_size=60))
def test_it_agrees_with_a_table_that_is_looked_through(calls: list[tuple[str, str, int | None]]) -> None:
    agenda, table = Agenda(), dict[str, int | None]()
    for call, name, number in calls:
        if call == "set":
            agenda.set(name, number)
            table[name] = number
        elif call == "remove":
            agenda.remove(name)
            table.pop(name, None)
        else:
            assert number is not None
            due = [one for one, when in table.items() if when is not None and when <= number]
            assert agenda.take(number) == due  # in the order in which they came
            for one in due:
                agenda.set(one, None)
                table[one] = None
        assert agenda.earliest == min((when for when in table.values() if when is not None), default=None)
        assert len(agenda) == sum(when is not None for when in table.values())


def test_who_is_put_off_or_brought_forward_again_and_again_leaves_nothing_behind() -> None:
    agenda = Agenda()
    for turn in range(10_000):
        for name in ("a", "b"):
            agenda.set(name, 1_000_000 + turn)
            agenda.set(name, 900_000 - turn)
    assert agenda.earliest == 900_000 - 9999
    assert len(agenda._heap) < 200


def test_equal_due_times_have_equal_fingerprints_whatever_came_before() -> None:
    one, other = Agenda(), Agenda()
    for agenda in (one, other):
        agenda.set("a", 5)
        agenda.set("b", 7)
    other.set("a", 3)
    other.set("a", 5)
    assert fingerprint(one) == fingerprint(other) == fingerprint(copy.deepcopy(other))
    other.set("b", 8)
    assert fingerprint(one) != fingerprint(other)
