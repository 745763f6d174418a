"""Reports of made-up processes."""

from __future__ import annotations

from unisono.trace.reports import Report, make_report
from unisono.trace.schema import AnyRow, GaugeRow, MembershipRow, SendRow, StatisticRow, Value

ROWS = 5


def report(process: str = "ada", number: int = 0, run: str = "r", incarnation: int = 7, last: bool = False) -> Report:
    """A report with a row of several families; positions go on from report to report."""
    rows: list[AnyRow] = [
        MembershipRow(kind="END" if last else "JOIN", group="g"),
        SendRow(kind="SEND", group="g", sequence=number, number=number, timestamp=1, size=3, body=number),
        SendRow(kind="SEND", group="g", sequence=number, number=number, timestamp=1, size=3, body=number),
        GaugeRow(kind="GAUGE", name="window", value=number),
        StatisticRow(kind="orders", values=[Value("open", float(number))]),
    ]
    assert len(rows) == ROWS
    for place, row in enumerate(rows):
        row.run, row.process, row.incarnation, row.host = run, process, incarnation, "h"
        row.position = number * ROWS + place
        row.at = row.position + 1
    return make_report(rows, number)
