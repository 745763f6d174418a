"""Where explorations start: made by the real code, by letting three members join and meet in a calm network."""

from __future__ import annotations

from collections.abc import Callable

from tests.exploration.automaton import Automaton
from tests.exploration.calm import deliver_all, happen, is_settled
from tests.exploration.member import Happening
from tests.exploration.whole import EVERYBODY, Choice, Used, Whole, after, recoverable
from unisono.units import MILLISECOND

A, B, C = EVERYBODY
NOTHING: frozenset[int] = frozenset()


BEATS = 200
"""After so many the members of a start have met, or never will."""


def _join(automaton: Automaton) -> Whole:
    whole = Whole(tuple(automaton.newcomer(index) for index in EVERYBODY), (NOTHING,) * 3, NOTHING, Used())
    for index in EVERYBODY:
        whole = happen(automaton, whole, index, Happening("joins"))
    return whole


def _meet(automaton: Automaton, whole: Whole, absent: frozenset[int] = NOTHING) -> Whole:
    """Let all but the absent ones become one view."""
    present = [
        frozenset(packet for packet in way if automaton.packets[packet].source not in absent) for way in whole.ways
    ]
    meeting = Whole(whole.members, tuple(present), absent, Used())
    for _ in range(BEATS):
        if is_settled(automaton, meeting):
            return Whole(meeting.members, (NOTHING,) * 3, NOTHING, Used())
        meeting = _beat(automaton, meeting)
    raise AssertionError(f"they are not in one view after {BEATS} beats")


def _beat(automaton: Automaton, whole: Whole, span: int = 50 * MILLISECOND) -> Whole:
    """Let time pass; everybody is heard by everybody."""
    for index in whole.live:
        whole = happen(automaton, whole, index, Happening("passes", span))
        whole = happen(automaton, whole, index, Happening("lives"))
    calm = deliver_all(automaton, whole)
    assert calm is not None
    return calm


def _talk(automaton: Automaton, whole: Whole, sends: str, lost: str) -> Whole:
    """Let members send; `lost` names a message and the members that do not get it, as in `c2:a`."""
    missed = {tuple(word.split(":")) for word in lost.split()}
    for word in sends.split():
        source = "abc".index(word[0])
        whole = happen(automaton, whole, source, Happening("sends"))
        ways = tuple(NOTHING if (word, name) in missed else way for name, way in zip("abc", whole.ways, strict=True))
        heard = deliver_all(automaton, whole._replace(ways=ways))
        assert heard is not None
        whole = heard
    return whole


def _silence(automaton: Automaton, whole: Whole, silent: int, deaf: str) -> Whole:
    """Let time pass, so that the deaf ones have not heard one member for long, and all others have."""
    whole = _beat(automaton, whole)
    for _ in range(3):
        for index in EVERYBODY:
            whole = happen(automaton, whole, index, Happening("passes", 250 * MILLISECOND))
            whole = happen(automaton, whole, index, Happening("lives"))
        ways = tuple(
            frozenset(packet for packet in way if automaton.packets[packet].source != silent) if name in deaf else way
            for name, way in zip("abc", whole.ways, strict=True)
        )
        heard = deliver_all(automaton, whole._replace(ways=ways))
        assert heard is not None
        whole = heard
    return whole


def silent_member(automaton: Automaton) -> Whole:
    """One view; neither a nor b has heard c for a while, each lacks something that the other holds."""
    whole = _meet(automaton, _join(automaton))
    whole = _talk(automaton, whole, "a1 b1 c1 c2 a2", "c2:a a2:b b1:c a2:c")
    return _silence(automaton, whole, C, "ab")


def crashed_member(automaton: Automaton) -> Whole:
    """The same, and c has crashed."""
    whole = silent_member(automaton)
    return whole._replace(crashed=frozenset({C}))


def lone_accuser(automaton: Automaton) -> Whole:
    """One view; only a has not heard c, and lacks what b holds of it."""
    whole = _meet(automaton, _join(automaton))
    whole = _talk(automaton, whole, "a1 b1 c1 c2", "c2:a b1:c")
    return _silence(automaton, whole, C, "a")


def newcomer(automaton: Automaton) -> Whole:
    """a and b are in one view, c comes: all say that they live."""
    whole = _meet(automaton, _join(automaton), frozenset({C}))
    whole = _talk(automaton, whole, "a1 b1 a2", "a2:b b1:c a1:c a2:c")
    return _met(automaton, whole)


def two_views(automaton: Automaton) -> Whole:
    """a and c are in one view and b in its own, each has sent messages, and they hear of one another."""
    whole = _meet(automaton, _join(automaton), frozenset({B}))
    whole = _talk(automaton, whole, "a1 c1 b1 c2", "c2:a a1:b c1:b c2:b b1:a b1:c")
    return _met(automaton, whole)


def _met(automaton: Automaton, whole: Whole) -> Whole:
    for index in EVERYBODY:
        whole = happen(automaton, whole, index, Happening("passes", 50 * MILLISECOND))
    for index in EVERYBODY:
        whole = happen(automaton, whole, index, Happening("lives"))
    return whole


def last_word(automaton: Automaton) -> Whole:
    """Two views have agreed to be one: a, who leads, has let it stand, said so to b and c, and crashed."""
    whole = two_views(automaton)
    before = len(automaton.faces[whole.members[A]].transitions)
    while len(automaton.faces[whole.members[A]].transitions) == before:
        index = next((index for index in reversed(EVERYBODY) if whole.ways[index]), None)
        if index is not None:
            whole = after(automaton, whole, Choice(index, min(whole.ways[index])))
            continue
        missed = [(index, message) for index in EVERYBODY for message in recoverable(automaton, whole, index)]
        for index, message in missed:
            whole = happen(automaton, whole, index, Happening("recovers", message))
        if not missed:
            whole = happen(automaton, whole, A, Happening("passes", 20 * MILLISECOND))
    return whole._replace(crashed=frozenset({A}), ways=(NOTHING, *whole.ways[1:]))


STARTS: dict[str, Callable[[Automaton], Whole]] = {
    "silent member": silent_member,
    "crashed member": crashed_member,
    "lone accuser": lone_accuser,
    "newcomer": newcomer,
    "two views": two_views,
    "last word": last_word,
}
