"""Garbage, truncated, spliced and flipped datagrams, in every state, change nothing but the counters."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.simulation.session_worlds import session_situation
from tests.simulation.test_replay import CHURN, HIERARCHY, Recording, record_nodes
from tests.simulation.worlds import situation
from unisono.engine import Address, DatagramReceived, Note
from unisono.fingerprint import fingerprint
from unisono.simulation.damage import damage
from unisono.wire.refusals import Refusal

NAMED = {"churn": CHURN, "hierarchy": HIERARCHY, "session": session_situation("parted and met", 2)}
STATES = 25
"""How many states of each life are tried."""


def hostile_datagrams(random: Random, genuine: list[bytes]) -> list[bytes]:
    """Bad datagrams of every kind, made from ones that were really sent."""
    data, other = random.choice(genuine), random.choice(genuine)
    at, cut = random.randrange(len(data)), random.randrange(1, min(len(data), len(other)))
    flipped = data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
    spliced = data[:cut] + other[cut:]
    return [
        random.randbytes(random.randrange(200)),
        data[: random.randrange(len(data))],
        flipped,
        data + random.randbytes(random.randint(1, 40)),
        data[: len(data) // 2] + random.randbytes(len(data) - len(data) // 2),
        damage(random, data, other),
        b"",
        *([spliced] if spliced not in (data, other) else []),
    ]


@pytest.mark.parametrize("name", ["churn", "hierarchy", "loss", "fragments", "stopped reader", "restarts", "session"])
def test_what_is_refused_leaves_the_state_as_it_was(name: str) -> None:
    random = Random(name)
    reasons: Counter[str] = Counter()
    for recording in record_nodes(NAMED.get(name) or situation(name, 2)):
        reasons += _attack(random, recording)
    assert {Refusal.SHORT, Refusal.SEAL, Refusal.MAGIC} <= set(reasons)
    assert reasons.total() > 400


def _attack(random: Random, recording: Recording) -> Counter[str]:
    genuine = [fact.data for fact, *_ in recording.steps if isinstance(fact, DatagramReceived)]
    reasons: Counter[str] = Counter()
    engine = recording.build()
    every = max(1, len(recording.steps) // STATES)
    for index, (fact, now, wall, effects) in enumerate(recording.steps):
        if genuine and index % every == 0:
            before = fingerprint(engine)
            for data in hostile_datagrams(random, genuine):
                answer = engine.handle(
                    DatagramReceived(Address("member:9"), Address("member:0"), 1, now, 0, data), now + 1, wall + 1
                )
                assert len(answer) == 1
                assert isinstance(answer[0], Note)
                assert answer[0].reason in set(Refusal)
                reasons[answer[0].reason] += 1
            assert fingerprint(engine) == before
        assert engine.handle(fact, now, wall) == effects
    return reasons


def test_a_genuine_datagram_does_change_the_state() -> None:
    """The fingerprint sees what the test above relies on."""
    recording = record_nodes(situation("loss", 2))[0]
    engine = recording.build()
    changed = 0
    for fact, now, wall, _ in recording.steps[:200]:
        before = fingerprint(engine)
        engine.handle(fact, now, wall)
        changed += isinstance(fact, DatagramReceived) and fingerprint(engine) != before
    assert changed > 50
