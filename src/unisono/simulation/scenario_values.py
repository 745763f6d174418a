"""The kinds of value in a scenario file: each reads what TOML holds and writes it back.

A reader raises ValueError with what was expected; whoever knows the key adds its path and line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, NamedTuple

from unisono.settings import FIELDS, read_setting
from unisono.simulation.cast import is_member, name_of, read_name
from unisono.spelling import did_you_mean
from unisono.units import (
    DURATION_UNITS,
    MICROSECOND,
    MILLISECOND,
    SECOND,
    parse_bandwidth,
    parse_duration,
    parse_size,
    render_bandwidth,
    render_duration,
    render_size,
)


class Value(NamedTuple):
    """One kind of value: `read(write(value))` gives the value again."""

    read: Callable[[Any], Any]
    write: Callable[[Any], str]


def shown(raw: object) -> str:
    """A value as the file has it, shortened."""
    if isinstance(raw, bool | str | int | float | list | dict):
        text = json.dumps(raw, ensure_ascii=False, default=str)
    else:
        text = str(raw)
    return text if len(text) <= 60 else text[:57] + "..."


def expected(what: str, raw: object) -> ValueError:
    return ValueError(f"expected {what}, got {shown(raw)}")


def write_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_number(number: float) -> str:
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e15 else repr(number)


def write_list(texts: Sequence[str]) -> str:
    return f"[{', '.join(texts)}]"


def write_duration(nanoseconds: int) -> str:
    """Exact words that are pleasant to read: "2min", "12.3s", "500us"."""
    if nanoseconds == 0:
        return "0s"
    for unit in ("d", "h", "min"):
        if nanoseconds % DURATION_UNITS[unit] == 0:
            return f"{nanoseconds // DURATION_UNITS[unit]}{unit}"
    for unit, factor in (("s", SECOND), ("ms", MILLISECOND), ("us", MICROSECOND)):
        if abs(nanoseconds) >= factor and nanoseconds % (factor // 1000) == 0:
            sign = "-" if nanoseconds < 0 else ""
            whole, thousandths = divmod(abs(nanoseconds) // (factor // 1000), 1000)
            return f"{sign}{whole}.{thousandths:03}".rstrip("0").rstrip(".") + unit
    return render_duration(nanoseconds)


def _quoted(write: Callable[[int], str]) -> Callable[[int], str]:
    return lambda value: f'"{write(value)}"'


def whole(low: int, high: int | None = None) -> Value:
    """A whole number from `low` on, up to `high`."""
    bounds = f"from {low} to {high}" if high is not None else f"from {low} on"

    def read(raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or raw < low or (high is not None and raw > high):
            raise expected(f"a whole number {bounds}", raw)
        return raw

    return Value(read, str)


def number(low: float, high: float, what: str) -> Value:
    """A number, with or without a fraction."""

    def read(raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not isfinite(raw) or not low <= raw <= high:
            raise expected(what, raw)
        return float(raw)

    return Value(read, write_number)


def duration(low: int = 0) -> Value:
    """A time with a unit, at least `low` nanoseconds."""
    what = 'a time with a unit such as "200ms"'

    def read(raw: object) -> int:
        try:
            if not isinstance(raw, str):
                raise ValueError
            value = parse_duration(raw)
        except ValueError:
            raise expected(what, raw) from None
        if value < low:
            raise expected("a time that is not negative" if low == 0 else "a time above 0", raw)
        return value

    return Value(read, _quoted(write_duration))


def _with_unit(parse: Callable[[str], int], write: Callable[[int], str], what: str, plain: bool) -> Value:
    def read(raw: object) -> int:
        try:
            value = parse(raw) if isinstance(raw, str) else raw
        except ValueError:
            raise expected(what, raw) from None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1 or not (plain or isinstance(raw, str)):
            raise expected(what, raw)
        return value

    return Value(read, write)


def one_or_range(value: Value) -> Value:
    """One value, or a list of the lowest and the highest."""

    def read(raw: object) -> Any:
        if not isinstance(raw, list):
            return value.read(raw)
        if len(raw) != 2:
            raise expected("one value or [lowest, highest]", raw)
        low, high = value.read(raw[0]), value.read(raw[1])
        if low > high:
            raise expected("the lowest before the highest", raw)
        return (low, high)

    def write(held: Any) -> str:
        return write_list([value.write(part) for part in held]) if isinstance(held, tuple) else value.write(held)

    return Value(read, write)


def one_range_or_choice(value: Value) -> Value:
    """As `one_or_range`; a list of more than two is to choose from, each as likely as another."""
    plain = one_or_range(value)

    def read(raw: object) -> Any:
        if isinstance(raw, list) and len(raw) > 2:
            return tuple(value.read(part) for part in raw)
        return plain.read(raw)

    return Value(read, plain.write)


def one_or_choice(value: Value) -> Value:
    """One value, or a list to choose from, each as likely as another; what is listed twice is twice as likely."""

    def read(raw: object) -> Any:
        if not isinstance(raw, list):
            return value.read(raw)
        if not raw:
            raise expected("a value, or a list of values to draw from", raw)
        return tuple(value.read(part) for part in raw)

    def write(held: Any) -> str:
        return write_list([value.write(part) for part in held]) if isinstance(held, tuple) else value.write(held)

    return Value(read, write)


def one_of(names: Sequence[str], later: Sequence[str] = (), word: str = "") -> Value:
    """One of these names; those of `later` are known and not offered yet."""

    def read(raw: object) -> str:
        if not isinstance(raw, str):
            raise expected(f"one of {', '.join(names)}", raw)
        if raw in later:
            raise ValueError(f"{word} {raw!r} is not offered yet")
        if raw not in names:
            raise ValueError(f"{did_you_mean(raw, names)}, got {shown(raw)}".replace("?, got", "? got"))
        return raw

    return Value(read, write_text)


def or_word(word: str, value: Value) -> Value:
    """A word that stands by itself, or a value."""
    return Value(
        lambda raw: word if raw == word and isinstance(raw, str) else value.read(raw),
        lambda held: write_text(word) if held == word else value.write(held),
    )


def list_of(value: Value, least: int = 0, alone: bool = False) -> Value:
    """A list without repeats; with `alone`, one element may stand without brackets."""

    def read(raw: object) -> tuple[Any, ...]:
        if not isinstance(raw, list):
            if alone:
                return (value.read(raw),)
            raise expected("a list", raw)
        items = tuple(value.read(item) for item in raw)
        if len(items) < least:
            raise expected("a list that is not empty" if least == 1 else f"a list of at least {least}", raw)
        for item in items:
            if items.count(item) > 1 and not isinstance(item, tuple):
                raise ValueError(f"{value.write(item)} is listed twice")
        return items

    def write(held: tuple[Any, ...]) -> str:
        if alone and len(held) == 1:
            return value.write(held[0])
        return write_list([value.write(item) for item in held])

    return Value(read, write)


def _read_text(raw: object) -> str:
    if not isinstance(raw, str):
        raise expected("text", raw)
    return raw


def _read_flag(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise expected("true or false", raw)
    return raw


def _read_member(raw: object) -> int:
    if isinstance(raw, str) and read_name(raw) is not None:
        raise ValueError(f"expected a member by its index, from 0 on; {raw!r} is in no group and sends nothing")
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise expected("a member by its index, from 0 on", raw)
    if not is_member(raw):
        raise ValueError(f"there is no member {raw}")
    return raw


def _read_anybody(raw: object) -> int:
    if isinstance(raw, str):
        who = read_name(raw)
        if who is None:
            raise expected('a member by its index, or a name such as "server:0" or "controller:0"', raw)
        return who
    return _read_member(raw)


def _write_anybody(who: int) -> str:
    return str(who) if is_member(who) else write_text(name_of(who))


def _read_step(raw: object) -> int:
    what = 'a step with a unit such as "90ms" or "-1d"'
    try:
        step = parse_duration(raw) if isinstance(raw, str) else 0
    except ValueError:
        step = 0
    if step == 0:
        raise expected(what, raw)
    return step


def _read_ratio(raw: object) -> float:
    what = 'a ratio above -1 and up to 1, such as 0.0005 or "500ppm"'
    ratio: object = raw
    for suffix, parts in (("ppm", 10**6), ("%", 100)):
        if isinstance(raw, str) and raw.endswith(suffix):
            try:
                ratio = float(raw.removesuffix(suffix)) / parts
            except ValueError:
                raise expected(what, raw) from None
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not -1 < ratio <= 1 or ratio == 0:
        raise expected(what, raw)
    return float(ratio)


TEXT = Value(_read_text, write_text)
FLAG = Value(_read_flag, lambda held: "true" if held else "false")
RATE = number(0, 1, "a rate from 0 to 1")
TIME = duration()
SPAN = duration(1)
STEP = Value(_read_step, _quoted(write_duration))
RATIO = Value(_read_ratio, write_number)
BANDWIDTH = _with_unit(
    parse_bandwidth, _quoted(render_bandwidth), 'a bandwidth with a unit such as "10Mbit"', plain=False
)
SIZE = _with_unit(parse_size, str, 'a size in bytes, or with a unit such as "64KiB"', plain=True)
MEMBER = Value(_read_member, str)
ANYBODY = Value(_read_anybody, _write_anybody)
"""A member, or a server or controller by its name."""
ANYBODIES = list_of(ANYBODY, least=1, alone=True)


def read_option(name: str, raw: object) -> Any:
    """A setting's value, or a list of them to draw from; SettingError tells what is wrong."""
    if isinstance(raw, list) and name != "sources":
        if not raw:
            raise expected("a value, or a list of values to draw from", raw)
        return [read_setting(name, item) for item in raw]
    return read_setting(name, raw)


def write_option(name: str, held: Any) -> str:
    """A setting as a person writes it."""
    if isinstance(held, list | tuple):
        return write_list([write_option(name, item) for item in held])
    if isinstance(held, bool):
        return FLAG.write(held)
    if FIELDS[name].unit == "duration":
        return f'"{write_duration(held)}"'
    if FIELDS[name].unit == "size":
        return f'"{render_size(held)}"'
    return write_text(held) if isinstance(held, str) else str(held)
