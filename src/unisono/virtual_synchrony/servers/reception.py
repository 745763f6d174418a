"""What clients say: who they are, where they want to be, and whom they speak for or accuse."""

from __future__ import annotations

from unisono.engine import Address, Channel
from unisono.identity import ProcessId, why_bad_name
from unisono.virtual_synchrony.servers.attendance import GROUPS_LIMIT, Attendance
from unisono.virtual_synchrony.servers.clients import Client, Clients
from unisono.virtual_synchrony.servers.outbox import Outbox
from unisono.virtual_synchrony.servers.peers import Peers
from unisono.virtual_synchrony.servers.rounds import Rounds
from unisono.wire.peer_frames import ACCUSED_LIMIT
from unisono.wire.server_frames import (
    NEWER_LIFE,
    Accusation,
    Attach,
    Charges,
    Departure,
    FromClient,
    JoinGroup,
    LeaveGroup,
    Ping,
    Pong,
    Standing,
    Welcome,
    read_client_frame,
)

CLIENTS_LIMIT = 8192
"""The most clients that have a channel to one server."""
JOINED_LIMIT = 4096
"""The most groups that one client is in."""
CHANGE_LIMIT = 1 << 61
"""No client saw a start-change with such a number."""


class Reception:
    """Takes clients in and turns them away."""

    __slots__ = ("_attendance", "_clients", "_outbox", "_peers", "_process", "_rounds")

    def __init__(
        self,
        process: ProcessId,
        outbox: Outbox,
        peers: Peers,
        clients: Clients,
        attendance: Attendance,
        rounds: Rounds,
    ) -> None:
        self._process = process
        self._outbox = outbox
        self._peers = peers
        self._clients = clients
        self._attendance = attendance
        self._rounds = rounds

    def meet(self, channel: Channel, address: Address, frame: Attach, now: int) -> None:
        """Somebody says that it is a client."""
        complaint = self._why_refuse(frame)
        if complaint is not None:
            self._outbox.refuse(channel, complaint)
        else:
            self._attach(channel, address, frame, now)

    def on_frame(self, client: Client, data: bytes, now: int) -> None:
        client.heard = now
        complaint = self._on_frame(client, read_client_frame(data), now)
        if complaint is not None:
            self.turn_away(client, complaint, now)

    def turn_away(self, client: Client, reason: str, now: int) -> None:
        self._outbox.refuse(client.channel, reason)
        self.part_with(client, False, now, Departure.RESTARTED if reason == NEWER_LIFE else Departure.SUSPECTED)

    def part_with(self, client: Client, lost: bool, now: int, why: Departure = Departure.SUSPECTED) -> None:
        """A client is not with this server any more; if it was lost, it may come back."""
        self._clients.remove(client)
        self._attendance.end(client, lost, now, self._rounds.servers, why)

    def _why_refuse(self, frame: Attach) -> str | None:
        """Why a client cannot come in."""
        process = frame.process
        known = self._clients.named(process.name)
        if known is not None and known.process.incarnation > process.incarnation:
            return NEWER_LIFE
        if known is None and len(self._clients) >= CLIENTS_LIMIT:
            return "there are too many clients"
        if len(frame.standings) > JOINED_LIMIT:
            return "it is in too many groups"
        return next(filter(None, (self._why_bad(process, standing) for standing in frame.standings)), None)

    def _why_bad(self, process: ProcessId, standing: Standing) -> str | None:
        """Why a client cannot stand in a group as it says."""
        if (complaint := why_bad_name(standing.group)) is not None:
            return complaint
        starts = [view.start for view in (standing.view, standing.offered) if view is not None]
        if max(standing.change, *starts, 0) >= CHANGE_LIMIT:
            return "no start-change has such a number"
        group = self._attendance.get(standing.group)
        if group is None:
            return "there are too many groups" if len(self._attendance) >= GROUPS_LIMIT else None
        return NEWER_LIFE if group.newest(process.name) > process.incarnation else None

    def _attach(self, channel: Channel, address: Address, frame: Attach, now: int) -> None:
        known = self._clients.named(frame.process.name)
        if known is not None:
            same = known.process == frame.process
            if same:
                self._outbox.note("a client came anew")
                self._outbox.close(known.channel)
            else:
                self._outbox.refuse(known.channel, NEWER_LIFE)
            joined = {standing.group for standing in frame.standings}
            for name in [name for name in known.told if name not in joined]:
                self._attendance.leave(known, name, Departure.LEFT if same else Departure.RESTARTED)
            self.part_with(known, same, now, Departure.SUSPECTED if same else Departure.RESTARTED)
        self._attendance.succeed(frame.process)
        client = Client(frame.process, channel, address, frame.controller, now)
        self._clients.add(client)
        others = tuple(place for place in self._peers.addresses if place != address)
        self._outbox.send(channel, Welcome(self._process, others))
        for standing in frame.standings:
            self._attendance.join(client, standing)

    def _on_frame(self, client: Client, frame: FromClient | None, now: int) -> str | None:
        """Do what a client wants, or say what is wrong with it."""
        match frame:
            case Ping(number):
                self._outbox.send(client.channel, Pong(number))
            case JoinGroup(standing):
                if len(client.told) + len(client.coming) >= JOINED_LIMIT:
                    return "it is in too many groups"
                if (complaint := self._why_bad(client.process, standing)) is not None:
                    return complaint
                self._attendance.join(client, standing)
            case LeaveGroup(group, removed):
                self._attendance.leave(client, group, Departure.LEFT, removed)
            case Charges():
                return self._on_charges(client, frame, now)
            case Accusation(_, accused):
                if len(accused) > ACCUSED_LIMIT:
                    return "it accuses too many"
                self._attendance.accuse(client, frame)
            case _:
                return "a bad frame of a client"
        return None

    def _on_charges(self, client: Client, frame: Charges, now: int) -> str | None:
        """A controller says for whom it speaks; with that it comes into a group where it wanted to be."""
        names = [charge.process.name for charge in frame.added]
        if any(name == client.process.name or why_bad_name(name) is not None for name in names):
            return "it speaks for somebody with a bad name"
        if frame.change >= CHANGE_LIMIT:
            return "no start-change has such a number"
        standing = client.coming.get(frame.group)
        if standing is not None and (complaint := self._why_bad(client.process, standing)) is not None:
            return complaint
        complaint = self._attendance.charge(client, frame)
        if complaint is None:
            for charge in frame.added:
                older = self._clients.named(charge.process.name)
                if older is not None and older.process < charge.process:
                    self.turn_away(older, NEWER_LIFE, now)
        return complaint
