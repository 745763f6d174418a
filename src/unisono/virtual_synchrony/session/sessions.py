"""All groups of one client of the membership servers."""

from __future__ import annotations

from unisono.engine import (
    BlockOk,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    Effect,
    EventsTaken,
    Fact,
    FrameReceived,
    Join,
    Leave,
    PacketReceived,
    Send,
    TimePassed,
)
from unisono.virtual_synchrony.session.group import StrongGroup
from unisono.virtual_synchrony.session.participation import Participation
from unisono.virtual_synchrony.session.weak import WeakGroup


class Sessions(Participation[StrongGroup]):
    """One client, with strong and weak groups."""

    __slots__ = ()

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        effects = self._note_own_pause(now, wall)
        if isinstance(fact, PacketReceived):
            effects += self._handle_in(self._numbers[fact.packet.group], fact, now, wall)
        elif isinstance(fact, TimePassed):
            effects += self._on_due(fact, now, wall)
        elif isinstance(fact, Join):
            effects += self._join(fact, now, wall)
        elif isinstance(fact, Leave | Send | EventsTaken | BlockOk):
            effects += self._handle_in(fact.group, fact, now, wall)
        elif isinstance(fact, ChannelOpened | ChannelClosed | ChannelFailed | FrameReceived):
            effects += self._link.handle(fact, now)
        return effects + self._pass_on(now, wall)

    def _join(self, join: Join, now: int, wall: int) -> list[Effect]:
        kind = StrongGroup if join.settings.semantics == "strong" else WeakGroup
        resumption = self._left.take(join.group)
        self._add(join.group, kind(self._context(join.group, join.settings), resumption))
        effects = self._handle_in(join.group, join, now, wall)
        return effects + self._link.join(self._standing(join.group))
