"""A node: one life of one process, with all of its groups. The one place where engines are stacked.

Itself an engine. It finds its incarnation on disk, opens every datagram that comes (what the seal or the wire layer
refuses ends here, as a counted reason) and hands what is inside to the engine of its group, or to the control process
where it runs one.
"""

from __future__ import annotations

from enum import Enum, auto

from unisono.clock import LamportClock
from unisono.distances import DistanceTable
from unisono.engine import (
    SITE,
    Address,
    AppendLog,
    BlockOk,
    ChangeRole,
    ChangeService,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    ClaimState,
    Contribute,
    CountAudience,
    DatagramReceived,
    Deliver,
    DistancesKnown,
    Effect,
    Entropy,
    EventsTaken,
    Fact,
    FrameReceived,
    Join,
    Leave,
    Listen,
    ListenFailed,
    Listening,
    Note,
    PacketReceived,
    Randomness,
    ReadLog,
    Record,
    Recover,
    RenewState,
    Send,
    Start,
    StateLoaded,
    StateNotLoaded,
    StateNotSaved,
    StateSaved,
    StepForward,
    StorageDone,
    StorageFailed,
    SyncLog,
    TimePassed,
)
from unisono.events import SendRefused, SiteChanged
from unisono.identity import ProcessId, new_incarnation
from unisono.intergroup import Context, IntergroupEngine, Resumption
from unisono.intergroup.hierarchy import ControlProcess as ControlProcess
from unisono.intergroup.hierarchy import control_number
from unisono.intergroup.hierarchy import thresholds as thresholds
from unisono.intergroup.hierarchy.seat import Seat
from unisono.interleaving import Interleaving
from unisono.reliable.agenda import Agenda
from unisono.sealing import KeyAgreement, NullKeyAgreement, NullSeal, Seal
from unisono.settings import Settings
from unisono.site import Change, Site
from unisono.trace.schema import GaugeRow, MembershipRow
from unisono.transfer import Transfers
from unisono.virtual_synchrony import ChargeSessions, Sessions
from unisono.virtual_synchrony import Controller as Controller
from unisono.virtual_synchrony import MembershipServer as MembershipServer
from unisono.wire.layout import group_number
from unisono.wire.messages import ControlPacket
from unisono.wire.parting import Parting
from unisono.wire.reading import group_inside, read_datagram
from unisono.wire.refusals import Refusal

INCARNATION_LOG = "incarnation"
NO_GROUP = ""
"""Where events go that belong to the process; no group has this name."""
WAITING_LIMIT = 10_000
"""Sends that may wait while a process starts."""
_READ, _APPEND, _SYNC = 1, 2, 3
_OF_ONE_CHANNEL = (FrameReceived, ChannelOpened, ChannelClosed, ChannelFailed)
_OF_CHANNELS = (*_OF_ONE_CHANNEL, Listening, ListenFailed)

_OF_STATES = (StateSaved, StateNotSaved, StateLoaded, StateNotLoaded, ClaimState, RenewState)

FIRST_SESSION_CHANNEL = 1 << 40
"""Channels to membership servers have numbers from here on."""

GroupCommand = Join | Leave | Send | EventsTaken | BlockOk | ChangeService | ChangeRole | Recover | CountAudience


class Phase(Enum):
    """How far a life has come."""

    NEW = auto()
    READING = auto()
    WRITING = auto()
    RUNNING = auto()


class Node:
    """One process: its identity, its clock and its groups."""

    __slots__ = (
        "_agenda",
        "_clock",
        "_control_number",
        "_control_settings",
        "_controller",
        "_controllers",
        "_controls",
        "_daemon",
        "_domains",
        "_entropy",
        "_groups",
        "_keys",
        "_last_incarnation",
        "_left",
        "_marks",
        "_name",
        "_numbers",
        "_parting",
        "_phase",
        "_process",
        "_randomness",
        "_realm",
        "_seal",
        "_seat",
        "_server",
        "_servers",
        "_serves",
        "_session_settings",
        "_sessions",
        "_site",
        "_site_timeout",
        "_site_told",
        "_told",
        "_told_table",
        "_transfers",
        "_waiting",
        "_with_site",
    )

    def __init__(
        self,
        name: str,
        randomness: Randomness,
        entropy: Entropy,
        realm: str = "",
        clock_drift_limit: int = Settings().clock_drift_limit,
        seal: Seal | None = None,
        keys: KeyAgreement | None = None,
        site: bool = False,
        daemon: bool = False,
        site_timeout: int = Settings().site_timeout,
        control: Settings | None = None,
        servers: tuple[Address, ...] = (),
        serves: bool = False,
        controllers: tuple[Address, ...] = (),
        controls: bool = False,
        session: Settings | None = None,
    ) -> None:
        self._name = name
        self._randomness = randomness
        self._entropy = entropy
        self._realm = realm
        self._seal = seal or NullSeal()
        self._parting = Parting()
        self._keys = keys or NullKeyAgreement()
        self._clock = LamportClock(clock_drift_limit)
        self._control_settings = control
        self._control_number = control_number(realm)
        self._seat: Seat | None = None
        self._told_table: DistanceTable | None = None
        self._told: dict[str, DistanceTable | None] = {}
        """What each group knows of the way to others: the newest when it has something to do, and not before."""
        self._phase = Phase.NEW
        self._process: ProcessId | None = None
        self._last_incarnation = 0
        self._marks: list[str] = []
        self._groups: dict[str, IntergroupEngine] = {}
        self._agenda = Agenda()
        self._numbers: dict[int, str] = {}
        self._left: dict[str, Resumption] = {}
        self._domains: dict[str, Interleaving] = {}
        self._waiting: list[Fact] = []
        self._with_site = site or daemon
        self._daemon = daemon
        self._site_timeout = site_timeout
        self._site: Site | None = None
        self._site_told: SiteChanged | None = None
        self._transfers: Transfers | None = None
        self._servers = servers
        self._serves = serves
        self._controllers = controllers
        self._controls = controls
        self._session_settings = session or Settings()
        self._sessions: Sessions | ChargeSessions | None = None
        self._controller: Controller | None = None
        self._server: MembershipServer | None = None

    @property
    def process(self) -> ProcessId | None:
        """Who this is, once it is known."""
        return self._process

    @property
    def site(self) -> Site | None:
        """This process's part in its site: there is one once it runs, where it was asked for."""
        return self._site

    @property
    def control(self) -> ControlProcess | None:
        """The control process, where this node runs one and has come that far."""
        return None if self._seat is None else self._seat.control

    @property
    def server(self) -> MembershipServer | None:
        """The membership server, where this node is one and has come that far."""
        return self._server

    @property
    def controller(self) -> Controller | None:
        """The controller, where this node is one and has come that far."""
        return self._controller

    def deadline(self) -> int | None:
        earliest = self._agenda.earliest
        for engine in (self._seat, self._site, self._transfers, self._sessions, self._controller, self._server):
            if engine is not None and (due := engine.deadline()) is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        effects = self._handle(fact, now, wall)
        if self._transfers:
            for effect in [one for one in effects if isinstance(one, Deliver) and one.group in self._transfers]:
                effects += self._transfers.on_events(effect.group, effect.events, now)
            for name in [name for name in self._transfers.groups if name not in self._groups]:
                effects += self._transfers.leave(name)
            for forward in [one for one in effects if isinstance(one, StepForward)]:
                effects.remove(forward)
                if forward.group in self._groups:
                    effects += self.handle(ChangeRole(forward.group, "sender"), now, wall)
        return effects

    def _handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        if isinstance(fact, DatagramReceived):
            return self._on_datagram(fact, now, wall)
        if isinstance(fact, TimePassed):
            effects: list[Effect] = []
            for name in self._agenda.take(now):
                effects += self._handle_in(name, fact, now, wall)
            if self._site is not None:
                effects += self._handle_in_site(self._site, fact, now, wall)
            if self._transfers is not None and (due := self._transfers.deadline()) is not None and due <= now:
                effects += self._transfers.handle(fact, now)
            if self._seat is not None and (due := self._seat.deadline()) is not None and due <= now:
                effects += self._seat.handle(fact, now, wall)
                self._note_distances()
            for part in (self._sessions, self._controller):
                if part is not None and (due := part.deadline()) is not None and due <= now:
                    effects += part.handle(fact, now, wall)
            if self._server is not None and (due := self._server.deadline()) is not None and due <= now:
                effects += self._server.handle(fact, now)
            return effects
        if isinstance(fact, Start):
            self._phase = Phase.READING
            return [ReadLog(INCARNATION_LOG, _READ)]
        if isinstance(fact, _OF_ONE_CHANNEL):
            if self._sessions is not None and self._sessions.owns(fact.channel):
                return self._sessions.handle(fact, now, wall)
            if self._controller is not None:
                return self._controller.handle(fact, now, wall)
            if self._server is not None:
                return self._server.handle(fact, now)
        if self._transfers is not None and (isinstance(fact, _OF_STATES) or self._transfers.owns(fact)):
            return self._transfers.handle(fact, now)
        if isinstance(fact, StorageDone | StorageFailed):
            return self._on_storage(fact, now, wall)
        if isinstance(fact, GroupCommand):
            return self._on_command(fact, now, wall)
        if self._transfers is not None and isinstance(fact, ChannelOpened) and fact.accepted and fact.peer != SITE:
            return self._transfers.on_called(fact.channel, now)
        if self._site is not None and isinstance(fact, _OF_CHANNELS):
            return self._handle_in_site(self._site, fact, now, wall)
        return [Note("node: nobody here uses channels")]

    def _on_datagram(self, fact: DatagramReceived, now: int, wall: int) -> list[Effect]:
        number = group_inside(fact.data)
        session = None if number is None else self._session_with(number)
        if number is not None and number != self._control_number and number not in self._numbers and session is None:
            return [Note(Refusal.UNKNOWN_GROUP)]  # groups share addresses: what is of others is not even opened
        packet = read_datagram(fact.data, self._seal)
        if isinstance(packet, Refusal):
            return [Note(packet)]
        if isinstance(packet, ControlPacket):
            packet = self._parting.join(packet, now)
        inside = PacketReceived(fact.source, fact.hops, fact.arrived, fact.drops, packet, fact.left, len(fact.data))
        if packet.group == self._control_number and self._seat is not None:
            return self._seat.handle(inside, now, wall)
        if session is not None:
            return session.handle(inside, now, wall)
        name = self._numbers.get(packet.group)
        if name is None:
            return [Note(Refusal.UNKNOWN_GROUP)]
        return self._handle_in(name, inside, now, wall)

    def _session_with(self, number: int) -> Sessions | ChargeSessions | Controller | None:
        """Who has a group of that number in a session."""
        for part in (self._sessions, self._controller):
            if part is not None and part.knows(number):
                return part
        return None

    def _on_command(self, fact: GroupCommand, now: int, wall: int) -> list[Effect]:
        if self._phase is not Phase.RUNNING:
            if isinstance(fact, Send) and len(self._waiting) >= WAITING_LIMIT:
                return _refuse(fact, "this process is still starting")
            self._waiting.append(fact)
            return []
        if isinstance(fact, Join):
            return self._on_join(fact, now, wall)
        if self._sessions is not None and fact.group in self._sessions:
            return self._sessions.handle(fact, now, wall)
        if fact.group not in self._groups:
            return _refuse(fact, f"this process is not in group {fact.group!r}; join it first")
        return self._handle_in(fact.group, fact, now, wall)

    def _on_join(self, join: Join, now: int, wall: int) -> list[Effect]:
        assert self._process is not None, "a running node knows who it is"
        if join.group in self._groups or (self._sessions is not None and join.group in self._sessions):
            return [Note("node: already in this group")]
        if join.protocol == "virtual_synchrony":
            assert self._sessions is not None, "a session knows of membership servers, or of controllers"
            return self._sessions.handle(join, now, wall)
        assert join.protocol == "intergroup", f"unknown protocol {join.protocol!r}"
        context = Context(
            join.group,
            self._realm,
            self._process,
            join.settings,
            self._clock,
            self._randomness,
            self._seal,
            self._keys,
        )
        engine = IntergroupEngine(context, self._left.pop(join.group, Resumption()))
        self._groups[join.group] = engine
        self._numbers[group_number(self._realm, join.group)] = join.group
        if engine.across:
            self._domains.setdefault(engine.across, Interleaving()).add(join.group, engine)
        if join.stateful and self._transfers is not None:
            self._transfers.join(join.group, join.settings, now)
        return self._handle_in(join.group, join, now, wall)

    def _handle_in(self, name: str, fact: Fact, now: int, wall: int) -> list[Effect]:
        """Let a group's engine handle a fact; of a group that was left, keep just what a return needs."""
        engine = self._groups[name]
        domain = engine.across
        effects: list[Effect] = []
        if self._told.get(name) is not self._told_table:
            self._told[name] = self._told_table
            effects += self._pass_on(engine.handle(DistancesKnown(self._told_table), now, wall), now)
        effects += self._pass_on(engine.handle(fact, now, wall), now)
        if domain:
            effects = self._interleave(domain, name, engine, effects)
        if engine.outside:
            self._left[name] = engine.resumption()
            del self._groups[name], self._numbers[group_number(self._realm, name)]
            self._agenda.remove(name)
            self._told.pop(name, None)
        else:
            self._agenda.set(name, engine.deadline())
        return effects

    def _address_of(self, group: str, process: ProcessId) -> Address | None:
        """Where another member of a group is, if it is followed there."""
        engine = self._groups.get(group)
        return None if engine is None else engine.address_of(process)

    def _pass_on(self, effects: list[Effect], now: int) -> list[Effect]:
        """Hand to the control hierarchy what a group says to it."""
        for effect in effects:
            if isinstance(effect, Contribute):
                break
        else:
            return effects
        passed: list[Effect] = []
        for effect in effects:
            if not isinstance(effect, Contribute):
                passed.append(effect)
            elif self._seat is not None:
                passed += self._seat.say(effect.contribution, effect.urgent, now)
        return passed

    def _note_distances(self) -> None:
        """The control hierarchy may know something else of the way to others."""
        if self._seat is not None and self._seat.table != self._told_table:
            self._told_table = self._seat.table

    def _handle_in_site(self, site: Site, fact: Fact, now: int, wall: int) -> list[Effect]:
        """Let the site handle a fact; tell the application who speaks for this process when that has changed."""
        effects, changes = site.handle(fact, now)
        if changes & (Change.STANDING | Change.MEMBERS):
            changed = SiteChanged(site.host, site.hosting, site.of_daemon, tuple(site.guests))
            if changed != self._site_told:
                self._site_told = changed
                effects.append(Deliver(NO_GROUP, "", 0, (changed,)))
        if changes and self._seat is not None:
            effects += self._seat.on_site_changed(now, wall)
            self._note_distances()
        return effects

    def _interleave(self, domain: str, name: str, engine: IntergroupEngine, effects: list[Effect]) -> list[Effect]:
        """Deliver what a group brings in one order with the other groups of its domain."""
        interleaving = self._domains[domain]
        effects = interleaving.hold(effects)
        if engine.outside or not engine.across:
            effects += interleaving.remove(name)
            if not interleaving:
                del self._domains[domain]
            return effects
        return effects + interleaving.release()

    def _on_storage(self, fact: StorageDone | StorageFailed, now: int, wall: int) -> list[Effect]:
        """Read the last incarnation, choose the next, write it down; a disk that fails does not stop the process."""
        if isinstance(fact, StorageFailed):
            self._marks.append("storage-failed")
        if self._phase is Phase.READING and fact.request == _READ:
            if isinstance(fact, StorageDone):
                self._last_incarnation = max(map(_read_incarnation, fact.records), default=0)
                if self._last_incarnation:
                    self._marks.append("incarnation-kept")
            incarnation = new_incarnation(wall, self._entropy(4), self._last_incarnation)
            self._process = ProcessId(self._name, incarnation)
            self._phase = Phase.WRITING
            return [
                AppendLog(INCARNATION_LOG, _APPEND, incarnation.to_bytes(8, "big")),
                SyncLog(INCARNATION_LOG, _SYNC),
            ]
        if self._phase is Phase.WRITING and fact.request == _SYNC:
            return self._become_running(now, wall)
        return []

    def _become_running(self, now: int, wall: int) -> list[Effect]:
        assert self._process is not None, "the incarnation is chosen before it is written"
        self._phase = Phase.RUNNING
        name, incarnation = self._process
        effects: list[Effect] = [Record(MembershipRow(kind="START", process=name, incarnation=incarnation))]
        effects += [Record(GaugeRow(kind="MARK", name=mark, value=1)) for mark in self._marks]
        if self._with_site:
            self._site = Site(self._process, self._randomness, self._site_timeout, self._daemon)
        if self._control_settings is not None:
            self._seat = Seat(
                self._realm, self._process, self._control_settings, self._randomness, self._seal, self._site
            )
            effects += self._seat.start(now, wall)
        if self._site is not None:
            effects += self._handle_in_site(self._site, Start(), now, wall)
        self._transfers = Transfers(self._process, self._address_of)
        effects.append(Listen())
        effects += self._open_sessions(now)
        waiting, self._waiting = self._waiting, []
        for fact in waiting:
            effects += self._handle(fact, now, wall)
        return effects

    def _open_sessions(self, now: int) -> list[Effect]:
        """Be a membership server, a controller, a client of either, or none of them."""
        assert self._process is not None, "a running node knows who it is"
        process, settings, dice = self._process, self._session_settings, self._randomness
        if self._serves:
            self._server = MembershipServer(process, self._servers, settings, dice, FIRST_SESSION_CHANNEL)
            return self._server.handle(Start(), now)
        common = (process, self._realm, self._servers, settings, self._clock, dice, self._seal, FIRST_SESSION_CHANNEL)
        if self._controls:
            self._controller = Controller(*common)
            return self._controller.start(now)
        if self._controllers:
            first = FIRST_SESSION_CHANNEL
            self._sessions = ChargeSessions(process, self._controllers, settings, self._clock, dice, first)
        elif self._servers:
            self._sessions = Sessions(*common)
        return [] if self._sessions is None else self._sessions.start(now)


def _refuse(command: GroupCommand, reason: str) -> list[Effect]:
    """Every send is answered; other commands that come to nothing are counted."""
    if isinstance(command, Send):
        return [Deliver(command.group, "", 0, (SendRefused(command.ticket, reason),))]
    return [Note("node: a command that came to nothing")]


def _read_incarnation(record: bytes) -> int:
    """An incarnation as it was written; a record of another length is none of ours."""
    return int.from_bytes(record, "big") & ((1 << 63) - 1) if len(record) == 8 else 0
