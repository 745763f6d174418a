"""Who was there when: for each life of a process in a group its views and what happened to it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from unisono.pipeline.pages.story_counts import Clock, Life, Presence
from unisono.pipeline.pages.view_story import is_agreed, is_merge, why_words
from unisono.trace.schema import MembershipRow, ViewRow

MarkKind = Literal["start", "crash", "leave", "end", "left behind", "unavailable", "merge", "excluded", "dropped out"]

_MEMBERSHIP_MARKS: dict[str, tuple[MarkKind, str]] = {
    "START": ("start", "starts"),
    "CRASH": ("crash", "crashes"),
    "LEAVE": ("leave", "leaves"),
    "END": ("end", "lives when the run ends"),
    "LEFT_BEHIND": ("left behind", "was left behind: messages of {peer} are lost here"),
    "EXCLUDED": ("excluded", "learns that the others went on without it"),
    "SELF_FAIL": ("dropped out", "starts anew: {reason}"),
    "UNAVAILABLE": ("unavailable", "gets no answer from {peer}"),
}


class Bar(Struct, frozen=True):
    """One view, while it was the newest; `agreed` is its identifier where its members agreed on it."""

    begin: int
    end: int
    members: tuple[str, ...]
    agreed: str | None = None
    why: str = ""


class Mark(Struct, frozen=True):
    """Something that happened to a process."""

    at: int
    kind: MarkKind
    text: str


class Lane(Struct):
    """One life of a process in one group."""

    process: str
    incarnation: int
    name: str = ""
    begin: int = 0
    end: int = 0
    bars: list[Bar] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def ending(self) -> str:
        found = [mark.kind for mark in self.marks if mark.kind in ("crash", "leave", "end")]
        return (
            "no end in the trace" if not found else {"crash": "crashed", "leave": "left", "end": "lived on"}[found[-1]]
        )


def lanes(
    group: str,
    lives: Mapping[Life, Mapping[str, Presence]],
    views: Sequence[ViewRow],
    memberships: Sequence[MembershipRow],
    clock: Clock,
) -> list[Lane]:
    """The lives that have a row in the group, by name and time; the rows are those of the group, or of no group."""
    rows: dict[Life, list[ViewRow | MembershipRow]] = defaultdict(list)
    for view in views:
        rows[view.process, view.incarnation].append(view)
    for one in memberships:
        rows[one.process, one.incarnation].append(one)
    found = []
    for life, by_group in lives.items():
        if group in by_group:
            mine = [presence for name, presence in by_group.items() if name in ("", group)]
            lane = Lane(*life, begin=min(one.first for one in mine), end=max(one.last for one in mine))
            for presence in mine:
                lane.counts.update(presence.counts)
            _fill(lane, sorted(rows[life], key=lambda row: row.position), clock)
            found.append(lane)
    found.sort(key=lambda lane: (lane.process, lane.begin, lane.incarnation))
    total, seen = Counter(lane.process for lane in found), Counter[str]()
    for lane in found:
        seen[lane.process] += 1
        lane.name = lane.process if total[lane.process] == 1 else f"{lane.process}, life {seen[lane.process]}"
    return found


def _fill(lane: Lane, rows: Sequence[ViewRow | MembershipRow], clock: Clock) -> None:
    view: ViewRow | None = None

    def close(at: int) -> None:
        if view is not None:
            members = tuple(start.source for start in view.start)
            agreed = view.view if is_agreed(view) else None
            lane.bars.append(Bar(clock.when(view), at, members, agreed, why_words([view])))

    for row in rows:
        at = clock.when(row)
        if isinstance(row, ViewRow):
            close(at)
            view = row
            if is_merge(row):
                lane.marks.append(Mark(at, "merge", f"meets again: {why_words([row])}"))
        else:
            if row.kind in _MEMBERSHIP_MARKS:
                kind, text = _MEMBERSHIP_MARKS[row.kind]
                lane.marks.append(Mark(at, kind, text.format(peer=row.peer, reason=row.reason)))
            if row.kind == "LEAVE":
                close(at)
                view = None
    close(lane.end)
