"""What members let others send for them, and who gets it, once and in its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.properties.generator.population import Member
from unisono.properties.generator.run import Run
from unisono.trace.schema import ProxyRow

if TYPE_CHECKING:
    from random import Random

LOOSE = ("UU", "ALF")
"""Services without the order of a source."""


def step_of_proxies(run: Run, random: Random) -> None:
    """Now and then a member asks for something, or one gets what was asked for; the choices are a generator's own."""
    members = run.members()
    if not members or random.random() < 0.4:
        return
    if random.random() < 0.4:
        member = random.choice(members)
        member.asked.append((random.randrange(2000), random.getrandbits(63)))
        _note(run, "ASKED", member, member, len(member.asked))
        return
    choices = [
        (member, origin, number)
        for member in members
        for origin in run.everybody
        if origin.group == member.group
        for number in range(1, len(origin.asked) + 1)
        if _may_hand(member, origin, number)
    ]
    if choices:
        member, origin, number = random.choice(choices)
        member.handed.setdefault(origin, set()).add(number)
        by = random.choice(members).life
        _note(run, "HANDED", member, origin, number, by=by.name, by_incarnation=by.incarnation)


def _may_hand(member: Member, origin: Member, number: int) -> bool:
    handed = member.handed.get(origin, set())
    return number not in handed if member.service in LOOSE else number > max(handed, default=0)


def _note(run: Run, kind: str, member: Member, origin: Member, number: int, **by: object) -> None:
    size, body = origin.asked[number - 1]
    life = origin.life
    whose = {"origin": life.name, "origin_incarnation": life.incarnation}
    run.note(ProxyRow, kind, member, **whose, number=number, size=size, body=body, **by)
