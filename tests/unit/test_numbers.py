"""Numbers as intervals, against a plain set."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from unisono.trace.numbers import Numbers


def test_numbers_are_those_of_a_set() -> None:
    draw = Random(1)
    for _ in range(200):
        numbers, plain = Numbers(), set[int]()
        for _ in range(draw.randint(0, 40)):
            if draw.random() < 0.8:
                number = draw.randrange(30)
                assert numbers.add(number) is (number not in plain)
                plain.add(number)
            else:
                first = draw.randrange(30)
                last = first + draw.randrange(5)
                numbers.add_all(first, last)
                plain.update(range(first, last + 1))
            assert len(numbers) == len(plain)
            assert all((number in numbers) is (number in plain) for number in range(-2, 40))
            missing = [number for first, last in numbers.gaps for number in range(first, last + 1)]
            assert missing == sorted(set(range(max(plain, default=-1) + 1)) - plain)
        pieces = list(numbers)
        assert numbers.pieces == len(pieces)
        assert all(last + 1 < first for (_, last), (first, _) in pairwise(pieces))
        assert list(Numbers(pieces)) == pieces
