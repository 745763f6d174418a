"""Writes a scenario as the TOML that reads back to it; what is as by default is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unisono.simulation.scenario import Fault, MemberPlan, Network, RandomFaults, Scenario, When
from unisono.simulation.scenario_keys import (
    BURST_KEYS,
    CHURN_KEYS,
    FAULT_DEFAULTS,
    FAULTS,
    GROUP_KEYS,
    MEMBER_KEYS,
    MEMBER_SETTINGS,
    NETWORK_KEYS,
    RANDOM_KEYS,
    SCENARIO_KEYS,
    SHAPES,
    WHEN_KEYS,
    WORKLOAD_KEYS,
    Key,
    fault_field,
    fault_value,
)
from unisono.simulation.scenario_values import write_list, write_option

_ALWAYS = ("members", "duration", "settle")
_EMPTY: tuple[object, ...] = (None, ())


def write_scenario(scenario: Scenario) -> str:
    """The file of a scenario, ending in a newline."""
    sections = [_lines(_scenario_pairs(scenario))]
    if scenario.options:
        sections.append(["[options]", *_lines(_option_pairs(scenario.options))])
    if network := _lines(_network_pairs(scenario.network)):
        sections.append(["[network]", *network])
    sections += [["[[group]]", *_lines(_pairs(group, GROUP_KEYS))] for group in scenario.groups]
    sections += [
        ["[[workload]]", *_lines(_pairs(workload, WORKLOAD_KEYS, {"start": 0, "proxy": False}))]
        for workload in scenario.workloads
    ]
    sections += [["[[member]]", *_lines(_member_pairs(plan))] for plan in scenario.member_plans]
    usual = {"members": "receivers", "start": 0}
    sections += [["[[churn]]", *_lines(_pairs(churn, CHURN_KEYS, usual))] for churn in scenario.churns]
    sections += [["[[fault]]", *_lines(_fault_pairs(fault))] for fault in scenario.faults]
    if scenario.random is not None:
        sections.append(["[random]", *_lines(_random_pairs(scenario.random))])
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


Pairs = Iterable[tuple[str, str]]


def _lines(pairs: Pairs) -> list[str]:
    return [f"{key} = {text}" for key, text in pairs]


def _inline(pairs: Pairs) -> str:
    return f"{{{', '.join(_lines(pairs))}}}"


def _pairs(held: Any, keys: Mapping[str, Key], usual: Mapping[str, object] | None = None) -> Pairs:
    for name, key in keys.items():
        value = getattr(held, key.field or name)
        if value not in _EMPTY and value != (usual or {}).get(name):
            yield name, key.value.write(value)


def _scenario_pairs(scenario: Scenario) -> Pairs:
    default = Scenario(name=scenario.name)
    for name, key in SCENARIO_KEYS.items():
        value = getattr(scenario, name)
        if key.required or name in _ALWAYS or value != getattr(default, name):
            yield name, key.value.write(value)


def _option_pairs(options: Mapping[str, Any]) -> Pairs:
    return ((name, write_option(name, value)) for name, value in options.items())


def _network_pairs(network: Network) -> Pairs:
    usual = {name: getattr(Network(), name) for name in NETWORK_KEYS}
    if not isinstance(network.shape, tuple):
        usual |= SHAPES[network.shape]
    for name, key in NETWORK_KEYS.items():
        value = getattr(network, name)
        if value is not None and value != usual[name]:
            yield name, key.value.write(value)
    if network.burst is not None:
        yield "burst", _inline(_pairs(network.burst, BURST_KEYS))


def _member_pairs(plan: MemberPlan) -> Pairs:
    yield from _pairs(plan, MEMBER_KEYS, {"joins": 0})
    for name in MEMBER_SETTINGS:
        if name in plan.options:
            yield name, write_option(name, plan.options[name])
    others = {name: value for name, value in plan.options.items() if name not in MEMBER_SETTINGS}
    if others:
        yield "options", _inline(_option_pairs(others))


def _fault_pairs(fault: Fault) -> Pairs:
    usual = FAULT_DEFAULTS.get(fault.kind, {}) if fault.kind == "send" else {}
    for key in FAULTS[fault.kind].keys:
        value = getattr(fault, fault_field(key))
        if key == "when" and isinstance(value, When):
            yield key, _inline(_pairs(value, WHEN_KEYS))
        elif key == "disk" and value is True:
            continue
        elif value not in _EMPTY and value != usual.get(key, None):
            yield key, fault_value(fault.kind, key).write(value)


def _random_pairs(random: RandomFaults) -> Pairs:
    least, most = random.count
    yield "count", str(least) if least == most else write_list([str(least), str(most)])
    yield "kinds", RANDOM_KEYS["kinds"].value.write(random.kinds)
