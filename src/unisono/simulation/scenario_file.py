"""Reads a scenario file: TOML to `Scenario`; what is wrong is refused with its path, its line and what was expected."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from msgspec.structs import asdict

from unisono.errors import ScenarioError, SettingError
from unisono.settings import FIELDS
from unisono.simulation.locator import join, locate
from unisono.simulation.overrides import apply_overrides
from unisono.simulation.scenario import (
    DEFAULT_GROUP,
    Burst,
    Churn,
    Fault,
    GroupPlan,
    MemberPlan,
    Network,
    RandomFaults,
    Scenario,
    When,
    Workload,
)
from unisono.simulation.scenario_checks import check
from unisono.simulation.scenario_keys import (
    BURST_KEYS,
    CHURN_KEYS,
    FAULT_DEFAULTS,
    FAULT_KEYS,
    FAULTS,
    GROUP_KEYS,
    MEMBER_KEYS,
    MEMBER_SETTINGS,
    NETWORK_KEYS,
    OF_SHAPES,
    RANDOM_KEYS,
    SCENARIO_KEYS,
    SHAPES,
    TABLES,
    USUAL_SERVERS,
    WHEN_KEYS,
    WORKLOAD_KEYS,
    Key,
    fault_field,
    fault_value,
)
from unisono.simulation.scenario_values import expected, read_option
from unisono.spelling import did_you_mean

_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read_scenario(text: str, file: str | None = None, overrides: Sequence[str] = ()) -> Scenario:
    """The scenario of a file's text, after the overrides of `--set`; ScenarioError where it cannot be run."""
    parsed = _parse(text, file)
    try:
        data, overridden = apply_overrides(parsed, overrides)
    except ScenarioError as error:
        raise ScenarioError(error.path, error.expected, None, file) from None
    try:
        scenario = _read(data)
        check(scenario)
    except ScenarioError as error:
        path, line = _place(error.path, text, overridden)
        raise ScenarioError(path, error.expected, line, file) from None
    return scenario


def _parse(text: str, file: str | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ScenarioError("", "not valid TOML: nested too deeply", None, file) from None
    except ValueError as error:
        words = str(error)
        line = None
        if (match := _POSITION.search(words)) is not None:
            words = words[: match.start()]
            line = int(match[1]) if match[1] else len(text.splitlines()) or 1
        raise ScenarioError("", f"not valid TOML: {words[:1].lower()}{words[1:]}", line, file) from None


def _place(path: str, text: str, overridden: frozenset[str]) -> tuple[str, int | None]:
    """The path with the key as the file spells it, and the line of the key or of the table that lacks it."""
    lines = locate(text)
    if re.fullmatch(r"fault\[\d+\]\.members?", path):
        other = path.removesuffix("s") if path.endswith("s") else path + "s"
        if other in lines and path not in lines:
            path = other
    place = path
    while place and place not in lines and place not in overridden:
        place = place.rpartition(".")[0]
    return path, None if place in overridden else lines.get(place)


def _read(data: Mapping[str, Any]) -> Scenario:
    _refuse_unknown("", data, (*SCENARIO_KEYS, *TABLES))
    fields = _fields("", {key: raw for key, raw in data.items() if key not in TABLES}, SCENARIO_KEYS)
    if fields.get("protocol") == "virtual_synchrony":
        fields.setdefault("servers", USUAL_SERVERS)
    groups = tuple(GroupPlan(**_fields(path, table, GROUP_KEYS)) for path, table in _tables(data, "group"))
    return Scenario(
        **fields,
        options=_options("options", _table("options", data.get("options", {}))),
        network=_network(_table("network", data.get("network", {}))),
        groups=groups,
        workloads=tuple(_workload(path, table, groups) for path, table in _tables(data, "workload")),
        member_plans=tuple(_member(path, table) for path, table in _tables(data, "member")),
        churns=tuple(Churn(**_fields(path, table, CHURN_KEYS)) for path, table in _tables(data, "churn")),
        faults=tuple(_fault(path, table) for path, table in _tables(data, "fault")),
        random=_random(_table("random", data["random"])) if "random" in data else None,
    )


def _refuse(path: str, words: str) -> NoReturn:
    raise ScenarioError(path, words)


def _value(path: str, read: Callable[[Any], Any], raw: object) -> Any:
    try:
        return read(raw)
    except SettingError as error:
        _refuse(path, error.expected)
    except ValueError as error:
        _refuse(path, str(error))


def _table(path: str, raw: object) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        _refuse(path, str(expected("a table", raw)))
    return raw


def _tables(data: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    raw = data.get(name, [])
    if not isinstance(raw, list):
        _refuse(name, f"expected tables that begin with [[{name}]]")
    return [(f"{name}[{index}]", _table(f"{name}[{index}]", item)) for index, item in enumerate(raw)]


def _refuse_unknown(path: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            _refuse(join(path, key), f"unknown key; {did_you_mean(key, known)}")


def _fields(path: str, table: Mapping[str, Any], keys: Mapping[str, Key], others: Sequence[str] = ()) -> dict[str, Any]:
    """The fields that a table's keys fill; `others` are known keys that the caller reads."""
    if path:
        _refuse_unknown(path, table, (*keys, *others))
    for name, key in keys.items():
        if key.required and name not in table:
            _refuse(join(path, name), "missing")
    return {
        key.field or name: _value(join(path, name), key.value.read, table[name])
        for name, key in keys.items()
        if name in table
    }


def _options(path: str, table: Mapping[str, Any]) -> dict[str, Any]:
    options = {}
    for name, raw in table.items():
        if name not in FIELDS:
            _refuse(join(path, name), f"unknown setting; {did_you_mean(name, tuple(FIELDS))}")
        options[name] = _value(join(path, name), partial(read_option, name), raw)
    return options


def _network(table: Mapping[str, Any]) -> Network:
    fields = _fields("network", table, NETWORK_KEYS, ("burst",))
    burst = None
    if "burst" in table:
        burst = Burst(**_fields("network.burst", _table("network.burst", table["burst"]), BURST_KEYS))
    shape = fields.get("shape", "lan")
    if isinstance(shape, tuple):
        for key in OF_SHAPES:
            if key in fields:
                _refuse(f"network.{key}", "a shape that is drawn says this; expected one shape, or no such key")
        return Network(**fields, burst=burst)
    return Network(**{**SHAPES[shape], **fields, "burst": burst})


def _workload(path: str, table: Mapping[str, Any], groups: Sequence[GroupPlan]) -> Workload:
    fields = _fields(path, table, WORKLOAD_KEYS)
    if "group" not in fields:
        if len(groups) > 1:
            _refuse(join(path, "group"), f"missing; expected one of {', '.join(group.name for group in groups)}")
        fields["group"] = groups[0].name if groups else DEFAULT_GROUP
    return Workload(**fields)


def _member(path: str, table: Mapping[str, Any]) -> MemberPlan:
    fields = _fields(path, table, MEMBER_KEYS, (*MEMBER_SETTINGS, "options"))
    options = _options(join(path, "options"), _table(join(path, "options"), table.get("options", {})))
    for name in MEMBER_SETTINGS:
        if name in table:
            if name in options:
                _refuse(join(path, name), "given twice; it stands in options as well")
            options = {**options, name: _value(join(path, name), partial(read_option, name), table[name])}
    return MemberPlan(**fields, options=options)


def _fault(path: str, table: Mapping[str, Any]) -> Fault:
    if "kind" not in table:
        _refuse(join(path, "kind"), f"missing; expected one of {', '.join(FAULTS)}")
    kind: str = _value(join(path, "kind"), FAULT_KEYS["kind"].value.read, table["kind"])
    known = FAULTS[kind].keys
    if "member" in known or "members" in known:
        known = tuple(dict.fromkeys((*known, "member", "members")))
        if "member" in table and "members" in table:
            _refuse(join(path, "members"), 'expected either "member" or "members"')
    _refuse_unknown(path, table, known)
    fields = dict(FAULT_DEFAULTS.get(kind, {}))
    if "rate" in fields and not {"message", "sequence", "count"} & table.keys():
        del fields["rate"]
    for key in known:
        if key == "when" and key in table:
            fields["when"] = When(**_fields(join(path, "when"), _table(join(path, "when"), table["when"]), WHEN_KEYS))
        elif key in table:
            fields[fault_field(key)] = _value(join(path, key), fault_value(kind, key).read, table[key])
    for key in FAULTS[kind].required:
        if fault_field(key) not in fields:
            _refuse(join(path, key), f"missing; {kind} needs {' and '.join(FAULTS[kind].required)}")
    return Fault(**fields)


def _random(table: Mapping[str, Any]) -> RandomFaults:
    fields = {**asdict(RandomFaults()), **_fields("random", table, RANDOM_KEYS)}
    if isinstance(fields["count"], int):
        fields["count"] = (fields["count"], fields["count"])
    return RandomFaults(**fields)
