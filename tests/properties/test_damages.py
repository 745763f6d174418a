"""Every damage is named, by the oracle and by the monitor alike, at the same place."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.properties.damages import DAMAGES
from unisono.properties.generator import good_trace
from unisono.properties.oracles.cycles import in_a_cycle
from unisono.properties.registry import PROPERTIES, Violation, monitor_violations, oracle_violations
from unisono.trace.schema import AnyRow

SEEDS = 320
LEAST_APPLIED = 10
ENOUGH = 20


@cache
def sampled(seed: int) -> tuple[AnyRow, ...]:
    groups = ("market", "yard") if seed % 2 == 0 else ("market",)
    return tuple(good_trace(Random(seed), events=25 if seed % 4 < 2 else 45, groups=groups))


def places(violations: list[Violation]) -> Counter[object]:
    return Counter(violation.place() for violation in violations)


def within_limit(violations: list[Violation]) -> bool:
    """Whether the monitors keep all of these."""
    return max(Counter(violation.property for violation in violations).values(), default=0) <= 20


def assert_agreement(rows: list[AnyRow]) -> set[str]:
    """Both forms report the same; the ids that they report."""
    expected, found = oracle_violations(rows), monitor_violations(rows)
    if in_a_cycle(rows):
        assert {"O6", "O8", "D1"} & {violation.property for violation in expected}
    if within_limit(expected):
        assert places(found) == places(expected)
    ids = {violation.property for violation in found}
    assert ids == {violation.property for violation in expected}
    return ids


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named(name: str) -> None:
    applied = 0
    for seed in range(SEEDS):
        rows = DAMAGES[name].apply(list(sampled(seed)), Random(seed))
        if rows is not None:
            applied += 1
            assert assert_agreement(rows) >= set(DAMAGES[name].breaks), f"seed {seed}"
        if applied == ENOUGH:
            break
    assert applied >= LEAST_APPLIED


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_leaves_its_input_alone(name: str) -> None:
    rows = good_trace(Random(5))
    DAMAGES[name].apply(rows, Random(5))
    assert rows == good_trace(Random(5))


@pytest.mark.parametrize("name", ["ring", "forged_ring"])
def test_a_ring_is_a_cycle_whatever_the_timestamps_say(name: str) -> None:
    """Each process of the forged one follows its own timestamps: O6 has nothing to say, O8 has."""
    rings = [DAMAGES[name].apply(list(sampled(seed)), Random(seed)) for seed in range(80)]
    for rows in [rows for rows in rings if rows is not None]:
        assert len(in_a_cycle(rows)) == 3
        found = assert_agreement(rows)
        assert found >= ({"O6"} if name == "ring" else {"O8"})
        assert ("O6" in found) == (name == "ring")


def test_every_property_is_broken_by_some_damage() -> None:
    assert {property_id for damage in DAMAGES.values() for property_id in damage.breaks} == set(PROPERTIES)


@given(seed=st.integers(0, 2**32), names=st.lists(st.sampled_from(sorted(DAMAGES)), min_size=1, max_size=2))
@settings(max_examples=400, deadline=None)
def test_both_forms_agree_on_damaged_traces(seed: int, names: list[str]) -> None:
    random = Random(seed)
    rows = good_trace(random, events=random.randrange(40), truth=random.random() < 0.8)
    for name in names:
        rows = DAMAGES[name].apply(rows, random) or rows
    assert_agreement(rows)


@given(seed=st.integers(0, 2**32), kept=st.floats(0.5, 1))
@settings(max_examples=300, deadline=None)
def test_both_forms_agree_on_traces_with_holes(seed: int, kept: float) -> None:
    """Any rows may be missing, also those of membership and faults; positions keep their holes."""
    random = Random(seed)
    rows = [row for row in good_trace(random, events=25) if random.random() < kept]
    assert_agreement(rows)
