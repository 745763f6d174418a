"""Rows of every family, for the tests of trace files."""

from __future__ import annotations

from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    GaugeRow,
    Member,
    MembershipRow,
    ProxyRow,
    Reason,
    RepairRow,
    SendRow,
    Start,
    StatisticRow,
    Value,
    ViewRow,
)

LARGEST = (1 << 63) - 1


def sample_rows(count: int = 3) -> list[AnyRow]:
    """A small history in time order, with every family, nulls, empty and nested lists, and the largest integers."""
    rows: list[AnyRow] = [
        MembershipRow(kind="START", run="r", group="g", process="a", incarnation=LARGEST, position=0, truth=0),
        FaultRow(kind="FAULT", run="r", fault="partition", edge="begin", members=["a", "b"], truth=1, position=0),
        ViewRow(
            kind="VIEW",
            run="r",
            group="g",
            process="a",
            incarnation=LARGEST,
            position=1,
            truth=2,
            view="5/a~1/1",
            start_time=5,
            leader="a",
            leader_incarnation=LARGEST,
            leader_sequence=1,
            previous=None,
            role="receiver",
            start=[Start("a", LARGEST, 0, 0), Start("ä\u0000", 2, 7, 3)],
            transitional=None,
            reasons=[Reason("a", LARGEST, "joined")],
        ),
    ]
    at = 2
    for number in range(count):
        rows.append(
            SendRow(
                kind="SEND",
                run="r",
                group="g",
                process="a",
                incarnation=LARGEST,
                position=at,
                at=at + 1,
                host="simulation",
                truth=at + 1,
                view="5/a~1/1",
                service="RSO",
                sequence=number,
                number=number,
                timestamp=at,
                size=200,
                body=LARGEST - number,
            )
        )
        rows.append(
            DeliverRow(
                kind="DELIVER",
                run="r",
                group="g",
                process="a",
                incarnation=LARGEST,
                position=at + 1,
                at=at + 2,
                host="simulation",
                truth=at + 2,
                view="5/a~1/1",
                service="RSO",
                source="a",
                source_incarnation=LARGEST,
                sequence=number,
                number=number,
                timestamp=at,
                size=200,
                body=LARGEST - number,
                index=number,
            )
        )
        at += 2
    repair = RepairRow(kind="RTR", source="b", source_incarnation=1, first=2, last=9, peer="b")
    proxy = ProxyRow(
        kind="HANDED", origin="c", origin_incarnation=3, number=7, size=5, body=-1, by="a", by_incarnation=LARGEST
    )
    gauge = GaugeRow(kind="GAUGE", name="window", value=10)
    view = ViewRow(
        kind="VIEW",
        start_time=6,
        leader="a",
        leader_incarnation=1,
        leader_sequence=2,
        previous="5/a~1/1",
        role="sender",
        start=[],
        transitional=[Member("a", 1)],
        merged=["5/a~1/1", "5/b~1/1"],
        whole=False,
        primary=True,
    )
    join = MembershipRow(kind="JOIN", group="g", reason="all", across="everything", role="sender")
    statistic = StatisticRow(
        kind="orders", group="g", values=[Value("open", 3.0), Value("state", text="busy"), Value("nothing")]
    )
    last: list[AnyRow] = [repair, proxy, gauge, view, join, statistic]
    for position, row in enumerate(last, at):
        row.process, row.incarnation, row.position, row.truth = "a", LARGEST, position, at + 1
    return rows + last
