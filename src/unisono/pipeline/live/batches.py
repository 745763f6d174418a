"""A batch of reports against the state of all runs: what Spark keeps between batches, and what a batch makes of it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct, field

from unisono.errors import TraceError
from unisono.pipeline.live.outputs import AnyLine, Line, Standing
from unisono.pipeline.live.run import LiveRun, RunState
from unisono.trace import reports

Arrived = tuple[int, bytes]
"""A report as the log has it, with the time of the stream when it came."""


class State(Struct, array_like=True):
    """All runs that go on."""

    runs: dict[str, RunState] = field(default_factory=dict)


class Results(Struct, array_like=True):
    """What a batch gave: lines for the tables, and how each run stands."""

    lines: list[AnyLine]
    standings: list[Standing]


_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(State).decode
_decode_results = msgspec.msgpack.Decoder(Results).decode


def advance(stored: bytes | None, arrived: Iterable[Arrived], now: int) -> tuple[bytes, bytes]:
    """The next state and the results, both encoded; the reports are in the order of the log."""
    state = _state(stored)
    live = {name: LiveRun(name, run) for name, run in state.runs.items()}
    for came, payload in arrived:
        report = reports.decode(payload)
        run = live.get(report.run)
        if run is None:
            run = live[report.run] = LiveRun(report.run)
        run.take(report.process, report.incarnation, report.host, report.number, reports.rows(report), came)
    lines: list[Line] = []
    standings = []
    for name in sorted(live):
        mine, standing = live[name].finish_batch(now)
        lines += mine
        standings.append(standing)
    kept = State({name: run.dump() for name, run in live.items() if not run.is_over})
    data = _encode(kept)
    return data, _encode(Results(lines, standings))  # type: ignore[arg-type]  # every line is of one of these kinds


def results(data: bytes) -> Results:
    """What `advance` encoded."""
    return _decode_results(data)


def _state(stored: bytes | None) -> State:
    if not stored:
        return State()
    try:
        return _decode_state(stored)
    except msgspec.MsgspecError as error:
        raise TraceError(
            f"the stored state of the live audits is of another version: {error}; begin anew with another --data"
        ) from None
