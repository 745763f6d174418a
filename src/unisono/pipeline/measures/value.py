"""One value of the long table, and the order in which values are shown. Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from unisono.pipeline.measures.catalogue import MEASURES, SUMMARY


class Value(Struct, frozen=True):
    """One value of one measure; the key is empty where a measure has but one."""

    run: str
    group: str
    measure: str
    key: str
    value: float
    unit: str


LONG = Value.__struct_fields__

_RANKS = {name: rank for rank, name in enumerate(MEASURES)}
_KEYS = {key: rank for rank, key in enumerate(SUMMARY)}


def place(run: str, group: str, measure: str, key: str) -> tuple[str, str, int, int, int, str]:
    """Where a value stands: by run and group, then as in the catalogue; keys that end in a number by that number."""
    number = key.rpartition(" ")[2]
    size = int(number) if number.isdecimal() else 0
    return run, group, _RANKS[measure], _KEYS.get(key, 0), size, key


def in_order(values: Iterable[Value]) -> list[Value]:
    return sorted(values, key=lambda one: place(one.run, one.group, one.measure, one.key))
