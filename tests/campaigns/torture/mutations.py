"""Ways to spoil the logs of a good run, each of which one check must name.

A mutation gets the logs, changes a copy of them at a place that the seed chooses, and gives nothing where it finds no
place for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from tests.campaigns.torture.checks import debts, journeys
from tests.campaigns.torture.lives import Biographies, Biography, biographies
from tests.campaigns.torture.records import Closed, Got, Leaving, Left, Record, Viewed

Logs = dict[str, list[Record]]
Place = tuple[str, int]
"""Whose log, and the line."""

LATE_SECONDS = 30.0


def altered(logs: Logs, random: Random) -> Logs | None:
    """One delivery has other bytes than were sent."""
    return _with(logs, random, _deliveries(logs), lambda got: [replace(got, hash="0" * 16)])


def never_sent(logs: Logs, random: Random) -> Logs | None:
    """A number is delivered that its source never used."""
    return _with(logs, random, _deliveries(logs), lambda got: [got, replace(got, number=10_000_000)])


def from_nobody(logs: Logs, random: Random) -> Logs | None:
    """A message comes from a process that does not exist."""
    return _with(logs, random, _deliveries(logs), lambda got: [replace(got, source="nobody~1")])


def twice(logs: Logs, random: Random) -> Logs | None:
    """A message is delivered twice."""
    return _with(logs, random, _deliveries(logs), lambda got: [got, got])


def exchanged(logs: Logs, random: Random) -> Logs | None:
    """Two messages of one source are delivered the other way round."""
    return _exchange(logs, random, same_source=True)


def other_order(logs: Logs, random: Random) -> Logs | None:
    """Two messages of different sources are delivered the other way round by one who receives in one order."""
    return _exchange(logs, random, same_source=False)


def left_out(logs: Logs, random: Random) -> Logs | None:
    """A message between two others of its source in one view is not delivered by somebody."""
    places = [
        place
        for before, place, after in _triples(logs)
        if before.source == after.source == _got(logs, place).source != _who(logs, place[0])
    ]
    return _with(logs, random, places, lambda got: [])


def lost_at_the_end(logs: Logs, random: Random) -> Logs | None:
    """One of those who go to the next view together lacks the last message of a source in the view before."""
    places: list[Place] = []
    lives = biographies(logs)
    for travellers in journeys(lives).values():
        ends = [(life, stay.got[-1]) for life, stay in travellers if stay.got and stay.view.whole]
        if len(ends) == len(travellers) > 1:
            places += [_place_of(logs, life.key, one) for life, one in ends if one[0] != life.who]
    return _with(logs, random, places, lambda got: [])


def own_lost(logs: Logs, random: Random) -> Logs | None:
    """A member lacks the last message that was accepted of it."""
    places = [
        _place_of(logs, life.key, (life.who, max(life.accepted)))
        for life in _undisturbed(biographies(logs))
        if life.accepted
    ]
    return _with(logs, random, places, lambda got: [])


def last_sends_lost(logs: Logs, random: Random) -> Logs | None:
    """The last message before a `leave` reaches the leaver and nobody else."""
    found = [(leaver.key, leaver.who, max(owed)) for leaver, _, owed in debts(biographies(logs))]
    if not found:
        return None
    key, who, number = random.choice(sorted(set(found)))
    return {
        one: [r for r in records if one == key or not (isinstance(r, Got) and (r.source, r.number) == (who, number))]
        for one, records in logs.items()
    }


def other_members(logs: Logs, random: Random) -> Logs | None:
    """A view has one member less at one of those who have it."""
    shared = [stay.view.view for life in biographies(logs).values() if life.agrees for stay in life.stays]
    places = [
        (key, index) for key, index, view in _views(logs) if shared.count(view.view) > 1 and len(view.members) > 1
    ]
    return _with_view(logs, random, places, lambda view, who: replace(view, members=_without_one(view.members, who)))


def other_companions(logs: Logs, random: Random) -> Logs | None:
    """A member does not name one with whom it came to a view, as the other does."""
    lives = biographies(logs)
    companions = {
        (life.key, later.view.view)
        for travellers in journeys(lives).values()
        if len(travellers) > 1
        for life, stay in travellers
        for later in life.stays
        if later.view.previous == stay.view.view and life.who in later.view.members
    }
    places = [
        (key, index)
        for key, index, view in _views(logs)
        if (key, view.view) in companions and len(set(view.transitional or ()) & _there(lives, view.view)) > 1
    ]
    return _with_view(logs, random, places, lambda view, who: replace(view, transitional=(who,)))


def never_returned(logs: Logs, random: Random) -> Logs | None:
    """A `leave` does not return."""
    return _cut(logs, random, Left)


def no_last_word(logs: Logs, random: Random) -> Logs | None:
    """A process ends without having closed."""
    return _cut(logs, random, Closed)


def long_leave(logs: Logs, random: Random) -> Logs | None:
    """A `leave` takes long."""
    keys = [key for key, records in logs.items() if any(isinstance(record, Left) for record in records)]
    if not keys:
        return None
    key = random.choice(keys)
    return {**logs, key: postponed(logs[key], _first(logs[key], Leaving) + 1)}


MUTATIONS: dict[Callable[[Logs, Random], Logs | None], str] = {
    altered: "integrity",
    never_sent: "integrity",
    from_nobody: "integrity",
    twice: "duplicates",
    exchanged: "source order",
    left_out: "source order",
    other_order: "total order",
    other_members: "views",
    other_companions: "views",
    lost_at_the_end: "agreement",
    own_lost: "own messages",
    last_sends_lost: "leavers",
    never_returned: "leave returns",
    long_leave: "leave returns",
    no_last_word: "ends",
}
"""Each with the check that must name it, whichever others do."""


def postponed(records: list[Record], begin: int, seconds: float = LATE_SECONDS) -> list[Record]:
    """All that happens to one life from a place on happens later."""
    return [*records[:begin], *(replace(record, at=record.at + seconds) for record in records[begin:])]


def _got(logs: Logs, place: Place) -> Got:
    record = logs[place[0]][place[1]]
    assert isinstance(record, Got)
    return record


def _who(logs: Logs, key: str) -> str:
    return biographies({key: logs[key]})[key].who


def _deliveries(logs: Logs) -> list[Place]:
    return [(key, index) for key, records in logs.items() for index, one in enumerate(records) if isinstance(one, Got)]


def _views(logs: Logs) -> list[tuple[str, int, Viewed]]:
    return [
        (key, index, one)
        for key, records in logs.items()
        for index, one in enumerate(records)
        if isinstance(one, Viewed)
    ]


def _triples(logs: Logs) -> list[tuple[Got, Place, Got]]:
    """Each delivery with the one of the same source before it and the one after, in one view."""
    found: list[tuple[Got, Place, Got]] = []
    for key, records in logs.items():
        streams: dict[str, list[tuple[int, Got]]] = {}
        for index, record in enumerate(records):
            if isinstance(record, Viewed):
                streams = {}
            elif isinstance(record, Got):
                stream = streams.setdefault(record.source, [])
                stream.append((index, record))
                if len(stream) > 2:
                    found.append((stream[-3][1], (key, stream[-2][0]), stream[-1][1]))
    return found


def _exchange(logs: Logs, random: Random, same_source: bool) -> Logs | None:
    """Two deliveries that follow each other, in other order; others had both as well, in the same view."""
    lives = biographies(logs)
    travelled = {
        life.key: {one for _, stay in travellers for one in stay.got}
        for travellers in journeys(lives).values()
        if len(travellers) > 1
        for life, _ in travellers
        if life.ordered or same_source
    }
    places = [
        (key, index)
        for key, index in _deliveries(logs)
        if key in travelled
        and index + 1 < len(logs[key])
        and isinstance(after := logs[key][index + 1], Got)
        and (after.source == _got(logs, (key, index)).source) == same_source
        and {(after.source, after.number), _identity(_got(logs, (key, index)))} <= travelled[key]
    ]
    if not places:
        return None
    key, index = random.choice(places)
    records = list(logs[key])
    records[index : index + 2] = [records[index + 1], records[index]]
    return {**logs, key: records}


def _identity(got: Got) -> tuple[str, int]:
    return got.source, got.number


def _place_of(logs: Logs, key: str, one: tuple[str, int]) -> Place:
    return key, next(
        index for index, record in enumerate(logs[key]) if isinstance(record, Got) and _identity(record) == one
    )


def _undisturbed(lives: Biographies) -> list[Biography]:
    return [life for life in lives.values() if life.closed_at is not None and not life.shut_out]


def _there(lives: Biographies, view: str) -> set[str]:
    """Who logged that it installed a view."""
    return {life.who for life in lives.values() if any(stay.view.view == view for stay in life.stays)}


def _with(logs: Logs, random: Random, places: list[Place], change: Callable[[Got], list[Got]]) -> Logs | None:
    if not places:
        return None
    key, index = random.choice(places)
    return {**logs, key: [*logs[key][:index], *change(_got(logs, (key, index))), *logs[key][index + 1 :]]}


def _with_view(logs: Logs, random: Random, places: list[Place], change: Callable[[Viewed, str], Viewed]) -> Logs | None:
    if not places:
        return None
    key, index = random.choice(places)
    view = logs[key][index]
    assert isinstance(view, Viewed)
    return {**logs, key: [*logs[key][:index], change(view, _who(logs, key)), *logs[key][index + 1 :]]}


def _without_one(members: tuple[str, ...], who: str) -> tuple[str, ...]:
    gone = next(member for member in members if member != who)
    return tuple(member for member in members if member != gone)


def _cut(logs: Logs, random: Random, kind: type[Record]) -> Logs | None:
    """One log ends before the first record of a kind."""
    keys = [key for key, records in logs.items() if any(isinstance(record, kind) for record in records)]
    if not keys:
        return None
    key = random.choice(keys)
    return {**logs, key: logs[key][: _first(logs[key], kind)]}


def _first(records: list[Record], kind: type[Record]) -> int:
    return next(index for index, record in enumerate(records) if isinstance(record, kind))
