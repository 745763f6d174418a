"""The schedule of one seed: who is there, and what happens to whom, when. It depends on nothing but the seed."""

from __future__ import annotations

from random import Random
from typing import Literal

from msgspec import Struct

Kind = Literal["groups", "sessions", "leaves"]
Action = Literal["come", "kill", "stop", "go on", "leave", "talk", "burst", "large", "kill server", "start server"]

FIRST, FEWEST, MOST = 6, 3, 9
"""How many there are at the beginning, and may be."""
PAUSE_SECONDS = 0.9
"""Between two deeds, on average."""
RATES = (2.0, 10.0, 30.0)
"""Messages a second of one that talks."""
BURSTS = (50, 400)
LARGE_BYTES = 5_000_000
LAST_SENDS = (0, 1, 20, 100)
"""How many messages a leaver sends right before it leaves."""
SHORT_STOP, LONG_STOP = (0.05, 0.8), (1.2, 5.0)
"""Seconds: below suspicion, and beyond."""
WEIGHTS: dict[Action, float] = {"kill": 12, "stop": 14, "leave": 10, "talk": 10, "burst": 10, "large": 4}
SERVER_GONE, SERVER_BACK = 0.3, 0.5
"""At which parts of the time one membership server is killed, and started again."""


class Deed(Struct, frozen=True):
    """Something that happens to one life of one process, or to a server."""

    at: float
    action: Action
    life: str = ""
    amount: float = 0
    """Messages, bytes, or messages a second."""


class Cast(Struct, frozen=True):
    """Who one life of one process is; another may have had its name before."""

    name: str
    number: int
    service: str
    role: str
    on_disk: bool
    idle: str

    @property
    def key(self) -> str:
        return f"{self.name}.{self.number}"


class Plan(Struct, frozen=True):
    """What one seed means."""

    kind: Kind
    seed: int
    seconds: float
    transport: str
    casts: dict[str, Cast]
    deeds: tuple[Deed, ...]
    at_once: bool
    """Whether all leave at once in the end, or one after the other."""

    @property
    def first(self) -> list[str]:
        """Who is there from the beginning."""
        coming = {deed.life for deed in self.deeds if deed.action == "come"}
        return [key for key in self.casts if key not in coming]


def make_plan(kind: Kind, seed: int, seconds: float, transport: str | None = None) -> Plan:
    return _Planning(kind, seed, seconds, transport).plan()


class _Planning:
    """Draws deeds, and keeps track of who is there."""

    def __init__(self, kind: Kind, seed: int, seconds: float, transport: str | None) -> None:
        self._kind = kind
        self._seed = seed
        self._seconds = seconds
        self._random = Random(f"torture {kind} {seed}")
        drawn = self._random.choice(["multicast", "mesh"])
        self._transport = transport or drawn
        self._casts: dict[str, Cast] = {}
        self._deeds: list[Deed] = []
        self._present: list[str] = []
        self._killed: list[str] = []
        """Names whose lives are over at once: one who leaves may need a while."""
        self._stopped_until: dict[str, float] = {}
        self._mixed = self._random.random() < 0.5

    def plan(self) -> Plan:
        for _ in range(FIRST):
            self._come(0.0, announced=False)
        at = self._random.expovariate(1 / PAUSE_SECONDS)
        while at < self._seconds:
            self._happen(round(at, 3))
            at += self._random.expovariate(1 / PAUSE_SECONDS)
        if self._kind == "sessions":
            self._deeds.append(Deed(self._seconds * SERVER_GONE, "kill server"))
            self._deeds.append(Deed(self._seconds * SERVER_BACK, "start server"))
        return Plan(
            self._kind,
            self._seed,
            self._seconds,
            self._transport,
            self._casts,
            tuple(sorted(self._deeds, key=lambda deed: deed.at)),
            self._random.random() < 0.5,
        )

    def _happen(self, at: float) -> None:
        awake = [key for key in self._present if self._stopped_until.get(key, 0) < at]
        if len(self._present) < MOST and self._random.random() < 0.5 * (1 - len(self._present) / MOST):
            self._come(at)
            return
        action: Action = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if len(awake) <= FEWEST and action in ("kill", "stop", "leave"):
            if len(self._present) < MOST:
                self._come(at)
        elif action == "stop":
            self._stop(at, self._random.choice(awake))
        elif action in ("kill", "leave"):
            key = self._random.choice(self._present)
            self._present.remove(key)
            if action == "kill":
                self._killed.append(self._casts[key].name)
            self._do(at, action, key, self._random.choice(LAST_SENDS) if action == "leave" else 0)
        else:
            key = self._random.choice([one for one in awake if self._casts[one].role != "receiver"])
            self._do(at, action, key, self._amount(action))

    def _amount(self, action: Action) -> float:
        if action == "talk":
            return self._random.choice((0.0, *RATES))
        return LARGE_BYTES if action == "large" else self._random.randint(*BURSTS)

    def _stop(self, at: float, key: str) -> None:
        until = round(at + self._random.uniform(*self._random.choice((SHORT_STOP, LONG_STOP))), 3)
        self._stopped_until[key] = until
        self._do(at, "stop", key)
        self._do(min(until, self._seconds), "go on", key)

    def _come(self, at: float, announced: bool = True) -> None:
        """Somebody new, or another life of one who was killed."""
        name = f"m{len({cast.name for cast in self._casts.values()})}"
        if self._killed and self._random.random() < 0.5:
            name = self._killed.pop(self._random.randrange(len(self._killed)))
        number = 1 + sum(cast.name == name for cast in self._casts.values())
        service, role = self._part()
        cast = Cast(name, number, service, role, name[-1] in "02468", self._random.choice(["500ms", "2s", "10s"]))
        self._casts[cast.key] = cast
        self._present.append(cast.key)
        if announced:
            self._do(at, "come", cast.key)
        if role != "receiver":
            self._do(at, "talk", cast.key, self._random.choice(RATES))

    def _part(self) -> tuple[str, str]:
        """How a life takes part: one for each that may only listen sends, and one for each sender is `auto`."""
        if self._kind == "sessions":
            return "session", "sender"
        service = "source" if self._mixed and self._random.random() < 0.15 else "timestamp"
        senders = sum(self._casts[key].role != "receiver" for key in self._present)
        if self._mixed and senders >= FEWEST and self._random.random() < 0.15:
            return service, "receiver"
        autos = sum(self._casts[key].role == "auto" for key in self._present)
        return service, "auto" if 2 * autos < senders + 1 else "sender"

    def _do(self, at: float, action: Action, key: str, amount: float = 0) -> None:
        self._deeds.append(Deed(at, action, key, amount))
