"""What an audit found: a verdict for each property and run, the first violations, and how long it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from unisono.properties.promises import promised_by_any
from unisono.properties.registry import PROPERTIES
from unisono.properties.violation import Violation

FORMAT = 1
"""Of the object that `as_json` gives: it grows when a key changes its meaning or goes. docs/audits.md has every key."""
KEPT_VIOLATIONS = 20
"""Of each property in each run, so many violations are kept; all are counted."""

Verdict = Literal["held", "violated", "not promised"]
Engine = Literal["spark", "monitor"]


class RunFacts(Struct, frozen=True):
    """What is in one run: the rows of each family, and the services that they were written under."""

    rows: dict[str, int]
    services: tuple[str, ...]


class RunReport(Struct, frozen=True):
    """One run: the count of violations by property, and the first of them."""

    run: str
    facts: RunFacts
    verdicts: dict[str, Verdict]
    counts: dict[str, int]
    violations: list[Violation]

    @property
    def held(self) -> bool:
        return not self.counts

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = msgspec.to_builtins(self)
        return {**told, "verdict": "held" if self.held else "violated", "held": self.held}


class AuditReport(Struct, frozen=True):
    """All runs of one audit.

    `seconds` is the wall time by property, with what was prepared for all under "reading". Properties may be checked
    side by side: `wall_seconds`, the time from the beginning to the end, may be less than their sum.
    """

    engine: Engine
    runs: list[RunReport]
    seconds: dict[str, float]
    wall_seconds: float

    @property
    def held(self) -> bool:
        return all(run.held for run in self.runs)

    def verdict(self, property_id: str) -> Verdict:
        """The verdict over all runs."""
        found = {run.verdicts[property_id] for run in self.runs}
        return "violated" if "violated" in found else "held" if "held" in found else "not promised"

    def count(self, property_id: str) -> int:
        return sum(run.counts.get(property_id, 0) for run in self.runs)

    def as_json(self) -> dict[str, Any]:
        """The report for scripts."""
        return {
            "format": FORMAT,
            "engine": self.engine,
            "verdict": "held" if self.held else "violated",
            "properties": [
                {
                    "id": item.id,
                    "name": item.name,
                    "verdict": self.verdict(item.id),
                    "violations": self.count(item.id),
                    "seconds": round(self.seconds.get(item.id, 0.0), 3),
                }
                for item in PROPERTIES.values()
            ],
            "runs": [run.as_json() for run in self.runs],
            "seconds": round(self.wall_seconds, 3),
        }


def run_report(run: str, facts: RunFacts, counts: Mapping[str, int], violations: Iterable[Violation]) -> RunReport:
    """The report of one run; properties come in the order of the registry, first violations in that of the trace."""
    ordered: dict[str, list[Violation]] = {property_id: [] for property_id in PROPERTIES}
    for violation in sorted(violations, key=_place):
        ordered[violation.property].append(violation)
    return RunReport(
        run=run,
        facts=facts,
        verdicts={property_id: _verdict(property_id, counts, facts.services) for property_id in PROPERTIES},
        counts={property_id: counts[property_id] for property_id in PROPERTIES if counts.get(property_id)},
        violations=[one for found in ordered.values() for one in found[:KEPT_VIOLATIONS]],
    )


def _verdict(property_id: str, counts: Mapping[str, int], services: tuple[str, ...]) -> Verdict:
    if counts.get(property_id):
        return "violated"
    return "held" if promised_by_any(services, property_id) else "not promised"


def _place(violation: Violation) -> tuple[str, str, int, int, str, str]:
    return (
        violation.group,
        violation.process,
        violation.incarnation,
        violation.position,
        violation.message or "",
        violation.text,
    )
