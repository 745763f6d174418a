"""What one simulated run came to."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, to_builtins

from unisono.properties.promises import promised
from unisono.properties.registry import PROPERTIES, in_order
from unisono.properties.violation import Violation
from unisono.settings import SERVICE_CODES, Settings
from unisono.simulation.hierarchy import Figures
from unisono.simulation.scenario import Scenario

SESSION_CODES = {"strong": "VS", "weak": "VS-weak"}
"""What the trace calls the semantics of a session, where other groups have a service."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The verdicts, counts and marks of one seed.

    `verdicts` has every property that was promised, with the number of its violations. `seconds` is the
    wall time of the run; nothing else depends on the machine.
    """

    scenario: str
    seed: int
    verdicts: dict[str, int]
    violations: list[Violation]
    marks: dict[str, int]
    counters: dict[str, int]
    events: int
    seconds: float
    hierarchy: Figures | None = None

    @property
    def violated(self) -> tuple[str, ...]:
        """The properties that were violated, in the order of the registry."""
        counted = {name for name, count in self.verdicts.items() if count}
        return tuple(in_order(counted | {violation.property for violation in self.violations}))

    def summary(self) -> dict[str, object]:
        """What stands beside the trace: everything that a replay gives again."""
        told: dict[str, object] = {
            "scenario": self.scenario,
            "seed": self.seed,
            "verdicts": self.verdicts,
            "marks": self.marks,
            "counters": self.counters,
            "events": self.events,
        }
        if self.hierarchy is not None:
            told["hierarchy"] = to_builtins(self.hierarchy)
        return told


def _services(scenario: Scenario) -> set[str]:
    """Every service that a member has at some time, as the trace calls it."""
    chosen = [scenario.options, *(plan.options for plan in scenario.member_plans)]
    if scenario.protocol == "virtual_synchrony":
        return {SESSION_CODES[options.get("semantics", Settings().semantics)] for options in chosen}
    services = {SERVICE_CODES[options.get("service", Settings().service)] for options in chosen}
    return services | {SERVICE_CODES[fault.service] for fault in scenario.faults if fault.service is not None}


def verdicts(scenario: Scenario, counts: Mapping[str, int]) -> dict[str, int]:
    """How often each property was violated that some service in the scenario promises."""
    services = _services(scenario)
    return {
        property_id: counts.get(property_id, 0)
        for property_id in PROPERTIES
        if any(promised(service, property_id) for service in services)
    }
