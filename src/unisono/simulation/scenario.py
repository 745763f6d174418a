"""A scenario: this group, on this network, under this load, with these faults.

The types only. `scenario_file` reads and writes them as TOML, `draw` makes every random choice of a seed,
`world` runs the result. All durations are nanoseconds, sizes bytes, bandwidths bits a second.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from unisono.settings import FIELDS, Service
from unisono.units import SECOND

FOREVER: Literal["forever"] = "forever"

DEFAULT_GROUP = "g"
"""The one group of all members, where a scenario lists none."""

Protocol = Literal["intergroup", "virtual_synchrony"]
Shape = Literal["lan", "wan", "world", "star", "sites", "regions"]
Plane = Literal["multicast", "unicast"]


class Burst(Struct, frozen=True, kw_only=True):
    """Losses that come together: about every `every`, the next `packets` packets of a link are lost."""

    every: int
    packets: int


class Network(Struct, frozen=True, kw_only=True):
    """What every link does all the time.

    A pair of numbers is a range from which each ordered pair of members draws its own. `site_latency`, where
    given, is what `latency` is between members of different sites. With `regions` sites have places on a plane
    (`geography`), which latency and hops between them follow. Several shapes are to choose from, and what a shape
    stands for is filled in when one of them is drawn.
    """

    shape: Shape | tuple[Shape, ...] = "lan"
    latency: int | tuple[int, int] = 0
    jitter: int = 0
    loss: float = 0.0
    burst: Burst | None = None
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    bandwidth: int | None = None
    queue: int | None = None
    hops: int = 1
    shared: bool = False
    site_latency: int | tuple[int, int] | None = None
    regions: int | None = None


class GroupPlan(Struct, frozen=True, kw_only=True):
    """One group and the members that join it."""

    name: str
    members: tuple[int, ...]


class Workload(Struct, frozen=True, kw_only=True):
    """Messages that some members send to one group; rate "max" sends as fast as `send` allows.

    With `proxy` those who only receive let others send them.
    """

    group: str
    senders: tuple[int, ...] | Literal["all"] = "all"
    rate: float | Literal["max"] = 10.0
    size: int | tuple[int, int] = 200
    start: int = 0
    stop: int | None = None
    proxy: bool = False


class MemberPlan(Struct, frozen=True, kw_only=True):
    """What differs at one member; `options` are settings by name, as read."""

    index: int
    joins: int = 0
    leaves: int | None = None
    options: dict[str, Any] = {}


class Churn(Struct, frozen=True, kw_only=True):
    """Members that come and go: `rate` of them join in a second, each stays for a time drawn from a range.

    Of `roles`: so many stop sending in a second, and only receive for such a time.
    """

    of: Literal["members", "roles"] = "members"
    members: tuple[int, ...] | Literal["receivers", "senders"] | None = None
    rate: float
    stay: int | tuple[int, int]
    start: int = 0
    stop: int | None = None


class When(Struct, frozen=True, kw_only=True):
    """After the `count`-th trace row of this kind at this member, server or controller (anybody where None)."""

    kind: str
    member: int | None = None
    count: int = 1


class Fault(Struct, frozen=True, kw_only=True):
    """One fault: when it begins, how long it lasts, and the keys of its kind (`FAULTS` in scenario_keys)."""

    kind: str
    at: int | None = None
    when: When | None = None
    lasts: int | Literal["forever"] | None = None
    flaps: int | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    sources: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    members: tuple[int, ...] = ()
    each: int | None = None
    rate: float | None = None
    plane: Plane | None = None
    message: str | None = None
    sequence: int | None = None
    count: int | None = None
    by: int | float | None = None
    age: int | None = None
    above: int | None = None
    restart: int | None = None
    disk: bool = True
    times: float | None = None
    what: str | None = None
    group: str | None = None
    size: int | None = None
    service: Service | None = None
    together: bool = False


class RandomFaults(Struct, frozen=True, kw_only=True):
    """How many faults a seed draws, and of which kinds."""

    count: tuple[int, int] = (3, 7)
    kinds: tuple[str, ...] | Literal["all"] = "all"


class Scenario(Struct, frozen=True, kw_only=True):
    """The whole file. After `draw` members is a number, options hold single values, churns are none and random is None.

    In options a list is a choice that `draw` makes; a tuple is a value. `servers` and `controllers` are those of
    virtual synchrony; faults name them by numbers beyond the members' (see unisono.simulation.cast).
    """

    name: str
    says: str = ""
    protocol: Protocol = "intergroup"
    seed: int | None = None
    members: int | tuple[int, int] = 3
    sites: int | None = None
    servers: int | tuple[int, int] = 0
    controllers: int | tuple[int, ...] = 0
    state: int | None = None
    duration: int = 10 * SECOND
    settle: int = 10 * SECOND
    expect: str = "held"
    marks: tuple[str, ...] | Literal["all"] = ()
    marks_seeds: int = 200
    options: dict[str, Any] = {}
    network: Network = Network()
    groups: tuple[GroupPlan, ...] = ()
    workloads: tuple[Workload, ...] = ()
    member_plans: tuple[MemberPlan, ...] = ()
    churns: tuple[Churn, ...] = ()
    faults: tuple[Fault, ...] = ()
    random: RandomFaults | None = None

    @property
    def datagram_bytes(self) -> int:
        """No datagram of any member is larger, once all choices are made."""
        usual: int = self.options.get("datagram_bytes", FIELDS["datagram_bytes"].default)
        sizes: list[int] = [plan.options.get("datagram_bytes", usual) for plan in self.member_plans]
        return max([usual, *sizes])

    @property
    def mere_receivers(self) -> frozenset[int]:
        """Who begins as one that only receives, by number; a role that is drawn counts once it is chosen."""
        return frozenset(plan.index for plan in self.member_plans if plan.options.get("role") == "receiver")
