"""Monitors of how sessions change their views: blocked in time (M8), and each change by its start-change (M10)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.agreed import Members, ViewKey, along_with, members_of, one_for_all
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import STRONG
from unisono.properties.violation import message_name
from unisono.trace.schema import MembershipRow, RepairRow, SendRow, ViewRow

ANEW = ("JOIN", "LEAVE", "EXCLUDED")
"""The rows after which a session has no view to go on from."""


class Blocking(Struct):
    """One member: whether it agreed to block, and who was expected at the last start-change since its last view."""

    blocked: bool = False
    expected: Members | None = None


class BlockDiscipline(Monitor):
    """M8. Keeps where each member stands in a change."""

    property_id: ClassVar[str] = "M8"

    members: dict[Member, Blocking] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "SEND": self.on_send,
            "VIEW": self.on_view,
            "START_CHANGE": self.on_start_change,
            "BLOCK_OK": self.on_block_ok,
            **dict.fromkeys(ANEW, self.on_anew),
        }

    def on_start_change(self, row: MembershipRow) -> None:
        if row.service == STRONG:
            expected = frozenset((one.process, one.incarnation) for one in row.members or ())
            self._of(row).expected = one_for_all(expected)

    def on_block_ok(self, row: MembershipRow) -> None:
        if row.service == STRONG:
            self._of(row).blocked = True

    def on_anew(self, row: MembershipRow) -> None:
        if row.service == STRONG:
            self.members.pop((row.group, row.process, row.incarnation), None)

    def on_send(self, row: SendRow) -> None:
        if row.service == STRONG and row.agreed == row.view and self._of(row).blocked:
            message = message_name(row.process, row.incarnation, row.number)
            text = f"{message} was sent in {row.view} by a session that had agreed to block."
            self.report(row.group, row.process, row.incarnation, row.position, message, text)

    def on_view(self, row: ViewRow) -> None:
        if row.service != STRONG:
            return
        member = self._of(row)
        wrong = None
        if member.expected is not None:
            strange = not members_of(row) <= member.expected
            wrong = "has somebody whom its start-change did not expect" if strange else None
        elif row.previous is not None:
            wrong = "came without a start-change"
        if wrong is not None:
            self.report(row.group, row.process, row.incarnation, row.position, None, f"{row.view} {wrong}.")
        member.blocked, member.expected = False, None

    def _of(self, row: SendRow | ViewRow | MembershipRow) -> Blocking:
        key = (row.group, row.process, row.incarnation)
        member = self.members.get(key)
        if member is None:
            member = self.members[key] = Blocking()
        return member


class Changing(Struct):
    """One member: its last view, the last start-change, and whether that came after the view."""

    view: str | None = None
    number: int | None = None
    changing: bool = False


class Came(Struct, frozen=True):
    """A view, and who is said to have come into it along with its process."""

    member: Member
    position: int
    previous: str | None
    change: int | None
    along: Members


class StartChangeDiscipline(Monitor):
    """M10. Keeps the last start-change of each member; of cuts, for which changes of a view each process has any."""

    property_id: ClassVar[str] = "M10"

    members: dict[Member, Changing] = field(default_factory=dict)
    cuts: dict[ViewKey, dict[Source, set[str | None]]] = field(default_factory=dict)
    came: list[Came] = field(default_factory=list)

    def handlers(self) -> dict[str, Handler]:
        return {
            "START_CHANGE": self.on_start_change,
            "CUT": self.on_cut,
            "VIEW": self.on_view,
            **dict.fromkeys(ANEW, self.on_anew),
        }

    def on_anew(self, row: MembershipRow) -> None:
        if row.service == STRONG:
            member = self._of(row)
            member.view, member.changing = None, False

    def on_start_change(self, row: MembershipRow) -> None:
        if row.service != STRONG:
            return
        member = self._of(row)
        number = row.number or 0
        if member.number is not None and number <= member.number:
            text = f"The start-change {number} came after {member.number}."
            self.report(row.group, row.process, row.incarnation, row.position, None, text)
        member.number, member.changing = number, True

    def on_cut(self, row: RepairRow) -> None:
        if row.service != STRONG:
            return
        member = self._of(row)
        self.cuts.setdefault((row.group, row.view), {}).setdefault((row.process, row.incarnation), set()).add(row.peer)
        due = str(member.number) if member.changing else None
        if due is None or row.peer != due or member.view is None or row.view != member.view:
            text = f"A cut of {row.view} for {row.peer}, but the view is {member.view} and the start-change {due}."
            self.report(row.group, row.process, row.incarnation, row.position, None, text)

    def on_view(self, row: ViewRow) -> None:
        if row.service != STRONG:
            return
        member = self._of(row)
        key = (row.group, row.process, row.incarnation)
        if row.change != member.number:
            text = f"{row.view} names the start-change {row.change}, but the last one was {member.number}."
            self.report(*key, row.position, None, text)
        elif row.previous is not None:
            self.came.append(Came(key, row.position, row.previous, row.change, along_with(row)))
        member.view, member.changing = row.view, False

    def conclude(self) -> None:
        for one in self.came:
            cuts = self.cuts.get((one.member[0], one.previous), {})
            answered = sorted(one.along & cuts.keys() - {one.member[1:]})
            others = [life for life in answered if str(one.change) not in cuts[life]]
            if others:
                text = f"{others[0][0]} came along, but its cuts are not for the start-change {one.change}."
                self.report(*one.member, one.position, None, text)
        self.came.clear()

    def _of(self, row: ViewRow | MembershipRow | RepairRow) -> Changing:
        key = (row.group, row.process, row.incarnation)
        member = self.members.get(key)
        if member is None:
            member = self.members[key] = Changing()
        return member
