"""The monitor of last sends (D13): who is told that another left has all that it sent before."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.agreed import FRESH, NOT_AGREED, era_of
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source, Stream
from unisono.properties.promises import SESSIONS, exempt_services
from unisono.properties.violation import message_name, moment
from unisono.trace.schema import DeliverRow, MembershipRow, SendRow, ViewRow

_EXEMPT = exempt_services("D13")


class Told(Struct, frozen=True):
    """A VIEW without one that left: where it is, what is owed from `first` on, and what was delivered of that before.

    `era` is that of the view before, where it is agreed.
    """

    member: Member
    position: int
    time: int
    clock: str | None
    source: Source
    first: int
    agreed: bool
    era: str | None
    got: list[int]


class Sent(Struct, frozen=True):
    """A message as its first SEND has it."""

    position: int
    time: int
    clock: str | None
    era: str | None


class Leaver(Struct):
    """What one process sent to one group, where it came into other agreed views, and where it left."""

    sent: dict[int, Sent] = field(default_factory=dict)
    moves: list[int] = field(default_factory=list)
    leaves: list[tuple[int, str | None]] = field(default_factory=list)


class LastSends(Monitor):
    """D13. Keeps all sends, what was delivered as runs, and the views that others had left before."""

    property_id: ClassVar[str] = "D13"

    leavers: dict[Member, Leaver] = field(default_factory=dict)
    views: dict[Member, ViewRow] = field(default_factory=dict)
    heard: dict[Stream, dict[int, list[int]]] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)

    def handlers(self) -> dict[str, Handler]:
        return {
            "SEND": self.on_send,
            "DELIVER": self.on_deliver,
            "VIEW": self.on_view,
            "LEAVE": self.on_leave,
            "AGREED": self.on_agreed,
            **dict.fromkeys(("JOIN", *FRESH), self.on_anew),
        }

    def on_send(self, row: SendRow) -> None:
        leaver = self._leaver(row)
        if row.number not in leaver.sent:
            clock = row.host if row.truth is None else None
            leaver.sent[row.number] = Sent(row.position, moment(row), clock, row.agreed)

    def on_leave(self, row: MembershipRow) -> None:
        self._leaver(row).leaves.append((row.position, row.reason))

    def on_agreed(self, row: MembershipRow) -> None:
        self._leaver(row).moves.append(row.position)

    def on_anew(self, row: MembershipRow) -> None:
        self.views.pop((row.group, row.process, row.incarnation), None)

    def on_deliver(self, row: DeliverRow) -> None:
        stream = (row.group, row.process, row.incarnation, row.source, row.source_incarnation)
        heard = self.heard.setdefault(stream, {})
        runs = heard.get(row.stretch)
        if runs is None:
            heard[row.stretch] = [row.number, row.number + 1]
        elif runs[-1] == row.number:
            runs[-1] = row.number + 1
        else:
            intervals.add(runs, row.number)

    def on_view(self, row: ViewRow) -> None:
        member = (row.group, row.process, row.incarnation)
        before, self.views[member] = self.views.get(member), row
        if row.era is None and row.service not in NOT_AGREED:
            self._leaver(row).moves.append(row.position)
        if before is None or before.stretch != row.stretch or {before.service, row.service} & _EXEMPT:
            return
        gone = {(one.process, one.incarnation) for one in row.reasons if one.reason == "left"}
        firsts = {(start.source, start.incarnation): start.number for start in before.start}
        for source in sorted(gone & firsts.keys() - {(row.process, row.incarnation)}):
            runs = self.heard.get((*member, *source), {}).get(row.stretch, [])
            self.told.append(
                Told(
                    member,
                    row.position,
                    moment(row),
                    row.host if row.truth is None else None,
                    source,
                    1 if before.service in SESSIONS else firsts[source],
                    before.service not in NOT_AGREED,
                    era_of(before),
                    list(runs),
                )
            )

    def _leaver(self, row: SendRow | MembershipRow | ViewRow) -> Leaver:
        key = (row.group, row.process, row.incarnation)
        leaver = self.leavers.get(key)
        if leaver is None:
            leaver = self.leavers[key] = Leaver()
        return leaver

    def conclude(self) -> None:
        for told in self.told:
            leaver = self.leavers.get((told.member[0], *told.source))
            if leaver is None or len(leaver.leaves) != 1 or leaver.leaves[0][1] is not None:
                continue
            left = leaver.leaves[0][0]
            settled = max((position for position in leaver.moves if position < left), default=-1)
            missing = [
                number
                for number, sent in leaver.sent.items()
                if number >= told.first
                and sent.position < left
                and sent.clock == told.clock
                and sent.time <= told.time
                and (not told.agreed or (sent.era == told.era and sent.position > settled))
                and not intervals.holds(told.got, number)
            ]
            if missing:
                message = message_name(*told.source, min(missing))
                text = f"{message} was never delivered, nor {len(missing) - 1} more of one that left after them."
                self.report(*told.member, told.position, message, text)
