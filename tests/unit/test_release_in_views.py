"""Copies of others' messages go when their source calls them stable in the view of this process, not in a later one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from unisono.identity import NO_VIEW, ProcessId, ViewMark
from unisono.intergroup.repairing import Repairing
from unisono.reliable.suppression import Pace
from unisono.wire.messages import DataMessage, DataPacket

SOURCE = ProcessId("a", 1)
OURS, LATER = ViewMark(10, 1), ViewMark(20, 2)


def _repairing(*members: ProcessId) -> Repairing:
    context: Any = SimpleNamespace(
        process=ProcessId("b", 1),
        pace=Pace(),
        settings=SimpleNamespace(window_bytes=1000),
        is_behind=lambda process, view: process in members and view.start > OURS.start,
    )
    return Repairing(context, sending=None)  # type: ignore[arg-type]  # nothing is sent here


def _packet(sequence: int, stable: int, view: ViewMark) -> DataPacket:
    message = DataMessage(sequence, sequence, sequence, 0, 0, 1, b"x")
    return DataPacket(SOURCE, 1, [message], stable, b"sealed", view)


def test_who_ends_a_view_can_still_ask_for_what_a_member_that_went_ahead_calls_stable() -> None:
    repairing = _repairing(SOURCE)
    repairing.keep(_packet(1, 0, OURS))
    repairing.keep(_packet(2, 1, LATER))
    repairing.release(SOURCE, 2, LATER)
    assert repairing.holds(SOURCE, 1)
    assert repairing.holds(SOURCE, 2)
    repairing.release(SOURCE, 1, OURS)
    assert not repairing.holds(SOURCE, 1)


def test_who_is_no_member_is_believed_in_any_view() -> None:
    for view in (NO_VIEW, LATER):
        repairing = _repairing()
        repairing.keep(_packet(1, 0, view))
        repairing.release(SOURCE, 1, view)
        assert not repairing.holds(SOURCE, 1)
