"""Which servers take part together: all tell their links to all, and divide the servers by the same rule.

A link counts if both ends tell it. What a server tells has a version, and who hears of a newer one passes it on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.identity import ProcessId
from unisono.wire.peer_frames import LinkState

STATES_LIMIT = 1024
"""The most servers whose links are remembered, far more than there ever are."""


def cliques(neighbours: Mapping[ProcessId, Iterable[ProcessId]]) -> list[tuple[ProcessId, ...]]:
    """Divide servers so that in each part all have links to all.

    The least server begins; in order, whoever has links to all that are in comes in; the rest is divided alike.
    """
    told = {server: frozenset(others) for server, others in neighbours.items()}
    rest = sorted(told)
    parts = []
    while rest:
        part: list[ProcessId] = []
        for server in rest:
            if all(server in told[other] and other in told[server] for other in part):
                part.append(server)
        parts.append(tuple(part))
        taken = set(part)
        rest = [server for server in rest if server not in taken]
    return parts


class LinkStates:
    """What is known of the links of all servers; that of the own ones is known first hand."""

    __slots__ = ("_lost", "_own", "_states")

    def __init__(self, own: ProcessId) -> None:
        self._own = own
        self._states: dict[ProcessId, LinkState] = {own: LinkState(own, 1, ())}
        self._lost: dict[ProcessId, int] = {}
        """Since when somebody cannot be reached."""

    @property
    def states(self) -> list[LinkState]:
        return [self._states[server] for server in sorted(self._states)]

    def tell(self, neighbours: Iterable[ProcessId]) -> LinkState | None:
        """What to say to all when the own links have changed."""
        before, now = self._states[self._own], tuple(sorted(neighbours))
        if now == before.neighbours:
            return None
        state = self._states[self._own] = LinkState(self._own, before.version + 1, now)
        return state

    def learn(self, state: LinkState) -> bool:
        """Take what another said; False where it is nothing new, or nothing that another can say.

        Of a server that could not be reached everything is new: others, who learn it from here, may have forgotten it.
        """
        known = self._states.get(state.server)
        if state.server == self._own or (known is None and len(self._states) >= STATES_LIMIT):
            return False
        newest = 0 if known is None else known.version
        if state.version < newest or (state.version == newest and state.server not in self._lost):
            return False
        self._states[state.server] = state
        self._lost.pop(state.server, None)
        return True

    def forget_unreachable(self, now: int, patience: int) -> None:
        """Forget whom nobody told for so long that can be reached from here: it is gone, or will be heard of anew.

        Not at once: what is heard of a server may come before what is heard of those on the way to it.
        """
        reached, border = {self._own}, [self._own]
        while border:
            state = self._states.get(border.pop())
            fresh = [] if state is None else [other for other in state.neighbours if other not in reached]
            reached.update(fresh)
            border += fresh
        self._lost = {server: self._lost.get(server, now) for server in self._states if server not in reached}
        for server, since in self._lost.items():
            if now - since >= patience:
                del self._states[server]

    def forgive(self, gap: int) -> None:
        """This process was stopped for so long."""
        self._lost = {server: since + gap for server, since in self._lost.items()}

    def clique(self) -> tuple[ProcessId, ...]:
        """The servers that this one takes part with, itself among them, in order."""
        divided = cliques({server: state.neighbours for server, state in self._states.items()})
        return next(part for part in divided if self._own in part)
