"""A process that failed is kept off for a while, and no longer once it has merged."""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.intergroup.membership.reluctance import Reluctance

BOB = ProcessId("bob", 1)


def test_whoever_failed_is_kept_off_longer_each_time() -> None:
    reluctance = Reluctance(100)
    reluctance.on_failed(BOB, 0)
    assert reluctance.until(BOB, 0) == 100
    reluctance.on_failed(BOB, 100)
    assert reluctance.until(BOB, 100) == 300


def test_whoever_has_merged_and_goes_by_its_own_word_may_come_back_at_once() -> None:
    reluctance = Reluctance(100)
    for _ in range(4):
        reluctance.on_failed(BOB, 0)
    assert reluctance.refuses(BOB, 200)
    reluctance.on_joined(BOB, 200)
    assert not reluctance.refuses(BOB, 201)
    reluctance.on_failed(BOB, 300)
    assert reluctance.until(BOB, 300) > 300 + 800, "failing soon after it came, it is kept off for longer"
