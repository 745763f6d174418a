"""The monitor of stable indications (D7): who goes on has delivered what its sources released while they counted it."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.agreed import FRESH, NOT_AGREED, era_of
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source, Stream
from unisono.properties.promises import exempt_services
from unisono.properties.violation import message_name, moment
from unisono.trace.schema import DeliverRow, MembershipRow, RepairRow, SendRow, ViewRow

_EXEMPT = exempt_services("D7")


class Passed(Struct, frozen=True):
    """A VIEW with which a process has all that it will get of a source: what is owed, and what was delivered of it.

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
    sequence: int
    era: str | None


class Release(Struct, frozen=True):
    """A range of sequences that a source released, after it came into another agreed view at `settled`."""

    position: int
    settled: int
    time: int
    clock: str | None
    first: int
    last: int
    counted: dict[Source, int]
    """From which sequence on each process counted."""


class Releaser(Struct):
    """What one process sent to one group and released, whom it counts, and where it came into an agreed view last."""

    sent: dict[int, Sent] = field(default_factory=dict)
    releases: list[Release] = field(default_factory=list)
    counts: dict[Source, int] = field(default_factory=dict)
    """Made anew with every change, since releases share it."""
    settled: int = -1


class StableIndication(Monitor):
    """D7. Keeps all sends and releases, what was delivered as runs, and the views with which something ends."""

    property_id: ClassVar[str] = "D7"

    releasers: dict[Member, Releaser] = field(default_factory=dict)
    views: dict[Member, ViewRow] = field(default_factory=dict)
    heard: dict[Stream, dict[int, list[int]]] = field(default_factory=dict)
    passed: list[Passed] = field(default_factory=list)

    def handlers(self) -> dict[str, Handler]:
        return {
            "SEND": self.on_send,
            "GC": self.on_release,
            "DELIVER": self.on_deliver,
            "VIEW": self.on_view,
            "GRANT": self.on_grant,
            "SUSPECT": self.on_grant,
            "LEAVE": self.on_leave,
            "AGREED": self.on_agreed,
            **dict.fromkeys(("JOIN", *FRESH), self.on_anew),
        }

    def on_send(self, row: SendRow) -> None:
        releaser = self._releaser(row)
        if row.number not in releaser.sent:
            releaser.sent[row.number] = Sent(row.position, row.sequence, row.agreed)

    def on_release(self, row: RepairRow) -> None:
        if (row.source, row.source_incarnation) != (row.process, row.incarnation):
            return
        releaser = self._releaser(row)
        clock = row.host if row.truth is None else None
        told = (row.position, releaser.settled, moment(row), clock, row.first, row.last)
        releaser.releases.append(Release(*told, releaser.counts))

    def on_grant(self, row: MembershipRow) -> None:
        if row.peer is not None and row.peer_incarnation is not None:
            releaser, peer = self._releaser(row), (row.peer, row.peer_incarnation)
            counts = {one: sequence for one, sequence in releaser.counts.items() if one != peer}
            if row.kind == "GRANT" and row.sequence is not None:
                counts[peer] = row.sequence
            releaser.counts = counts

    def on_leave(self, row: MembershipRow) -> None:
        self._releaser(row).counts = {}

    def on_agreed(self, row: MembershipRow) -> None:
        self._releaser(row).settled = row.position

    def on_anew(self, row: MembershipRow) -> None:
        self.views.pop((row.group, row.process, row.incarnation), None)

    def on_deliver(self, row: DeliverRow) -> None:
        stream = (row.group, row.process, row.incarnation, row.source, row.source_incarnation)
        runs = self.heard.setdefault(stream, {}).setdefault(row.stretch, [])
        if runs and runs[-1] == row.number:
            runs[-1] = row.number + 1
        else:
            intervals.add(runs, row.number)

    def on_view(self, row: ViewRow) -> None:
        member = (row.group, row.process, row.incarnation)
        before, self.views[member] = self.views.get(member), row
        if row.era is None and row.service not in NOT_AGREED:
            self._releaser(row).settled = row.position
        if before is None or before.stretch != row.stretch or {before.service, row.service} & _EXEMPT:
            return
        firsts = {(start.source, start.incarnation): start.number for start in before.start}
        agreed = before.service not in NOT_AGREED
        if agreed and (before.role != "sender" or row.era is not None):
            return
        stay = set() if agreed else {(start.source, start.incarnation) for start in row.start}
        for source in sorted(firsts.keys() - stay - {(row.process, row.incarnation)}):
            runs = self.heard.get((*member, *source), {}).get(row.stretch, [])
            self.passed.append(
                Passed(
                    member,
                    row.position,
                    moment(row),
                    row.host if row.truth is None else None,
                    source,
                    firsts[source],
                    agreed,
                    era_of(before),
                    list(runs),
                )
            )

    def _releaser(self, row: SendRow | MembershipRow | RepairRow | ViewRow) -> Releaser:
        key = (row.group, row.process, row.incarnation)
        releaser = self.releasers.get(key)
        if releaser is None:
            releaser = self.releasers[key] = Releaser()
        return releaser

    def conclude(self) -> None:
        for passed in self.passed:
            releaser = self.releasers.get((passed.member[0], *passed.source))
            if releaser is None:
                continue
            releases = [
                release
                for release in releaser.releases
                if passed.member[1:] in release.counted
                and release.clock == passed.clock
                and release.time <= passed.time
            ]
            missing = [
                number
                for number, sent in releaser.sent.items()
                if number >= passed.first
                and not intervals.holds(passed.got, number)
                and any(_tells_of(release, sent, passed) for release in releases)
            ]
            if missing:
                message = message_name(*passed.source, min(missing))
                text = f"{message} was never delivered, nor {len(missing) - 1} more that their source had released."
                self.report(*passed.member, passed.position, message, text)


def _tells_of(release: Release, sent: Sent, passed: Passed) -> bool:
    """Whether a release says that a message was received."""
    if not max(release.first, release.counted[passed.member[1:]]) <= sent.sequence <= release.last:
        return False
    if passed.agreed and (sent.era != passed.era or release.settled > sent.position):
        return False
    return sent.position < release.position
