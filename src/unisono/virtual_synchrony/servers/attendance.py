"""Who is in which group: clients come, go, are lost and are kept for a while, and controllers speak for others.

Everything here changes the own rosters alone. What becomes of that is the business of the rounds of each group that
was `touched`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from unisono.identity import ProcessId
from unisono.virtual_synchrony.servers.clients import Client, Clients, Told
from unisono.virtual_synchrony.servers.group import MEMBERS_LIMIT, Group
from unisono.virtual_synchrony.servers.outbox import Outbox
from unisono.wire.peer_frames import Listed, RosterChange
from unisono.wire.server_frames import (
    ELSEWHERE,
    NEWER_LIFE,
    Accusation,
    Charge,
    Charges,
    Departure,
    Entry,
    NewView,
    Overruled,
    Removed,
    Standing,
)

GROUPS_LIMIT = 16_384
"""The most groups that a server knows of."""


class Attendance:
    """All groups that a server knows of, and its own clients in them."""

    __slots__ = ("_clients", "_failover", "_forgotten", "_groups", "_keeping", "_outbox", "_stays", "touched")

    def __init__(self, outbox: Outbox, clients: Clients, failover: int) -> None:
        self._outbox = outbox
        self._clients = clients
        self._failover = failover
        self._groups: dict[str, Group] = {}
        self._keeping: dict[str, None] = {}
        """The groups that have orphans."""
        self._forgotten = 0
        """The highest round of a group that is not remembered any more: identifiers of views do not come again."""
        self._stays = 0
        self.touched: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def get(self, name: str) -> Group | None:
        return self._groups.get(name)

    def touch(self, name: str) -> Group:
        """The group, to be looked at when all that happened is known."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name, self._forgotten)
        self.touched[name] = None
        return group

    def forget_empty(self, group: Group) -> None:
        if not group:
            del self._groups[group.name]
            self._keeping.pop(group.name, None)
            self._forgotten = max(self._forgotten, group.highest)

    # What clients say.

    def join(self, client: Client, standing: Standing) -> None:
        """A client is in a group from now on; a controller, once it says for whom."""
        if client.controller and standing.group not in client.told:
            client.coming[standing.group] = standing
        else:
            self._join(client, standing)

    def _join(self, client: Client, standing: Standing) -> None:
        """A client begins a stay in a group, perhaps in the view that it has already."""
        group = self.touch(standing.group)
        group.heed(max(standing.change, *(view.start for view in (standing.view, standing.offered) if view), 0))
        self._overrule(group, {client.process.name: Listed(client.entry, True)})
        held = group.held_by(client.process, standing)
        client.told[group.name] = Told(self._begin_stay(group, Listed(client.entry, True, held)))
        if held is not None and held != standing.view:  # it may not know that it stands
            self._outbox.send(client.channel, NewView(group.name, held))

    def leave(self, client: Client, name: str, why: Departure, removed: Removed = ()) -> None:
        """A client is in a group no longer, and nobody whom it speaks for is."""
        client.coming.pop(name, None)
        if client.told.pop(name, None) is not None:
            group = self.touch(name)
            reasons = {client.process: why, **dict(removed)}
            for process in _whole(group, client):
                self._remove(group, process, reasons.get(process, Departure.UNKNOWN))

    def end(self, client: Client, kept: bool, now: int, servers: tuple[ProcessId, ...], why: Departure) -> None:
        """The channel of a client is no more. If it was lost, the client may come back: it is kept for a while.

        Of those whom it spoke for nobody knows more than that.
        """
        for name in list(client.told):
            group = self.touch(name)
            for process in _whole(group, client):
                if kept and process in group.own.said and not group.is_attached_elsewhere(process, servers):
                    self._keep(group, group.own.clients[process], now)
                else:
                    self._remove(group, process, why if process == client.process else Departure.SUSPECTED)
        client.told.clear()

    def charge(self, client: Client, frame: Charges) -> str | None:
        """A controller speaks for other clients than before, or what is wrong with what it says."""
        if not client.controller or (frame.group not in client.told and frame.group not in client.coming):
            return "it is no controller of that group"
        group = self.touch(frame.group)
        if len(group.own.clients) + len(frame.added) > MEMBERS_LIMIT:
            return "it speaks for too many"
        group.heed(frame.change)
        if frame.group in client.coming:
            self._join(client, client.coming.pop(frame.group))
        for process, why in frame.removed:
            listed = group.own.clients.get(process)
            if listed is not None and listed.entry.via == client.process != process:
                self._remove(group, process, why)
        coming = self._uncontested(group, client.process, frame.added)
        self._overrule(group, coming)
        mine = group.own.clients[client.process]
        for listed in coming.values():
            process, claimed = listed.entry.process, (listed.claim, client.process)
            own, kept = group.own.clients.get(process), group.find(process)
            if own is not None and own.attached and (own.claim, own.entry.via) == claimed:
                continue  # it said so before
            stays = kept is not None and not kept.attached and (kept.claim, kept.entry.via) == claimed
            held = mine.held if kept is not None and stays and kept.held == mine.held else None
            self._begin_stay(group, replace(listed, held=held))
        return None

    def _uncontested(self, group: Group, controller: ProcessId, charges: Iterable[Charge]) -> dict[str, Listed]:
        """Of clients that a controller claims, by name, those of whom no newer life or later entry is known.

        Of the others the controller is told. Who has a channel of its own speaks for itself.
        """
        newest = group.newest_lives()
        coming: dict[str, Listed] = {}
        for charge in charges:
            process, known = charge.process, group.find(charge.process)
            listed = Listed(Entry(process, "", controller), True, claim=charge.entry)
            own = group.own.clients.get(process)
            if newest.get(process.name, 0) > process.incarnation:
                self._tell_overruled(group, listed, NEWER_LIFE)
            elif known is not None and known.claim > charge.entry:
                self._tell_overruled(group, listed, ELSEWHERE)
            elif own is None or own.entry.via not in (None, process):
                coming[process.name] = listed
        return coming

    def accuse(self, client: Client, frame: Accusation) -> None:
        """A client hears nothing of these members of a group."""
        if frame.group in client.told:
            group = self.touch(frame.group)
            listed = group.own.clients[client.process]
            group.own.put(replace(listed, accused=tuple(sorted(set(frame.accused)))))

    # What happens elsewhere.

    def adopt(self, server: ProcessId, servers: tuple[ProcessId, ...], now: int) -> None:
        """A server does not take part any more: its clients are kept for a while, to come to one that does."""
        for group in self:
            copy = group.copies.get(server)
            for process, listed in [] if copy is None else list(copy.clients.items()):
                own = group.own.clients.get(process)
                here = own is not None and own.attached
                if listed.attached and not here and not group.is_attached_elsewhere(process, servers):
                    self.touch(group.name)
                    self._keep(group, listed, now)

    def release(self, servers: tuple[ProcessId, ...]) -> None:
        """Who is attached to another of these servers need not be kept."""
        for name in list(self._keeping):
            group = self._groups[name]
            for process in list(group.orphans):
                if group.is_attached_elsewhere(process, servers):
                    self.touch(name)
                    self._remove(group, process, Departure.UNKNOWN)

    def give_way(self, group: Group, change: RosterChange) -> list[Client]:
        """Some came elsewhere: whoever of the same names is here by an earlier life or entry goes.

        The clients that have to go too: those with a channel of their own.
        """
        there = {listed.entry.process.name: listed for listed in change.listed if listed.attached}
        self._overrule(group, there)
        for orphan in list(group.orphans):
            if orphan.name in there and orphan < there[orphan.name].entry.process:
                self._remove(group, orphan, Departure.RESTARTED)
        clients = ((self._clients.named(name), listed.entry.process) for name, listed in there.items())
        return [client for client, process in clients if client is not None and client.process < process]

    def _overrule(self, group: Group, newer: Mapping[str, Listed]) -> None:
        """Whom own controllers speak for by an earlier life or entry than these, by name, is theirs no longer."""
        if not newer:
            return
        for process, mine in list(group.own.clients.items()):
            theirs = newer.get(process.name)
            if theirs is None or not mine.attached or mine.entry.via in (None, process):
                continue
            if process < theirs.entry.process:
                self._remove(group, process, Departure.RESTARTED)
                self._tell_overruled(group, mine, NEWER_LIFE)
            elif process == theirs.entry.process and mine.claim < theirs.claim:
                self._remove(group, process, Departure.UNKNOWN)
                self._tell_overruled(group, mine, ELSEWHERE)

    def _tell_overruled(self, group: Group, listed: Listed, reason: str) -> None:
        """Tell the controller that speaks for a client by this entry."""
        process, via = listed.entry.process, listed.entry.via
        assert via is not None, "a controller speaks for it"
        client = self._clients.named(via.name)
        if client is not None and client.process == via:
            self._outbox.send(client.channel, Overruled(group.name, process, listed.claim, reason))

    def succeed(self, process: ProcessId) -> None:
        """A newer life of a name came here: older ones are kept no longer."""
        for name in list(self._keeping):
            group = self._groups[name]
            for orphan in [one for one in group.orphans if one.name == process.name and one < process]:
                self.touch(name)
                self._remove(group, orphan, Departure.RESTARTED)

    # Those who are kept.

    def expire(self, now: int) -> None:
        for name in list(self._keeping):
            group = self._groups[name]
            for process in [process for process, due in group.orphans.items() if due <= now]:
                self.touch(name)
                self._remove(group, process, Departure.SUSPECTED)
            if not group.orphans:
                del self._keeping[name]

    def next_due(self) -> int | None:
        dues = (due for name in self._keeping for due in self._groups[name].orphans.values())
        return min(dues, default=None)

    def forgive(self, gap: int) -> None:
        """This process was stopped for so long: nobody could come to it."""
        for name in self._keeping:
            orphans = self._groups[name].orphans
            for process in orphans:
                orphans[process] += gap

    def _keep(self, group: Group, listed: Listed, now: int) -> None:
        process = listed.entry.process
        if not self._failover:
            self._remove(group, process, Departure.SUSPECTED)
            return
        self._keeping[group.name] = None
        group.orphans[process] = now + self._failover
        orphan = replace(listed, attached=False)
        if process in group.own.clients:
            group.own.put(orphan)
        else:
            self._stays += 1
            group.own.put(orphan, self._stays)

    def _begin_stay(self, group: Group, listed: Listed) -> int:
        self._stays += 1
        group.orphans.pop(listed.entry.process, None)
        group.gone.pop(listed.entry.process, None)
        group.own.put(listed, self._stays)
        return self._stays

    def _remove(self, group: Group, process: ProcessId, why: Departure) -> None:
        group.orphans.pop(process, None)
        group.own.remove(process, why)
        group.depart(process, why)


def _whole(group: Group, client: Client) -> list[ProcessId]:
    """A client, and those in the own roster that it speaks for, if it is the one that speaks for it itself."""
    process = client.process
    if client.controller:
        return [one for one, listed in group.own.clients.items() if listed.entry.via == process]
    own = group.own.clients.get(process)
    return [process] if own is not None and own.entry.via is None else []
