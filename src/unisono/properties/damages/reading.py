"""How a damage finds its place in a trace: spells, sends, and where liveness asks for something."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from unisono.properties.damages.damage import Rows
from unisono.properties.monitors.servers import Servers, all_kinds
from unisono.properties.promises import SETTLING_NANOSECONDS
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, MembershipRow, SendRow, Start, ViewRow

ORDERED = ("RSO", "RTO")
"""The services whose rows are damaged where order or views are at stake."""


FRESH = ("SELF_FAIL", "BOOTSTRAP")
"""The rows after which a process begins anew in its group."""


class Spell(Struct):
    """One spell of a source at an ordered member: where its views and deliveries stand in the trace.

    `known` says whether the source was in the view before, too, in an earlier spell.
    """

    member: tuple[str, str, int]
    source: tuple[str, int]
    views: list[int]
    deliveries: list[int] = []
    current: bool = False
    known: bool = False


def spells_of(rows: Rows) -> list[Spell]:
    spells: list[Spell] = []
    views: dict[tuple[str, str, int], dict[tuple[str, int], Spell]] = {}
    stretches: dict[tuple[str, str, int], int] = {}
    restarted: set[tuple[str, str, int]] = set()
    for index, row in enumerate(rows):
        member = (row.group, row.process, row.incarnation)
        if row.kind == "JOIN" or (row.service not in ORDERED and row.kind in ("SEND", "DELIVER", "GAUGE")):
            views.pop(member, None)
        elif row.kind in FRESH:
            restarted.add(member)
        elif row.service not in ORDERED:
            continue
        elif isinstance(row, ViewRow):
            if row.stretch > stretches.get(member, 0) + 1:
                views.pop(member, None)
            stretches[member] = row.stretch
            before, views[member] = views.get(member, {}), {}
            for start in row.start:
                source = (start.source, start.incarnation)
                spell = before.get(source)
                if spell is None or member in restarted or not goes_on(row, source):
                    spell = Spell(member, source, [], known=spell is not None)
                    spells.append(spell)
                spell.views.append(index)
                views[member][source] = spell
            restarted.discard(member)
        elif isinstance(row, DeliverRow):
            spell = views.get(member, {}).get((row.source, row.source_incarnation))
            if spell is not None:
                spell.deliveries.append(index)
    for view in views.values():
        for spell in view.values():
            spell.current = True
    return spells


def goes_on(view: ViewRow, source: tuple[str, int]) -> bool:
    """Whether a member of a view came along into it, as far as that matters."""
    if view.service != "RTO" or view.transitional is None or source == (view.process, view.incarnation):
        return True
    return source in [(one.process, one.incarnation) for one in view.transitional]


def with_start(row: AnyRow, source: tuple[str, int], step: int | None) -> ViewRow:
    """A view with the start number of a source moved by a step, or without the source."""
    assert isinstance(row, ViewRow)
    start: list[Start] = []
    for point in row.start:
        if (point.source, point.incarnation) != source:
            start.append(point)
        elif step is not None:
            start.append(replace(point, number=point.number + step))
    return replace(row, start=start)


def at_time_of(row: AnyRow, like: AnyRow) -> AnyRow:
    """The row at the time of another row of its process."""
    return replace(row, truth=like.truth, at=like.at)


def in_place_of(row: AnyRow, like: AnyRow) -> AnyRow:
    """The row where another row of its process is: in its time, view and stretch."""
    return replace(at_time_of(row, like), view=like.view, stretch=like.stretch, service=like.service)


def deliveries_in(rows: Rows, ordered: bool = False) -> list[tuple[int, DeliverRow]]:
    return [
        (index, row)
        for index, row in enumerate(rows)
        if isinstance(row, DeliverRow) and (row.service in ORDERED or not ordered)
    ]


def send_of(rows: Rows, delivery: AnyRow) -> int | None:
    assert isinstance(delivery, DeliverRow)
    wanted = (delivery.group, delivery.source, delivery.source_incarnation, delivery.number)
    for index, row in enumerate(rows):
        if isinstance(row, SendRow) and (row.group, row.process, row.incarnation, row.number) == wanted:
            return index
    return None


def membership_row(rows: Rows, kind: str, process: tuple[str, int], group: str = "") -> MembershipRow | None:
    for row in rows:
        if isinstance(row, MembershipRow) and (row.kind, row.process, row.incarnation, row.group) == (
            kind,
            *process,
            group,
        ):
            return row
    return None


def only_receives(rows: Rows, process: tuple[str, int], group: str) -> bool:
    """Whether a process has become a receiver at last."""
    views = [
        row
        for row in rows
        if isinstance(row, ViewRow)
        and (row.process, row.incarnation) == process
        and (row.group, row.service) == (group, "RTO")
    ]
    return bool(views) and views[-1].role == "receiver"


def owed_until(rows: Rows, spell: Spell) -> int | None:
    """When what a source sent is no longer owed to a member; None where nothing is."""
    group, name, incarnation = spell.member
    end = membership_row(rows, "END", (name, incarnation))
    if end is None or not spell.current or membership_row(rows, "END", spell.source) is None:
        return None
    if membership_row(rows, "LEAVE", (name, incarnation), group) is not None:
        return None
    return moment(end) - SETTLING_NANOSECONDS


def _servers_of(rows: Rows) -> Servers:
    found = Servers()
    for row in rows:
        if isinstance(row, MembershipRow) and row.kind == "START":
            found.on_start(row)
        elif isinstance(row, MembershipRow) and row.kind == "JOIN":
            found.on_join(row)
    return found


def stretches_due(rows: Rows) -> list[tuple[int, int]]:
    """From which row to which row progress is due without a break."""
    load = 0
    served = _servers_of(rows)
    members = served.joined if served.sessions else served.started
    away: dict[str, list[bool]] = {}
    faults: list[str] = []
    stretches: list[tuple[int, int]] = []
    begin: int | None = None
    for index, row in enumerate(rows):
        if isinstance(row, FaultRow):
            if row.fault == "load":
                load += 1 if row.edge == "begin" else -1
            elif row.edge == "begin":
                faults.extend(row.members)
            else:
                for name in row.members:
                    faults.remove(name)
        elif row.kind in ("START", "CRASH"):
            away.setdefault(row.process, [False, False])[0] = row.kind == "CRASH"
        elif row.kind in ("JOIN", "LEAVE"):
            away.setdefault(row.process, [False, False])[1] = row.kind == "LEAVE"
        here = [name for name, reasons in away.items() if not any(reasons) and name not in faults]
        present = [name for name in here if name in members]
        many = len(present) >= 2 and 2 * len(present) > sum(name in members for name in away)
        if load > 0 and many and all_kinds([name for name in served.names if name in away], here):
            begin = index if begin is None else begin
        elif begin is not None:
            stretches.append((begin, index))
            begin = None
    return stretches if begin is None else [*stretches, (begin, len(rows) - 1)]


def delivery_in_place(place: AnyRow, sent: SendRow, view: str | None) -> DeliverRow:
    """A message delivered where another row stands, in that view."""
    return DeliverRow(
        kind="DELIVER",
        run=place.run,
        group=place.group,
        process=place.process,
        incarnation=place.incarnation,
        at=place.at,
        host=place.host,
        truth=place.truth,
        view=view,
        service=place.service,
        stretch=place.stretch,
        source=sent.process,
        source_incarnation=sent.incarnation,
        sequence=sent.sequence,
        number=sent.number,
        timestamp=sent.timestamp,
        size=sent.size,
        body=sent.body,
        index=0,
    )
