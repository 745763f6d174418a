"""Suspicion: who has been silent for too long, and when to look."""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.reliable.suspicion import Suspicion
from unisono.units import MILLISECOND, SECOND

PEER = ProcessId("b", 1)


def test_a_peer_that_is_heard_often_again_is_looked_for_in_time() -> None:
    suspicion = Suspicion(SECOND)
    suspicion.watch(PEER, 0)
    now = 0
    for _ in range(20):
        for gap in (900 * MILLISECOND, 200 * MILLISECOND):
            now += gap
            suspicion.hear(PEER, now)
    _, slow = suspicion.silence(PEER, now)
    assert slow > SECOND
    look = suspicion.next_look(now)
    for _ in range(40):
        now += MILLISECOND
        suspicion.hear(PEER, now)
    _, fast = suspicion.silence(PEER, now)
    assert fast == SECOND
    assert look is not None
    assert look <= now + fast


def test_nobody_is_looked_for_while_nobody_is_watched() -> None:
    assert Suspicion(SECOND).next_look(0) is None
