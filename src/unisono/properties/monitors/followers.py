"""Monitors of how processes come into agreed views: who came along (M5), and that receivers follow senders (M9)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.agreed import (
    NOT_AGREED,
    UNORDERED_VIEWS,
    Members,
    Restarts,
    ViewKey,
    along_with,
    members_of,
    new_senders,
)
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source, Stretch
from unisono.trace.schema import AnyRow, ViewRow


class Entry(Struct, frozen=True):
    """How one process came into a view."""

    position: int
    previous: str | None
    along: Members
    told: bool


class TransitionalSet(Monitor):
    """M5. Keeps the members of each view of each stretch, and of each view who came into it from where."""

    property_id: ClassVar[str] = "M5"

    members: dict[Stretch, dict[str | None, Members]] = field(default_factory=dict)
    entries: dict[ViewKey, dict[str, dict[Source, Entry]]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"VIEW": self.on_view}

    def on_view(self, row: ViewRow) -> None:
        if row.service in NOT_AGREED:
            return
        life = (row.process, row.incarnation)
        views = self.members.setdefault((row.group, *life, row.stretch), {})
        before = None if row.previous is None else views.get(row.previous)
        inside = views[row.view] = members_of(row)
        if not row.whole:
            return
        along = along_with(row)
        known = {life} if before is None else {*before, *new_senders(row)}
        wrong = row.transitional is None or not along <= inside & known
        if wrong:
            text = f"Those who came into {row.view} along with {row.process} are not told, or cannot all have."
            self.report(row.group, *life, row.position, None, text)
        roles = self.entries.setdefault((row.group, row.view), {})
        roles.setdefault(row.role, {})[life] = Entry(row.position, row.previous, along, wrong)

    def conclude(self) -> None:
        for (group, view), roles in self.entries.items():
            senders = roles.get("sender", {})
            together: dict[str, set[Source]] = {}
            sets: dict[str, set[Members]] = {}
            for life, entry in senders.items():
                if entry.previous is not None:
                    together.setdefault(entry.previous, set()).add(life)
                    sets.setdefault(entry.previous, set()).add(entry.along)
            for role, entries in roles.items():
                for life, entry in entries.items():
                    if entry.told:
                        continue
                    if role == "sender":
                        expected = {life} if entry.previous is None else together[entry.previous]
                        right = entry.along & senders.keys() == expected
                    else:
                        mine = set() if entry.previous is None else sets.get(entry.previous, set())
                        right = mine <= {entry.along}
                    if not right:
                        text = f"{life[0]} is wrong about who came into {view} along with it."
                        self.report(group, *life, entry.position, None, text)
        self.entries.clear()


class Step(Struct, frozen=True):
    """A view that a receiver installed, and where it came from, where that is to be judged."""

    member: Member
    position: int
    before: str | None
    follows: bool
    view: str | None
    members: Members


class ReceiverChain(Restarts):
    """M9. Keeps the views of senders and the steps between them, and the steps of receivers until the end."""

    property_id: ClassVar[str] = "M9"

    last: dict[Stretch, tuple[str | None, str, int]] = field(default_factory=dict)
    others: set[Member] = field(default_factory=set)
    installed: set[ViewKey] = field(default_factory=set)
    taken: set[tuple[str, str | None, str | None]] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)

    def handlers(self) -> dict[str, Handler]:
        telling = dict.fromkeys(("JOIN", "SEND", "DELIVER", "GAUGE"), self.on_telling)
        return {"VIEW": self.on_view, **telling, **self.fresh_handlers()}

    def on_telling(self, row: AnyRow) -> None:
        """Views with a member that has no agreed views are not judged."""
        if row.service in UNORDERED_VIEWS:
            self.others.add((row.group, row.process, row.incarnation))

    def on_view(self, row: ViewRow) -> None:
        if row.service in UNORDERED_VIEWS:
            self.on_telling(row)
            return
        member = (row.group, row.process, row.incarnation)
        restarts = self.restarts.get(member, 0)
        last = self.last.get((*member, row.stretch))
        self.last[*member, row.stretch] = (row.view, row.role, restarts)
        before = None if last is None else last[0]
        follows = last is not None and last[1:] == (row.role, restarts)
        if row.role == "sender":
            self.installed.add((row.group, row.view))
            if follows:
                self.taken.add((row.group, before, row.view))
        elif row.role == "receiver" and row.era is None:  # others follow from the order of messages
            self.steps.append(Step(member, row.position, before, follows, row.view, members_of(row)))

    def conclude(self) -> None:
        for step in self.steps:
            group = step.member[0]
            if any((group, *life) in self.others for life in step.members):
                continue
            if step.follows:
                right = (group, step.before, step.view) in self.taken
                text = f"No sender went from {step.before} to {step.view}."
            else:
                right = (group, step.view) in self.installed
                text = f"No sender installed {step.view}."
            if not right:
                self.report(*step.member, step.position, None, text)
        self.steps.clear()
