"""The grid of a sweep: `--set KEY=A,B,C` tries each of the values, and several keys try every combination.

Only commas outside quotes and brackets divide: `[3, 8]` is one value, which a scenario may draw from for every seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, product

from msgspec import Struct

from unisono.errors import ScenarioError
from unisono.simulation.library import load
from unisono.simulation.scenario import Scenario

_OPENING = {"[": "]", "{": "}", "(": ")"}
_QUOTES = "\"'"


class Point(Struct, frozen=True):
    """One combination of the values: its number in the grid, what differs there, and the assignments that make it."""

    number: int
    name: str
    changes: tuple[str, ...]
    scenario: Scenario


def points(name_or_path: str, assignments: Sequence[str]) -> list[Point]:
    """Every combination, the last key changing fastest; a value that the scenario refuses is an error here."""
    listed = [_alternatives(assignment) for assignment in assignments]
    keys = [alternatives[0].partition("=")[0] for alternatives in listed]
    for key in keys:
        if keys.count(key) > 1:
            raise ScenarioError(key, f"set twice; list all its values once: {key}=A,B")
    varied = [len(alternatives) > 1 for alternatives in listed]
    return [
        Point(number, ", ".join(compress(changes, varied)) or "as set", changes, load(name_or_path, changes))
        for number, changes in enumerate(product(*listed))
    ]


def _alternatives(assignment: str) -> list[str]:
    """`loss=0,0.1` as `loss=0` and `loss=0.1`."""
    key, equals, text = assignment.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ScenarioError(assignment, "expected KEY=VALUE, or KEY=A,B,C to try each, such as loss=0,0.05")
    values = divide(text)
    for value in values:
        if not value:
            raise ScenarioError(assignment, "a value between two commas is empty")
        if values.count(value) > 1:
            raise ScenarioError(assignment, f"{value} is listed twice")
    return [f"{key}={value}" for value in values]


def divide(text: str) -> list[str]:
    """The parts between commas that stand outside quotes and brackets, without the space around them."""
    parts = [""]
    closing: list[str] = []
    quote = ""
    escaped = False
    for letter in text:
        if quote:
            quote = "" if letter == quote and not escaped else quote
            escaped = letter == "\\" and quote == '"' and not escaped
        elif letter in _QUOTES:
            quote = letter
        elif letter in _OPENING:
            closing.append(_OPENING[letter])
        elif closing and letter == closing[-1]:
            closing.pop()
        elif letter == "," and not closing:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts]
