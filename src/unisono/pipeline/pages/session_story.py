"""How the views of sessions changed, as a page tells it: the six distributions of document 002, chapter 6.

Each change is told by a member that comes from one view into the next; who joins has nothing to synchronise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from unisono.pipeline.measures.catalogue import OVERHEAD
from unisono.properties.promises import STRONG
from unisono.properties.violation import moment
from unisono.trace.schema import MembershipRow, StatisticRow, ViewRow
from unisono.units import MICROSECOND, MILLISECOND

BINS = 40
_DRAWN = (0.02, 0.98)
"""A histogram goes from one of these quantiles to the other, so that a few do not press all others together."""


class Quantity(Struct, frozen=True):
    """One of the six: its sign and figure in the document, what it is, and what the document found (Pentium III)."""

    name: str
    sign: str
    figure: str
    says: str
    document_mean: float
    document_median: float


QUANTITIES = (
    Quantity("overhead", "ε", "6-1", "what the session takes for a message", 98.5 * MICROSECOND, 94.0 * MICROSECOND),
    Quantity(
        "membership", "δ1", "6-2", "from the start-change until the servers agreed", 50 * MILLISECOND, 40 * MILLISECOND
    ),
    Quantity(
        "synchronisation",
        "δ2",
        "6-3",
        "from the first start-change until everybody's cut is there",
        13 * MILLISECOND,
        5 * MILLISECOND,
    ),
    Quantity("change", "δ3", "6-4", "from the first start-change to the view", 52 * MILLISECOND, 41 * MILLISECOND),
    Quantity(
        "membership after synchronisation",
        "δ1 \N{MINUS SIGN} δ2",
        "6-5",
        "how much longer membership took than synchronisation",
        38 * MILLISECOND,
        30 * MILLISECOND,
    ),
    Quantity(
        "view after membership",
        "δ3 \N{MINUS SIGN} δ1",
        "6-6",
        "what was left to do when the servers had agreed",
        1.9 * MILLISECOND,
        1.6 * MILLISECOND,
    ),
)


class SessionChange(Struct):
    """One change at one member, by its clock: None is what no row tells."""

    process: str
    change: int
    installed: int
    began: int | None = None
    started: int | None = None
    agreed: int | None = None
    synchronized: int | None = None

    def quantities(self) -> dict[str, int]:
        """What this change says of each quantity."""
        found: dict[str, int] = {}
        if self.agreed is not None and self.started is not None:
            found["membership"] = self.agreed - self.started
        if self.synchronized is not None and self.began is not None:
            found["synchronisation"] = self.synchronized - self.began
        if self.began is not None:
            found["change"] = self.installed - self.began
        for name, (more, less) in {
            "membership after synchronisation": ("membership", "synchronisation"),
            "view after membership": ("change", "membership"),
        }.items():
            if more in found and less in found:
                found[name] = found[more] - found[less]
        return found


class Spread(Struct, frozen=True):
    """Some times, which may be negative: `bins` has how many fell between one of `edges` and the next.

    `outside` is how many are below or above all bins.
    """

    count: int
    mean: float
    median: float
    least: float
    most: float
    edges: list[float]
    bins: list[int]
    outside: int


class SessionStory(Struct, frozen=True):
    """The sessions of one group: of each quantity that there is how it is spread; of changes that tell both, how many
    were synchronised before the servers had agreed."""

    spreads: dict[str, Spread]
    compared: int
    synchronised_first: int


def session_changes(views: Iterable[ViewRow], memberships: Iterable[MembershipRow]) -> list[SessionChange]:
    """Every change of a session's view in one group of one run."""
    lives: dict[tuple[str, int], list[ViewRow | MembershipRow]] = defaultdict(list)
    for row in (*views, *memberships):
        if isinstance(row, ViewRow | MembershipRow) and row.service == STRONG:
            lives[row.process, row.incarnation].append(row)
    found = []
    for life in lives.values():
        life.sort(key=lambda row: row.position)
        installs = [place for place, row in enumerate(life) if isinstance(row, ViewRow) and row.change is not None]
        for before, here in pairwise(installs):
            view = life[here]
            if isinstance(view, ViewRow) and view.previous is not None:
                between = [row for row in life[before + 1 : here] if isinstance(row, MembershipRow)]
                found.append(_change(view, between))
    return found


def session_story(changes: Sequence[SessionChange], overheads: Iterable[StatisticRow]) -> SessionStory | None:
    """The six quantities of one group, where it has any."""
    times: dict[str, list[float]] = defaultdict(list)
    for row in overheads:
        if row.kind == OVERHEAD:
            told = {value.name: value.number for value in row.values}
            if (nanoseconds := told.get("nanoseconds")) is not None:
                times["overhead"].append(nanoseconds)
    for change in changes:
        for name, value in change.quantities().items():
            times[name].append(value)
    if not times:
        return None
    differences = times["membership after synchronisation"]
    return SessionStory(
        spreads={item.name: _spread(times[item.name]) for item in QUANTITIES if times[item.name]},
        compared=len(differences),
        synchronised_first=sum(difference > 0 for difference in differences),
    )


def _change(view: ViewRow, between: Sequence[MembershipRow]) -> SessionChange:
    assert view.change is not None, "the view of a session has a change"
    change = SessionChange(view.process, view.change, moment(view))
    for row in between:
        if row.kind == "START_CHANGE" and change.began is None:
            change.began = moment(row)
        if row.number == change.change:
            if row.kind == "START_CHANGE":
                change.started = moment(row)
            elif row.kind == "NEW_VIEW":
                change.agreed = moment(row)
            elif row.kind == "SYNCHRONIZED":
                change.synchronized = moment(row)
    return change


def _spread(times: Sequence[float]) -> Spread:
    values = np.array(times, dtype=np.float64)
    mean = float(values.mean())
    first, last = (float(bound) for bound in np.quantile(values, _DRAWN))
    first, last = min(first, mean), max(last, mean)
    if last - first < BINS:  # a bin is no narrower than a nanosecond
        first, last = first - BINS, last + BINS
    bins, edges = np.histogram(values, bins=BINS, range=(first, last))
    return Spread(
        count=len(values),
        mean=mean,
        median=float(np.median(values)),
        least=float(values.min()),
        most=float(values.max()),
        edges=[float(edge) for edge in edges],
        bins=[int(count) for count in bins],
        outside=len(values) - int(bins.sum()),
    )
