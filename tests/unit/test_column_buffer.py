"""Rows that are gathered in columns are those that the recorder makes one by one."""

from __future__ import annotations

from random import Random

from unisono.engine import Deliver, Record
from unisono.events import Event, Left, LeftBehind, Message, View
from unisono.identity import ProcessId, StartPoint, ViewId
from unisono.trace.column_buffer import ColumnBuffer
from unisono.trace.recorder import Recorder
from unisono.trace.reports import decode, encode, rows
from unisono.trace.schema import AnyRow, GaugeRow, MembershipRow, SendRow

ADA, BOB, CAT = ProcessId("ada", 3), ProcessId("bob", 5), ProcessId("cat", 7)


def history(seed: int) -> list[Deliver | Record]:
    """Effects of every kind that leaves rows, with messages in long and short runs, by proxy and across views."""
    draw = Random(seed)
    effects: list[Deliver | Record] = [Record(MembershipRow(kind="START", process="ada", incarnation=3))]
    view: ViewId | None = None
    for number in range(60):
        events: list[Event] = []
        for _ in range(draw.randint(1, 12)):
            kind = draw.random()
            if kind < 0.04:
                new = ViewId(number, draw.choice((ADA, BOB)), 1)
                events.append(View(new, view, (ADA, BOB), (StartPoint(ADA, 1, 1),), ()))
                view = new
            elif kind < 0.08:
                events.append(draw.choice((LeftBehind(BOB), Left())))
            else:
                by = CAT if kind > 0.97 else None
                data = draw.randbytes(draw.randint(0, 40))
                events.append(
                    Message(draw.choice((ADA, BOB)), number, number + 1, number + 9, data, view, number, "", by, 4)
                )
        effects.append(Deliver(draw.choice(("g", "h")), draw.choice(("RSO", "RTO")), number // 20, tuple(events)))
        if draw.random() < 0.3:
            effects.append(Record(GaugeRow(kind="GAUGE", name="window", value=number)))
            effects.append(Record(SendRow(kind="SEND", sequence=1, number=2, timestamp=3, size=4, body=-5)))
    return effects


def made_one_by_one(seed: int) -> list[AnyRow]:
    recorder = Recorder("r", "ada", "h")
    return [row for at, effect in enumerate(history(seed)) for row in recorder.rows(effect, at, None)]


def test_columns_hold_the_same_rows() -> None:
    for seed in range(30):
        recorder, buffer, turn = Recorder("r", "ada", "h"), ColumnBuffer(), ColumnBuffer()
        gathered: list[AnyRow] = []
        for at, effect in enumerate(history(seed)):
            recorder.gather(effect, at, turn)
            if at % 3 == 0:
                buffer.extend(turn)
                turn = ColumnBuffer()
            if at % 17 == 0:
                gathered += rows(decode(encode(buffer.take("r", "ada", recorder.incarnation, "h", 1))))
                assert buffer.count == 0
        buffer.extend(turn)
        if buffer.count:
            assert buffer.count < buffer.about_bytes
            gathered += rows(decode(encode(buffer.take("r", "ada", recorder.incarnation, "h", 2))))
        assert gathered == made_one_by_one(seed)


def test_without_messages_the_rest_is_there() -> None:
    recorder, buffer = Recorder("r", "ada", "h"), ColumnBuffer()
    for at, effect in enumerate(history(1)):
        recorder.gather(effect, at, buffer, messages=False)
    found = rows(buffer.take("r", "ada", 3, "h", 0))
    wanted = [row.kind for row in made_one_by_one(1) if row.kind not in ("DELIVER", "HANDED")]
    assert [row.kind for row in found] == wanted
    assert [row.position for row in found] == list(range(len(found)))
