"""What members let others send for them, and who gets it, once and in its order."""

from __future__ import annotations

from unisono.properties.generator.population import Member
from unisono.properties.generator.run import Run
from unisono.trace.schema import ProxyRow

LOOSE = ("UU", "ALF")
"""Services without the order of a source."""


def ask(run: Run) -> None:
    """A member lets others send something."""
    member = run.one(run.members())
    if member is not None:
        content = (run.random.randrange(2000), run.random.getrandbits(63))
        member.asked.append(content)
        _note(run, "ASKED", member, member, len(member.asked))


def hand(run: Run) -> None:
    """A member gets one of those messages, sent by whoever lives."""
    choices = [
        (member, origin, number)
        for member in run.members()
        for origin in run.everybody
        if origin.group == member.group
        for number in range(1, len(origin.asked) + 1)
        if _may_hand(member, origin, number)
    ]
    choice = run.one(choices)
    if choice is not None:
        member, origin, number = choice
        member.handed.setdefault(origin, set()).add(number)
        by = run.random.choice(run.members()).life
        _note(run, "HANDED", member, origin, number, by=by.name, by_incarnation=by.incarnation)


def _may_hand(member: Member, origin: Member, number: int) -> bool:
    handed = member.handed.get(origin, set())
    return number not in handed if member.service in LOOSE else number > max(handed, default=0)


def _note(run: Run, kind: str, member: Member, origin: Member, number: int, **by: object) -> None:
    size, body = origin.asked[number - 1]
    life = origin.life
    whose = {"origin": life.name, "origin_incarnation": life.incarnation}
    run.note(ProxyRow, kind, member, **whose, number=number, size=size, body=body, **by)
