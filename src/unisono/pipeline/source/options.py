"""What `.option(...)` may say to the data source `unisono`: names, values, and what goes with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from unisono.errors import SettingError
from unisono.spelling import did_you_mean
from unisono.units import SECOND, parse_duration, parse_size

Side = Literal["collector", "gateway", "sink"]
"""What is read or written: a collector's reports, a group through its gateway, or rows into a group."""

READING = ("startingOffset", "maxOffsetsPerTrigger", "maxBytesPerTrigger", "partitions", "failOnDataLoss")
KNOWN: dict[Side, tuple[str, ...]] = {
    "collector": ("collector", *READING, "family"),
    "gateway": ("gateway", "group", *READING),
    "sink": ("gateway", "group", "query", "encode", "patience"),
}
SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})
"""Options that Spark hands on with those of the source."""


class ReadOptions(Struct, frozen=True):
    """How a log is read: from where, how much at once, and what to do where a part of it is gone."""

    address: str
    starting: int | Literal["earliest", "latest"] = "earliest"
    offsets_limit: int | None = None
    bytes_limit: int | None = None
    partitions: int = 1
    fail_on_data_loss: bool = True


class Options:
    """The options of one query; names do not care about case, as everywhere in Spark."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def needed(self, name: str, example: str) -> str:
        """An option without which nothing can be done."""
        value = self.text(name)
        if not value:
            raise SettingError(name, f"this option is needed: .option({name!r}, {example!r})")
        return value

    def read_side(self) -> Side:
        """Whether a collector or a group is read; one of both must be given."""
        collector, gateway = self.text("collector"), self.text("gateway")
        if collector and gateway:
            raise SettingError("collector", "a query reads a collector or a group's gateway, not both; give one")
        if not collector and not gateway:
            raise SettingError(
                "gateway",
                'say what to read: .option("gateway", "host:port") for a group,'
                ' or .option("collector", "host:port") for the reports of processes',
            )
        return "collector" if collector else "gateway"

    def check(self, side: Side) -> None:
        """Refuse what this side does not know."""
        known = {name.lower(): name for name in KNOWN[side]}
        for name in self._given:
            if name not in known and name not in SPARKS_OWN:
                what = {"collector": "a collector", "gateway": "a group", "sink": "rows into a group"}[side]
                verb = "writing" if side == "sink" else "reading"
                raise SettingError(
                    name, f"unknown option for {verb} {what}; {did_you_mean(name, tuple(known.values()))}"
                )

    def reading(self, side: Side) -> ReadOptions:
        """How to read, checked."""
        self.check(side)
        return ReadOptions(
            address=self.needed(side, "127.0.0.1:7110"),
            starting=self._starting(),
            offsets_limit=self._number("maxOffsetsPerTrigger", int, "100000"),
            bytes_limit=self._number("maxBytesPerTrigger", _size, "8MiB"),
            partitions=self._number("partitions", int, "2") or 1,
            fail_on_data_loss=self.flag("failOnDataLoss", True),
        )

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise SettingError(name, f"expected true or false, got {value!r}")
        return value.lower() == "true"

    def seconds(self, name: str, default: str) -> float:
        """A duration with a unit, in seconds."""
        try:
            return parse_duration(self.text(name) or default) / SECOND
        except ValueError as error:
            raise SettingError(name, str(error)) from None

    def _starting(self) -> int | Literal["earliest", "latest"]:
        value = (self.text("startingOffset") or "earliest").lower()
        if value == "earliest":
            return "earliest"
        if value == "latest":
            return "latest"
        if not value.isdecimal() or not value.isascii():
            raise SettingError("startingOffset", f"expected earliest, latest or a number, got {value!r}")
        return int(value)

    def _number(self, name: str, read: Callable[[str], int], example: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            number = read(value)
        except ValueError:
            number = 0
        if number < 1:
            raise SettingError(name, f"expected a number above 0 such as {example}, got {value!r}")
        return number


def _size(value: str) -> int:
    """Bytes, as a plain number or with a unit."""
    return int(value) if value.isdecimal() else parse_size(value)
