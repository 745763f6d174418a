"""The agreed views of a group, as a page tells them: who was in each, why, and when each member came into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from unisono.trace.schema import AnyRow, DeliverRow, ViewRow


class ViewStory(Struct, frozen=True):
    """One agreed view: from its first installation to its last, and the messages that were delivered in it.

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


def is_agreed(row: ViewRow) -> bool:
    """Whether its members agreed on a view; every receiver under source order has its own."""
    return row.transitional is not None


def is_merge(row: ViewRow) -> bool:
    """Whether some who had parted meet again in a view."""
    return any(reason.reason == "merged" for reason in row.reasons)


def why_words(rows: Sequence[ViewRow]) -> str:
    """Why a view differs from those before it: what all who installed it say, each thing once."""
    said: dict[str, set[str]] = {}
    for row in rows:
        for reason in row.reasons:
            by = f" by {', '.join(reason.by)}" if reason.by else ""
            said.setdefault(f"{reason.reason}{by}", set()).add(reason.process)
    return "; ".join(f"{', '.join(sorted(names))} {words}" for words, names in said.items())


def view_stories(rows: Sequence[AnyRow], when: Callable[[AnyRow], int]) -> list[ViewStory]:
    """The agreed views among the rows of one group, by the time when they first stood."""
    installed: dict[str, list[ViewRow]] = {}
    delivered: dict[str, set[tuple[str, int, int]]] = {}
    for row in rows:
        if row.view is not None and isinstance(row, ViewRow) and is_agreed(row):
            installed.setdefault(row.view, []).append(row)
        elif row.view is not None and isinstance(row, DeliverRow):
            delivered.setdefault(row.view, set()).add((row.source, row.source_incarnation, row.number))
    stories = [
        ViewStory(
            view=view,
            members=tuple(start.source for start in some[0].start),
            first=min(map(when, some)),
            last=max(map(when, some)),
            installed=len(some),
            why=why_words(some),
            merged=len(some[0].merged),
            primary=some[0].primary,
            delivered=len(delivered.get(view, ())),
            by_order=some[0].era is not None,
        )
        for view, some in installed.items()
    ]
    return sorted(stories, key=lambda story: (story.first, story.view))
