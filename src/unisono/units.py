"""Durations, sizes and rates: integers inside, words with a unit outside ("200ms", "4MiB", "100Mbit")."""

from __future__ import annotations

import re

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000

KIB = 1 << 10
MIB = 1 << 20

DURATION_UNITS = {
    "ns": 1,
    "us": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "min": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": 86400 * SECOND,
}
SIZE_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": 1 << 30, "kB": 10**3, "MB": 10**6, "GB": 10**9}
BANDWIDTH_UNITS = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}

_WORD = re.compile(r"^([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)$")


def _parse(text: str, units: dict[str, int], example: str) -> int:
    match = _WORD.match(text.strip())
    if match is None or match[2] not in units:
        raise ValueError(f"expected a number with a unit ({', '.join(units)}) such as {example!r}, got {text!r}")
    whole, _, fraction = match[1].partition(".")
    scale = int("1" + "0" * len(fraction))
    return int(whole + fraction) * units[match[2]] // scale


def _render(value: int, units: dict[str, int]) -> str:
    for unit, factor in sorted(units.items(), key=lambda item: -item[1]):
        if value and value % factor == 0:
            return f"{value // factor}{unit}"
    return f"0{next(iter(units))}"


def parse_duration(text: str) -> int:
    """Nanoseconds from "200ms"; a sign is kept ("-1d")."""
    return _parse(text, DURATION_UNITS, "200ms")


def render_duration(nanoseconds: int) -> str:
    return _render(nanoseconds, DURATION_UNITS)


def parse_size(text: str) -> int:
    """Bytes from "4MiB"."""
    return _parse(text, SIZE_UNITS, "4MiB")


def render_size(size: int) -> str:
    return _render(size, {unit: factor for unit, factor in SIZE_UNITS.items() if unit.endswith("iB") or unit == "B"})


def parse_bandwidth(text: str) -> int:
    """Bits a second from "100Mbit"."""
    return _parse(text, BANDWIDTH_UNITS, "100Mbit")


def render_bandwidth(bits: int) -> str:
    return _render(bits, BANDWIDTH_UNITS)
