"""The monitor of multicast liveness (L2): at the end, who lives has what the living sources of its view sent."""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.agreed import FRESH, NOT_AGREED, going_on
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source, Stream
from unisono.properties.monitors.roles import Told, only_receives
from unisono.properties.monitors.session_end import SessionEnd
from unisono.properties.monitors.settled import End, time_of
from unisono.properties.promises import RIFTS, SESSIONS, SETTLING_NANOSECONDS, exempt_services
from unisono.properties.violation import message_name, moment, process_name
from unisono.trace.schema import DeliverRow, FaultRow, GaugeRow, MembershipRow, SendRow, ViewRow

_L2_EXEMPT = exempt_services("L2")
_O2_EXEMPT = exempt_services("O2")

Sides = tuple[frozenset[str], ...]


class Sent(Struct):
    """What one source sent to one group: numbers and times, side by side."""

    numbers: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    first_time: int = 0

    def arrange(self) -> None:
        """Put the numbers in order, where the source did not send them so, and find the first time."""
        self.first_time = min(self.times)
        pairs = sorted(zip(self.numbers, self.times, strict=True))
        self.numbers = [number for number, _ in pairs]
        self.times = [time for _, time in pairs]


class Taking(Struct):
    """How one process takes part in one group; `spells` has the start number of each source of its view.

    `entered` is when the first view of its stretch was installed; `lasting` says whether spells may go on in the next
    view; `told` is what it was at which time, since it joined with a `role`.
    """

    service: str | None = None
    there: bool = False
    joined: int | None = None
    role: str | None = None
    stretch: int | None = None
    entered: int | None = None
    lasting: bool = False
    wants: str | None = None
    left: bool = False
    told: list[Told] = field(default_factory=list)
    spells: dict[Source, int] = field(default_factory=dict)


class MulticastLiveness(Monitor):
    """L2. Keeps the numbers and times of all sends; deliveries are kept as runs."""

    property_id: ClassVar[str] = "L2"

    sent: dict[Member, Sent] = field(default_factory=dict)
    delivered: dict[Stream, list[int]] = field(default_factory=dict)
    members: dict[Member, Taking] = field(default_factory=dict)
    ends: dict[Source, End] = field(default_factory=dict)
    away: dict[str, int] = field(default_factory=dict)
    rifts: dict[tuple[str, Sides], int] = field(default_factory=dict)
    healed: bool = False
    sessions: SessionEnd = field(default_factory=SessionEnd)

    def handlers(self) -> dict[str, Handler]:
        return {
            "EXCLUDED": self.on_excluded,
            "SEND": self.on_send,
            "DELIVER": self.on_deliver,
            "VIEW": self.on_view,
            "JOIN": self.on_join,
            "LEAVE": self.on_leave,
            "ROLE": self.on_role,
            **dict.fromkeys(FRESH, self.on_fresh),
            "GAUGE": self.on_gauge,
            "END": self.on_end,
            "FAULT": self.on_fault,
        }

    def on_excluded(self, row: MembershipRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_excluded(row)

    def on_send(self, row: SendRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_send(row)
            return
        source = (row.group, row.process, row.incarnation)
        sent = self.sent.get(source)
        if sent is None:
            sent = self.sent[source] = Sent()
        sent.numbers.append(row.number)
        sent.times.append(moment(row))
        self._serve(row.group, row.process, row.incarnation, row.service)

    def on_gauge(self, row: GaugeRow) -> None:
        if row.service in SESSIONS:
            return
        self._serve(row.group, row.process, row.incarnation, row.service)

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_deliver(row)
            return
        self._serve(row.group, row.process, row.incarnation, row.service)
        if row.service in _L2_EXEMPT:
            return
        stream = (row.group, row.process, row.incarnation, row.source, row.source_incarnation)
        runs = self.delivered.get(stream)
        number = row.number
        if runs is None:
            self.delivered[stream] = [number, number + 1]
        elif runs[-1] == number:
            runs[-1] = number + 1
        else:
            intervals.add(runs, number)

    def on_view(self, row: ViewRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_view(row)
            return
        member = self._serve(row.group, row.process, row.incarnation, row.service)
        member.there = True
        goes_on = member.lasting and member.stretch is not None and row.stretch - member.stretch in (0, 1)
        before = member.spells if goes_on else {}
        same_era = row.era is not None and member.stretch == row.stretch
        going = going_on(row)
        if member.stretch != row.stretch:
            member.entered = moment(row)
        member.stretch = row.stretch
        member.lasting = row.service not in _O2_EXEMPT
        if row.service not in NOT_AGREED:
            member.told.append((moment(row), row.role))
        member.spells = {}
        for start in row.start:
            source = (start.source, start.incarnation)
            lasts = going is None or source in going
            member.spells[source] = before.get(source, start.number) if lasts else start.number
        if same_era:  # who only receives now has sent all the same
            member.spells = {**before, **member.spells}

    def on_join(self, row: MembershipRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_join(row)
            return
        member = self._serve(row.group, row.process, row.incarnation, row.service)
        member.there = True
        member.stretch = member.entered = None
        member.joined, member.role = moment(row), row.role
        member.wants = row.reason
        member.left = False
        member.spells, member.told = {}, []

    def on_fresh(self, row: MembershipRow) -> None:
        self._serve(row.group, row.process, row.incarnation, None).lasting = False

    def on_leave(self, row: MembershipRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_leave(row)
            return
        self._serve(row.group, row.process, row.incarnation, None).left = True

    def on_role(self, row: MembershipRow) -> None:
        member = self._serve(row.group, row.process, row.incarnation, None)
        member.told.append((moment(row), row.role))

    def on_end(self, row: MembershipRow) -> None:
        self.ends[row.process, row.incarnation] = End(row.position, *time_of(row))

    def on_fault(self, row: FaultRow) -> None:
        if row.fault == "heal":
            self.healed = True
        elif row.fault != "load":
            step = 1 if row.edge == "begin" else -1
            for name in row.members:
                self.away[name] = self.away.get(name, 0) + step
            if row.fault in RIFTS and row.sides:
                rift = (row.fault, tuple(map(frozenset, row.sides)))
                self.rifts[rift] = self.rifts.get(rift, 0) + step

    def _serve(self, group: str, process: str, incarnation: int, service: str | None) -> Taking:
        """A member, with the service that a row of it tells."""
        key = (group, process, incarnation)
        member = self.members.get(key)
        if member is None:
            member = self.members[key] = Taking()
        if service is not None:
            member.service = service
        return member

    def conclude(self) -> None:
        for sent in self.sent.values():
            sent.arrange()
        living = [source for source in self.ends if self._reachable(source[0])]
        for key, member in self.members.items():
            group, name, incarnation = key
            end = self.ends.get((name, incarnation))
            if end is None or member.left or not member.there or member.service in _L2_EXEMPT:
                continue
            for source in member.spells:
                if not self._is_out_of_reach(name, source[0]):
                    self._check_delivered(key, member, end, source)
            if self.healed and self._reachable(name) and member.joined is not None:
                for source in living:
                    if source not in member.spells and self._must_know(member, end, (group, *source)):
                        text = f"{process_name(*source)} lives and sends, but is not in the last view."
                        self.report(group, name, incarnation, end.position, None, text)
        away = {name for name in self.away if not self._reachable(name)}
        for key, end, source, missing in self.sessions.undelivered(self.ends, away):
            self._report_missing(key, end, source, missing)

    def _reachable(self, name: str) -> bool:
        return self.away.get(name, 0) <= 0

    def _is_out_of_reach(self, name: str, other: str) -> bool:
        """True for two that a lasting fault keeps apart, where nobody hears both."""
        lasting = (sides for (_, sides), begun in self.rifts.items() if begun > 0)
        return name != other and any(not _meet(sides, name, other) for sides in lasting)

    def _check_delivered(self, key: Member, member: Taking, end: End, source: Source) -> None:
        group, name, incarnation = key
        sent = self.sent.get((group, *source))
        their_end = self.ends.get(source)
        if sent is None or their_end is None or their_end.clock != end.clock:
            return
        runs = self.delivered.get((group, name, incarnation, *source), [])
        undelivered = bisect_left(sent.numbers, intervals.first_absent(runs, member.spells[source]))
        due = end.time - SETTLING_NANOSECONDS
        missing = [
            sent.numbers[index]
            for index in range(undelivered, len(sent.numbers))
            if sent.times[index] <= due and not intervals.holds(runs, sent.numbers[index])
        ]
        if missing:
            self._report_missing(key, end, source, missing)

    def _report_missing(self, key: Member, end: End, source: Source, missing: list[int]) -> None:
        message = message_name(*source, missing[0])
        text = f"{message} was never delivered, nor {len(missing) - 1} more of its source."
        self.report(*key, end.position, message, text)

    def _must_know(self, member: Taking, end: End, source: Member) -> bool:
        """Whether a source that is not in a member's last view should be."""
        if member.wants is None or member.wants == "once":
            return False
        if member.wants != "all" and source[1] not in {name.strip() for name in member.wants.split(",")}:
            return False
        sent, other = self.sent.get(source), self.members.get(source)
        if sent is None or other is None or other.left or other.joined is None or member.joined is None:
            return False
        due = end.time - SETTLING_NANOSECONDS
        if only_receives(other.told, due, other.role) or self.ends[source[1], source[2]].clock != end.clock:
            return False
        entered = member.joined if member.entered is None else member.entered
        return max(member.joined, entered, other.joined, sent.first_time) <= due


def _meet(sides: Sides, name: str, other: str) -> bool:
    """True if somebody is on a side with each of two, be it one of them."""
    return any(name in one and other in another and one & another for one in sides for another in sides)
