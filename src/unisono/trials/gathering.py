"""One trace from the spools that the lives of several processes left in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from unisono.runtime.tracing import SUFFIX
from unisono.trace.schema import AnyRow, MembershipRow
from unisono.trace.spool import read_spool

Kill = tuple[str, int]
"""A process that was killed, and when by the clock that all processes of one machine share."""


def gather(
    folder: Path, run: str, names: Iterable[str], kills: Sequence[Kill], truths: Iterable[AnyRow]
) -> list[AnyRow]:
    """The rows of all lives, a CRASH for each life that was killed, and the truths that its maker wrote, by time."""
    rows = list(truths)
    for name in names:
        lives = sorted(
            (life for path in folder.glob(f"{quote(name, safe='')}~*{SUFFIX}") if (life := list(read_spool(path)))),
            key=lambda life: life[0].at,
        )
        moments = [at for killed, at in kills if killed == name]
        for life in lives:
            for row in life:
                row.run = run
            rows += life
            if life[-1].kind != "END" and moments:
                rows.append(_crash_row(life[-1], moments.pop(0)))
    return sorted(rows, key=lambda row: (row.at, row.process, row.incarnation, row.position))


def _crash_row(last: AnyRow, at: int) -> MembershipRow:
    """What whoever killed a process knows of its end."""
    return MembershipRow(
        kind="CRASH",
        run=last.run,
        process=last.process,
        incarnation=last.incarnation,
        position=last.position + 1,
        at=max(at, last.at),
        host=last.host,
    )
