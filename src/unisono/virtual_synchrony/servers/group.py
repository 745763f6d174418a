"""What a server knows of one group: the rosters of all servers, the views that stand, the round under way."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.identity import ProcessId, ViewId
from unisono.virtual_synchrony.servers.parts import Part, divide, unite
from unisono.virtual_synchrony.servers.roster import Copy, Own, Views
from unisono.wire.peer_frames import Listed, Proposal, RosterChange
from unisono.wire.server_frames import Departure, Standing

MEMBERS_LIMIT = 65_536
"""The most clients that one server has in a group, those of its controllers among them."""
GONE_LIMIT = 4096
"""Of so many that are gone it is remembered why."""
VIEWS_LIMIT = 256
"""Of so many views it is remembered who is in them: those that somebody holds are few."""


class Round:
    """A round that this server takes part in, with these servers, and has proposed for."""

    __slots__ = ("digest", "number", "parts", "servers")

    def __init__(
        self, number: int, servers: tuple[ProcessId, ...], parts: list[tuple[Part, ViewId]], digest: int
    ) -> None:
        self.number = number
        self.servers = servers
        self.parts = parts
        self.digest = digest


class Group:
    """One group at one server. `round` is None while nothing changes."""

    __slots__ = (
        "_divided",
        "copies",
        "entered",
        "floor",
        "gone",
        "highest",
        "name",
        "orphans",
        "own",
        "proposals",
        "round",
        "views",
    )

    def __init__(self, name: str, highest: int) -> None:
        self.name = name
        self.highest = highest
        """The highest round that this server knows of."""
        self.entered = 0
        """No proposal for this round or one before it leaves this server any more."""
        self.floor = 0
        """The highest start-change that an own client saw."""
        self.own = Own()
        self.copies: dict[ProcessId, Copy] = {}
        self.orphans: dict[ProcessId, int] = {}
        """Until when clients in the own roster that are not attached are kept there."""
        self.proposals: dict[ProcessId, Proposal] = {}
        """The last of each server, until the view that it was for stands."""
        self.round: Round | None = None
        self.gone: dict[ProcessId, Departure] = {}
        """Why those are gone that own clients may not have been told of."""
        self.views: Views = {}
        self._divided: tuple[tuple[ProcessId, ...], tuple[int, ...], list[Part]] | None = None

    def __bool__(self) -> bool:
        """Whether there is anything to remember."""
        return bool(
            self.own or self.round is not None or self.proposals or any(copy.clients for copy in self.copies.values())
        )

    def versions(self, own: ProcessId, servers: tuple[ProcessId, ...]) -> tuple[int, ...]:
        """Those of the rosters of these servers, as they are known here."""
        return tuple(
            self.own.version if server == own else self.copies[server].version if server in self.copies else 0
            for server in servers
        )

    def take(self, server: ProcessId, change: RosterChange) -> bool:
        """Another server's roster changed; False when something before it is missing, or it is too long."""
        for view, digest in change.views:
            self._remember(view, digest)
        copy = self.copies.setdefault(server, Copy())
        if not copy.take(change):
            return False
        for process, why in change.removed:
            self.depart(process, why)
        for listed in change.listed:
            if listed.attached:
                self.gone.pop(listed.entry.process, None)
        return len(copy.clients) <= MEMBERS_LIMIT

    def heed(self, seen: int) -> None:
        """An own client saw this start-change: what it is told next has a higher number."""
        self.floor, self.highest = max(self.floor, seen), max(self.highest, seen)

    # Who is there.

    def clients(self, own: ProcessId, servers: tuple[ProcessId, ...]) -> dict[ProcessId, Listed]:
        """All clients that these servers said they have, in order."""
        rosters = []
        for server in servers:
            if server == own:
                rosters.append(self.own.said)
            elif server in self.copies:
                rosters.append(self.copies[server].clients)
        return unite(rosters)

    def parts(self, own: ProcessId, servers: tuple[ProcessId, ...]) -> list[Part]:
        """The views that these servers should have, by what they said. Versions tell whether anything is new."""
        versions = self.versions(own, servers)
        if self._divided is None or self._divided[:2] != (servers, versions):
            self._divided = servers, versions, divide(self.clients(own, servers))
        return self._divided[2]

    def needs_round(self, own: ProcessId, servers: tuple[ProcessId, ...]) -> bool:
        """Whether some own client is not in one view with just those that it should be in one with.

        Whether that is so for clients of other servers is their business: they know it first hand.
        """
        rosters = [self.copies[server].clients for server in servers if server in self.copies]
        return any(self._is_unsettled(part, rosters) for part in self.parts(own, servers))

    def _is_unsettled(self, part: Part, rosters: list[dict[ProcessId, Listed]]) -> bool:
        own = [listed for process in part.entries if (listed := self.own.said.get(process)) and listed.attached]
        if not own:
            return False
        held = {listed.held for listed in own}
        for roster in rosters:
            held.update(listed.held for process in part.entries if (listed := roster.get(process)) and listed.attached)
        view = next(iter(held)) if len(held) == 1 else None
        return view is None or self.views.get(view) != part.digest

    def find(self, process: ProcessId) -> Listed | None:
        """What is known of a client, here or elsewhere: by its last entry, attached rather than kept."""
        rosters = [self.own.clients, *(copy.clients for copy in self.copies.values())]
        found = [roster[process] for roster in rosters if process in roster]
        return max(found, key=lambda listed: (listed.claim, listed.attached), default=None)

    def depart(self, process: ProcessId, why: Departure) -> None:
        """Somebody is in a roster no longer."""
        if why is not Departure.UNKNOWN:
            self.gone[process] = max(why, self.gone.get(process, why))
            if len(self.gone) > GONE_LIMIT:
                del self.gone[next(iter(self.gone))]

    def is_attached_elsewhere(self, process: ProcessId, servers: tuple[ProcessId, ...]) -> bool:
        """Whether another of these servers has this client."""
        for server in servers:
            copy = self.copies.get(server)
            listed = None if copy is None else copy.clients.get(process)
            if listed is not None and listed.attached:
                return True
        return False

    def newest(self, name: str) -> int:
        """The highest incarnation under which somebody is here or with another server, or 0."""
        return self.newest_lives().get(name, 0)

    def newest_lives(self) -> dict[str, int]:
        """The highest incarnation of each name that is here or with another server."""
        newest: dict[str, int] = {}
        for roster in (self.own.clients, *(copy.clients for copy in self.copies.values())):
            for process, listed in roster.items():
                if listed.attached and process.incarnation > newest.get(process.name, 0):
                    newest[process.name] = process.incarnation
        return newest

    # Which views there are.

    def held_by(self, process: ProcessId, standing: Standing) -> ViewId | None:
        """The view that a client who comes is in, or is only to be told that it stands (E24).

        It saw the start-change of that view and none since, and the servers agreed on the view with it as a member.
        Who says that it was in no view may have left since, and comes into none but the next.
        """
        if standing.view is None and standing.offered is None:
            return None
        known = [self.own.clients.get(process), *(copy.clients.get(process) for copy in self.copies.values())]
        views = {listed.held for listed in known if listed is not None}
        for view in (standing.offered, standing.view):
            if view is not None and view.start == standing.change:
                return view if view in views and view in self.views else None
        return None

    def stand(self, part: Part, view: ViewId, servers: tuple[ProcessId, ...], own: ProcessId) -> None:
        """The view stands, for all that these servers have in that part."""
        self._remember(view, part.digest)
        for server in servers:
            roster = self.own if server == own else self.copies.get(server)
            if roster is not None:
                for process in part.entries:
                    roster.hold(process, view)

    def forget_gone(self, parts: Iterable[Part], servers: tuple[ProcessId, ...]) -> None:
        """All own clients were told who is in these parts: why others are gone is of no use any more.

        Of those in the parts it is, where they went meanwhile.
        """
        self.gone = {
            process: self.gone[process]
            for part in parts
            for process in part.entries
            if process in self.gone and not self.is_attached_elsewhere(process, servers)
        }

    def _remember(self, view: ViewId, digest: int) -> None:
        self.views.pop(view, None)
        self.views[view] = digest
        if len(self.views) > VIEWS_LIMIT:
            del self.views[next(iter(self.views))]
