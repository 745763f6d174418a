"""What a property is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from unisono.properties.damages import Damage
from unisono.properties.monitors.monitor import Monitor
from unisono.properties.violation import Violation
from unisono.trace.schema import AnyRow


class Property(Struct, frozen=True):
    """A statement over the trace of one run, and the independent forms of its check.

    The Spark form is named as module:function, so that nothing here needs Spark. `report` is what a report says where
    the property does not hold; `counter_example` damages a valid trace so that it does not.
    """

    id: str
    name: str
    statement: str
    report: str
    oracle: Callable[[Sequence[AnyRow]], list[Violation]]
    monitor: type[Monitor]
    spark: str
    counter_example: Damage
