"""The monitor of partings (L10): members that hear each other stay in one view."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.agreed import UNORDERED_VIEWS, Members, members_of
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS
from unisono.trace.schema import FaultRow, MembershipRow, ViewRow


class Standing(Struct):
    """The view of an era that a member is in, and what it was told, or did, since then."""

    era: str | None
    stretch: int
    members: Members
    only_receives: bool
    excluded: bool = False
    """The others went on without it."""
    failed: bool = False
    """It could not follow them, and looks for a view."""
    left_behind_by: set[str] = field(default_factory=set)

    def leads_to(self, row: ViewRow) -> bool:
        """A view that was agreed on follows, in the same stretch or in the one after a failure to follow."""
        return row.era is None and row.stretch - self.stretch in ((0, 1) if self.failed else (0,))


class Parting(Struct, frozen=True):
    """One member's way into a view that lacks somebody of the one before."""

    member: Member
    position: int
    time: int
    before: Standing
    after: Members
    only_receives: bool


class Edges(Struct):
    """The moments at which a fault with certain sides begins and ends."""

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


class KeptTogether(Monitor):
    """L10. Keeps each view that lacks somebody of the one before, and the moments of what may excuse it."""

    property_id: ClassVar[str] = "L10"

    standings: dict[Member, Standing] = field(default_factory=dict)
    partings: list[Parting] = field(default_factory=list)
    stops: dict[Source, int] = field(default_factory=dict)
    """Since when each life is not there any more: one that crashes, for a while before; it may have been leaving."""
    departures: dict[Member, list[int]] = field(default_factory=dict)
    """The moments at which a member left or began anew: they excuse what is soon before them, too."""
    resignations: dict[Member, list[int]] = field(default_factory=dict)
    """The moments at which a member said its last word as a sender, or was a receiver."""
    installed: dict[tuple[str, str | None], set[Source]] = field(default_factory=dict)
    views: dict[Member, list[tuple[int, int, Members]]] = field(default_factory=dict)
    """The views of each member that are common to all, with their moments and positions."""
    faults: dict[tuple[str, tuple[tuple[str, ...], ...]], Edges] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "VIEW": self.on_view,
            "FAULT": self.on_fault,
            "EXCLUDED": self.on_news,
            "LEFT_BEHIND": self.on_news,
            "SELF_FAIL": self.on_news,
            "AGREED": self.on_agreed,
            **dict.fromkeys(("JOIN", "LEAVE"), self.on_move),
            **dict.fromkeys(("PLEAVE", "ROLE"), self.on_role),
            **dict.fromkeys(("CRASH", "END"), self.on_stop),
        }

    def on_view(self, row: ViewRow) -> None:
        if row.truth is None:
            return
        member = (row.group, row.process, row.incarnation)
        era = row.view if row.era is None else row.era
        self.installed.setdefault((row.group, era), set()).add(member[1:])
        before = self.standings.pop(member, None)
        if row.service in UNORDERED_VIEWS:
            return
        after = members_of(row)
        self.views.setdefault(member, []).append((row.truth, row.position, after))
        if before is not None and before.leads_to(row) and before.members - after - {member[1:]}:
            only_receives = before.only_receives and row.role == "receiver"
            self.partings.append(Parting(member, row.position, row.truth, before, after, only_receives))
        self.standings[member] = Standing(era, row.stretch, after, row.role == "receiver")

    def on_move(self, row: MembershipRow) -> None:
        if row.truth is None:
            return
        member = (row.group, row.process, row.incarnation)
        self.standings.pop(member, None)
        if row.kind == "LEAVE":
            self.departures.setdefault(member, []).append(row.truth)

    def on_news(self, row: MembershipRow) -> None:
        if row.truth is None:
            return
        member = (row.group, row.process, row.incarnation)
        if row.kind == "SELF_FAIL":
            self.departures.setdefault(member, []).append(row.truth)
        standing = self.standings.get(member)
        if standing is None:
            return
        if row.kind == "EXCLUDED":
            standing.excluded = True
        elif row.kind == "LEFT_BEHIND":
            standing.left_behind_by |= {row.peer} if row.peer is not None else set()
        elif row.kind == "SELF_FAIL":
            standing.failed = True

    def on_agreed(self, row: MembershipRow) -> None:
        if row.truth is not None:
            self.installed.setdefault((row.group, row.reason), set()).add((row.process, row.incarnation))

    def on_role(self, row: MembershipRow) -> None:
        if row.truth is not None and (row.kind == "PLEAVE" or row.role == "receiver"):
            self.resignations.setdefault((row.group, row.process, row.incarnation), []).append(row.truth)

    def on_stop(self, row: MembershipRow) -> None:
        if row.truth is not None:
            life = (row.process, row.incarnation)
            since = row.truth - STALL_LIMIT_NANOSECONDS if row.kind == "CRASH" else row.truth
            self.stops[life] = min(since, self.stops.get(life, since))

    def on_fault(self, row: FaultRow) -> None:
        if row.truth is not None and row.sides and row.fault not in ("load", "heal"):
            edges = self.faults.setdefault((row.fault, tuple(map(tuple, row.sides))), Edges())
            (edges.begins if row.edge == "begin" else edges.ends).append(row.truth)

    def conclude(self) -> None:
        for moments in (*self.departures.values(), *self.resignations.values()):
            moments.sort()
        for edges in self.faults.values():
            edges.begins.sort()
            edges.ends.sort()
        for parting in self.partings:
            self._judge(parting)

    def _judge(self, parting: Parting) -> None:
        before, name = parting.before, parting.member[1]
        left_out = [q for q in before.members - parting.after - {parting.member[1:]} if self._is_there(q, parting)]
        if not left_out:
            return
        felt = [list(map(frozenset, sides)) for sides in self._felt(parting.time)]
        company = {name, *before.left_behind_by}
        if parting.only_receives and len(left_out) > len(before.members & parting.after):
            company.update(_names(left_out))
            followed = set(_names(parting.after))
            for source in left_out:
                company.update(set(_names(self._last_members(source, parting))) - followed)
            alone = left_out if _is_whole(company, felt) else []
        elif before.failed:
            alone = []
        else:
            company.update(_names(parting.after))
            alone = [source for source in left_out if _is_whole({*company, source[0]}, felt)]
        if alone:
            them = ", ".join(sorted(set(_names(alone))))
            text = f"{them} left out, though no fault kept them from those in the view."
            self.report(*parting.member, parting.position, None, text)

    def _is_there(self, source: Source, parting: Parting) -> bool:
        group, time = parting.member[0], parting.time
        if self.stops.get(source, time + 1) <= time:
            return False
        limit = STALL_LIMIT_NANOSECONDS
        member = (group, *source)
        if _any_within(self.departures.get(member, []), time - limit, time + limit):
            return False
        if _any_within(self.resignations.get(member, []), time - limit, time):
            return False
        before = parting.before
        return not (before.excluded and source in self.installed[group, before.era])

    def _last_members(self, source: Source, parting: Parting) -> Members:
        """Whom one that was left out had beside it then: who follows it follows all of these."""
        views = self.views.get((parting.member[0], *source), [])
        seen = [(position, members) for time, position, members in views if time <= parting.time]
        return max(seen, key=lambda one: one[0])[1] if seen else frozenset()

    def _felt(self, time: int) -> Iterable[tuple[tuple[str, ...], ...]]:
        """The sides of the faults that last at a time, or ended so shortly before."""
        for (_, sides), edges in self.faults.items():
            if bisect_right(edges.begins, time) > bisect_left(edges.ends, time - STALL_LIMIT_NANOSECONDS):
                yield sides


def _names(sources: Iterable[Source]) -> Iterable[str]:
    return (name for name, _ in sources)


def _is_whole(company: set[str], felt: list[list[frozenset[str]]]) -> bool:
    """Each fault has a side with all of a company."""
    return all(any(company <= side for side in sides) for sides in felt)


def _any_within(moments: list[int], since: int, until: int) -> bool:
    found = bisect_left(moments, since)
    return found < len(moments) and moments[found] <= until
