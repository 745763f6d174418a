"""After the last fault: everybody has the same last view with the right members (L1) and all its messages (L5)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from unisono.properties.oracles.reading import (
    FRESH,
    TELLING,
    agreed_views,
    comparable,
    cut_off,
    era_of,
    first_sends,
    held,
    is_outside,
    members_of,
    of,
    one_of_each_kind,
    only_receives,
    role_at,
    same_process,
    servers,
    spans,
    start_in,
)
from unisono.properties.promises import PRECISION_NANOSECONDS, SESSIONS, SETTLING_NANOSECONDS, promised
from unisono.properties.violation import Violation, message_name, moment, process_name
from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, MembershipRow, SendRow, ViewRow


class Place(Struct):
    """One process in one group, with all of its rows there and the end of its life, where it reached one."""

    group: str
    life: tuple[str, int]
    rows: list[AnyRow]
    end: MembershipRow | None

    @property
    def inside(self) -> bool:
        return not is_outside(self.rows)

    @property
    def join(self) -> MembershipRow | None:
        joins = of(self.rows, MembershipRow, "JOIN")
        return joins[-1] if joins else None

    @property
    def service(self) -> str | None:
        told = [row.service for row in self.rows if row.kind in TELLING and row.service is not None]
        return told[-1] if told else None

    @property
    def views(self) -> list[ViewRow]:
        """Its agreed views since it joined."""
        since = -1 if self.join is None else self.join.position
        return [view for view in agreed_views(self.rows, "L1") if view.position > since]

    @property
    def entered(self) -> ViewRow | None:
        """The first view of the stretch of its last one."""
        views = self.views
        same = [view for view in views if view.stretch == views[-1].stretch]
        return same[0] if same else None


def _places(rows: Sequence[AnyRow], group: str) -> list[Place]:
    found = []
    for life in sorted({(row.process, row.incarnation) for row in rows if row.group == group}):
        mine = [row for row in rows if row.group == group and (row.process, row.incarnation) == life]
        ends = [row for row in of(rows, MembershipRow, "END") if (row.process, row.incarnation) == life]
        ordered = sorted(mine, key=lambda row: row.position)
        found.append(Place(group, life, ordered, ends[-1] if ends else None))
    return found


def _healed(rows: Sequence[AnyRow], end: MembershipRow) -> bool:
    """Whether the last fault, but the lasting ones, ended long enough before."""
    heals = [moment(row) for row in of(rows, FaultRow, "FAULT") if row.fault == "heal" and comparable(row, end)]
    return bool(heals) and max(heals) <= moment(end) - PRECISION_NANOSECONDS


def membership_precision(rows: Sequence[AnyRow]) -> list[Violation]:
    """L1."""
    violations = []
    for group in sorted({row.group for row in rows if row.group}):
        places = _places(rows, group)
        judged = [place for place in places if _is_judged(rows, place) and _demanded(rows, places, place.end)]
        judged = [place for place in judged if place.service not in SESSIONS or _are_served(rows)]
        for place in judged:
            end = place.end
            assert end is not None, "who is judged reached its end"
            views = place.views
            members = members_of(views[-1]) if views else set()
            due = moment(end) - PRECISION_NANOSECONDS
            missing = [life for life in _demanded(rows, places, end) if life not in members]
            wrong = [life for life in sorted(members) if _is_forbidden(rows, group, life, end, due)]
            first = judged[0]
            assert first.end is not None, "who is judged reached its end"
            near = comparable(end, first.end) and abs(moment(end) - moment(first.end)) <= SETTLING_NANOSECONDS // 2
            differs = near and _differ(views[-1:], first.views[-1:], due)
            if missing or wrong or differs:
                word = views[-1].view if views else None
                text = f"the last view is {word}: {len(missing)} members are missing, {len(wrong)} too many"
                violations.append(Violation("L1", group, *place.life, end.position, None, text))
    return violations


def _differ(mine: list[ViewRow], other: list[ViewRow], due: int) -> bool:
    """Whether two last views, where there are any, are not of one era, or are old and not the same."""
    if not mine or not other:
        return bool(mine or other)
    if era_of(mine[0]) != era_of(other[0]):
        return True
    return mine[0].view != other[0].view and max(moment(mine[0]), moment(other[0])) <= due


def _are_served(rows: Sequence[AnyRow]) -> bool:
    """Whether there are servers at the end that sessions can reach."""
    living = {row.process for row in of(rows, MembershipRow, "END")} - cut_off(rows)
    return one_of_each_kind(servers(rows), living)


def _is_judged(rows: Sequence[AnyRow], place: Place) -> bool:
    end, join, entered = place.end, place.join, place.entered
    if end is None or join is None or not place.inside or not _healed(rows, end) or end.process in cut_off(rows):
        return False
    due = moment(end) - PRECISION_NANOSECONDS
    if moment(join) > due or (entered is not None and moment(entered) > due):
        return False
    return promised(place.service, "L1")


def _demanded(rows: Sequence[AnyRow], places: list[Place], end: MembershipRow | None) -> list[tuple[str, int]]:
    """The senders that must be in the last view of the one that wrote `end`."""
    if end is None:
        return []
    due = moment(end) - PRECISION_NANOSECONDS
    return [place.life for place in places if _is_demanded(rows, place, end, due)]


def _is_demanded(rows: Sequence[AnyRow], place: Place, end: MembershipRow, due: int) -> bool:
    """Whether a process is a sender that must be in the last view of the one that wrote `end`."""
    if place.end is None or not comparable(place.end, end):
        return False
    if moment(place.end) < moment(end) - SETTLING_NANOSECONDS // 2 or place.life[0] in cut_off(rows):
        return False
    join, entered = place.join, place.entered
    if join is None or not place.inside or moment(join) > due or only_receives(place.rows, due):
        return False
    sends = [row for row in of(place.rows, SendRow, "SEND") if row.position > join.position]
    if any(row.agreed is not None and moment(row) <= due for row in sends):
        return True
    settled = entered is not None and moment(entered) <= due
    return (role_at(place.rows, due) or join.role) == "sender" and settled and promised(place.service, "L1")


def _is_forbidden(rows: Sequence[AnyRow], group: str, life: tuple[str, int], end: MembershipRow, due: int) -> bool:
    """Whether a process was gone for so long that nobody may have it in the last view."""
    mine = [row for row in rows if (row.process, row.incarnation) == life]
    moves = [row for row in of(mine, MembershipRow, "JOIN", "LEAVE") if row.group == group]
    gone = of(mine, MembershipRow, "CRASH")
    gone.extend(row for row in moves[-1:] if row.kind == "LEAVE")
    if any(comparable(row, end) and moment(row) <= due for row in gone):
        return True
    begins = [
        row
        for row in of(rows, FaultRow, "FAULT")
        if row.fault not in ("load", "heal") and row.edge == "begin" and life[0] in row.members
    ]
    return life[0] in cut_off(rows) and all(comparable(row, end) and moment(row) <= due for row in begins)


def termination(rows: Sequence[AnyRow]) -> list[Violation]:
    """L5."""
    violations = []
    for group in sorted({row.group for row in rows if row.group}):
        places = _places(rows, group)
        for place in places:
            end = place.end
            if end is None or not place.inside or not promised(place.service, "L5"):
                continue
            if not _healed(rows, end):
                continue
            for other in places:
                if other.life == place.life or {other.life[0], place.life[0]} & cut_off(rows):
                    continue
                missing = [send.number for send in _unanswered(rows, other) if _is_owed(place, end, send)]
                if missing:
                    text = f"{process_name(*other.life)} waits for {len(missing)} messages to be delivered"
                    name = message_name(*other.life, min(missing))
                    violations.append(Violation("L5", group, *place.life, end.position, name, text))
    return violations


def _unanswered(rows: Sequence[AnyRow], place: Place) -> list[SendRow]:
    """What a process sent in the era that it has at its end."""
    firsts = first_sends(rows, place.group, place.life).values()
    if place.end is None or any(row.kind == "CRASH" for row in rows if same_process(row, place.end)):
        return []
    found = []
    for send in firsts:
        later = [row for row in place.rows if row.position > send.position]
        ended = any(row.kind in ("LEAVE", *FRESH) for row in later)
        ended = ended or any(view.era is None for view in of(later, ViewRow, "VIEW"))
        ended = ended or any(row.kind in TELLING and row.stretch > send.stretch for row in later)
        if not ended and held(send, "L5") and send.agreed is not None:
            found.append(send)
    return found


def _is_owed(place: Place, end: MembershipRow, send: SendRow) -> bool:
    """Whether a process lacks a message that it must have at its end."""
    if not comparable(send, end) or moment(send) > moment(end) - PRECISION_NANOSECONDS:
        return False
    views = [view for view in agreed_views(place.rows, "L5") if era_of(view) == send.agreed]
    stretch = max((row.stretch for row in place.rows if row.kind in TELLING), default=0)
    if not views or views[-1].stretch != stretch or place.life not in members_of(views[-1]):
        return False
    span = next(span for span in spans(place.rows, "L5", views[-1]) if views[-1] in span)
    start = start_in(span, (send.process, send.incarnation))
    if start is None or send.number < start.number:
        return False
    return not any(
        (row.source, row.source_incarnation, row.number) == (send.process, send.incarnation, send.number)
        for row in of(place.rows, DeliverRow, "DELIVER")
    )
