"""Simulated channels: frames arrive whole, once and in order, or the channel breaks.

A cut link only delays frames, as TCP would, until the peers have been apart for too long; a crash breaks at once.
Members of one site share the address SITE, which one of them at a time can have: what crosses inside a site takes
microseconds and is never cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from unisono.engine import (
    SITE,
    Address,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    Fact,
    FrameReceived,
    ListenFailed,
    Listening,
)
from unisono.simulation.network import Network
from unisono.units import MICROSECOND, MILLISECOND, SECOND

RETRY = 200 * MILLISECOND
"""How often something that cannot pass a cut link is tried again."""
BREAK_AFTER = 15 * SECOND
"""A channel whose ends cannot reach each other for this long breaks."""
SITE_DELAY = 20 * MICROSECOND
"""How long anything takes between two processes of one site."""


class Crossing(NamedTuple):
    """Something on its way across a channel: not before `due`, given up when stuck since `since` for too long."""

    due: int
    since: int
    arrive: Callable[[int], None]


class End:
    """One end of a channel, at one life of a member, with what it has under way to the other end.

    `to` is the other member, or None for whoever hosts the site.
    """

    __slots__ = ("channel", "life", "member", "peer", "pumping", "to", "under_way")

    def __init__(self, member: int, life: int, channel: Channel, to: int | None) -> None:
        self.member = member
        self.life = life
        self.channel = channel
        self.to = to
        self.peer: End | None = None
        self.under_way: deque[Crossing] = deque()
        self.pumping = False


class Channels:
    """All channels between members. `schedule` calls later; `give` hands a fact to a member if that life still runs."""

    __slots__ = ("_accepted", "_address", "_ends", "_give", "_hosts", "_listening", "_network", "_schedule")

    def __init__(
        self,
        network: Network,
        schedule: Callable[[int, Callable[[int], None]], None],
        give: Callable[[int, int, Fact], None],
        address: Callable[[int], Address],
    ) -> None:
        self._network = network
        self._schedule = schedule
        self._give = give
        self._address = address
        self._ends: dict[tuple[int, Channel], End] = {}
        self._listening: dict[int, int] = {}
        self._hosts: dict[int, tuple[int, int]] = {}
        self._accepted = 0

    def listen(self, member: int, life: int) -> None:
        self._listening[member] = life

    def listen_at_site(self, now: int, member: int, life: int) -> None:
        """Be the host of the own site, unless another is."""
        host = self._hosts.setdefault(self._network.site(member), (member, life))
        taken = host != (member, life)
        answer = ListenFailed(SITE, "another process has it") if taken else Listening(SITE)
        self._schedule(now + SITE_DELAY, lambda _: self._give(member, life, answer))

    def stop_listening_at_site(self, member: int) -> None:
        site = self._network.site(member)
        if self._hosts.get(site, (None, 0))[0] == member:
            del self._hosts[site]

    def open(self, now: int, member: int, life: int, channel: Channel, to: int | None) -> None:
        """Open a channel to a member, or to the host of the own site where `to` is None."""
        end = End(member, life, channel, to)
        self._ends[member, channel] = end
        self._cross(now, end, lambda at: self._accept(at, end))

    def send(self, now: int, member: int, channel: Channel, data: bytes) -> None:
        end = self._ends.get((member, channel))
        if end is None or end.peer is None:
            return
        peer = end.peer
        self._cross(now, end, lambda _: self._give(peer.member, peer.life, FrameReceived(peer.channel, data)))

    def close(self, now: int, member: int, channel: Channel) -> None:
        """The other end learns it after everything sent before."""
        end = self._ends.pop((member, channel), None)
        if end is None or end.peer is None:
            return
        peer = end.peer

        def arrive(at: int) -> None:
            if self._ends.pop((peer.member, peer.channel), None) is not None:
                self._give(peer.member, peer.life, ChannelClosed(peer.channel))

        self._cross(now, end, arrive)

    def crash(self, now: int, member: int) -> None:
        """Every channel of a member breaks; its peers learn it one delay later."""
        self._listening.pop(member, None)
        self.stop_listening_at_site(member)
        for key in [key for key in self._ends if key[0] == member]:
            end = self._ends.pop(key)
            end.under_way.clear()
            if end.peer is not None:
                self._schedule(now + self._delay(end), self._breaker(end.peer, "peer crashed"))

    def _accept(self, at: int, end: End) -> None:
        if self._ends.get((end.member, end.channel)) is not end:
            return  # closed before anybody took it
        listener = self._listener(end)
        if listener is None:
            self._fail(end, "refused")
            return
        member, life = listener
        inside = end.to is None
        self._accepted += 1
        other = End(member, life, Channel(-self._accepted), None if inside else end.member)
        end.peer, other.peer = other, end
        self._ends[other.member, other.channel] = other
        peer = SITE if inside else self._address(end.member)
        self._give(other.member, life, ChannelOpened(other.channel, peer, True))
        opened = ChannelOpened(end.channel, SITE if inside else self._address(other.member), False)
        self._cross(at, other, lambda _: self._give(end.member, end.life, opened))

    def _listener(self, end: End) -> tuple[int, int] | None:
        """Who takes a channel, and in which life."""
        if end.to is None:
            return self._hosts.get(self._network.site(end.member))
        life = self._listening.get(end.to)
        return None if life is None else (end.to, life)

    def _delay(self, end: End) -> int:
        return SITE_DELAY if end.to is None else self._network.channel_delay(end.member, end.to)

    def _passes(self, end: End) -> bool:
        if end.to is None:
            return True
        return self._network.connected(end.member, end.to) and self._network.connected(end.to, end.member)

    def _cross(self, now: int, end: End, arrive: Callable[[int], None]) -> None:
        due = now + self._delay(end)
        end.under_way.append(Crossing(due, now, arrive))
        if not end.pumping:
            end.pumping = True
            self._schedule(due, lambda at: self._pump(at, end))

    def _pump(self, now: int, end: End) -> None:
        """Let the first thing under way arrive if the link lets it; nothing overtakes it."""
        end.pumping = False
        if not end.under_way:
            return
        crossing = end.under_way[0]
        again = max(now, crossing.due)
        if crossing.due <= now:
            if self._passes(end):
                end.under_way.popleft()
                crossing.arrive(now)
                again = max(now, end.under_way[0].due) if end.under_way else now
            elif now - crossing.since >= BREAK_AFTER:
                self._fail(end, "timed out")
                return
            else:
                again = now + RETRY
        if end.under_way and not end.pumping:
            end.pumping = True
            self._schedule(again, lambda at: self._pump(at, end))

    def _breaker(self, end: End, reason: str) -> Callable[[int], None]:
        return lambda at: self._fail(end, reason)

    def _fail(self, end: End, reason: str) -> None:
        for side in (end, end.peer):
            if side is not None:
                side.under_way.clear()
                if self._ends.pop((side.member, side.channel), None) is not None:
                    self._give(side.member, side.life, ChannelFailed(side.channel, reason))
