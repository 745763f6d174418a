"""Rows of a trace in words, as the tables of a page tell them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unisono.properties.violation import message_name, process_name
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    GaugeRow,
    MembershipRow,
    ProxyRow,
    RepairRow,
    SendRow,
    StatisticRow,
    ViewRow,
)


def row_words(row: AnyRow) -> str:
    """What a row says, but for who and when."""
    words = _WORDS.get(type(row))
    return row.kind if words is None else words(row)


def _send_words(row: SendRow) -> str:
    return f"sends {message_name(row.process, row.incarnation, row.number)}, timestamp {row.timestamp}"


def _deliver_words(row: DeliverRow) -> str:
    message = message_name(row.source, row.source_incarnation, row.number)
    return f"delivers {message}, timestamp {row.timestamp}, index {row.index} in its view"


def _proxy_words(row: ProxyRow) -> str:
    message = message_name(row.origin, row.origin_incarnation, row.number)
    by = "" if row.by is None else f", sent by {row.by}"
    return f"{'asks others to send' if row.kind == 'ASKED' else 'hands over'} {message}{by}"


def _gauge_words(row: GaugeRow) -> str:
    cap = "" if row.cap is None else f", cap {row.cap}"
    return f"{row.name}: {row.value}{cap}" if row.kind == "GAUGE" else f"meets {row.name}"


def _statistic_words(row: StatisticRow) -> str:
    values = [f"{one.name} {one.text if one.number is None else f'{one.number:g}'}" for one in row.values]
    return f"tells {row.kind}: {', '.join(values)}" if values else f"tells {row.kind}"


def _fault_words(row: FaultRow) -> str:
    return f"{row.fault} {row.edge}s {' '.join(row.members)}".strip()


def _view_words(row: ViewRow) -> str:
    members = " ".join(start.source for start in row.start)
    words = [f"installs {row.view} of {members or 'nobody'} as {row.role}"]
    if row.transitional is not None:
        words.append(f"along with {' '.join(member.process for member in row.transitional) or 'nobody'}")
    if row.previous is not None:
        words.append(f"after {row.previous}")
    if row.primary is not None:
        words.append("primary" if row.primary else "not primary")
    return ", ".join(words)


def _repair_words(row: RepairRow) -> str:
    source = process_name(row.source, row.source_incarnation)
    return {
        "RTR": f"asks for {row.first} to {row.last} of {source}",
        "RTX": f"repairs {row.first} to {row.last} of {source}",
        "GC": f"releases up to {row.last} of {source}",
        "CUT": f"has {row.first} to {row.last} of {source} at the cut",
    }.get(row.kind, f"{row.kind} {row.first} to {row.last} of {source}")


def _membership_words(row: MembershipRow) -> str:
    details = [
        None if row.peer is None else f"peer {row.peer}",
        None if row.sequence is None else f"sequence {row.sequence}",
        None if row.number is None else f"number {row.number}",
        row.reason,
        row.role,
    ]
    told = ", ".join(detail for detail in details if detail)
    return f"{row.kind} ({told})" if told else row.kind


_WORDS: dict[type[AnyRow], Callable[[Any], str]] = {
    SendRow: _send_words,
    DeliverRow: _deliver_words,
    ViewRow: _view_words,
    MembershipRow: _membership_words,
    RepairRow: _repair_words,
    ProxyRow: _proxy_words,
    GaugeRow: _gauge_words,
    StatisticRow: _statistic_words,
    FaultRow: _fault_words,
}
"""How each family is told; one that is not here is told by its kind."""
