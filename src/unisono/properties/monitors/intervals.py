"""A set of whole numbers kept as its runs: [2, 5, 9, 10] holds 2, 3, 4 and 9.

Dense numbers cost two entries however many there are.
"""

from __future__ import annotations

from bisect import bisect_right


def add(runs: list[int], number: int) -> bool:
    """Put a number in; false if it was there."""
    index = bisect_right(runs, number)
    if index % 2:
        return False
    extends_left = index > 0 and runs[index - 1] == number
    extends_right = index < len(runs) and runs[index] == number + 1
    if extends_left and extends_right:
        del runs[index - 1 : index + 1]
    elif extends_left:
        runs[index - 1] = number + 1
    elif extends_right:
        runs[index] = number
    else:
        runs[index:index] = (number, number + 1)
    return True


def holds(runs: list[int], number: int) -> bool:
    """Whether a number is in the set."""
    return bisect_right(runs, number) % 2 == 1


def first_absent(runs: list[int], number: int) -> int:
    """The lowest number from `number` on that is not in the set."""
    index = bisect_right(runs, number)
    return runs[index] if index % 2 else number
