"""Moments that bound how long nothing came: of many that are close together only the outer ones are kept."""

from __future__ import annotations

from bisect import bisect_left

from unisono.properties.promises import STALL_LIMIT_NANOSECONDS


def note(moments: list[int], time: int) -> None:
    """Put a moment in; one whose neighbours are no further apart than the limit bounds no standstill and is dropped."""
    index = bisect_left(moments, time)
    moments.insert(index, time)
    for middle in (index + 1, index, index - 1):
        if 0 < middle < len(moments) - 1 and moments[middle + 1] - moments[middle - 1] <= STALL_LIMIT_NANOSECONDS:
            del moments[middle]


def any_within(moments: list[int], begin: int) -> bool:
    """Whether one of the moments is in the time of the limit that begins there."""
    index = bisect_left(moments, begin)
    return index < len(moments) and moments[index] <= begin + STALL_LIMIT_NANOSECONDS
