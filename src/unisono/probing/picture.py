"""One picture of what the members of a group said: which views stand, who is in each, and what each of them does."""

from __future__ import annotations

from msgspec import Struct

from unisono.identity import ProcessId, ViewId
from unisono.probing.asker import Round
from unisono.units import SECOND
from unisono.wire.probe_messages import ProbeAnswer, ProbedView, Traffic

MISSED_LIMIT = 10
"""A member that has not answered in so many rounds is no longer spoken of."""


class Rates(Struct, frozen=True):
    """What a member does a second, between two answers of it."""

    sent: float
    sent_bytes: float
    delivered: float
    delivered_bytes: float
    datagrams: float
    datagram_bytes: float


class Line(Struct, frozen=True):
    """One member: what it said, and what it does a second, where it answered before as well."""

    process: ProcessId
    answer: ProbeAnswer
    rates: Rates | None


class StandingView(Struct, frozen=True):
    """An agreed view that somebody is in, for `age` nanoseconds.

    `members` are those whose names are known, of `count`: `present` answered as being in it, `elsewhere` answered and
    are in another one or in none, `unheard` did not answer. `followers` are mere receivers that follow it.
    """

    id: ViewId
    age: int
    count: int
    members: tuple[ProcessId, ...]
    present: tuple[ProcessId, ...]
    elsewhere: tuple[ProcessId, ...]
    unheard: tuple[ProcessId, ...]
    followers: tuple[ProcessId, ...]


class Picture(Struct, frozen=True):
    """A group as its members told of it in one round.

    The view with the most answers comes first. `apart` are members that are in no agreed view, `absent` are those that
    answered in one of the rounds before and did not this time, with how many rounds they missed.
    """

    round: int
    views: tuple[StandingView, ...]
    apart: tuple[ProcessId, ...]
    lines: tuple[Line, ...]
    absent: tuple[tuple[ProcessId, int], ...]

    @property
    def split(self) -> bool:
        """Whether more than one agreed view stands."""
        return len(self.views) > 1


class Watch:
    """Looks at one round after another."""

    __slots__ = ("_last", "_missed")

    def __init__(self) -> None:
        self._last: dict[ProcessId, ProbeAnswer] = {}
        self._missed: dict[ProcessId, int] = {}

    def look(self, told: Round) -> Picture:
        answers = told.answers
        lines = tuple(
            Line(process, answer, rates_between(self._last.get(process), answer))
            for process, answer in sorted(answers.items())
        )
        absent = self._note_absent(answers)
        self._last.update(answers)
        apart = tuple(process for process, answer in sorted(answers.items()) if answer.agreed is None)
        return Picture(told.number, standing_views(answers), apart, lines, absent)

    def _note_absent(self, answers: dict[ProcessId, ProbeAnswer]) -> tuple[tuple[ProcessId, int], ...]:
        """Who answered before and does not now; an earlier life of one who answers is over."""
        names = {process.name for process in answers}
        for process in sorted(self._last):
            missed = 0 if process in answers else self._missed.get(process, 0) + 1
            if missed > MISSED_LIMIT or (missed and process.name in names):
                del self._last[process]
                self._missed.pop(process, None)
            else:
                self._missed[process] = missed
        return tuple((process, missed) for process, missed in sorted(self._missed.items()) if missed)


def rates_between(before: ProbeAnswer | None, answer: ProbeAnswer) -> Rates | None:
    """What a member did a second between two of its answers, by its own clock; None where that cannot be said."""
    if before is None or answer.at <= before.at or answer.age < answer.at - before.at:
        return None
    seconds = (answer.at - before.at) / SECOND
    counts = zip(_counts(before.traffic), _counts(answer.traffic), strict=True)
    return Rates(*(max(0, now - then) / seconds for then, now in counts))


def _counts(traffic: Traffic) -> tuple[int, ...]:
    return (
        traffic.sent,
        traffic.sent_bytes,
        traffic.delivered,
        traffic.delivered_bytes,
        traffic.datagrams,
        traffic.datagram_bytes,
    )


def standing_views(answers: dict[ProcessId, ProbeAnswer]) -> tuple[StandingView, ...]:
    """The agreed views that members are in: those with the most answers first, then the latest."""
    within: dict[ViewId, list[ProcessId]] = {}
    for process, answer in sorted(answers.items()):
        if answer.agreed is not None:
            within.setdefault(answer.agreed.id, []).append(process)
    views = [_standing_view(view, processes, answers) for view, processes in within.items()]
    return tuple(sorted(views, key=lambda view: (len(view.present) + len(view.followers), view.id), reverse=True))


def _standing_view(identifier: ViewId, within: list[ProcessId], answers: dict[ProcessId, ProbeAnswer]) -> StandingView:
    told = [view for process in within if (view := answers[process].agreed) is not None]
    members = {member for view in told for member in view.members}
    members.update(process for process in within if answers[process].sends and _is_cut(answers[process].agreed))
    others = sorted(members.difference(within))
    return StandingView(
        id=identifier,
        age=max(view.age for view in told),
        count=max(len(members), *(view.count for view in told)),
        members=tuple(sorted(members)),
        present=tuple(process for process in within if process in members),
        elsewhere=tuple(process for process in others if process in answers),
        unheard=tuple(process for process in others if process not in answers),
        followers=tuple(process for process in within if process not in members),
    )


def _is_cut(view: ProbedView | None) -> bool:
    """Whether a view has more members than the answer names."""
    return view is not None and len(view.members) < view.count
