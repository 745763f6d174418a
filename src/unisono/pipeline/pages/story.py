"""What a run tells: who was there when, how much was sent and delivered, how fast, and what had to be repaired.

Taken from the tables of one run, by column, without Spark: of a long run no more is kept than a few numbers for each
message. Times are nanoseconds from the beginning of the run, by the simulator's clock where there is one, else by the
clock of each host from its own first row.
"""

from __future__ import annotations

from msgspec import Struct

from unisono.pipeline.measures.catalogue import OVERHEAD
from unisono.pipeline.pages.lanes import Lane, lanes
from unisono.pipeline.pages.session_story import SessionStory, session_changes, session_story
from unisono.pipeline.pages.story_costs import Buffer, Told, buffers, marks, repairs, statistics
from unisono.pipeline.pages.story_counts import Clock, Distribution, Rates, clock_of, deliveries, presences, sends
from unisono.pipeline.pages.trace_columns import TraceTables
from unisono.pipeline.pages.view_story import ViewStory, view_stories
from unisono.trace.schema import FAMILIES, FaultRow, MembershipRow, RepairRow, StatisticRow, ViewRow

_STEPS = 60
"""A plot over time has about so many steps, never more than one and a half times as many."""
_ROUND_STEPS = (1, 2, 5)


class Shade(Struct, frozen=True):
    """A fault; `members` are those that it took away, none where it is everybody's; without `end` it is a moment."""

    fault: str
    begin: int
    end: int | None
    members: tuple[str, ...]


class GroupStory(Struct, frozen=True):
    """One group."""

    name: str
    lanes: list[Lane]
    rates: Rates
    latencies: Distribution | None
    sent: int
    sent_bytes: int
    delivered: int
    delivered_bytes: int
    asked: int
    repaired: int
    lost: int
    repaired_ranges: int
    views: list[ViewStory]
    sessions: SessionStory | None


class Story(Struct, frozen=True):
    """One run."""

    run: str
    duration: int
    groups: list[GroupStory]
    faults: list[Shade]
    loads: list[Shade]
    marks: dict[str, int]
    buffers: list[Buffer]
    statistics: list[Told]
    datagrams: int | None
    datagram_bytes: int | None
    rows: int
    simulated: bool
    hosts: int
    clock: Clock

    @property
    def processes(self) -> int:
        """How many names there were."""
        return len({lane.process for group in self.groups for lane in group.lanes})


def story(tables: TraceTables) -> Story:
    """The story of the one run in these tables."""
    clock = clock_of(tables)
    step = _round_step(clock.duration // _STEPS)
    views = [row for row in tables.all_rows("view") if isinstance(row, ViewRow)]
    memberships = [row for row in tables.all_rows("membership") if isinstance(row, MembershipRow)]
    cuts = [row for row in tables.all_rows("repair", ("CUT",)) if isinstance(row, RepairRow)]
    overheads = [row for row in tables.all_rows("statistic", (OVERHEAD,)) if isinstance(row, StatisticRow)]
    found = presences(tables, clock)
    sent = sends(tables, clock, step)
    delivered = deliveries(tables, clock, step, sent)
    asked = repairs(tables, clock, step)
    groups = []
    nothing = [0] * clock.steps(step)
    for name in found.groups:
        mine = [row for row in views if row.group == name]
        told = [row for row in memberships if row.group in ("", name)]
        there = lanes(name, found.lives, mine, told, clock)
        counted, heard, repaired = sent.of(name), delivered.of(name), asked.of(name)
        groups.append(
            GroupStory(
                name=name,
                lanes=there,
                rates=Rates(
                    step,
                    counted.steps or nothing,
                    {
                        life: heard.by_life.get(life, nothing)
                        for life in ((lane.process, lane.incarnation) for lane in there)
                    },
                    repaired.steps,
                ),
                latencies=delivered.latencies(name),
                sent=counted.rows,
                sent_bytes=counted.bytes,
                delivered=heard.rows,
                delivered_bytes=heard.bytes,
                asked=repaired.asked,
                repaired=repaired.repaired,
                lost=repaired.lost,
                repaired_ranges=repaired.ranges,
                views=view_stories(
                    mine, [row for row in told if row.kind == "MRA"], [r for r in cuts if r.group == name], heard, clock
                ),
                sessions=session_story(
                    session_changes(mine, [row for row in told if row.group]), [o for o in overheads if o.group == name]
                ),
            )
        )
    shades = _shades([row for row in tables.all_rows("fault") if isinstance(row, FaultRow)], clock)
    full, totals = buffers(tables, clock, step)
    return Story(
        run=found.run,
        duration=clock.duration,
        groups=groups,
        faults=[shade for shade in shades if shade.fault not in ("load", "heal")],
        loads=[shade for shade in shades if shade.fault == "load"],
        marks=marks(tables),
        buffers=full,
        statistics=statistics(tables),
        datagrams=totals.get("datagrams sent"),
        datagram_bytes=totals.get("datagram bytes sent"),
        rows=sum(tables.count(family) for family in FAMILIES),
        simulated=clock.simulated,
        hosts=1 if clock.simulated else len(found.hosts),
        clock=clock,
    )


def _shades(rows: list[FaultRow], clock: Clock) -> list[Shade]:
    shades: list[Shade] = []
    open_since: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for row in rows:
        begins = open_since.setdefault((row.fault, tuple(row.members)), [])
        if row.edge == "begin":
            begins.append(clock.when(row))
        elif begins:
            shades.append(Shade(row.fault, begins.pop(0), clock.when(row), tuple(row.members)))
    for (fault, members), begins in open_since.items():
        shades += [Shade(fault, begin, clock.duration if members else None, members) for begin in begins]
    return sorted(shades, key=lambda shade: (shade.begin, shade.fault, shade.members))


def changed_views(group: GroupStory) -> int:
    """How many agreed views followed the first; where none is agreed, how many other sets of members were seen."""
    own = {tuple(sorted(bar.members)) for lane in group.lanes for bar in lane.bars}
    return max(0, len(group.views or own) - 1)


def _round_step(at_least: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... milliseconds that is not below."""
    unit = 1_000_000
    while True:
        for factor in _ROUND_STEPS:
            if unit * factor >= at_least:
                return unit * factor
        unit *= 10
