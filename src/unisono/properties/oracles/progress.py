"""A run that must go on: no standstill under load (L6), no buffer above its cap (L7)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from unisono.properties.oracles.reading import at, held, of, one_of_each_kind, servers
from unisono.properties.promises import SESSIONS, STALL_LIMIT_NANOSECONDS
from unisono.properties.violation import Violation, moment
from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, GaugeRow


def _eligible(history: Sequence[AnyRow], members: set[str], serving: set[str]) -> bool:
    """Whether progress is due after these rows: loaded, served, and most of the members started so far are present."""
    load = 0
    started: dict[str, bool] = {}
    joined: dict[str, set[str]] = {}
    gone: set[str] = set()
    taken: dict[str, int] = {}
    for row in history:
        if isinstance(row, FaultRow) and row.kind == "FAULT":
            step = 1 if row.edge == "begin" else -1
            if row.fault == "load":
                load = max(0, load + step)
            elif row.fault != "heal":
                for name in row.members:
                    taken[name] = max(0, taken.get(name, 0) + step)
        elif row.kind == "START":
            started[row.process] = True
        elif row.kind == "CRASH":
            started[row.process] = False
            joined[row.process] = set()
        elif row.kind == "JOIN":
            joined.setdefault(row.process, set()).add(row.group)
            gone.discard(row.process)
        elif row.kind == "LEAVE":
            joined.setdefault(row.process, set()).discard(row.group)
            if not joined[row.process]:
                gone.add(row.process)
    names = {row.process for row in history if row.kind == "START"}
    present = {name for name in names if started[name] and name not in gone and not taken.get(name)}
    most = len(present & members) >= 2 and 2 * len(present & members) > len(names & members)
    return load > 0 and most and one_of_each_kind(names & serving, present)


def no_deadlock(rows: Sequence[AnyRow]) -> list[Violation]:
    """L6."""
    read = [row for row in rows if row.kind in ("START", "JOIN", "LEAVE", "CRASH", "END", "VIEW", "DELIVER", "FAULT")]
    read.sort(key=lambda row: (moment(row), row.process, row.incarnation, row.position))
    times = sorted({moment(row) for row in read})
    progress = {
        moment(row) for row in read if row.kind == "VIEW" or (isinstance(row, DeliverRow) and row.source != row.process)
    }
    joins = [row for row in read if row.kind == "JOIN"]
    named = joins if any(row.service in SESSIONS for row in joins) else [row for row in read if row.kind == "START"]
    members, serving = {row.process for row in named}, servers(rows)
    violations = []
    quiet_since: int | None = None
    for time, following in pairwise(times):
        if not _eligible([row for row in read if moment(row) <= time], members, serving):
            quiet_since = None
            continue
        if quiet_since is None or time in progress:
            quiet_since = time
        later = [row for row in read if moment(row) <= following]
        stretch_goes_on = following != times[-1] and _eligible(later, members, serving)
        gap_ends = following in progress or not stretch_goes_on
        if gap_ends and following - quiet_since > STALL_LIMIT_NANOSECONDS:
            text = f"no progress from {quiet_since} to {following}"
            violations.append(Violation("L6", "", "", 0, 0, None, text))
    return violations


def bounded_resources(rows: Sequence[AnyRow]) -> list[Violation]:
    """L7."""
    return [
        at(row, "L7", None, f"{row.name} is {row.value}, its cap is {row.cap}")
        for row in of(rows, GaugeRow, "GAUGE")
        if held(row, "L7") and row.cap is not None and row.value > row.cap
    ]
