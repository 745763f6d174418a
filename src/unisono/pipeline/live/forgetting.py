"""What monitors let go of while a run goes on, so that their state does not grow with it."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from unisono.properties.monitors.monitor import Source
from unisono.properties.registry import MonitorSuite

_LIVES: dict[str, dict[str, int]] = {
    "D2": {"delivered": 1, "loose": 1},
    "M2": {"last": 1, "restarts": 1, "following": 1},
    "M3": {"current": 1},
    "O1": {"last": 1, "loose": 1},
    "O2": {
        "due": 1,
        "installed": 1,
        "restarted": 1,
        "sessions.seats": 1,
    },
    "O6": {"domains": 1, "eras": 0},
}
"""What a monitor keeps by lives, and where in its keys the life stands."""

DEPENDS_ON_EVERY_ROW = ("M2", "M3", "O2", "O6")
"""A row that is missing could make these blame the next one. D2 and O1 compare rows that are there, and go on."""


def forget_life(suite: MonitorSuite, life: Source) -> None:
    """Nothing more is expected of this life."""
    for property_id in _LIVES:
        _forget(suite, property_id, life)


def forget_what_depends_on_every_row(suite: MonitorSuite, life: Source) -> None:
    """Rows of this life are missing: what they may have changed is taken up anew."""
    for property_id in DEPENDS_ON_EVERY_ROW:
        _forget(suite, property_id, life)


def forget_old_stretches(suite: MonitorSuite) -> None:
    """A stretch is over when its member is in a later one: no row of it can follow."""
    last: Any = getattr(suite.monitors["M2"], "last")  # noqa: B009  # the field of one monitor among several kinds
    newest: dict[tuple[str, str, int], int] = {}
    for group, name, incarnation, stretch in last:
        member = (group, name, incarnation)
        newest[member] = max(stretch, newest.get(member, stretch))
    for key in [key for key in last if key[3] < newest[key[:3]]]:
        del last[key]
    loose: Any = getattr(suite.monitors["D2"], "loose")  # noqa: B009  # as above
    for stretches in loose.values():
        for stretch in sorted(stretches)[:-1]:
            del stretches[stretch]


def _forget(suite: MonitorSuite, property_id: str, life: Source) -> None:
    monitor = suite.monitors[property_id]
    for name, place in _LIVES[property_id].items():
        kept: Any = attrgetter(name)(monitor)
        for key in [key for key in kept if key[place : place + 2] == life]:
            if isinstance(kept, set):
                kept.discard(key)
            else:
                del kept[key]
