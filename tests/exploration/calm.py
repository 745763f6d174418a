"""What comes of a state when the network is calm: nothing is lost, nobody crashes, time passes everywhere alike."""

from __future__ import annotations

from tests.exploration.automaton import Automaton
from tests.exploration.member import PROCESSES, Happening
from tests.exploration.whole import Choice, Whole, after, recoverable, spread
from unisono.intergroup.membership.contract import Phase
from unisono.units import MILLISECOND, SECOND

LIMIT = 30 * SECOND
BEAT = 400 * MILLISECOND
"""How often everybody says that it lives."""
CHATTER = 2000
"""So many packets without any time passing never end."""


def is_settled(automaton: Automaton, whole: Whole) -> bool:
    """All who live are in one view, without the others, and nothing goes on."""
    faces = [automaton.faces[whole.members[index]] for index in whole.live]
    members = tuple(PROCESSES[index] for index in whole.live)
    return whole.quiet and all(
        face.phase is Phase.SETTLED and face.may_send and face.view == faces[0].view and face.members == members
        for face in faces
    )


def settles(automaton: Automaton, whole: Whole) -> str | None:
    """None if all who live come to be in one view; else where they stand when that takes too long."""
    passed, beat = 0, 0
    while passed <= LIMIT:
        settled = deliver_all(automaton, whole)
        if settled is None:
            return "packets are exchanged for ever"
        whole = settled
        if is_settled(automaton, whole):
            return None
        due = min(automaton.faces[whole.members[index]].due or BEAT for index in whole.live)
        span = max(1, min(due, beat - passed if beat > passed else BEAT))
        passed += span
        for index in whole.live:
            whole = happen(automaton, whole, index, Happening("passes", span))
        if passed >= beat:
            beat = passed + BEAT
            for index in whole.live:
                whole = happen(automaton, whole, index, Happening("lives"))
    faces = [automaton.faces[whole.members[index]] for index in whole.live]
    return "; ".join(
        f"{PROCESSES[index].name} is {face.phase.name} in {face.view} of {''.join(one.name for one in face.members)}"
        for index, face in zip(whole.live, faces, strict=True)
    )


def deliver_all(automaton: Automaton, whole: Whole) -> Whole | None:
    """Let everything that is on its way arrive, and everything that lacks be found; None if that has no end."""
    for _ in range(CHATTER):
        before = whole
        for index in whole.live:
            for packet in sorted(whole.ways[index]):
                whole = after(automaton, whole, Choice(index, packet))
            for message in recoverable(automaton, whole, index):
                whole = happen(automaton, whole, index, Happening("recovers", message))
        if whole == before:
            return whole
    return None


def happen(automaton: Automaton, whole: Whole, index: int, happening: Happening) -> Whole:
    state, sent = automaton.after(whole.members[index], happening)
    members = (*whole.members[:index], state, *whole.members[index + 1 :])
    return whole._replace(members=members, ways=spread(whole.ways, whole.crashed, index, sent))
