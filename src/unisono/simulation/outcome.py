"""What one simulated run came to."""

from __future__ import annotations

from msgspec import Struct

from unisono.properties.violation import Violation


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

    @property
    def violated(self) -> tuple[str, ...]:
        """The properties that were violated, in order."""
        counted = {name for name, count in self.verdicts.items() if count}
        return tuple(sorted(counted | {violation.property for violation in self.violations}))
