"""The simulated network: delays, loses, duplicates, reorders and damages datagrams, and splits the group.

All choices come from named generators, one for each ordered pair of members: a seed and a commit replay a run exactly.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from unisono.simulation.damage import damage
from unisono.simulation.geography import Geography
from unisono.simulation.line import Line
from unisono.simulation.packet_rules import PacketRule, classify
from unisono.simulation.scenario import Network as NetworkPlan
from unisono.simulation.streams import stream
from unisono.units import MILLISECOND, SECOND

REORDER_TAIL_LIMIT = 2 * SECOND
QUEUE_LIMIT = 256
"""Datagrams that wait at either end of a line where the scenario does not say."""
MEMORY_LIMIT = 256
"""How many packets a link remembers for replay."""


class Arrival(NamedTuple):
    """A datagram on its way to a member."""

    at: int
    receiver: int
    hops: int
    data: bytes


class Link:
    """One direction between two members."""

    __slots__ = ("burst_left", "hops", "latency", "memory", "next_burst", "previous", "random")

    def __init__(self, random: Random, latency: int, hops: int, plan: NetworkPlan) -> None:
        self.random = random
        self.latency = latency
        self.hops = hops
        self.burst_left = 0
        self.next_burst = int(random.expovariate(1 / plan.burst.every)) if plan.burst else 0
        self.previous = b""
        self.memory: deque[tuple[int, bytes]] = deque(maxlen=MEMORY_LIMIT)


class Network:
    """Every link between the members, and the rules that faults lay over them.

    Members are dealt over the sites in turn; the `others` after them, such as servers, have a site each.
    """

    __slots__ = (
        "_connected",
        "_geography",
        "_lines_in",
        "_lines_out",
        "_links",
        "_plan",
        "_remember",
        "_seed",
        "_site_of",
        "counters",
        "rules",
    )

    def __init__(self, plan: NetworkPlan, members: int, sites: int, seed: int, remember: bool, others: int = 0) -> None:
        self._plan = plan
        self._remember = remember
        self._lines_out = [Line() for _ in range(members + others)]
        self._lines_in = [Line() for _ in range(members + others)]
        self._site_of: list[int] = [*(member % sites for member in range(members)), *range(sites, sites + others)]
        self._seed = seed
        self._geography = Geography(sites + others, plan.regions, seed) if plan.regions else None
        self._links: dict[tuple[int, int], Link] = {}
        self._connected: Callable[[int, int], bool] = lambda a, b: True
        self.rules: list[PacketRule] = []
        self.counters: Counter[str] = Counter()

    def _link(self, a: int, b: int) -> Link:
        """The link from `a` to `b`, made when it is first used: its draws are its own, so it does not matter when."""
        link = self._links.get((a, b))
        if link is None:
            random = stream(self._seed, f"link/{a}/{b}")
            plan = self._plan
            here, there = self._site_of[a], self._site_of[b]
            if self._geography is not None and here != there:
                latency = self._geography.latency(here, there)
            else:
                drawn = plan.site_latency if here != there and plan.site_latency is not None else plan.latency
                latency = random.randint(*drawn) if isinstance(drawn, tuple) else drawn
            link = self._links[a, b] = Link(random, latency, self.hops(a, b), plan)
        return link

    def site(self, member: int) -> int:
        """The site that a member is at."""
        return self._site_of[member]

    def latency(self, a: int, b: int) -> int:
        """What a datagram takes from `a` to `b` but for bandwidth and faults: the truth about a distance."""
        here, there = self._site_of[a], self._site_of[b]
        if self._geography is not None and here != there:
            latency = self._geography.latency(here, there)  # thousands of pairs need no link for it
        else:
            latency = self._link(a, b).latency
        return latency + self._plan.jitter // 2

    def hops(self, a: int, b: int) -> int:
        """How many hops it is; known without a link, since most members are out of the scope of most others."""
        here, there = self._site_of[a], self._site_of[b]
        if here == there:
            return 0
        return self._plan.hops if self._geography is None else self._geography.hops(here, there)

    def set_connectivity(self, connected: Callable[[int, int], bool]) -> None:
        """Who can reach whom, in that direction."""
        self._connected = connected

    def connected(self, a: int, b: int) -> bool:
        return self._connected(a, b)

    def channel_delay(self, a: int, b: int) -> int:
        """How long a frame takes on a reliable channel."""
        link = self._link(a, b)
        return link.latency + int(link.random.random() * self._plan.jitter)

    def transmit(
        self, now: int, sender: int, receivers: list[int], multicast: bool, scope: int, data: bytes
    ) -> list[Arrival]:
        """Put a datagram on the network; when, and as what, it comes where."""
        self.counters["datagrams"] += 1
        self.counters["datagram bytes"] += len(data)
        arrivals: list[Arrival] = []
        leaves = self._leave(now, sender, len(data))
        if leaves is None:
            return arrivals
        rules = [rule for rule in self.rules if rule.applies(sender, multicast)]
        kind = classify(data) if any(rule.selective for rule in rules) else None
        for rule in rules if receivers else ():
            rule.leave_sender(self._link(sender, receivers[0]).random, rule.matches(kind))
        for receiver in receivers:
            if self.hops(sender, receiver) > scope:
                self.counters["out of scope"] += 1
            elif not self._connected(sender, receiver):
                self.counters["cut off"] += 1
            else:
                active = [rule for rule in rules if rule.reaches(receiver) and rule.matches(kind)]
                self._travel(arrivals, leaves, self._link(sender, receiver), receiver, data, active)
        return arrivals

    def take_in(self, now: int, receiver: int, size: int) -> int | None:
        """When a receiver's line has brought a datagram in; None when its queue is full. A shared medium has none."""
        return now if self._plan.shared else self._carry(now, self._lines_in[receiver], size)

    def _leave(self, now: int, sender: int, size: int) -> int | None:
        """When a datagram has left its sender, or the medium that all share; None when the queue there is full."""
        return self._carry(now, self._lines_out[0 if self._plan.shared else sender], size)

    def _carry(self, now: int, line: Line, size: int) -> int | None:
        if self._plan.bandwidth is None:
            return now
        carried = line.carry(now, self._plan.bandwidth, size, self._plan.queue or QUEUE_LIMIT)
        if carried is None:
            self.counters["dropped in the queue"] += 1
        return carried

    def _travel(
        self, arrivals: list[Arrival], leaves: int, link: Link, receiver: int, data: bytes, rules: list[PacketRule]
    ) -> None:
        plan, random = self._plan, link.random
        if self._remember:
            link.memory.append((leaves, data))
        for rule in rules:
            if rule.replays and random.random() < rule.rate:
                fresh = [old for sent, old in link.memory if leaves - sent <= rule.age]
                self.counters["replayed"] += 1
                arrivals.append(Arrival(leaves + link.latency, receiver, link.hops, random.choice(fresh)))
        if self._lost(leaves, link, len(data), rules):
            self.counters["lost"] += 1
            return
        for rule in rules:
            if rule.effect == "limit":
                passed = rule.line_to(receiver).carry(leaves, int(rule.by), len(data), plan.queue or QUEUE_LIMIT)
                if passed is None:
                    self.counters["dropped in the queue"] += 1
                    return
                leaves = passed
        copies = 1
        if _happens(random, plan.duplicate, rules, "duplicate"):
            self.counters["duplicated"] += 1
            copies = 2
        for _ in range(copies):
            at = leaves + link.latency + (int(random.random() * plan.jitter) if plan.jitter else 0)
            for rule in rules:
                if rule.effect == "delay" and rule.hit(random):
                    at += int(rule.by * (0.5 + random.random()))
            if _happens(random, plan.reorder, rules, "reorder"):
                self.counters["reordered"] += 1
                at += min(int(random.paretovariate(1.5) * 5 * MILLISECOND), REORDER_TAIL_LIMIT)
            content = data
            if _happens(random, plan.corrupt, rules, "corrupt"):
                self.counters["corrupted"] += 1
                content = damage(random, data, link.previous)
            arrivals.append(Arrival(at, receiver, link.hops, content))
        link.previous = data

    def _lost(self, now: int, link: Link, size: int, rules: list[PacketRule]) -> bool:
        plan, random = self._plan, link.random
        for rule in rules:
            if rule.above is not None and size > rule.above:
                return True
        if _happens(random, plan.loss, rules, "lose"):
            return True
        if plan.burst is not None:
            if not link.burst_left and now >= link.next_burst:
                link.burst_left = plan.burst.packets
            if link.burst_left:
                link.burst_left -= 1
                if not link.burst_left:
                    link.next_burst = now + int(random.expovariate(1 / plan.burst.every))
                return True
        return False


def _happens(random: Random, rate: float, rules: list[PacketRule], effect: str) -> bool:
    """Whether something befalls a packet, by the network's own rate or by a fault that still has hits left."""
    if rate and random.random() < rate:
        return True
    return any(rule.effect == effect and rule.hit(random) for rule in rules)
