"""Monitors of what the rows of one member say of each other: its counts (W4), where it is and as what (W5)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.agreed import FRESH, NOT_COMMON
from unisono.properties.monitors.monitor import EVERY, Handler, Member, Monitor
from unisono.properties.promises import STRONG
from unisono.properties.violation import message_name, process_name
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    MembershipRow,
    SendRow,
    StatisticRow,
    ViewRow,
)

OF_APPLICATIONS = frozenset({"STATE", "SAVED", "LOADED"})
"""What an application writes may still be where its process was before."""


class Heard(Struct):
    """The last delivery of a member: of several at one position that with the highest index."""

    position: int
    index: int
    view: str | None
    stretch: int


class Counts(Struct):
    """The last two positions of views and the last two deliveries and sends of a member, the later ones first."""

    views: tuple[int, int] = (-1, -1)
    heard: Heard | None = None
    heard_before: Heard | None = None
    said: tuple[int, int, int, int] = (-1, 0, 0, 0)
    said_before: tuple[int, int, int, int] = (-1, 0, 0, 0)


class DenseCounts(Monitor):
    """W4. Keeps the last place and the last number of each member."""

    property_id: ClassVar[str] = "W4"

    members: dict[Member, Counts] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"SEND": self.on_send, "DELIVER": self.on_deliver, "VIEW": self.on_view}

    def on_view(self, row: ViewRow) -> None:
        counts = self._counts(row)
        if row.position > counts.views[0]:
            counts.views = (row.position, counts.views[0])

    def on_deliver(self, row: DeliverRow) -> None:
        counts = self._counts(row)
        last = counts.heard
        if last is not None and last.position == row.position:
            last = counts.heard_before
        due = 0
        if last is not None and last.view == row.view and last.stretch == row.stretch:
            view = counts.views[0] if counts.views[0] < row.position else counts.views[1]
            if view <= last.position:
                due = last.index + 1
        if row.index != due:
            message = message_name(row.source, row.source_incarnation, row.number)
            text = f"{message} has place {row.index} in its view, where {due} is due."
            self.report(row.group, row.process, row.incarnation, row.position, message, text)
        heard = Heard(row.position, row.index, row.view, row.stretch)
        if last is counts.heard:
            counts.heard_before, counts.heard = counts.heard, heard
        elif counts.heard is not None and counts.heard.index < row.index:
            counts.heard = heard

    def on_send(self, row: SendRow) -> None:
        counts = self._counts(row)
        last = counts.said if counts.said[0] < row.position else counts.said_before
        _, number, sequence, stretch = last
        sequence = sequence if stretch == row.stretch else 0
        if row.number != number + 1 or (row.sequence <= sequence and row.service != STRONG):
            message = message_name(row.process, row.incarnation, row.number)
            text = f"{message} with sequence {row.sequence} comes after number {number} with sequence {sequence}."
            self.report(row.group, row.process, row.incarnation, row.position, message, text)
        said = (row.position, row.number, row.sequence, row.stretch)
        if last is counts.said:
            counts.said_before, counts.said = counts.said, said
        else:
            counts.said = max(counts.said, said)

    def _counts(self, row: AnyRow) -> Counts:
        member = (row.group, row.process, row.incarnation)
        counts = self.members.get(member)
        if counts is None:
            counts = self.members[member] = Counts()
        return counts


class Said(Struct, frozen=True):
    """What one row says of its member."""

    position: int
    stretch: int
    service: str | None


class Installed(Struct, frozen=True):
    """A view of a member."""

    position: int
    view: str | None
    stretch: int
    role: str


class Account(Struct):
    """The last rows and views of a member, the later ones first, and where it began anew."""

    last: Said | None = None
    before: Said | None = None
    view: Installed | None = None
    view_before: Installed | None = None
    anew: int = -1


class OneAccount(Monitor):
    """W5. Keeps the last row and the last view of each member."""

    property_id: ClassVar[str] = "W5"

    members: dict[Member, Account] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {EVERY: self.on_row}

    def on_row(self, row: AnyRow) -> None:
        if not row.group or row.kind in OF_APPLICATIONS or isinstance(row, StatisticRow | FaultRow):
            return
        member = (row.group, row.process, row.incarnation)
        account = self.members.get(member)
        if account is None:
            account = self.members[member] = Account()
        if row.kind == "JOIN" or row.kind in FRESH:
            account.anew = row.position
        view = account.view
        if view is not None and view.position >= row.position:
            view = account.view_before
        about_stretch = self._about_stretch(row, account)
        wrong = _about_view(row, view, account.anew) or about_stretch
        if isinstance(row, ViewRow):
            wrong = wrong or _about_parts(row)
            if account.view is None or account.view.position < row.position:
                account.view_before = account.view
            account.view = Installed(row.position, row.view, row.stretch, row.role)
        elif isinstance(row, MembershipRow) and row.kind == "ROLE":
            wrong = wrong or _about_role(row, view)
        if wrong:
            text = f"{process_name(row.process, row.incarnation)}, row {row.position}: {wrong}."
            self.report(*member, row.position, None, text)

    def _about_stretch(self, row: AnyRow, account: Account) -> str:
        last = account.last
        said = Said(row.position, row.stretch, row.service)
        if last is not None and last.position == row.position:
            last = account.before
            if account.last is not None and (said.stretch, said.service or "") > (
                account.last.stretch,
                account.last.service or "",
            ):
                account.last = said
        else:
            account.before, account.last = account.last, said
        if last is None or (row.stretch == last.stretch and row.service == last.service):
            return ""
        if row.stretch == last.stretch:
            return f"it is under {row.service} in a stretch of {last.service}"
        return "" if row.stretch == last.stretch + 1 else f"stretch {row.stretch} comes after {last.stretch}"


def _about_view(row: AnyRow, view: Installed | None, anew: int) -> str:
    told = row.previous if isinstance(row, ViewRow) else row.view
    if view is not None and told == view.view:
        return ""
    if told is None and (view is None or view.stretch < row.stretch or anew > view.position):
        return ""
    return f"it tells of view {told}, and {None if view is None else view.view} was installed"


def _about_role(row: MembershipRow, view: Installed | None) -> str:
    if view is None or row.view is None or view.role == row.role or row.service in NOT_COMMON:
        return ""
    return f"it became a {row.role} and is a {view.role} in its view"


def _about_parts(row: ViewRow) -> str:
    if row.view != f"{row.start_time}/{process_name(row.leader, row.leader_incarnation)}/{row.leader_sequence}":
        return f"{row.view} is not what its parts say"
    members = {(start.source, start.incarnation) for start in row.start}
    along = row.transitional or []
    if len(members) < len(row.start) or len({(one.process, one.incarnation) for one in along}) < len(along):
        return "somebody is twice in its view"
    receives = row.role == "receiver" and row.previous is not None and row.service not in NOT_COMMON
    if receives and (row.process, row.incarnation) in members:
        return "it only receives, and its view has it as a sender"
    return ""
