"""Ways to split a group: two members hear each other when some listed group holds both."""

from __future__ import annotations

from random import Random

Groups = tuple[tuple[int, ...], ...]


def draw_groups(random: Random, members: int) -> Groups:
    """One of the ways, with the members in random places."""
    order = random.sample(range(members), members)
    ways = [_halves, _isolate_one, _uniform]
    if members >= 3:
        ways.append(_bridge)
    if members >= 4:
        ways.append(_majorities_ring)
    return tuple(tuple(sorted(group)) for group in random.choice(ways)(random, order))


def _halves(random: Random, order: list[int]) -> list[list[int]]:
    middle = len(order) // 2
    return [order[:middle], order[middle:]]


def _isolate_one(random: Random, order: list[int]) -> list[list[int]]:
    return [order[:1], order[1:]]


def _uniform(random: Random, order: list[int]) -> list[list[int]]:
    """Two to four sides, each member on any of them; the first members see to it that no side is empty."""
    sides: list[list[int]] = [[member] for member in order[: random.randint(2, min(4, len(order)))]]
    for member in order[len(sides) :]:
        random.choice(sides).append(member)
    return sides


def _bridge(random: Random, order: list[int]) -> list[list[int]]:
    """Two halves that only one member can reach both of."""
    middle = len(order) // 2
    return [order[: middle + 1], order[middle:]]


def _majorities_ring(random: Random, order: list[int]) -> list[list[int]]:
    """Every member hears a majority around it on a ring, and no two the same one."""
    reach = (len(order) // 2 + 1) // 2
    return [[order[(first + step) % len(order)] for step in range(reach + 1)] for first in range(len(order))]
