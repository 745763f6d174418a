"""What a process of a trial is told: who it is, with its first line, and then what to do."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from unisono.runtime.transports import TransportName
from unisono.settings import FIELDS

Part = Literal["peer", "client", "server", "controller"]
"""A member of groups of peers or a client of a session; or who serves such clients."""


class Load(msgspec.Struct):
    """One workload of this member; times are of the monotonic clock."""

    group: str
    rate: float | None
    size: int | tuple[int, int]
    start: int
    stop: int


class Charge(msgspec.Struct):
    """Who this process is and what it does."""

    name: str
    life: int
    seed: int
    realm: str
    interface: str
    port: int
    seeds: list[str]
    trace: str
    storage: str
    groups: list[str]
    settings: dict[str, Any]
    loads: list[Load]
    transport: TransportName = "mesh"
    later: bool = False
    """It joins its groups when it is told to."""
    part: Part = "peer"
    servers: list[str] = []
    """Endpoints of all membership servers, for who needs them."""
    controllers: list[str] = []

    @property
    def written_settings(self) -> dict[str, Any]:
        """The settings as a program gives them."""
        units = {key: FIELDS[key].shown(value) for key, value in self.settings.items() if FIELDS[key].unit}
        return {**self.settings, **units}


class Command(msgspec.Struct):
    """What the application is to do.

    `join`, `leave`, `send`, `change` (the service), `become` (a sender or receiver), `count_audience`, `load` and
    `sever` (in JSON), `stop` and `read`, `mute` and `answer` (blocks), or `end`. Who serves others is told `end` alone.
    """

    do: str
    group: str | None = None
    data: bytes = b""
