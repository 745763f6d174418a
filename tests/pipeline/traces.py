"""Small traces to audit: sampled from the statements, some of them damaged, some with holes."""

from __future__ import annotations

from random import Random

from msgspec import Struct
from msgspec.structs import replace

from unisono.properties.damages import DAMAGES, SESSION_DAMAGES
from unisono.properties.generator import good_session_trace, good_trace
from unisono.properties.registry import PROPERTIES
from unisono.trace.schema import AnyRow

GOOD, DAMAGED, TWICE, HOLES = range(4)


class Sample(Struct):
    """One run, and whether it is as it should be."""

    run: str
    rows: list[AnyRow]
    good: bool


def sampled(seed: int) -> Sample:
    """A quarter is good, half is damaged once or twice, a quarter lacks rows of any kind.

    What is damaged breaks one property after the other, so that the rarest comes up as often as any.
    """
    random = Random(seed)
    sort = seed % 4
    rows = good_rows(random)
    if sort in (DAMAGED, TWICE):
        turn = list(PROPERTIES)[seed // 4 % len(PROPERTIES)]
        names = [name for name in sorted(DAMAGES) if turn in DAMAGES[name].breaks]
        rows = damaged_once(random, [name for name in names if name not in SESSION_DAMAGES] or names)
    if sort == TWICE:
        rows = damaged_again(random, rows)
    if sort == HOLES:
        rows = [row for row in rows if random.random() < 0.9]
    return Sample(f"{seed}", of_run(rows, f"{seed}"), sort == GOOD)


def sampled_session(seed: int) -> Sample:
    """The same of sessions; here one damage comes after the other."""
    random = Random(seed)
    sort = seed % 4
    rows = good_session_rows(random)
    if sort in (DAMAGED, TWICE):
        rows = damaged_once(random, [sorted(SESSION_DAMAGES)[seed // 4 % len(SESSION_DAMAGES)]])
    if sort == TWICE:
        rows = damaged_again(random, rows)
    if sort == HOLES:
        rows = [row for row in rows if random.random() < 0.9]
    return Sample(f"session {seed}", of_run(rows, f"session {seed}"), sort == GOOD)


def good_session_rows(random: Random) -> list[AnyRow]:
    return good_session_trace(random, events=random.randrange(30))


def good_rows(random: Random) -> list[AnyRow]:
    groups = ("market", "yard") if random.random() < 0.3 else ("market",)
    return good_trace(random, events=random.randrange(40), groups=groups, truth=random.random() < 0.8)


def damaged_once(random: Random, names: list[str]) -> list[AnyRow]:
    """A trace with one of these damages, the first that fits one."""
    for _ in range(1000):
        name = random.choice(names)
        good = good_session_rows(random) if name in SESSION_DAMAGES else good_rows(random)
        damaged = DAMAGES[name].apply(good, random)
        if damaged is not None:
            return damaged
    raise AssertionError(f"no trace can be damaged by {names}")


def damaged_again(random: Random, rows: list[AnyRow]) -> list[AnyRow]:
    """The same with any other damage that fits it."""
    for name in random.sample(sorted(DAMAGES), len(DAMAGES)):
        damaged = DAMAGES[name].apply(rows, random)
        if damaged is not None:
            return damaged
    return rows


def of_run(rows: list[AnyRow], run: str) -> list[AnyRow]:
    return [replace(row, run=run) for row in rows]


def run_of_counter_example(property_id: str) -> str:
    return f"counter-example of {property_id}"


def counter_example(property_id: str) -> list[AnyRow]:
    """The first valid trace that the counter-example of a property fits, after the damage."""
    damage = PROPERTIES[property_id].counter_example
    sample = good_session_trace if damage.name in SESSION_DAMAGES else good_trace
    for seed in range(1000):
        rows = damage.apply(sample(Random(seed)), Random(seed))
        if rows is not None:
            return of_run(rows, run_of_counter_example(property_id))
    raise AssertionError(f"the counter-example of {property_id} fits no trace")
