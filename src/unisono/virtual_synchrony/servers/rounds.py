"""Rounds: servers that see the same members agree on the views at once, the others see that they differ and try again.

In each round a server says one thing, its proposal. A server that waits for nothing begins a round when its own clients
need one; whoever hears of a higher round takes part in it. What changes while a round is under way waits for its end,
so that the next try after one that failed finds all servers with the same knowledge.
"""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.virtual_synchrony.servers.clients import Clients
from unisono.virtual_synchrony.servers.group import Group, Round
from unisono.virtual_synchrony.servers.outbox import Outbox
from unisono.virtual_synchrony.servers.parts import digest_of_parts
from unisono.virtual_synchrony.servers.peers import Peers
from unisono.wire.peer_frames import Proposal, RosterChange, RosterUpdate


class Rounds:
    """Takes groups from round to round, together with the servers of the own clique."""

    __slots__ = ("_clients", "_outbox", "_own", "_peers", "servers", "version")

    def __init__(self, own: ProcessId, outbox: Outbox, peers: Peers, clients: Clients) -> None:
        self._own = own
        self._outbox = outbox
        self._peers = peers
        self._clients = clients
        self.servers: tuple[ProcessId, ...] = (own,)
        """Those who take part, this one among them, in order."""
        self.version = 0
        """How often any own roster was said."""

    def advance(self, group: Group) -> None:
        """Go as far as what is known allows."""
        while self._step(group):
            pass

    def _step(self, group: Group) -> bool:
        """Do one thing, if there is one to do."""
        called = max((group.proposals[s].round for s in self._others if s in group.proposals), default=None)
        current = group.round
        if current is not None:
            if current.servers != self.servers:
                self._begin(group)
                return True
            if called is not None and called > current.number:
                return self._take_part(group, called)
            return self._conclude(group, current)
        if called is not None:
            if called > group.entered:
                return self._take_part(group, called)
            self._begin(group)  # who waits in a round that is over here did not take part in its end
            return True
        change = self._say(group)
        if group.needs_round(self._own, self.servers):
            self._enter(group, group.highest + 1, change)
            return True
        if change is not None:
            self._outbox.send_all(self._peers.channels, RosterUpdate(group.name, group.highest, change))
        return False

    @property
    def _others(self) -> list[ProcessId]:
        return [server for server in self.servers if server != self._own]

    def _say(self, group: Group) -> RosterChange | None:
        """What the others do not know of the own roster yet, and are told now."""
        if not group.own.unsaid:
            return None
        self.version += 1
        return group.own.say(self.version, group.views)

    def _begin(self, group: Group) -> None:
        """Begin a round that nobody knows of yet, with all that is known here."""
        self._enter(group, group.highest + 1, self._say(group))

    def _take_part(self, group: Group, number: int) -> bool:
        """Enter a round that another began, once everything has come that its proposals build on.

        That is under way: who proposes with another's roster has it from that server, which said it to all.
        """
        if number <= group.floor:
            self._begin(group)
            return True
        for server in self._others:
            proposal = group.proposals.get(server)
            if proposal is None or proposal.round != number or proposal.servers != self.servers:
                continue
            needed = zip(proposal.servers, proposal.versions, strict=True)
            if any(version > self._peers.heard_of(other) for other, version in needed if other != self._own):
                return False
        self._enter(group, number, None)
        return True

    def _enter(self, group: Group, number: int, change: RosterChange | None) -> None:
        """Tell the own clients, then the other servers: what they do about it takes longer."""
        servers = self.servers
        parts = [(part, part.view(number, servers)) for part in group.parts(self._own, servers)]
        digest = digest_of_parts(part for part, _ in parts)
        group.round = Round(number, servers, parts, digest)
        group.entered = number
        group.highest = max(group.highest, number)
        self._clients.start_change(group, number, parts)
        versions = group.versions(self._own, servers)
        inside = [self._peers.channel_of(server) for server in self._others]
        self._outbox.send_all(inside, Proposal(group.name, number, servers, versions, digest, change))
        if change is not None:
            outside = [channel for channel in self._peers.channels if channel not in inside]
            self._outbox.send_all(outside, RosterUpdate(group.name, group.highest, change))

    def _conclude(self, group: Group, current: Round) -> bool:
        """End the round when everybody's proposal for it is there."""
        proposals = [group.proposals.get(server) for server in self._others]
        if any(proposal is None or proposal.round != current.number for proposal in proposals):
            return False
        said = [proposal for proposal in proposals if proposal is not None]
        if any(proposal.servers != current.servers for proposal in said):
            return False  # the links of servers are known differently: who learns of it begins the next round
        if any(proposal.digest != current.digest for proposal in said):
            if current.number < group.floor:
                self._begin(group)
            else:
                self._enter(group, current.number + 1, None)
            return True
        group.round = None
        for server in self._others:
            del group.proposals[server]
        for part, view in current.parts:
            group.stand(part, view, current.servers, self._own)
        group.forget_gone((part for part, _ in current.parts), current.servers)
        self._clients.new_view(group, current.parts)
        return True
