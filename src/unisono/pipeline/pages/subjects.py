"""What a counter-example is about: the messages, rows and views that show why a property does not hold there.

A violation names one place. To see what is wrong there one must see more: the message that came first, who has what is
missing, how the same view stands elsewhere. All questions to the tables are asked at once, in three rounds, so that
many counter-examples of a long run cost as many passes as one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Generator, Sequence

from msgspec import Struct

from unisono.pipeline.pages.disagreements import (
    above,
    covers,
    first_disagreement,
    identifier,
    in_rare_views,
    life_of,
    most_asked,
    once,
    same_point,
)
from unisono.pipeline.pages.evidence import (
    About,
    Between,
    Heard,
    InView,
    Life,
    Message,
    Positions,
    Question,
    Repairs,
    answers,
    heard_in,
    message_of,
)
from unisono.pipeline.pages.trace_columns import TraceTables
from unisono.properties.promises import SESSIONS
from unisono.properties.violation import Violation
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, RepairRow, ViewRow
from unisono.units import SECOND

NEAR = 60
"""Rows of the same life on both sides in which the other half of a disagreement is looked for."""
_CONTEXT = 2
"""Messages on both sides that are drawn for orientation."""

_LACKING = frozenset({"D6", "D7", "D9", "D13", "O4", "O7", "L2", "L3", "L5", "L9", "L11"})
"""What these name is a message that a process does not have."""
_PASSAGES = frozenset({"D5", "O5"})
"""What these name is a view into which two came that do not agree on the one before."""
_VIEWS = frozenset({"M1", "M2", "M4", "M5", "M7", "M8", "M9", "M10", "L1", "L10"})
_REFERENCES = 4
_SILENT_ROWS = 24


class Answers(Struct, frozen=True):
    """What the tables said to the questions of one round."""

    found: dict[Question, list[AnyRow]]
    heard: dict[InView, Heard]

    def rows(self, question: Question | None) -> list[AnyRow]:
        return [] if question is None else self.found[question]

    def all_of(self, questions: Sequence[Question]) -> list[AnyRow]:
        return [row for question in questions for row in self.found[question]]


Steps = Generator[list[Question | InView], Answers, None]
"""What is asked about one counter-example, round by round; the answers are sent in."""


class Subject(Struct):
    """One counter-example: the row that breaks the property, and what else one must see.

    `messages` are those concerned, the first one first; `gaps` are lives that lack one of them; `marked` are rows that
    disagree with the offending one; `near` are the rows around it in the same life; `span` is a time without progress.
    """

    violation: Violation
    row: AnyRow | None = None
    messages: list[Message] = []
    proxied: bool = False
    gaps: list[tuple[Life, Message]] = []
    marked: list[AnyRow] = []
    views: list[ViewRow] = []
    near: list[AnyRow] = []
    told: list[AnyRow] = []
    context: list[Message] = []
    span: tuple[int, int] | None = None

    @property
    def life(self) -> Life | None:
        return (self.violation.process, self.violation.incarnation) if self.violation.process else None


class Investigation:
    """All counter-examples of one run."""

    def __init__(self, tables: TraceTables, views: Sequence[ViewRow], memberships: Sequence[MembershipRow]) -> None:
        self._tables = tables
        self._views: dict[tuple[str, Life], list[ViewRow]] = defaultdict(list)
        self._installed: dict[tuple[str, str | None], list[ViewRow]] = defaultdict(list)
        for row in sorted(views, key=lambda row: (row.process, row.incarnation, row.position)):
            self._views[row.group, (row.process, row.incarnation)].append(row)
            self._installed[row.group, row.view].append(row)
        self._memberships = memberships

    def subjects(self, violations: Sequence[Violation]) -> list[Subject]:
        """What each of them is about."""
        found = [Subject(violation) for violation in violations]
        waiting = [(steps, next(steps)) for steps in map(self._investigate, found)]
        while waiting:
            asked = [question for _, questions in waiting for question in questions]
            told = Answers(
                answers(self._tables, [one for one in asked if not isinstance(one, InView)]),
                heard_in(self._tables, [one for one in asked if isinstance(one, InView)]),
            )
            waiting = [(steps, questions) for steps, _ in waiting if (questions := _next(steps, told)) is not None]
        return found

    def _investigate(self, subject: Subject) -> Steps:
        """Ask for the rows around the place and of the message; then for what they lead to; then for orientation."""
        violation = subject.violation
        group, life = violation.group, subject.life
        named = message_named(violation.message)
        subject.proxied = violation.property == "D11"
        around = None if life is None else Positions(life, violation.position - NEAR, violation.position + NEAR)
        about = None if named is None else About(group, named, subject.proxied)
        told = yield [question for question in (around, about) if question is not None]
        subject.near = sorted(told.rows(around), key=lambda row: row.position)
        subject.row = next((row for row in subject.near if row.position == violation.position), None)
        subject.messages = [] if named is None else [named]
        subject.told = told.rows(about)
        if violation.property in _PASSAGES:
            yield from self._passage(subject)
        elif violation.property in _VIEWS:
            self._views_concerned(subject)
        elif _is_lacking(subject) and named is not None and life is not None:
            subject.gaps = [(life, named)]
        else:
            yield from self._other_half(subject)
        yield from self._orientation(subject)

    def _passage(self, subject: Subject) -> Steps:
        """Two that went on together: how they disagree about the view before."""
        row, group, life = subject.row, subject.violation.group, subject.life
        if not isinstance(row, ViewRow) or life is None or row.previous is None:
            return
        passed = [
            other
            for other in self._installed[group, row.view]
            if other.previous == row.previous and life_of(other) != life
        ][:_REFERENCES]
        subject.views = [row, *passed[:1]]
        mine = InView(group, life, row.previous)
        theirs = {life_of(one): InView(group, life_of(one), row.previous) for one in passed}
        told = yield [mine, *theirs.values()]
        for other, question in theirs.items():
            found = first_disagreement(
                self._tables, told.heard[mine], told.heard[question], subject.violation.property == "O5"
            )
            if found is not None:
                subject.messages = found.messages
                lacking = {"first lacks": life, "second lacks": other}.get(found.kind)
                subject.gaps = [] if lacking is None else [(lacking, found.messages[0])]
                subject.views = [row, *(one for one in passed if life_of(one) == other)]
                return

    def _views_concerned(self, subject: Subject) -> None:
        """The view as others installed it, the one before at this process; at the end, the last view of everybody."""
        violation, row, life = subject.violation, subject.row, subject.life
        if life is None:
            return
        mine = self._views[violation.group, life]
        if violation.property == "L1":
            last = [rows[-1] for (group, _), rows in self._views.items() if group == violation.group]
            subject.views = sorted(last, key=lambda one: (one.process, one.incarnation) != life)
            return
        before = [one for one in mine if one.position < violation.position][-1:]
        if not isinstance(row, ViewRow):
            subject.views = before
            return
        same = [one for one in self._installed[violation.group, row.view] if one is not row and one != row]
        subject.views = [row, *same, *before]
        if violation.property == "M4":
            subject.marked = [*same[:1]]
        if violation.property == "M7":
            primary = [one for one in self._all_views(violation.group) if one.primary and one.view != row.view]
            earlier = [one for one in primary if identifier(one) < identifier(row)]
            nearest = sorted(earlier, key=identifier)[-1:]
            subject.marked, subject.views = [*nearest], [row, *nearest, *same]
        if violation.property == "M9":
            senders = [one for one in self._all_views(violation.group) if one.role == "sender"]
            wanted = {row.view, *(one.view for one in before)}
            subject.views += [one for one in senders if one.view in wanted and one not in subject.views]

    def _all_views(self, group: str) -> list[ViewRow]:
        return [one for (name, _), rows in self._views.items() if name == group for one in rows]

    def _other_half(self, subject: Subject) -> Steps:
        """What stands against the offending row."""
        violation, row = subject.violation, subject.row
        before = [one for one in subject.near if one.position < violation.position]
        match violation.property:
            case "O1" | "O2":
                self._due(subject, before)
            case "O3" | "O6" | "O8":
                subject.messages += above(row, before)
            case "D4":
                subject.marked = in_rare_views(subject.told)
            case "D2" | "D11":
                same = [
                    one for one in subject.told if life_of(one) == subject.life and one.position < violation.position
                ]
                subject.marked = [one for one in same if one.kind in ("DELIVER", "HANDED")]
            case "D10" if isinstance(row, MembershipRow):
                there = [one for one in self._memberships if same_point(row, one) and one.number != row.number]
                subject.marked = [*there[:1]]
            case "M3" if row is not None:
                subject.views = [one for one in before if isinstance(one, ViewRow)][-1:]
            case "D8" if isinstance(row, RepairRow):
                yield from self._released(subject, row)
            case "L6":
                yield from self._silence(subject)
            case "L8":
                yield from self._asked_too_often(subject)

    def _due(self, subject: Subject, before: Sequence[AnyRow]) -> None:
        """Of one source: what came too early, or what was due and is not there."""
        if not subject.messages or subject.life is None:
            return
        source, incarnation, number = subject.messages[0]
        heard = [
            one.number
            for one in before
            if isinstance(one, DeliverRow) and (one.source, one.source_incarnation) == (source, incarnation)
        ]
        if subject.violation.property == "O1":
            subject.messages += [(source, incarnation, one) for one in heard[::-1] if one > number][:1]
            return
        starts = [
            start.number
            for view in self._views[subject.violation.group, subject.life]
            if view.position < subject.violation.position
            for start in view.start
            if (start.source, start.incarnation) == (source, incarnation)
        ]
        due = heard[-1] + 1 if heard else starts[-1] if starts else number
        if due < number:
            subject.messages.append((source, incarnation, due))
            subject.gaps = [(subject.life, (source, incarnation, due))]
        elif due > number:
            subject.messages.append((source, incarnation, due - 1))

    def _released(self, subject: Subject, row: RepairRow) -> Steps:
        source = (row.source, row.source_incarnation)
        question = Repairs("GC", row.group, source, row.first, row.last, most=1)
        told = yield [question]
        granted = [
            one
            for one in self._memberships
            if one.kind == "GRANT" and life_of(one) == source and one.peer == row.process and one.group == row.group
        ]
        subject.marked = [*(one for one in told.rows(question) if covers(one, row)), *granted[-1:]]

    def _silence(self, subject: Subject) -> Steps:
        since = re.search(r"from (\d+)", subject.violation.text)
        lasted = re.search(r"for ([\d.]+) s|to (\d+)", subject.violation.text)
        if since is None or lasted is None:
            return
        begin = int(since[1])
        end = begin + round(float(lasted[1]) * SECOND) if lasted[1] else int(lasted[2])
        subject.span = (begin, end)
        before, inside = Between(begin - SECOND, begin, _SILENT_ROWS), Between(begin, end + SECOND, _SILENT_ROWS)
        told = yield [before, inside]
        subject.told = [*told.rows(before)[-_SILENT_ROWS // 2 :], *told.rows(inside)]

    def _asked_too_often(self, subject: Subject) -> Steps:
        found = most_asked(self._tables, subject.violation.group)
        if found is None:
            return
        source, first, last = found
        group = subject.violation.group
        questions = [Repairs(kind, group, source, first, last, most=_SILENT_ROWS) for kind in ("RTR", "RTX")]
        told = yield [*questions]
        subject.marked = told.all_of(questions)

    def _orientation(self, subject: Subject) -> Steps:
        """All rows of the messages concerned, and what was delivered around them here and where nothing is missing."""
        group = subject.violation.group
        concerned = [About(group, message, subject.proxied) for message in subject.messages]
        told = yield [*concerned]
        subject.told = once([*subject.told, *told.all_of(concerned)])
        others = [
            Positions(life_of(one), one.position - _CONTEXT, one.position + _CONTEXT) for one in _witnesses(subject)
        ]
        told = yield [*others]
        place = subject.violation.position
        nearest = [one for one in subject.near if abs(one.position - place) <= _CONTEXT]
        around = [message_of(one) for one in (*nearest, *told.all_of(others)) if one.group == group]
        subject.context = [one for one in dict.fromkeys(around) if one is not None and one not in subject.messages]
        orienting = [About(group, message) for message in subject.context]
        told = yield [*orienting]
        subject.told = once([*subject.told, *told.all_of(orienting)])


def message_named(name: str | None) -> Message | None:
    """The message that a violation names, as in "alice~1f/7"."""
    found = None if name is None else re.fullmatch(r"(.*)~([0-9a-f]+)/(\d+)", name)
    return None if found is None else (found[1], int(found[2], 16), int(found[3]))


def _next(steps: Steps, told: Answers) -> list[Question | InView] | None:
    try:
        return steps.send(told)
    except StopIteration:
        return None


def _witnesses(subject: Subject) -> list[DeliverRow]:
    """For each gap one who has the message, rather its sender than another."""
    found = []
    for life, message in subject.gaps:
        having = [row for row in subject.told if isinstance(row, DeliverRow) and message_of(row) == message]
        others = [row for row in having if life_of(row) != life]
        found += sorted(others, key=lambda row: (life_of(row) != message[:2], row.process))[:1]
    return found


def _is_lacking(subject: Subject) -> bool:
    """Whether what is named is a message that a process does not have; sessions name what they left out of a stream."""
    if subject.violation.property == "O2" and isinstance(subject.row, DeliverRow):
        row = subject.row
        left_out = message_named(subject.violation.message) != (row.source, row.source_incarnation, row.number)
        return row.service in SESSIONS and left_out
    return subject.violation.property in _LACKING
