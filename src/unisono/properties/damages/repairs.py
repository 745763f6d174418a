"""Damages of repair and release: too early, never, or far too often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.promises import LEAST_LOSSES, REPAIR_LIMIT, SESSIONS, SETTLING_NANOSECONDS
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, FaultRow, MembershipRow, RepairRow, SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random


@damage("A source releases what a receiver that counts then asks for.", "D8")
def released_too_early(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for index, asked in enumerate(rows):
        if not isinstance(asked, RepairRow) or asked.kind != "RTR" or asked.service not in ("RSO", "RTO"):
            continue
        theirs = [row for row in rows[:index] if (row.process, row.incarnation) == _source(asked)]
        counted = [
            row
            for row in theirs
            if isinstance(row, MembershipRow)
            and row.kind in ("GRANT", "SUSPECT")
            and (row.group, row.peer, row.peer_incarnation) == (asked.group, asked.process, asked.incarnation)
        ]
        if not counted or counted[-1].kind != "GRANT" or (counted[-1].sequence or 0) > asked.last:
            continue
        if any(row.kind == "LEAVE" and row.position > counted[-1].position for row in theirs):
            continue
        if moment(theirs[-1]) < moment(asked):
            candidates.append((index, theirs[-1]))
    found = one_of(random, candidates)
    if found is None:
        return None
    index, last = found
    asked = rows[index]
    assert isinstance(asked, RepairRow)
    here: dict[str, Any] = {"process": last.process, "incarnation": last.incarnation, "at": last.at, "host": last.host}
    early = replace(asked, kind="GC", truth=last.truth, first=1, peer=None, **here)
    return [*rows[:index], early, *rows[index:]]


@damage("A receiver that counts asks at its end for what its source released.", "D8")
def asked_after_release(rows: Rows, random: Random) -> Rows | None:
    counted: dict[tuple[str, str, int, str, int], tuple[int, MembershipRow]] = {}
    views: dict[tuple[str, str, int], ViewRow] = {}
    ends: dict[tuple[str, int], int] = {}
    for index, row in enumerate(rows):
        if isinstance(row, ViewRow):
            views[row.group, row.process, row.incarnation] = row
        elif row.kind == "END":
            ends[_life(row)] = index
        elif row.kind == "LEAVE":
            counted = {key: one for key, one in counted.items() if key[:3] != (row.group, *_life(row))}
        elif isinstance(row, MembershipRow) and row.kind in ("GRANT", "SUSPECT"):
            counted[row.group, *_life(row), row.peer or "", row.peer_incarnation or 0] = (index, row)
    candidates: list[tuple[RepairRow, int, ViewRow]] = []
    for (group, name, incarnation, peer, life), (index, grant) in counted.items():
        end, view = ends.get((peer, life)), views.get((group, peer, life))
        if end is None or view is None or view.service not in ("RSO", "RTO") or grant.sequence is None:
            continue
        if (name, incarnation) not in [(start.source, start.incarnation) for start in view.start]:
            continue
        if grant.kind != "GRANT":
            continue
        releases = [
            row
            for row in rows[index:end]
            if isinstance(row, RepairRow)
            and row.kind == "GC"
            and (row.group, *_life(row)) == (group, name, incarnation)
        ]
        candidates.extend(
            (row, end, view) for row in releases if row.last >= grant.sequence and moment(row) < moment(rows[end])
        )
    found = one_of(random, candidates)
    if found is None:
        return None
    released, end, view = found
    here: dict[str, Any] = {
        "process": view.process,
        "incarnation": view.incarnation,
        "at": rows[end].at,
        "host": view.host,
    }
    where: dict[str, Any] = {
        "truth": rows[end].truth,
        "service": view.service,
        "stretch": view.stretch,
        "view": view.view,
    }
    asked = replace(released, kind="RTR", first=released.last, **here, **where)
    return [*rows[:end], asked, *rows[end:]]


def _source(row: RepairRow) -> tuple[str, int]:
    return (row.source, row.source_incarnation)


def _life(row: AnyRow) -> tuple[str, int]:
    return (row.process, row.incarnation)


def _due_releases(rows: Rows) -> list[list[int]]:
    """For each member that must have released something by its end, its releases since it joined; not of sessions."""
    faults = [row for row in rows if isinstance(row, FaultRow)]
    heals = [moment(row) for row in faults if row.fault == "heal"]
    ends = {_life(row): moment(row) for row in rows if row.kind == "END"}
    if not heals or any(row.members for row in faults):
        return []
    moved = {
        (row.group, *_life(row)): row.kind
        for row in rows
        if row.kind in ("JOIN", "LEAVE") and row.service not in SESSIONS
    }
    views = {(row.group, *_life(row)): row for row in rows if isinstance(row, ViewRow)}
    found = []
    for member, kind in moved.items():
        group, life = member[0], member[1:]
        due = ends.get(life, 0) - SETTLING_NANOSECONDS
        if kind == "LEAVE" or max(heals) > due:
            continue
        joined = max(
            index for index, row in enumerate(rows) if row.kind == "JOIN" and (row.group, *_life(row)) == member
        )
        mine = [(index, row) for index, row in enumerate(rows) if index > joined and (row.group, *_life(row)) == member]
        peers = {
            (row.peer or "", row.peer_incarnation or 0)
            for _, row in mine
            if isinstance(row, MembershipRow) and row.kind == "GRANT"
        }
        follows = [
            peer in ends
            and moved.get((group, *peer)) == "JOIN"
            and (group, *peer) in views
            and life in [(start.source, start.incarnation) for start in views[group, *peer].start]
            for peer in peers
        ]
        owed = [row for _, row in mine if isinstance(row, SendRow) and moment(row) <= due]
        releases = [index for index, row in mine if row.kind == "GC"]
        if owed and all(follows) and releases:
            found.append(releases)
    return found


@damage("A source never releases anything.", "L4")
def never_released(rows: Rows, random: Random) -> Rows | None:
    releases = one_of(random, _due_releases(rows))
    return None if releases is None else [row for index, row in enumerate(rows) if index not in releases]


@damage("A source does not release the last of what it should.", "L4")
def last_release_missing(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for releases in _due_releases(rows):
        last = rows[releases[-1]]
        assert isinstance(last, RepairRow)
        end = next(moment(row) for row in rows if row.kind == "END" and _life(row) == _life(last))
        covered = [row for row in rows if isinstance(row, SendRow) and _life(row) == _life(last)]
        if any(
            row.group == last.group
            and last.first <= row.sequence <= last.last
            and moment(row) <= end - SETTLING_NANOSECONDS
            for row in covered
        ):
            candidates.append(releases[-1])
    index = one_of(random, candidates)
    return None if index is None else rows[:index] + rows[index + 1 :]


def _storm(rows: Rows, random: Random, requests: int, repairs: int) -> Rows | None:
    """So many requests and repairs for each of as many losses as L8 asks for, at the end of the run."""
    if any(isinstance(row, FaultRow) and row.fault not in ("load", "heal") for row in rows):
        return None
    ends = [index for index, row in enumerate(rows) if row.kind == "END"]
    sends = [row for row in rows if isinstance(row, SendRow)]
    pairs = [(sent, index) for sent in sends for index in ends if _life(rows[index]) != _life(sent)]
    pairs = [
        (sent, index) for sent, index in pairs if len({moment(row) for row in sends if row.group == sent.group}) > 1
    ]
    pair = one_of(random, pairs)
    if pair is None:
        return None
    sent, index = pair
    end = rows[index]
    whose: dict[str, Any] = {"source": sent.process, "source_incarnation": sent.incarnation}
    here: dict[str, Any] = {"run": end.run, "group": sent.group, "process": end.process, "incarnation": end.incarnation}
    when: dict[str, Any] = {"at": end.at, "host": end.host, "truth": end.truth, "service": "UU"}
    above = max((row.last for row in rows if isinstance(row, RepairRow)), default=0) + 2
    added: Rows = [
        RepairRow(kind=kind, first=first, last=first, **whose, **here, **when)
        for kind, count in (("RTR", requests), ("RTX", repairs))
        for first in range(above, above + 2 * LEAST_LOSSES, 2)
        for _ in range(count)
    ]
    return [*rows[:index], *added, *rows[index:]]


@damage("Every loss is asked for too often.", "L8")
def too_many_requests(rows: Rows, random: Random) -> Rows | None:
    return _storm(rows, random, REPAIR_LIMIT + 1, 1)


@damage("Every loss is repaired too often.", "L8")
def too_many_repairs(rows: Rows, random: Random) -> Rows | None:
    return _storm(rows, random, 1, REPAIR_LIMIT + 1)
