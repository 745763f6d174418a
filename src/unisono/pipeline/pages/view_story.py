"""The agreed views of a group, as a page tells them: who was in each, why, and when each member came into it."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from unisono.pipeline.pages.story_counts import Clock, Life, Sum
from unisono.trace.schema import MembershipRow, RepairRow, ViewRow


class ViewStory(Struct, frozen=True):
    """One agreed view: from its first installation to its last; `delivered` is by the life that delivered most in it.

    The repair that led to it had `begun` when its first member said so, and had what each has when the first `cut` was
    told; `blocked` is the longest time from a member's beginning to its view. They are null where no row tells them.
    One that stands `by_order` was not agreed by repair: who sends changed at that place in the order of messages.
    """

    view: str
    members: tuple[str, ...]
    first: int
    last: int
    installed: int
    why: str
    merged: int
    primary: bool | None
    delivered: int
    by_order: bool
    begun: int | None = None
    cut: int | None = None
    blocked: int | None = None


def is_agreed(row: ViewRow) -> bool:
    """Whether its members agreed on a view; every receiver under source order has its own."""
    return row.transitional is not None


def is_merge(row: ViewRow) -> bool:
    """Whether some who had parted meet again in a view."""
    return any(reason.reason == "merged" for reason in row.reasons)


def why_words(rows: Sequence[ViewRow]) -> str:
    """Why a view differs from those before it: what all who installed it say, each thing once.

    To who was in no view before, everybody is new: it counts where nobody else tells.
    """
    said: dict[str, set[str]] = {}
    for row in [row for row in rows if row.previous is not None] or rows:
        for reason in row.reasons:
            by = f" by {', '.join(reason.by)}" if reason.by else ""
            said.setdefault(f"{reason.reason}{by}", set()).add(reason.process)
    return "; ".join(f"{', '.join(sorted(names))} {words}" for words, names in said.items())


def view_stories(
    views: Sequence[ViewRow], begun: Sequence[MembershipRow], cuts: Sequence[RepairRow], heard: Sum, clock: Clock
) -> list[ViewStory]:
    """The agreed views of one group, by the time when they first stood; `begun` are its MRAs, `cuts` its CUTs."""
    installed: dict[str, list[ViewRow]] = defaultdict(list)
    before: dict[tuple[str, int, int], int] = {}
    last: dict[Life, int] = {}
    for row in sorted(views, key=lambda row: row.position):
        if row.view is not None and is_agreed(row):
            installed[row.view].append(row)
            life = (row.process, row.incarnation)
            before[*life, row.position] = last.get(life, -1)
            last[life] = row.position
    starts = _by_life(begun, clock)
    told = _by_life(cuts, clock)
    return sorted(
        (_view_story(view, some, before, starts, told, heard, clock) for view, some in installed.items()),
        key=lambda story: (story.first, story.view),
    )


def _by_life(
    rows: Sequence[MembershipRow] | Sequence[RepairRow], clock: Clock
) -> dict[Life, tuple[list[int], list[int]]]:
    """Positions and times of rows, each life in its order."""
    found: dict[Life, tuple[list[int], list[int]]] = {}
    for row in sorted(rows, key=lambda row: row.position):
        positions, times = found.setdefault((row.process, row.incarnation), ([], []))
        positions.append(row.position)
        times.append(clock.when(row))
    return found


def _view_story(
    view: str,
    some: list[ViewRow],
    before: dict[tuple[str, int, int], int],
    starts: dict[Life, tuple[list[int], list[int]]],
    told: dict[Life, tuple[list[int], list[int]]],
    heard: Sum,
    clock: Clock,
) -> ViewStory:
    def first_since_the_last_view(row: ViewRow, rows: dict[Life, tuple[list[int], list[int]]]) -> int | None:
        life = (row.process, row.incarnation)
        positions, times = rows.get(life, ([], []))
        index = bisect(positions, before[*life, row.position])
        return times[index] if index < len(positions) and positions[index] < row.position else None

    begins = {row.process: first_since_the_last_view(row, starts) for row in some}
    known = [at for at in begins.values() if at is not None]
    cuts = [at for row in some if (at := first_since_the_last_view(row, told)) is not None]
    blocked = [clock.when(row) - at for row in some if (at := begins[row.process]) is not None]
    return ViewStory(
        view=view,
        members=tuple(start.source for start in some[0].start),
        first=min(map(clock.when, some)),
        last=max(map(clock.when, some)),
        installed=len(some),
        why=why_words(some),
        merged=len(some[0].merged),
        primary=some[0].primary,
        delivered=heard.most_in(view),
        by_order=some[0].era is not None,
        begun=min(known, default=None),
        cut=min(cuts, default=None),
        blocked=max(blocked, default=None),
    )
