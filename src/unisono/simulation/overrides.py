"""`--set KEY=VALUE`: changes a scenario's data before it is read.

A key is a path (`network.loss`, `workload[0].rate`) or a bare name that is unique in the file, written
there or possible there. A value is TOML; what is not TOML is text, so that `duration=5s` needs no quotes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from unisono.errors import ScenarioError
from unisono.settings import FIELDS
from unisono.simulation.locator import join
from unisono.simulation.scenario_keys import (
    CHURN_KEYS,
    FAULTS,
    GROUP_KEYS,
    MEMBER_KEYS,
    MEMBER_SETTINGS,
    NETWORK_KEYS,
    RANDOM_KEYS,
    REPEATED_TABLES,
    SCENARIO_KEYS,
    TABLES,
    WORKLOAD_KEYS,
)
from unisono.spelling import did_you_mean

_STEP = re.compile(r"([A-Za-z0-9_-]+)(?:\[(\d+)\])?")


def apply_overrides(data: Mapping[str, Any], assignments: Sequence[str]) -> tuple[dict[str, Any], frozenset[str]]:
    """The data with every assignment made, in order, and the paths that were set."""
    changed = deepcopy(dict(data))
    paths = []
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ScenarioError(assignment, "expected KEY=VALUE, such as network.loss=0.05")
        path = _resolve(changed, key)
        _assign(changed, path, _parse_value(text.strip()))
        paths.append(path)
    return changed, frozenset(paths)


def _parse_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _resolve(data: Mapping[str, Any], key: str) -> str:
    """The path that a key means."""
    if "." in key or "[" in key or key in SCENARIO_KEYS or key in TABLES:
        return key
    written = [path for path in _written(data, "") if path.rpartition(".")[2] == key]
    possible = [path for path in _possible(data) if path.rpartition(".")[2] == key]
    found = written or possible
    if len(found) == 1:
        return found[0]
    if found:
        raise ScenarioError(key, f"not unique; write one of {', '.join(found)}")
    names = dict.fromkeys((*SCENARIO_KEYS, *(path.rpartition(".")[2] for path in _possible(data))))
    raise ScenarioError(key, f"unknown key; {did_you_mean(key, tuple(names))}")


def _written(table: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in table.items():
        here = join(path, key)
        yield here
        if isinstance(value, dict):
            yield from _written(value, here)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from _written(item, f"{here}[{index}]")


def _possible(data: Mapping[str, Any]) -> Iterator[str]:
    """Keys of the tables that every file may have, and of the tables that this one repeats."""
    yield from (f"network.{key}" for key in (*NETWORK_KEYS, "burst"))
    yield from (f"options.{key}" for key in FIELDS)
    if "random" in data:
        yield from (f"random.{key}" for key in RANDOM_KEYS)
    for name in REPEATED_TABLES:
        tables = data.get(name)
        for index, table in enumerate(tables if isinstance(tables, list) else ()):
            yield from (f"{name}[{index}].{key}" for key in _repeated_keys(name, table))


def _repeated_keys(name: str, table: object) -> Sequence[str]:
    if name == "fault":
        kind = table.get("kind") if isinstance(table, dict) else None
        return FAULTS[kind].keys if isinstance(kind, str) and kind in FAULTS else ("at", "when", "kind")
    return {
        "group": tuple(GROUP_KEYS),
        "workload": tuple(WORKLOAD_KEYS),
        "churn": tuple(CHURN_KEYS),
        "member": (*MEMBER_KEYS, *MEMBER_SETTINGS, "options"),
    }[name]


def _assign(data: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path; tables on the way are made where they are missing."""
    table: Any = data
    steps = path.split(".")
    for number, step in enumerate(steps):
        here = ".".join(steps[: number + 1])
        match = _STEP.fullmatch(step)
        if match is None:
            raise ScenarioError(path, "expected a key such as network.loss or workload[0].rate")
        name, index = match[1], match[2]
        if index is None and number + 1 == len(steps):
            table[name] = value
            return
        if index is None:
            table = table.setdefault(name, {})
            if isinstance(table, list):
                raise ScenarioError(
                    path, f"say which one: {here}[0] to {here}[{len(table) - 1}]" if table else f"there is no {here}"
                )
        else:
            items = table.get(name, [])
            if not isinstance(items, list) or int(index) >= len(items):
                raise ScenarioError(path, f"there is no {here}")
            if number + 1 == len(steps):
                items[int(index)] = value
                return
            table = items[int(index)]
        if not isinstance(table, dict):
            raise ScenarioError(path, f"{here} is not a table")
