"""A source that falls silent and sends again counts those who never let it go, as soon as they say something."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from unisono.engine import Address
from unisono.identity import NO_VIEW, ProcessId
from unisono.intergroup.audience import Audience, Listener
from unisono.intergroup.speaking import Speaking
from unisono.wire.messages import RepairRequest, Report, ReportEntry

SOURCE, READER = ProcessId("a", 1), ProcessId("r", 1)
PLACE = Address("reader")
ATTEMPT = 3
LAST_WORD = 47
STEP: Any = SimpleNamespace(now=100, mark=lambda name: None, note=lambda reason: None)


class Silent(Speaking):
    """A source whose window is what a test says; it tells who is left behind, and sends nothing."""

    def __init__(self, sent: int, first: int | None) -> None:
        self.audience = Audience(SOURCE)
        self.left_behind: list[ProcessId] = []
        self._context: Any = SimpleNamespace(process=SOURCE)
        self.sending: Any = SimpleNamespace(
            last_sequence=sent,
            window=SimpleNamespace(first=first),
            pacing=SimpleNamespace(on_missed=lambda now, low, high: None),
        )
        self._asked = {}
        self.audience.admit(READER, Listener(PLACE, ATTEMPT, False, True, NO_VIEW, (LAST_WORD + 1, 1), 0, 0))
        self._released = self.audience.clear(0)

    def advance(self, step: Any) -> None:
        pass

    def _say_left_behind(self, step: Any, receiver: ProcessId, address: object, attempt: int) -> None:
        self.left_behind.append(receiver)

    def report(self, received: int) -> None:
        self.on_report(STEP, READER, PLACE, Report((ReportEntry(SOURCE, ATTEMPT, received),)))

    def request(self, sequence: int) -> bool:
        request = RepairRequest(SOURCE, ATTEMPT, ((sequence, sequence),), 0, None, None)
        return self.may_ask(STEP, READER, PLACE, request)

    @property
    def stable(self) -> int:
        return self.audience.stable(self.sending.last_sequence)


def test_who_has_had_everything_and_says_so_late_counts_no_more() -> None:
    source = Silent(sent=50, first=48)
    source.report(LAST_WORD)
    assert source.stable == 50
    assert source.left_behind == []


def test_who_reports_what_was_sent_since_counts_as_before() -> None:
    source = Silent(sent=50, first=48)
    source.report(49)
    assert source.stable == 49
    source.report(50)
    assert source.stable == 50


def test_who_asks_for_what_was_sent_since_counts_and_is_answered() -> None:
    source = Silent(sent=50, first=48)
    assert source.request(48)
    assert source.stable == LAST_WORD


@pytest.mark.parametrize("first", [50, None])
def test_who_lacks_what_was_released_meanwhile_is_told(first: int | None) -> None:
    source = Silent(sent=50, first=first)
    assert not source.request(49)
    assert source.left_behind == [READER]
    assert source.stable == 50
