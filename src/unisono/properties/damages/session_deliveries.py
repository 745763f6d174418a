"""Damages of what sessions deliver: in another view, not all of it, out of order, and optimistic messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.passages import delivery_at, life, view_at, without
from unisono.properties.damages.reading import in_place_of, send_of
from unisono.properties.damages.sessions import ANEW, Step, is_optimistic, membership_at, seat, steps_of
from unisono.properties.promises import SESSIONS, SETTLING_NANOSECONDS, STRONG, WEAK
from unisono.properties.violation import moment
from unisono.trace.schema import DeliverRow, MembershipRow, RepairRow, SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random


def without_one_of(rows: Rows, random: Random, candidates: list[int]) -> Rows | None:
    """The trace without one of these rows."""
    index = one_of(random, candidates)
    return None if index is None else without(rows, index)


def deliveries_of(rows: Rows, service: str = STRONG) -> list[int]:
    return [index for index, row in enumerate(rows) if isinstance(row, DeliverRow) and row.service == service]


def _streams(rows: Rows, service: str) -> list[list[int]]:
    """Deliveries of one source at one process: in one view of a strong session, in a stretch of a weak one."""
    found: dict[tuple[object, ...], list[int]] = {}
    for index in deliveries_of(rows, service):
        row = delivery_at(rows, index)
        where = row.view if service == STRONG else row.stretch
        found.setdefault((*seat(row), row.source, row.source_incarnation, where), []).append(index)
    return list(found.values())


def sending_view(rows: Rows, index: int) -> str | None:
    """The view that a delivered message was sent for, if that is known."""
    sent = send_of(rows, rows[index])
    send = None if sent is None else rows[sent]
    return send.agreed if isinstance(send, SendRow) else None


@damage("A session delivers a message in the view after the one that it was sent in.", "D3")
def session_delivery_in_the_next_view(rows: Rows, random: Random) -> Rows | None:
    found = one_of(random, [(step, index) for step in steps_of(rows) for index in step.of(rows, "DELIVER")])
    if found is None:
        return None
    step, index = found
    late = in_place_of(rows[index], rows[step.after])
    return [*rows[:index], *rows[index + 1 : step.after + 1], late, *rows[step.after + 1 :]]


@damage("Of two sessions that go on together one lacks a message.", "D5")
def session_set_differs(rows: Rows, random: Random) -> Rows | None:
    ways: dict[tuple[object, ...], list[Step]] = {}
    for step in steps_of(rows):
        after = rows[step.after]
        ways.setdefault((after.group, rows[step.before].view, after.view), []).append(step)
    together = [step for steps in ways.values() if len(steps) > 1 for step in steps]
    return without_one_of(rows, random, [index for step in together for index in step.of(rows, "DELIVER")])


@damage("A session left out a message that one who came along had answered for.", "D9")
def session_cut_left_out(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for step in steps_of(rows):
        answered = {}
        for index in step.of(rows, "CUT"):
            row = rows[index]
            if isinstance(row, RepairRow) and row.peer == str(view_at(rows, step.after).change):
                answered[row.source, row.source_incarnation] = row.last
        for index in step.of(rows, "DELIVER"):
            one = delivery_at(rows, index)
            if one.sequence <= answered.get((one.source, one.source_incarnation), 0):
                candidates.append(index)
    return without_one_of(rows, random, candidates)


@damage("A session does not hear its own message before its view changes.", "D6")
def session_own_message_unheard(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for step in steps_of(rows):
        for index in step.of(rows, "DELIVER"):
            row = delivery_at(rows, index)
            sent = send_of(rows, row)
            if (row.source, row.source_incarnation) == life(row) and sent is not None:
                candidates.extend([] if is_optimistic(rows[sent]) else [index])
    return without_one_of(rows, random, candidates)


@damage("A session delivers a message twice.", "D2")
def session_duplicate(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for service in sorted(SESSIONS) for index in deliveries_of(rows, service)])
    return None if index is None else [*rows[: index + 1], rows[index], *rows[index + 1 :]]


@damage("A session delivers two messages of one source out of order.", "O1")
def session_order_swapped(rows: Rows, random: Random) -> Rows | None:
    streams = [stream for service in sorted(SESSIONS) for stream in _streams(rows, service) if len(stream) > 1]
    stream = one_of(random, streams)
    if stream is None:
        return None
    first, second = stream[:2]
    rows[first], rows[second] = in_place_of(rows[second], rows[first]), in_place_of(rows[first], rows[second])
    return rows


@damage("A session leaves out a message of a source, and delivers the next.", "O2")
def session_gap(rows: Rows, random: Random) -> Rows | None:
    candidates = [index for stream in _streams(rows, STRONG) for index in stream[:-1]]
    return without_one_of(rows, random, [index for index in candidates if send_of(rows, rows[index]) is not None])


@damage("A weak session leaves out a message between two others that its source sent in the same view.", "O2")
def weak_session_gap(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for stream in _streams(rows, WEAK):
        sent_for = [sending_view(rows, index) for index in stream]
        for place in range(1, len(stream) - 1):
            around = slice(place - 1, place + 2)
            views = {rows[index].view for index in stream[around]}
            if len(views) == 1 and sent_for[place] is not None and len(set(sent_for[around])) == 1:
                candidates.append(stream[place])
    return without_one_of(rows, random, candidates)


@damage("A session delivers from a source that is not in its view.", "O2")
def session_stranger(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for service in sorted(SESSIONS) for index in deliveries_of(rows, service)])
    if index is None:
        return None
    rows[index] = replace(rows[index], source_incarnation=1)
    return rows


@damage("An optimistic message is returned, and delivered too.", "D12")
def returned_and_delivered(rows: Rows, random: Random) -> Rows | None:
    sends = {send_of(rows, rows[index]) for index in deliveries_of(rows)} - {None}
    index = one_of(random, [index for index in sorted(filter(None, sends)) if is_optimistic(rows[index])])
    return None if index is None else _returned(rows, index, index + 1)


@damage("A message is returned that was not optimistic.", "D12")
def returned_in_time(rows: Rows, random: Random) -> Rows | None:
    sends = [index for index, row in enumerate(rows) if isinstance(row, SendRow) and row.service == STRONG]
    index = one_of(random, [index for index in sends if not is_optimistic(rows[index])])
    return None if index is None else _returned(rows, index, index + 1)


@damage("An optimistic message is returned twice.", "D12")
def returned_twice(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index, row in enumerate(rows) if row.kind == "RETURNED"])
    return None if index is None else [*rows[: index + 1], rows[index], *rows[index + 1 :]]


def _returned(rows: Rows, sent: int, index: int) -> Rows:
    send = rows[sent]
    assert isinstance(send, SendRow)
    back = MembershipRow(
        kind="RETURNED",
        run=send.run,
        group=send.group,
        process=send.process,
        incarnation=send.incarnation,
        at=send.at,
        host=send.host,
        truth=send.truth,
        view=send.view,
        service=send.service,
        stretch=send.stretch,
        sequence=send.sequence,
        number=send.number,
        reason="return",
    )
    return [*rows[:index], back, *rows[index:]]


@damage("A message for a view that does not come is not returned.", "D12")
def optimistic_never_returned(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for index, row in enumerate(rows):
        if row.kind == "RETURNED":
            sent = _hope(rows, index)
            if sent is not None and _goes_on_twice(rows, sent):
                candidates.append(index)
    return without_one_of(rows, random, candidates)


def _hope(rows: Rows, returned: int) -> int | None:
    """The optimistic message that is returned."""
    back = membership_at(rows, returned)
    wanted = (*seat(back), back.number)
    sends = [index for index, row in enumerate(rows) if is_optimistic(row)]
    return next((index for index in sends if (*seat(rows[index]), _number(rows, index)) == wanted), None)


def _number(rows: Rows, index: int) -> int:
    row = rows[index]
    assert isinstance(row, SendRow)
    return row.number


def _goes_on_twice(rows: Rows, sent: int) -> bool:
    """Whether a sender installs two views after a message, or one long before its end."""
    mine = [row for row in rows[sent:] if seat(row) == seat(rows[sent])]
    turns = [row for row in mine if isinstance(row, ViewRow) or row.kind in ANEW][:2]
    if len(turns) == 2:
        return all(isinstance(row, ViewRow) for row in turns)
    ends = [row for row in rows if row.kind == "END" and life(row) == life(rows[sent])]
    kept = bool(turns) and isinstance(turns[0], ViewRow) and bool(ends)
    return kept and moment(turns[0]) <= moment(ends[0]) - SETTLING_NANOSECONDS


@damage("A session never hears the optimistic message that it sent for the view that it has.", "D12")
def optimistic_lost(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for index in deliveries_of(rows):
        row = delivery_at(rows, index)
        sent = send_of(rows, row)
        own = (row.source, row.source_incarnation) == life(row)
        if own and sent is not None and is_optimistic(rows[sent]) and _goes_on_twice(rows, sent):
            candidates.append(index)
    return without_one_of(rows, random, candidates)


@damage("An optimistic message is delivered in another view than it was sent for.", "D3", "D12")
def optimistic_in_another_view(rows: Rows, random: Random) -> Rows | None:
    sends = {send_of(rows, rows[index]) for index in deliveries_of(rows)}
    index = one_of(random, [index for index in sorted(filter(None, sends)) if is_optimistic(rows[index])])
    if index is None:
        return None
    rows[index] = replace(rows[index], agreed="elsewhere")
    return rows
