"""The monitor of partings (L10): members that hear each other stay in one view."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.agreed import FRESH, UNORDERED_VIEWS, Members, members_of
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS
from unisono.trace.schema import FaultRow, MembershipRow, ViewRow


class Standing(Struct):
    """The view of an era that a member is in, and whether it was told since that the others went on without it."""

    era: str | None
    stretch: int
    members: Members
    only_receives: bool
    excluded: bool = False


class Parting(Struct, frozen=True):
    """One member's way into a view that lacks somebody of the one before."""

    member: Member
    position: int
    time: int
    before: Standing
    after: Members


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
    departures: dict[Member, list[int]] = field(default_factory=dict)
    """The moments at which a member left or began anew: they excuse what is soon before them, too."""
    resignations: dict[Member, list[int]] = field(default_factory=dict)
    """The moments at which a member said its last word as a sender, or was a receiver."""
    installed: dict[tuple[str, str | None], set[Source]] = field(default_factory=dict)
    faults: dict[tuple[str, tuple[tuple[str, ...], ...]], Edges] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "VIEW": self.on_view,
            "FAULT": self.on_fault,
            "EXCLUDED": self.on_excluded,
            "AGREED": self.on_agreed,
            **dict.fromkeys(("JOIN", "LEAVE", *FRESH), self.on_move),
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
        follows = before is not None and before.stretch == row.stretch and row.era is None
        if before is not None and follows and before.members - after - {member[1:]}:
            self.partings.append(Parting(member, row.position, row.truth, before, after))
        self.standings[member] = Standing(era, row.stretch, after, row.role == "receiver")

    def on_move(self, row: MembershipRow) -> None:
        if row.truth is None:
            return
        member = (row.group, row.process, row.incarnation)
        self.standings.pop(member, None)
        if row.kind in ("LEAVE", "SELF_FAIL"):
            self.departures.setdefault(member, []).append(row.truth)

    def on_excluded(self, row: MembershipRow) -> None:
        standing = self.standings.get((row.group, row.process, row.incarnation))
        if standing is not None and row.truth is not None:
            standing.excluded = True

    def on_agreed(self, row: MembershipRow) -> None:
        if row.truth is not None:
            self.installed.setdefault((row.group, row.reason), set()).add((row.process, row.incarnation))

    def on_role(self, row: MembershipRow) -> None:
        if row.truth is not None and (row.kind == "PLEAVE" or row.role == "receiver"):
            self.resignations.setdefault((row.group, row.process, row.incarnation), []).append(row.truth)

    def on_stop(self, row: MembershipRow) -> None:
        if row.truth is not None:
            life = (row.process, row.incarnation)
            self.stops[life] = min(row.truth, self.stops.get(life, row.truth))

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
        if before.only_receives and len(left_out) > len(before.members & parting.after):
            alone = left_out if _is_whole({name, *_names(left_out)}, felt) else []
        else:
            company = {name, *_names(parting.after)}
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

    def _felt(self, time: int) -> Iterable[tuple[tuple[str, ...], ...]]:
        """The sides of the faults that last at a time, or ended so shortly before."""
        for (_, sides), edges in self.faults.items():
            if bisect_right(edges.begins, time) > bisect_left(edges.ends, time - STALL_LIMIT_NANOSECONDS):
                yield sides


def _names(sources: Iterable[Source]) -> Iterable[str]:
    return (name for name, _ in sources)


def _is_whole(company: set[str], felt: list[list[frozenset[str]]]) -> bool:
    """Whether each fault has a side with all of a company."""
    return all(any(company <= side for side in sides) for sides in felt)


def _any_within(moments: list[int], since: int, until: int) -> bool:
    found = bisect_left(moments, since)
    return found < len(moments) and moments[found] <= until
