"""Answers to probes, and pictures of them."""

from __future__ import annotations

from typing import Any

from unisono.identity import ProcessId, ViewId
from unisono.probing.asker import Round
from unisono.probing.picture import Picture, Watch
from unisono.units import SECOND
from unisono.wire.probe_messages import Level, Levels, ProbeAnswer, ProbedView, Traffic

A, B, C, D = (ProcessId(name, 1) for name in "abcd")
FIRST, LATER = ViewId(100, A, 1), ViewId(200, C, 1)


def answer(**fields: Any) -> ProbeAnswer:
    values: dict[str, Any] = {
        "token": 0,
        "round": 1,
        "at": 5 * SECOND,
        "age": 4 * SECOND,
        "sends": True,
        "service": "timestamp",
        "state": "settled",
        "agreed": view(FIRST, A, B),
        "same": True,
        "shown": None,
        "traffic": Traffic(0, 0, 0, 0, 0, 0),
        "levels": Levels(Level(0, 1 << 20), Level(0, 1 << 27), Level(0, 1 << 20), Level(0, 1 << 23), Level(0, 10_000)),
        "suspects": (),
        "suspected": 0,
        "follows": 1,
        "followers": 1,
    }
    return ProbeAnswer(**{**values, **fields})


def view(identifier: ViewId, *members: ProcessId, count: int | None = None) -> ProbedView:
    return ProbedView(identifier, 3 * SECOND, members, len(members) if count is None else count)


def look(**answers: ProbeAnswer) -> Picture:
    return Watch().look(Round(1, {ProcessId(name, 1): one for name, one in answers.items()}))
