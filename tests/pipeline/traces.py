"""Small traces to audit: sampled from the statements, some of them damaged, some with holes."""

from __future__ import annotations

from random import Random

from msgspec import Struct
from msgspec.structs import replace

from unisono.properties.damages import DAMAGES
from unisono.properties.generator import good_trace
from unisono.trace.schema import AnyRow

GOOD, DAMAGED, TWICE, HOLES = range(4)


class Sample(Struct):
    """One run, and whether it is as it should be."""

    run: str
    rows: list[AnyRow]
    good: bool


def sampled(seed: int) -> Sample:
    """A quarter is good, half is damaged once or twice, a quarter lacks rows of any kind."""
    random = Random(seed)
    groups = ("market", "yard") if random.random() < 0.3 else ("market",)
    rows = good_trace(random, events=random.randrange(40), groups=groups, truth=random.random() < 0.8)
    sort = seed % 4
    wanted = {DAMAGED: 1, TWICE: 2}.get(sort, 0)
    for name in random.sample(sorted(DAMAGES), len(DAMAGES)):
        damaged = DAMAGES[name].apply(rows, random) if wanted else None
        if damaged is not None:
            rows = damaged
            wanted -= 1
    if sort == HOLES:
        rows = [row for row in rows if random.random() < 0.9]
    return Sample(f"{seed}", of_run(rows, f"{seed}"), sort == GOOD)


def of_run(rows: list[AnyRow], run: str) -> list[AnyRow]:
    return [replace(row, run=run) for row in rows]
