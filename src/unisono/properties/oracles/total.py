"""The order of all messages by their keys: causal (O3), total (O6), without gaps (O4, O7), and the keys (O8)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from unisono.properties.oracles.reading import (
    Key,
    agreed_views,
    at,
    current_view,
    deliveries,
    era_of,
    first_sends,
    fresh_between,
    goes_on_in,
    held,
    key_of,
    name_of,
    of,
    same_member,
    same_process,
    sent_key,
    spans,
    start_in,
)
from unisono.properties.promises import CLOCK_HELD
from unisono.properties.violation import Violation, message_name
from unisono.trace.schema import AnyRow, DeliverRow, GaugeRow, MembershipRow, RepairRow, SendRow, ViewRow


def causal(rows: Sequence[AnyRow]) -> list[Violation]:
    """O3."""
    violations = []
    for row in [row for row in of(rows, SendRow, "SEND") if held(row, "O3", "sender")]:
        sent = [one for one in of(rows, SendRow, "SEND") if same_process(one, row)]
        heard = [one for one in of(rows, DeliverRow, "DELIVER") if same_process(one, row)]
        marks = [one for one in of(rows, GaugeRow, "MARK") if same_process(one, row) and one.name == CLOCK_HELD]
        excused = any(mark.position < row.position for mark in marks)
        known: list[SendRow | DeliverRow] = [*sent, *([] if excused else heard)]
        if any(one.position < row.position and one.timestamp >= row.timestamp for one in known):
            name = message_name(row.process, row.incarnation, row.number)
            violations.append(at(row, "O3", name, "sent with a timestamp that is not above what was known"))
    timed = deliveries(rows, "O3")
    for delivery in timed:
        before = [one for one in timed if _same_stretch(one, delivery) and one.position < delivery.position]
        if before and key_of(before[-1]) >= key_of(delivery):
            violations.append(at(delivery, "O3", name_of(delivery), f"delivered after {name_of(before[-1])}"))
    return violations


def _same_stretch(one: AnyRow, other: AnyRow) -> bool:
    return same_member(one, other) and one.stretch == other.stretch


class Line(Struct):
    """Consecutive spans of one stretch that a source goes on in, and whether it does not go on in the next one."""

    spans: list[list[ViewRow]]
    source: tuple[str, int]
    ended: bool


def _sources(span: list[ViewRow]) -> list[tuple[str, int]]:
    return sorted({(start.source, start.incarnation) for view in span for start in view.start})


def _gaps(rows: Sequence[AnyRow], property_id: str, lines: list[Line]) -> list[Violation]:
    """Where the next message of a source, undelivered in these views, is below something that was delivered in them."""
    violations = []
    timed = [(row, current_view(rows, row)) for row in deliveries(rows, property_id)]
    for line in lines:
        views = [view for span in line.spans for view in span]
        places = {view.position for view in views}
        first = views[0]
        inside = [
            row for row, view in timed if view is not None and same_member(row, first) and view.position in places
        ]
        start = start_in(line.spans[0], line.source)
        assert start is not None, "a line begins with a view that has its source"
        got = {row.number for row in inside if (row.source, row.source_incarnation) == line.source}
        sent_in = {view.view for view in views} | {era_of(view) for view in views}
        missing = [
            row
            for number, row in sorted(first_sends(rows, first.group, line.source).items())
            if number >= start.number and number not in got and row.agreed in sent_in
        ]
        if not missing or not inside or (line.ended and missing[0].number > max(got, default=0)):
            continue
        highest: Key = max(key_of(row) for row in inside)
        if sent_key(missing[0]) < highest:
            name = message_name(*line.source, missing[0].number)
            violations.append(at(first, property_id, name, "never delivered, though later ones were"))
    return violations


def _goes_on(rows: Sequence[AnyRow], span: list[ViewRow], later: list[ViewRow], source: tuple[str, int]) -> bool:
    """Whether what is heard of a source goes on from one span to the next."""
    return goes_on_in(later[0], source) and not fresh_between(rows, span[-1], later[0])


def _stretches(rows: Sequence[AnyRow], property_id: str) -> list[list[list[ViewRow]]]:
    """Of every stretch its spans."""
    firsts: dict[tuple[str, str, int, int], ViewRow] = {}
    for view in agreed_views(rows, property_id):
        firsts.setdefault((view.group, view.process, view.incarnation, view.stretch), view)
    return [spans(rows, property_id, view) for view in firsts.values()]


def _is_answered(rows: Sequence[AnyRow], view: ViewRow) -> bool:
    """Whether the end of a view was being agreed when its process saw no other one: it may be over."""
    return any(
        same_member(row, view) and row.stretch == view.stretch and row.position > view.position
        for row in of(rows, RepairRow, "CUT")
    )


def reliable_causal(rows: Sequence[AnyRow]) -> list[Violation]:
    """O4."""
    lines = []
    for around in _stretches(rows, "O4"):
        for index, span in enumerate(around):
            before, after = around[:index], around[index:]
            for source in _sources(span):
                if before and source in _sources(before[-1]) and _goes_on(rows, before[-1], span, source):
                    continue
                ends = [
                    place
                    for place in range(1, len(after))
                    if not _goes_on(rows, after[place - 1], after[place], source)
                ]
                ended = bool(ends) or _is_answered(rows, after[-1][-1])
                lines.append(Line(after[: ends[0]] if ends else after, source, ended))
    return _gaps(rows, "O4", lines)


def without_gaps(rows: Sequence[AnyRow]) -> list[Violation]:
    """O7."""
    lines = []
    for around in _stretches(rows, "O7"):
        for index, span in enumerate(around):
            after = around[index + 1 :]
            for source in _sources(span):
                ended = not _goes_on(rows, span, after[0], source) if after else _is_answered(rows, span[-1])
                lines.append(Line([span], source, ended))
    return _gaps(rows, "O7", lines)


def _domain(rows: Sequence[AnyRow], row: AnyRow) -> tuple[str | None, str]:
    """What a row is ordered with: the domain that the last JOIN names, else its group alone."""
    joins = [one for one in of(rows, MembershipRow, "JOIN") if same_member(one, row) and one.position < row.position]
    across = joins[-1].across if joins else None
    return (None, row.group) if across is None else (across, "")


def runs_of_one_order(rows: Sequence[AnyRow]) -> list[list[DeliverRow]]:
    """Deliveries that must be in one order: of one process and domain, until one of its groups has a new stretch."""
    found: list[list[DeliverRow]] = []
    for life in sorted({(row.process, row.incarnation) for row in rows}):
        timed: list[ViewRow | DeliverRow] = [
            *(row for row in of(rows, ViewRow, "VIEW") if held(row, "O6")),
            *deliveries(rows, "O6"),
        ]
        mine = sorted((row for row in timed if (row.process, row.incarnation) == life), key=lambda row: row.position)
        for domain in {_domain(rows, row) for row in mine}:
            stretches: dict[str, int] = {}
            for row in mine:
                if _domain(rows, row) != domain:
                    continue
                if stretches.get(row.group) != row.stretch:
                    stretches[row.group] = row.stretch
                    found.append([])
                if isinstance(row, DeliverRow):
                    found[-1].append(row)
    return found


def total_order(rows: Sequence[AnyRow]) -> list[Violation]:
    """O6."""
    violations = []
    for run in runs_of_one_order(rows):
        for index, row in enumerate(run):
            above = [one for one in run[:index] if key_of(one) >= key_of(row)]
            if above:
                violations.append(at(row, "O6", name_of(row), f"delivered after {name_of(above[0])}"))
    return violations


def key_discipline(rows: Sequence[AnyRow]) -> list[Violation]:
    """O8."""
    violations = []
    for row in deliveries(rows, "O8"):
        sent = first_sends(rows, row.group, (row.source, row.source_incarnation)).get(row.number)
        if sent is not None and sent.timestamp != row.timestamp:
            violations.append(at(row, "O8", name_of(row), f"sent with timestamp {sent.timestamp}"))
    sends = [row for row in of(rows, SendRow, "SEND") if held(row, "O8", "sender")]
    for send in sends:
        before = [one for one in sends if same_member(one, send) and one.position < send.position]
        if before:
            last = before[-1]
            numbers = (send.number > last.number) - (send.number < last.number)
            timestamps = (send.timestamp > last.timestamp) - (send.timestamp < last.timestamp)
            if numbers != timestamps:
                name = message_name(send.process, send.incarnation, send.number)
                violations.append(at(send, "O8", name, "its timestamp does not grow with its number"))
    timed = deliveries(rows, "O3")
    violations.extend(
        at(row, "O8", name_of(row), "delivered below the horizon")
        for row in timed
        if any(
            _same_stretch(one, row) and one.position < row.position and one.timestamp > row.timestamp for one in timed
        )
    )
    return violations
