"""What servers tell each other: their links, their rosters, and their proposals."""

from __future__ import annotations

from unisono.engine import Address, Channel
from unisono.identity import ProcessId
from unisono.virtual_synchrony.servers.attendance import GROUPS_LIMIT, Attendance
from unisono.virtual_synchrony.servers.links import LinkStates
from unisono.virtual_synchrony.servers.outbox import Outbox
from unisono.virtual_synchrony.servers.peers import Link, Peers
from unisono.virtual_synchrony.servers.reception import Reception
from unisono.virtual_synchrony.servers.rounds import Rounds
from unisono.wire.peer_frames import (
    LinkState,
    Proposal,
    RosterChange,
    RosterUpdate,
    ServerHello,
    Synced,
    read_peer_frame,
)
from unisono.wire.server_frames import NEWER_LIFE

ROUND_LIMIT = 1 << 62
"""No round has such a number, not even one above what a client says that it saw."""


class Exchange:
    """Begins links and ends them, and knows who takes part because of them."""

    __slots__ = ("_attendance", "_links", "_outbox", "_peers", "_process", "_reception", "_rounds")

    def __init__(
        self,
        process: ProcessId,
        outbox: Outbox,
        peers: Peers,
        attendance: Attendance,
        rounds: Rounds,
        reception: Reception,
    ) -> None:
        self._process = process
        self._outbox = outbox
        self._peers = peers
        self._attendance = attendance
        self._rounds = rounds
        self._reception = reception
        self._links = LinkStates(process)

    def on_frame(self, link: Link, data: bytes, now: int) -> None:
        link.heard = now
        complaint = self._on_frame(link, data, now)
        if complaint is not None:
            self.cut(link, complaint, now)

    def forget_unreachable(self, now: int, patience: int) -> None:
        self._links.forget_unreachable(now, patience)

    def forgive(self, gap: int) -> None:
        """This process was stopped for so long."""
        self._links.forgive(gap)

    def greet(self, channel: Channel, address: Address, server: ProcessId, now: int) -> None:
        """A server is at the other end: it gets all that it has to know, if this is to be the link to it."""
        self._peers.identify(channel, server)
        if not self._peers.wants(channel, server):
            if channel < 0 and server == self._process:
                self._outbox.send(channel, ServerHello(server))  # it called itself, and should know
            self._outbox.close(channel)
            self._peers.on_end(channel, now)
            return
        rival = self._peers.rival(server)
        if rival is not None:
            self._outbox.close(rival.channel)
            self.lose(rival, now)
        self._peers.add(Link(server, channel, address, now))
        if channel < 0:
            self._outbox.send(channel, ServerHello(self._process))
        for group in self._attendance:
            if group.own.said:
                change = group.own.all_said(group.views)
                self._outbox.send(channel, RosterUpdate(group.name, group.highest, change))
        self._outbox.send(channel, Synced(self._rounds.version))
        for state in self._links.states:
            self._outbox.send(channel, state)

    def _on_frame(self, link: Link, data: bytes, now: int) -> str | None:
        """Take what another server says, or say what is wrong with it."""
        frame = read_peer_frame(data)
        match frame:
            case None | ServerHello():
                return "a bad frame of another server"
            case RosterUpdate(name, number, change):
                return self._on_roster(link, name, number, change, now)
            case Proposal():
                return self._on_proposal(link, frame, now)
            case Synced(version):
                link.synced, link.version = True, max(link.version, version)
                self._tell_links(now)
            case LinkState():
                if self._links.learn(frame):
                    others = [channel for channel in self._peers.channels if channel != link.channel]
                    self._outbox.send_all(others, frame)
                    self._regroup(now)
        return None

    def _on_roster(self, link: Link, name: str, number: int, change: RosterChange | None, now: int) -> str | None:
        """What another server says of a group, for itself or with a proposal."""
        if number >= ROUND_LIMIT:
            return "another server speaks of a round that cannot be"
        if len(self._attendance) >= GROUPS_LIMIT and self._attendance.get(name) is None:
            return "another server has too many groups"
        group = self._attendance.touch(name)
        group.highest = max(group.highest, number)
        if change is None:
            return None
        if not group.take(link.server, change):
            return "the roster of another server does not fit"
        link.version = max(link.version, change.version)
        for client in self._attendance.give_way(group, change):
            self._reception.turn_away(client, NEWER_LIFE, now)
        if link.server in self._rounds.servers:
            self._attendance.release(self._rounds.servers)
        return None

    def _on_proposal(self, link: Link, frame: Proposal, now: int) -> str | None:
        complaint = self._on_roster(link, frame.group, frame.round, frame.change, now)
        if complaint is None:
            group = self._attendance.touch(frame.group)
            group.proposals[link.server] = frame
        return complaint

    def cut(self, link: Link, reason: str, now: int) -> None:
        self._outbox.note(reason)
        self._outbox.close(link.channel)
        self.lose(link, now)

    def lose(self, link: Link, now: int) -> None:
        """A link is no more."""
        self._peers.drop(link, now)
        self._tell_links(now)
        for group in self._attendance:
            known = group.copies.pop(link.server, None), group.proposals.pop(link.server, None)
            if any(known):
                self._attendance.touch(group.name)

    def _tell_links(self, now: int) -> None:
        state = self._links.tell(self._peers.synced)
        if state is not None:
            self._outbox.send_all(self._peers.channels, state)
            self._regroup(now)

    def _regroup(self, now: int) -> None:
        """Other servers may take part from now on: every group has to be looked at then."""
        before, after = self._rounds.servers, self._links.clique()
        if before == after:
            return
        self._rounds.servers = after
        for server in before:
            if server not in after:
                self._attendance.adopt(server, after, now)
        self._attendance.release(after)
        for group in self._attendance:
            self._attendance.touch(group.name)
