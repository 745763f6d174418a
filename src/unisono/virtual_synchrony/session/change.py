"""One change of the view: who expects what, whose cut is there, and what is to be delivered before (002 5.5).

The members to come are those that the start-change expects, or the view does not come. So the transitional set and the
messages to deliver are known as soon as the cuts are there, whether or not the servers have agreed yet.
"""

from __future__ import annotations

from unisono.identity import ProcessId, ViewMark
from unisono.virtual_synchrony.session.view import SessionView
from unisono.wire.session_messages import Cut


class PeerCut:
    """The cut of one member for one change, perhaps not all of it yet."""

    __slots__ = ("change", "counts", "missing", "view")

    def __init__(self, cut: Cut) -> None:
        self.change = cut.change
        self.view = cut.view
        self.counts: dict[int, int] = {}
        self.missing = set(range(cut.parts))
        self.add(cut)

    def add(self, cut: Cut) -> None:
        """Take another part; a part that came before changes nothing."""
        if cut.change == self.change and cut.view == self.view and cut.part in self.missing:
            self.missing.discard(cut.part)
            self.counts.update(cut.counts)

    @property
    def whole(self) -> bool:
        return not self.missing


class Cuts:
    """The newest cut of everybody, whatever change it is for: it may come before the start-change does."""

    __slots__ = ("_cuts", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cuts: dict[ProcessId, PeerCut] = {}

    def take_in(self, source: ProcessId, cut: Cut) -> bool:
        """Whether the cut of a member has become whole by this."""
        known = self._cuts.get(source)
        if known is not None and known.change > cut.change:
            return False
        if known is None or known.change < cut.change:
            if known is None and len(self._cuts) >= self._limit:
                return False
            self._cuts[source] = known = PeerCut(cut)
            return known.whole
        was_whole = known.whole
        known.add(cut)
        return known.whole and not was_whole

    def of(self, member: ProcessId, change: int) -> PeerCut | None:
        """The whole cut of a member for this change, if it is there."""
        cut = self._cuts.get(member)
        return cut if cut is not None and cut.change == change and cut.whole else None

    def keep(self, members: tuple[ProcessId, ...], change: int) -> None:
        """Forget the cuts of earlier changes of all but these."""
        staying = set(members)
        self._cuts = {member: cut for member, cut in self._cuts.items() if cut.change > change or member in staying}


class ViewChange:
    """A change under way at one member, from the view that it is in to the one that is expected."""

    __slots__ = ("agreed", "counts", "id", "next", "partners", "previous", "stands", "synchronized", "together")

    def __init__(self, change: int, expected: SessionView, previous: SessionView | None, process: ProcessId) -> None:
        self.id = change
        self.next = expected
        self.previous = previous
        self.stands = False
        """The servers agreed on it."""
        self.counts: dict[int, int] | None = None
        """This process's own cut, by seats of the previous view, once it is sent."""
        self.synchronized = False
        """The cuts of all who are needed are there."""
        self.together: tuple[ProcessId, ...] = (process,)
        """The transitional set, once synchronised."""
        self.agreed: dict[int, int] = {}
        """What is to be delivered of each seat of the previous view before the next one."""
        members = () if previous is None else previous.participants
        self.partners = tuple(member for member in members if member in expected.seats and member != process)
        """Whose cuts are needed: members of both views."""

    @property
    def mark(self) -> ViewMark | None:
        return None if self.previous is None else self.previous.mark

    def missing(self, cuts: Cuts) -> list[ProcessId]:
        """Whose cut is not there."""
        return [member for member in self.partners if cuts.of(member, self.id) is None]

    def committed(self, cuts: Cuts) -> dict[int, int]:
        """What somebody who comes along answers for so far, by seat; it is safe to deliver (002 5.6)."""
        assert self.counts is not None, "a cut is sent before anything is safe"
        bounds = dict(self.counts)
        for member in self.partners:
            cut = cuts.of(member, self.id)
            if cut is not None and cut.view == self.mark:
                for seat, count in cut.counts.items():
                    bounds[seat] = max(bounds.get(seat, 0), count)
        return bounds

    def synchronize(self, cuts: Cuts, process: ProcessId) -> None:
        """All cuts are there: who comes along, and what all of them deliver first."""
        companions = [process]
        for member in self.partners:
            cut = cuts.of(member, self.id)
            assert cut is not None, "nobody's cut is missing"
            if cut.view == self.mark:
                companions.append(member)
        self.together = tuple(sorted(companions))
        self.agreed = self.committed(cuts)
        self.synchronized = True

    def count_of(self, member: ProcessId, seat: int, cuts: Cuts, process: ProcessId) -> int:
        """How far a companion has what the member with that seat sent."""
        if member == process:
            return (self.counts or {}).get(seat, 0)
        cut = cuts.of(member, self.id)
        return 0 if cut is None else cut.counts.get(seat, 0)

    def holders(self, seat: int, sequence: int, cuts: Cuts, process: ProcessId) -> list[ProcessId]:
        """The others who come along and have that sequence, the least first."""
        return [
            member
            for member in self.together
            if member != process and self.count_of(member, seat, cuts, process) >= sequence
        ]

    def to_forward(self, seat: int, cuts: Cuts, process: ProcessId) -> tuple[int, int, list[ProcessId]] | None:
        """What this process is the least to have of a seat and somebody lacks: from, to, and who lacks it (002 5.8)."""
        mine = self.count_of(process, seat, cuts, process)
        counts = {member: self.count_of(member, seat, cuts, process) for member in self.together}
        lesser = max((count for member, count in counts.items() if member < process), default=0)
        lacking = [member for member, count in counts.items() if count < mine]
        if not lacking:
            return None
        first = max(lesser, min(counts.values())) + 1
        lacking = [member for member in lacking if counts[member] < mine]
        return (first, mine, lacking) if first <= mine else None
