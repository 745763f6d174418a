"""Counter-examples as a page shows them: in words, as a space-time diagram, and with the rows around the place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from unisono.pipeline.pages.scene import Scene, Surroundings, scene
from unisono.pipeline.pages.scene_tables import Heard, TracedRow, heard_by, rows_around, rows_elsewhere
from unisono.pipeline.pages.space_time import described, diagram, tones_of
from unisono.pipeline.pages.story import Story
from unisono.pipeline.pages.story_counts import Life
from unisono.pipeline.pages.subjects import Investigation, Subject
from unisono.pipeline.pages.trace_columns import TraceTables
from unisono.pipeline.pages.verdict_words import SHOWS
from unisono.pipeline.report import RunReport
from unisono.properties.registry import PROPERTIES
from unisono.properties.violation import Violation, process_name
from unisono.trace.schema import MembershipRow, ViewRow
from unisono.units import SECOND

SHOWN_VIOLATIONS = 5
"""Of each property so many counter-examples are listed."""
DRAWN_VIOLATIONS = 3
"""Of each property so many are drawn."""
DIAGRAM_BYTES = 1_500_000
"""All diagrams of a page take no more than about this; what comes after is listed in words."""


class Example(Struct, frozen=True):
    """One counter-example; one that is not drawn has no picture."""

    identifier: str
    process: str
    message: str
    position: str
    at: str
    text: str
    shows: str = ""
    picture: str = ""
    tones: list[tuple[int, str, str]] = []
    lives: list[tuple[str, str]] = []
    heard: list[Heard] = []
    rows: list[TracedRow] = []
    elsewhere: list[TracedRow] = []
    left_out: str = ""


def examples_of(
    report: RunReport, tables: TraceTables, story: Story, prefix: str = "", drawn: int = DRAWN_VIOLATIONS
) -> dict[str, list[Example]]:
    """The counter-examples of each broken property; the prefix makes their anchors unique in a page."""
    listed: dict[str, list[Violation]] = defaultdict(list)
    for violation in report.violations:
        if len(listed[violation.property]) < SHOWN_VIOLATIONS:
            listed[violation.property].append(violation)
    if not listed:
        return {}
    views = [row for row in tables.all_rows("view") if isinstance(row, ViewRow)]
    memberships = [row for row in tables.all_rows("membership") if isinstance(row, MembershipRow)]
    around = _surroundings(story, views, memberships)
    wanted = [violation for some in listed.values() for violation in some]
    subjects = iter(Investigation(tables, views, memberships).subjects(wanted))
    found: dict[str, list[Example]] = {}
    room = DIAGRAM_BYTES
    for property_id, violations in listed.items():
        found[property_id] = []
        for index, violation in enumerate(violations):
            subject = next(subjects)
            identifier = f"{prefix}{property_id.lower()}-{index + 1}"
            example = _example(subject, violation, around, identifier, draw=index < drawn and room > 0)
            room -= len(example.picture)
            found[property_id].append(example)
    return found


def _surroundings(story: Story, views: Sequence[ViewRow], memberships: Sequence[MembershipRow]) -> Surroundings:
    by_life: dict[tuple[str, Life], list[ViewRow]] = defaultdict(list)
    for row in sorted(views, key=lambda row: row.position):
        by_life[row.group, (row.process, row.incarnation)].append(row)
    lives: dict[Life, list[MembershipRow]] = defaultdict(list)
    for one in memberships:
        if one.kind in ("START", "CRASH", "LEAVE", "END"):
            lives[one.process, one.incarnation].append(one)
    names = {
        group.name: {(lane.process, lane.incarnation): lane.name for lane in group.lanes} for group in story.groups
    }
    return Surroundings(story.clock, names, by_life, lives)


def _example(subject: Subject, violation: Violation, around: Surroundings, identifier: str, draw: bool) -> Example:
    at = "" if subject.row is None else f"{around.clock.when(subject.row) / SECOND:.3f} s"
    whole = not violation.process
    words = Example(
        identifier,
        "the whole run" if whole else process_name(violation.process, violation.incarnation),
        violation.message or "",
        "" if whole else str(violation.position),
        at,
        violation.text,
    )
    if not draw:
        return words
    built = scene(subject, around)
    shows = _shows(built, violation)
    item = PROPERTIES[violation.property]
    title = f"{item.id} {item.name}: {violation.text}"
    heard = heard_by(built)
    lines = [shows, *(f"{one.name}: {', '.join(one.order) or 'none of them'}." for one in heard)]
    return replace(
        words,
        shows=shows,
        picture=diagram(built, identifier, title, described(built, lines)),
        tones=tones_of(built),
        lives=[(built.names.get(life, life[0]), process_name(*life)) for life in built.lanes],
        heard=heard,
        rows=rows_around(built, around),
        elsewhere=rows_elsewhere(built, around) if subject.life else [],
        left_out=_left_out(built),
    )


def _shows(built: Scene, violation: Violation) -> str:
    messages = [built.name(message) for message in built.subject.messages]
    first = messages[0] if messages else "the message"
    second = messages[1] if len(messages) > 1 else "another message"
    life = built.subject.life
    process = "somebody" if life is None else built.names.get(life, violation.process)
    return SHOWS[violation.property].format(process=process, first=first, second=second)


def _left_out(built: Scene) -> str:
    parts = []
    if built.more_lives:
        parts.append(f"{built.more_lives} other lives of processes")
    if built.more_events:
        parts.append(f"{built.more_events} events that are further away")
    return f"Not drawn: {' and '.join(parts)}." if parts else ""
