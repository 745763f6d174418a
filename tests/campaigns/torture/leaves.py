"""Leaves beside a stopped sender: a member that has just said its last word as a sender leaves before anybody has it.

Six members, three of which are senders only while they talk. These fall silent; a sender is stopped, and 0.1 to 1.3 s
later two of the others leave. Both `leave`s have to return.
"""

from __future__ import annotations

from random import Random

from tests.campaigns.torture.plan import Cast, Deed, Plan

MEMBERS, AUTOS = 6, 3
IDLE_SECONDS = 0.5
TALK_SECONDS = 1.5
RATE = 10.0
LEAVES = 2
AFTER_STOP = (0.1, 1.3)
STOP_SECONDS = 6.0


def make_leaves(seed: int, transport: str | None = None) -> Plan:
    random = Random(f"leaves {seed}")
    drawn = random.choice(["multicast", "mesh"])
    roles = ["auto"] * AUTOS + ["sender"] * (MEMBERS - AUTOS)
    idle = f"{1000 * IDLE_SECONDS:.0f}ms"
    lives = [Cast(f"m{number}", 1, "timestamp", role, False, idle) for number, role in enumerate(roles)]
    autos, senders = lives[:AUTOS], lives[AUTOS:]
    stopped = random.choice(senders)
    leaving = [random.choice(autos)]
    leaving.append(random.choice([life for life in lives if life not in (stopped, *leaving)]))
    deeds = [Deed(0.0, "talk", life.key, RATE) for life in lives]
    deeds += [Deed(TALK_SECONDS, "talk", life.key, 0) for life in autos]
    at = TALK_SECONDS + random.uniform(0, 1.2 * IDLE_SECONDS)
    deeds.append(Deed(at, "stop", stopped.key))
    deeds += [Deed(at + random.uniform(*AFTER_STOP), "leave", life.key, random.choice((0, 0, 1))) for life in leaving]
    deeds.append(Deed(at + STOP_SECONDS, "go on", stopped.key))
    ordered = tuple(sorted(deeds, key=lambda deed: deed.at))
    casts = {life.key: life for life in lives}
    return Plan("leaves", seed, at + STOP_SECONDS, transport or drawn, casts, ordered, random.random() < 0.5)
