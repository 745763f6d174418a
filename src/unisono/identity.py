"""Who and what: processes with incarnations, messages and views, all totally ordered.

A restart is a new process: its incarnation differs even when the disk was lost (000 4.1 reuses
numbers after a crash, erratum E9). Ties are broken the same way everywhere, by plain tuple order.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta
from xxhash import xxh3_64_intdigest

NAME_LIMIT_BYTES = 64
"""The longest name of a process or a group, in UTF-8 bytes."""

_ENTROPY_BITS = 21
_ENTROPY_MASK = (1 << _ENTROPY_BITS) - 1
_MILLISECONDS_LIMIT = (1 << 42) - 1
_NANOSECONDS_PER_MILLISECOND = 1_000_000


class ProcessId(NamedTuple):
    """One life of one process."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT_BYTES)]
    incarnation: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]

    def __str__(self) -> str:
        return f"{self.name}~{self.incarnation:x}"


class MessageId(NamedTuple):
    """One message: the wire sequence of its last fragment names it within its source and group."""

    group: str
    source: ProcessId
    sequence: int


class ViewId(NamedTuple):
    """One view: when it starts in logical time, who leads it, and the leader's own count."""

    start: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    leader: ProcessId
    sequence: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]

    def __str__(self) -> str:
        return f"{self.start}/{self.leader}/{self.sequence}"

    @property
    def mark(self) -> ViewMark:
        """What stands for this view in every packet that is sent in it."""
        return ViewMark(self.start, xxh3_64_intdigest(str(self).encode()) >> 32)


class ViewMark(NamedTuple):
    """The agreed view that something was sent in: when the view started, and 32 bits of what else identifies it.

    The marks of one source grow from view to view.
    """

    start: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    check: Annotated[int, Meta(ge=0, lt=1 << 32)]


NO_VIEW = ViewMark(0, 0)
"""The mark of what was sent in no agreed view."""


class StartPoint(NamedTuple):
    """Where delivery from a source begins in a view: the next wire sequence and the next application number."""

    source: ProcessId
    sequence: int
    number: int


class Point(NamedTuple):
    """A place in the total order of a group: in this view, before the message with that number of each source.

    A source that is not named here begins with its first message. `handed` says up to which number applications that
    were there have had what was sent for others.
    """

    view: ViewId
    numbers: tuple[tuple[ProcessId, Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]], ...]
    handed: tuple[tuple[ProcessId, Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]], ...] = ()

    def reaches(self, other: Point) -> bool:
        """Whether nothing that comes before the other place comes after this one; both are in one view."""
        mine = dict(self.numbers)
        return all(mine.get(source, 1) >= number for source, number in other.numbers)


def new_incarnation(wall: int, entropy: bytes, last: int) -> int:
    """A 63-bit incarnation, above `last` where the disk remembered one.

    The high bits are the wall clock in milliseconds (or the last one used, plus one), the low bits are
    entropy: a process that lost its disk and woke with its clock set back still does not repeat itself. At the end of
    the range, in the year 2109, incarnations still differ but no longer grow.
    """
    assert len(entropy) >= 4, "an incarnation needs four bytes of entropy"
    milliseconds = min(max(wall, 0) // _NANOSECONDS_PER_MILLISECOND, _MILLISECONDS_LIMIT)
    counter = min(max(milliseconds, (last >> _ENTROPY_BITS) + 1 if last else 0), _MILLISECONDS_LIMIT)
    return (counter << _ENTROPY_BITS) | (int.from_bytes(entropy[:4], "big") & _ENTROPY_MASK)


def why_bad_name(name: str) -> str | None:
    """What is wrong with a process or group name, or None."""
    if not name:
        return "a name cannot be empty"
    if not name.isprintable():
        return "a name is made of printable characters"
    if len(name.encode()) > NAME_LIMIT_BYTES:
        return f"a name has at most {NAME_LIMIT_BYTES} bytes, this one has {len(name.encode())}"
    return None
