"""Monitors of agreed views: who is in them (M1), their order (M2), that they are one for all (M4), the primary ones
(M7).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.agreed import (
    NOT_COMMON,
    UNORDERED_VIEWS,
    Identifier,
    Members,
    Restarts,
    RowKey,
    ViewKey,
    identifier,
    members_of,
)
from unisono.properties.monitors.monitor import Handler, Monitor, Stretch
from unisono.trace.schema import ViewRow


class SelfInclusion(Monitor):
    """M1. Keeps nothing."""

    property_id: ClassVar[str] = "M1"

    def handlers(self) -> dict[str, Handler]:
        return {"VIEW": self.on_view}

    def on_view(self, row: ViewRow) -> None:
        if row.service in NOT_COMMON or row.role != "sender":
            return
        if not any(start.source == row.process and start.incarnation == row.incarnation for start in row.start):
            text = f"{row.process} installed {row.view} without being in it."
            self.report(row.group, row.process, row.incarnation, row.position, None, text)


class MonotoneViews(Restarts):
    """M2. Keeps the last view of each stretch."""

    property_id: ClassVar[str] = "M2"

    last: dict[Stretch, tuple[Identifier, int]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"VIEW": self.on_view, **self.fresh_handlers()}

    def on_view(self, row: ViewRow) -> None:
        if row.service in NOT_COMMON:
            return
        member = (row.group, row.process, row.incarnation)
        now, restarts = identifier(row), self.restarts.get(member, 0)
        last = self.last.get((*member, row.stretch))
        self.last[*member, row.stretch] = (now, restarts)
        if last is None or now > last[0] or (now == last[0] and restarts > last[1]):
            return
        self.report(*member, row.position, None, f"{row.view} is not above the view before it.")


class Version(Struct):
    """One content that a view was seen with, and the rows that have it."""

    identifier: Identifier
    members: Members
    era: str | None
    details: tuple[list[tuple[str, int, int, int]], list[str], bool | None] | None
    rows: list[RowKey]

    @property
    def meant(self) -> object:
        return (self.identifier, self.members, self.era)


class ViewIdentity(Monitor):
    """M4. Keeps each view with who installed it; a view that is one for all takes little room."""

    property_id: ClassVar[str] = "M4"

    versions: dict[ViewKey, list[Version]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"VIEW": self.on_view}

    def on_view(self, row: ViewRow) -> None:
        if row.service in NOT_COMMON:
            return
        starts = sorted((start.source, start.incarnation, start.sequence, start.number) for start in row.start)
        details = (starts, sorted(row.merged), row.primary) if row.whole else None
        key = (row.process, row.incarnation, row.position)
        seen = Version(identifier(row), members_of(row), row.era, details, [key])
        versions = self.versions.setdefault((row.group, row.view), [])
        for version in versions:
            if version.meant == seen.meant and version.details == details:
                version.rows.append(key)
                return
        versions.append(seen)

    def conclude(self) -> None:
        for (group, view), versions in self.versions.items():
            for (process, incarnation, position), text in wrong_installs(view, versions):
                self.report(group, process, incarnation, position, None, text)
        self.versions.clear()


def wrong_installs(view: str | None, versions: list[Version]) -> Iterator[tuple[RowKey, str]]:
    """The rows that have a view otherwise than the first of them, and what is wrong with each."""
    if len(versions) < 2:
        return
    first = min(versions, key=lambda version: min(version.rows))
    whole = [version for version in versions if version.details is not None]
    begins = min(whole, key=lambda version: min(version.rows)).details if whole else None
    for version in versions:
        same = version.meant == first.meant
        if not same or (version.details is not None and version.details != begins):
            wrong = "begins otherwise" if same else "is another view"
            for row in version.rows:
                yield row, f"{view} {wrong} at {row[0]} than at {min(first.rows)[0]}."


class Primary(Struct, frozen=True):
    """A primary view as the first of its rows has it."""

    row: RowKey
    identifier: Identifier
    names: frozenset[str]


class PrimaryComponent(Monitor):
    """M7. Keeps the primary views of each group."""

    property_id: ClassVar[str] = "M7"

    primaries: dict[str, dict[str | None, Primary]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"VIEW": self.on_view}

    def on_view(self, row: ViewRow) -> None:
        if row.service in UNORDERED_VIEWS or not row.primary:
            return
        key = (row.process, row.incarnation, row.position)
        views = self.primaries.setdefault(row.group, {})
        known = views.get(row.view)
        if known is None or key < known.row:
            views[row.view] = Primary(key, identifier(row), frozenset(start.source for start in row.start))

    def conclude(self) -> None:
        for group, views in self.primaries.items():
            line = sorted(views.items(), key=lambda item: (item[1].identifier, item[0] or ""))
            for index, (view, primary) in enumerate(line):
                other = index - 1
                while other >= 0:
                    rival = line[other][1]
                    near = other == index - 1 or rival.identifier[0] == primary.identifier[0]
                    if not near:
                        break
                    if not rival.names & primary.names:
                        text = f"The primary views {line[other][0]} and {view} have nobody in common."
                        self.report(group, *primary.row, None, text)
                        break
                    other -= 1
        self.primaries.clear()
