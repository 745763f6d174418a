"""How far it is from here to any process: measured where that can be, composed elsewhere (000 2.4, table 2.1)."""

from __future__ import annotations

from msgspec import Struct

from unisono.identity import ProcessId
from unisono.units import MICROSECOND
from unisono.wire.control_messages import short_id
from unisono.wire.messages import Whereabouts


class DistanceTable(Struct, frozen=True):
    """What one control process knows at one moment; microseconds by short id (`short_id`), never changed after.

    `locals` are the control processes of its local group, `coordinators` those of the coordinator group as seen from
    its own coordinator.
    """

    control: ProcessId
    coordinator: ProcessId
    leg: int
    locals: dict[int, int]
    coordinators: dict[int, int]

    @property
    def whereabouts(self) -> Whereabouts:
        return Whereabouts(short_id(self.control), short_id(self.coordinator), self.leg * MICROSECOND)

    def distance(self, to: Whereabouts) -> int | None:
        """Nanoseconds one way, or None while it is not known.

        Table 2.1, with the leg from the other's coordinator to the other, which the table leaves out (erratum E17).
        """
        if to.control == short_id(self.control):
            return 0
        direct = self.locals.get(to.control)
        if direct is not None:
            return direct * MICROSECOND
        if to.coordinator == short_id(self.coordinator):
            between: int | None = 0
        else:
            between = self.coordinators.get(to.coordinator)
        return None if between is None else (self.leg + between) * MICROSECOND + to.leg
