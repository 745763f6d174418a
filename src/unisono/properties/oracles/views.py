"""Agreed views: who is in them (M1), their order (M2), that they are one for all (M4, M5, M7), who follows (M9)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from unisono.properties.oracles.reading import (
    TELLING,
    agreed_views,
    at,
    fresh_between,
    held,
    members_of,
    row_key,
    same_member,
    same_process,
    view_before,
)
from unisono.properties.violation import Violation
from unisono.trace.schema import AnyRow, ViewRow


def _identifier(view: ViewRow) -> tuple[int, str, int, int]:
    return (view.start_time, view.leader, view.leader_incarnation, view.leader_sequence)


def self_inclusion(rows: Sequence[AnyRow]) -> list[Violation]:
    """M1."""
    return [
        at(view, "M1", None, "the process is not in its own view")
        for view in agreed_views(rows, "M1")
        if view.role == "sender" and (view.process, view.incarnation) not in members_of(view)
    ]


def monotone_views(rows: Sequence[AnyRow]) -> list[Violation]:
    """M2."""
    violations = []
    for view in agreed_views(rows, "M2"):
        before = view_before(rows, "M2", view)
        if before is None or _identifier(view) > _identifier(before):
            continue
        if _identifier(view) < _identifier(before) or not fresh_between(rows, before, view):
            violations.append(at(view, "M2", None, f"installed after {before.view}"))
    return violations


def _meant(view: ViewRow) -> object:
    return (_identifier(view), members_of(view), view.era)


def _details(view: ViewRow) -> object:
    starts = sorted((start.source, start.incarnation, start.sequence, start.number) for start in view.start)
    return (starts, sorted(view.merged), view.primary)


def view_identity(rows: Sequence[AnyRow]) -> list[Violation]:
    """M4."""
    violations = []
    views = agreed_views(rows, "M4")
    for view in views:
        same = sorted((one for one in views if (one.group, one.view) == (view.group, view.view)), key=row_key)
        whole = [one for one in same if one.whole]
        if _meant(view) != _meant(same[0]):
            violations.append(at(view, "M4", None, f"not the view that {same[0].process} installed"))
        elif view.whole and _details(view) != _details(whole[0]):
            violations.append(at(view, "M4", None, f"does not begin like that of {whole[0].process}"))
    return violations


def _came_along(view: ViewRow) -> set[tuple[str, int]]:
    return {(one.process, one.incarnation) for one in view.transitional or ()}


def _possible(rows: Sequence[AnyRow], view: ViewRow) -> set[tuple[str, int]]:
    """Who can have come into a view together with its process, as far as the process itself knows."""
    before = [
        one
        for one in agreed_views(rows, "M5")
        if same_member(one, view)
        and one.stretch == view.stretch
        and one.position < view.position
        and one.view == view.previous
    ]
    if not before:
        return members_of(view) & {(view.process, view.incarnation)}
    became = {(one.process, one.incarnation) for one in view.reasons if one.reason == "sends now"}
    return members_of(view) & (members_of(before[-1]) | became)


def transitional_set(rows: Sequence[AnyRow]) -> list[Violation]:
    """M5."""
    violations = []
    whole = [view for view in agreed_views(rows, "M5") if view.whole]

    def last_of(view: ViewRow) -> ViewRow:
        return [one for one in whole if same_member(one, view) and (one.view, one.role) == (view.view, view.role)][-1]

    for view in whole:
        wrong = ""
        if view.transitional is None:
            wrong = "does not say who came along"
        elif not _came_along(view) <= _possible(rows, view):
            wrong = "has somebody who cannot have come along"
        elif view is last_of(view):
            senders = [
                one
                for one in whole
                if (one.group, one.view, one.role) == (view.group, view.view, "sender") and one is last_of(one)
            ]
            for other in senders:
                together = view.previous is not None and view.previous == other.previous
                inside = (other.process, other.incarnation) in _came_along(view)
                if view.role == "sender" and (together or same_process(view, other)) != inside:
                    wrong = f"is wrong about {other.process}"
                if view.role != "sender" and together and _came_along(view) != _came_along(other):
                    wrong = f"has another set than {other.process}"
        if wrong:
            violations.append(at(view, "M5", None, wrong))
    return violations


def primary_component(rows: Sequence[AnyRow]) -> list[Violation]:
    """M7."""
    violations = []
    primary = [view for view in agreed_views(rows, "M7") if view.primary]
    for group in sorted({view.group for view in primary}):
        first: dict[str | None, ViewRow] = {}
        for view in sorted((view for view in primary if view.group == group), key=row_key):
            first.setdefault(view.view, view)
        line = sorted(first.values(), key=lambda view: (_identifier(view), view.view or ""))
        for index, view in enumerate(line):
            rivals = [one for one in line[:index] if one is line[index - 1] or one.start_time == view.start_time]
            apart = [one for one in rivals if not _names(one) & _names(view)]
            if apart:
                violations.append(at(view, "M7", None, f"shares nobody with {apart[0].view}"))
    return violations


def _names(view: ViewRow) -> set[str]:
    return {start.source for start in view.start}


def receiver_chain(rows: Sequence[AnyRow]) -> list[Violation]:
    """M9."""
    violations = []
    views = agreed_views(rows, "M9")
    for view in views:
        senders = [one for one in views if one.group == view.group and one.role == "sender"]
        if view.role != "receiver" or view.era is not None:
            continue
        if any(_has_own_views(rows, view.group, life) for life in members_of(view)):
            continue
        before = view_before(rows, "M9", view)
        if before is not None and before.role == "receiver" and not fresh_between(rows, before, view):
            if (before.view, view.view) not in _steps(rows, senders):
                violations.append(at(view, "M9", None, f"no sender went from {before.view} to {view.view}"))
        elif view.view not in {one.view for one in senders}:
            violations.append(at(view, "M9", None, f"no sender installed {view.view}"))
    return violations


def _has_own_views(rows: Sequence[AnyRow], group: str, life: tuple[str, int]) -> bool:
    """Whether a process ever had a service without agreed views in the group."""
    mine = [row for row in rows if row.group == group and (row.process, row.incarnation) == life]
    return any(row.kind in TELLING and not held(row, "M9") for row in mine)


def _steps(rows: Sequence[AnyRow], senders: Sequence[ViewRow]) -> set[tuple[str | None, str | None]]:
    """The pairs of consecutive views of these senders."""
    ordered = sorted(senders, key=lambda view: (view.process, view.incarnation, view.stretch, view.position))
    return {
        (one.view, two.view)
        for one, two in pairwise(ordered)
        if view_before(rows, "M9", two) is one and not fresh_between(rows, one, two)
    }
