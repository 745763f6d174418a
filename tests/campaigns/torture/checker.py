"""Holds a run to what is demanded of it, by the applications' own logs and by what the driver did to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tests.campaigns.torture import checks
from tests.campaigns.torture.driver import Story, read_story
from tests.campaigns.torture.lives import Biographies, Biography, biographies
from tests.campaigns.torture.records import Record, read_log

MEETING_SECONDS = 3.0
"""From the last fault to one view with all, on free cores."""
BUSY_MEETING_SECONDS = 15.0
FREE = 0.5
"""Cores are free while others keep less than so many busy; where they are not, the meeting may take longer."""
LEAVE_SECONDS = 8.0
"""`leave_timeout`, and something for a busy machine."""
SHOWN, SHOWN_CHARACTERS = 5, 500
"""So many complaints of one check are told, and so much of what a process said."""

CHECKS: dict[str, Callable[[Biographies], Iterator[str]]] = {
    "integrity": checks.integrity,
    "duplicates": checks.duplicates,
    "source order": checks.source_order,
    "total order": checks.total_order,
    "views": checks.views,
    "agreement": checks.agreement,
    "own messages": checks.own_messages,
    "leavers": checks.leavers,
}


class Verdict(Struct, frozen=True):
    """What a run came to."""

    complaints: dict[str, list[str]]
    """By check."""
    counts: dict[str, int]
    meeting_seconds: float | None
    """From the quiet to one view with all; None where there was none."""
    load: float
    others: float
    """How many cores others kept busy."""


def check(folder: Path, timely: bool = True) -> Verdict:
    """Read a run's logs and judge it; a test that may run beside others does not ask how soon all met."""
    logs = {path.stem: read_log(path)[0] for path in sorted(folder.glob("*.log"))}
    said = {path.stem: path.read_text(errors="replace") for path in folder.glob("*.err")}
    story = read_story(folder)
    return judge(logs, story if timely else replace(story, others=inf), said)


def judge(logs: dict[str, list[Record]], story: Story, said: dict[str, str]) -> Verdict:
    """The verdict over logs; `said` is what the processes wrote elsewhere, which should be nothing."""
    lives = biographies(logs)
    meeting = meeting_seconds(lives, story)
    complaints = {name: list(complain(lives)) for name, complain in CHECKS.items()}
    complaints["ends"] = list(ends(lives, story, said))
    complaints["leave returns"] = list(leave_returns(lives, story))
    complaints["one view"] = list(one_view(meeting, story))
    complaints["left behind"] = list(story.left_behind)
    return Verdict(
        {name: found for name, found in complaints.items() if found},
        checks.count_of(lives),
        meeting,
        story.load,
        story.others,
    )


def ends(lives: Biographies, story: Story, said: Mapping[str, str]) -> Iterator[str]:
    """Whoever was not killed ends by itself, after everything else that it does, and has nothing else to say."""
    for key, fate in story.fates.items():
        life = lives.get(key)
        text = said.get(key, "").strip()
        if fate.overdue:
            place = next(
                (line.strip() for line in text.splitlines() if line.startswith("  File")), "it did not say where"
            )
            yield f"{key} did not end by itself: {place}"
            continue
        if text:
            yield f"{key} said: {text[-SHOWN_CHARACTERS:]}"
        if fate.killed and fate.code == -9:
            continue
        if fate.code != 0:
            yield f"{key} ended with {fate.code}"
        elif life is None or life.closed_at is None:
            yield f"{key} ended without a word"


def leave_returns(lives: Biographies, story: Story) -> Iterator[str]:
    """`leave` returns in its time, not counting that in which the process was stopped."""
    for key, life in lives.items():
        fate = story.fates[key]
        if life.leaving_at is None or (fate.killed and life.left_at is None):
            continue
        if life.left_at is None:
            yield f"{key}: leave never returned"
        else:
            stopped = sum(end - begin for begin, end in fate.stops if end > life.leaving_at)
            if (taken := life.left_at - life.leaving_at - stopped) > LEAVE_SECONDS:
                yield f"{key}: leave took {taken:.1f} s"


def one_view(meeting: float | None, story: Story) -> Iterator[str]:
    """One view with all stands soon after the last fault."""
    if story.trouble:
        yield story.trouble
    elif meeting is None:
        yield "there was no view with all"
    elif meeting > (MEETING_SECONDS if story.others < FREE else BUSY_MEETING_SECONDS):
        yield f"one view with all came {meeting:.1f} s after the quiet"


def meeting_seconds(lives: Biographies, story: Story) -> float | None:
    """From the quiet to when the last of those present had the view with all."""
    present = [key for key, fate in story.fates.items() if fate.stayed]
    if not all(key in lives for key in present):
        return None
    wanted = {lives[key].who for key in present if story.fates[key].speaks}
    times = [_first_time(lives[key], wanted, story.quiet_at) for key in present]
    found = [time for time in times if time is not None]
    return max(0.0, max(found) - story.quiet_at) if len(found) == len(present) else None


def _first_time(life: Biography, members: set[str], since: float) -> float | None:
    """When a life first had a view with these members, from a time on; the view that it had then counts.

    In a view of its own somebody may be who is gone, as long as `source_timeout`.
    """
    for place, stay in enumerate(life.stays):
        ended = place + 1 < len(life.stays) and life.stays[place + 1].view.at <= since
        there = set(stay.view.members)
        if (there == members or (not life.agrees and there > members)) and not ended:
            return stay.view.at
    return None
