"""Monitor of the state of applications: one at a point, wherever it came from (D10)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from unisono.properties.monitors.monitor import Handler, Monitor
from unisono.properties.promises import exempt_services
from unisono.trace.schema import MembershipRow

_EXEMPT = exempt_services("D10")

Place = tuple[str, str | None, int | None, str | None]
"""Group, view, point and lineage."""
Told = tuple[str, int, int, int | None]
"""Process, incarnation, position and the digest that it told."""


class OneState(Monitor):
    """D10. Keeps what was told of each point: rows may come in any order between processes."""

    property_id: ClassVar[str] = "D10"

    told: dict[Place, list[Told]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return dict.fromkeys(("STATE", "SAVED", "LOADED"), self.on_state)

    def on_state(self, row: MembershipRow) -> None:
        if row.service not in _EXEMPT:
            place = (row.group, row.view, row.sequence, row.reason)
            self.told.setdefault(place, []).append((row.process, row.incarnation, row.position, row.number))

    def conclude(self) -> None:
        for (group, view, _, _), told in self.told.items():
            told.sort(key=lambda one: one[:3])
            first = told[0]
            for process, incarnation, position, digest in told:
                if digest != first[3]:
                    text = f"In {view}, {process} does not have the state that {first[0]} has at the same point."
                    self.report(group, process, incarnation, position, None, text)
