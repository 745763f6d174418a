"""A state in a group whose members become receivers and senders meanwhile: it stays one, and comes to everybody."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tests.simulation.test_state_transfer import loaded, play
from unisono.simulation.world import World

BASE = """
name = "states-and-roles"
members = 5
state = "30kB"
duration = "7s"
settle = "10s"

[options]
service = "timestamp"
state_chunk_bytes = "1KiB"
state_rate_bytes = "20kB"
state_patience = "2s"
{options}

[[workload]]
senders = {senders}
rate = {rate}

[[member]]
index = 3
joins = "2500ms"

[[member]]
index = 4
joins = "3500ms"
"""
AUTO = 'role = "auto"\nidle = "150ms"'
LATE = 4.0
"""By then all have joined."""


def flips(randomness: Random, until: float) -> str:
    """Members become receivers and senders, again and again."""
    text, at = "", 0.5
    while (at := at + randomness.uniform(0.1, 0.6)) < until:
        kind = randomness.choice(("become_receiver", "become_receiver", "become_sender"))
        member = randomness.randrange(5 if at > LATE else 3)
        text += f'\n[[fault]]\nat = "{int(at * 1000)}ms"\nkind = "{kind}"\nmember = {member}\n'
    return text


EVERYBODY = [0, 1, 2, 3, 4]


def told(seed: int, senders: Sequence[int] = EVERYBODY) -> str:
    """Roles change because applications say so."""
    return BASE.format(options="", senders=list(senders), rate=4) + flips(Random(seed), 6.5)


def quiet(seed: int) -> str:
    """Roles change because all but one member send now and then."""
    rate = Random(seed).choice((0.7, 2, 5))
    often = "\n[[workload]]\nsenders = [0]\nrate = 20\n"
    return BASE.format(options=AUTO, senders=EVERYBODY[1:], rate=rate) + often


def crashing(seed: int) -> str:
    """As told, and two of three who have the state crash, then a newcomer does; the third of them sends."""
    randomness = Random(seed)
    first, second, sender = randomness.sample(range(3), 3)
    crashes = ((first, 2.8 + randomness.random()), (second, 4.5 + randomness.random()), (3, 3.0 + randomness.random()))
    faults = "".join(
        f'\n[[fault]]\nat = "{int(at * 1000)}ms"\nkind = "crash"\nmember = {member}\nrestart = "500ms"\n'
        for member, at in crashes
    )
    return told(seed, [sender]) + faults


KINDS = {"told": told, "quiet": quiet, "crashing": crashing}


def judge(world: World, one_state: bool = True) -> None:
    assert world.monitors.violations == []
    has = {machine.name: machine.states["g"].has for machine in world.machines}
    assert all(has.values()), has
    assert world.counters["transfer: a chunk came again"] == 0
    if one_state:
        assert world.counters["transfer: nobody has a state"] == 1, "only one went on with its own state"
        assert len({machine.states["g"].digest for machine in world.machines}) == 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_roles_flip_while_members_join(kind: str, seed: int) -> None:
    world = play(KINDS[kind](seed), seed)
    judge(world)
    assert {"p3", "p4"} <= set(loaded(world)), "who came late was given the state"


def test_who_is_heard_too_late_does_not_see_another_beginning_of_a_view() -> None:
    """A newcomer that had passed over the first message of a new sender starts anew."""
    judge(play(quiet(4), 4))


WHILE_IT_GIVES = """
[[fault]]
at = "3s"
kind = "become_receiver"
member = [0, 1]
"""


def test_who_becomes_a_receiver_goes_on_giving() -> None:
    world = play(BASE.format(options="", senders=EVERYBODY, rate=4) + WHILE_IT_GIVES)
    judge(world)
    assert world.counters["transfer: a provider is gone"] == 0, "nobody was asked a second time for that"


def test_who_became_a_receiver_and_crashes_is_replaced() -> None:
    crash = '\n[[fault]]\nat = "3200ms"\nkind = "crash"\nmember = [0, 1]\nrestart = "1s"\n'
    judge(play(BASE.format(options="", senders=[2], rate=4) + WHILE_IT_GIVES + crash))


def test_a_cut_while_roles_flip() -> None:
    """Sides that part may differ from then on; everybody has a state, and no property is broken."""
    cut = '\n[[fault]]\nat = "3s"\nkind = "partition"\ngroups = [[0, 3], [1, 2, 4]]\nlasts = "2s"\n'
    judge(play(told(1) + cut), one_state=False)
