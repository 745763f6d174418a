"""All properties of a run at once: every oracle, or every monitor side by side.

`MonitorSuite` runs all monitors over one run and shows each only the kinds of rows that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Self

import msgspec

from unisono.errors import TraceError
from unisono.properties.entries import PROPERTIES, Property
from unisono.properties.monitors.monitor import EVERY, KEPT_VIOLATIONS, Handler, Monitor
from unisono.properties.violation import Violation
from unisono.trace.schema import AnyRow

__all__ = [
    "PROPERTIES",
    "Monitor",
    "MonitorSuite",
    "Property",
    "Violation",
    "in_order",
    "monitor_violations",
    "oracle_violations",
]

Forms = Mapping[str, type[Monitor]]
"""Monitors that stand in for the registered ones of their properties."""

_REGISTERED: Forms = MappingProxyType({})


class MonitorSuite:
    """Monitors of one run, side by side: all properties, or those whose ids are given.

    Each keeps the first violations, `keep` of them at most.
    """

    def __init__(
        self, property_ids: Iterable[str] | None = None, keep: int = KEPT_VIOLATIONS, forms: Forms = _REGISTERED
    ) -> None:
        ids = PROPERTIES if property_ids is None else property_ids
        self._take({property_id: _form(property_id, forms)(keep=keep) for property_id in ids})

    def _take(self, monitors: dict[str, Monitor]) -> None:
        self.monitors = monitors
        routes: dict[str, list[Handler]] = {}
        for monitor in monitors.values():
            for kind, handler in monitor.handlers().items():
                routes.setdefault(kind, []).append(handler)
        self._always = tuple(routes.pop(EVERY, ()))
        self._routes = {kind: (*self._always, *handlers) for kind, handlers in routes.items()}

    def observe(self, row: AnyRow) -> None:
        """Show the next row to the monitors that read its kind, or every row."""
        for handle in self._routes.get(row.kind, self._always):
            handle(row)

    def finish(self) -> None:
        """Say that the run is over."""
        for monitor in self.monitors.values():
            monitor.finish()

    @property
    def violations(self) -> list[Violation]:
        """What was found so far, property by property, each up to its limit of kept violations."""
        return [violation for monitor in self.monitors.values() for violation in monitor.violations]

    @property
    def counts(self) -> dict[str, int]:
        """How many violations each broken property has, kept or not."""
        return {property_id: monitor.count for property_id, monitor in self.monitors.items() if monitor.count}

    def dump(self) -> bytes:
        """The state of all monitors."""
        return msgspec.msgpack.encode({property_id: monitor.dump() for property_id, monitor in self.monitors.items()})

    @classmethod
    def load(cls, data: bytes, forms: Forms = _REGISTERED) -> Self:
        """The suite that was dumped, with the same forms, to go on with the next row."""
        try:
            stored = msgspec.msgpack.decode(data, type=dict[str, bytes])
        except msgspec.MsgspecError as error:
            raise TraceError(f"this is no stored state of a suite of monitors: {error}") from None
        unknown = [property_id for property_id in stored if property_id not in PROPERTIES]
        if unknown:
            raise TraceError(f"the stored state has properties that are unknown here: {', '.join(unknown)}")
        suite = cls(())
        suite._take({property_id: _form(property_id, forms).load(state) for property_id, state in stored.items()})
        return suite


def _form(property_id: str, forms: Forms) -> type[Monitor]:
    return forms.get(property_id) or PROPERTIES[property_id].monitor


def in_order(property_ids: Iterable[str]) -> list[str]:
    """These ids as the registry has them, so that M2 comes before M10; unknown ones last."""
    places = {property_id: place for place, property_id in enumerate(PROPERTIES)}
    return sorted(property_ids, key=lambda property_id: (places.get(property_id, len(places)), property_id))


def oracle_violations(rows: Sequence[AnyRow]) -> list[Violation]:
    """What the naive oracles find in a whole run; for short traces."""
    return [violation for item in PROPERTIES.values() for violation in item.oracle(rows)]


def monitor_violations(rows: Iterable[AnyRow], keep: int = KEPT_VIOLATIONS) -> list[Violation]:
    """What the monitors find in a whole run, each at most `keep` violations."""
    suite = MonitorSuite(keep=keep)
    for row in rows:
        suite.observe(row)
    suite.finish()
    return suite.violations
