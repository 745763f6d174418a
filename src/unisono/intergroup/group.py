"""The engine of one group at one process: every fact of the group comes in here.

It keeps the phase and the peers, and lets its halves do the rest: `Speaking` as a source, `Receiving` as a receiver.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from unisono.engine import (
    Address,
    ChangeRole,
    ChangeService,
    CountAudience,
    DistancesKnown,
    Effect,
    EventsTaken,
    Fact,
    Join,
    JoinAddress,
    Leave,
    LeaveAddress,
    PacketReceived,
    Recover,
    Send,
    TimePassed,
)
from unisono.events import Left, SendAccepted, SendRefused, ViewReason
from unisono.identity import ProcessId
from unisono.intergroup.answering import Answering
from unisono.intergroup.asking import Asking
from unisono.intergroup.carrying import Carrying
from unisono.intergroup.census import Census
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.gauges import record_gauges, record_proxy, record_traffic
from unisono.intergroup.handing import Handed
from unisono.intergroup.hierarchy.aggregation import CUT
from unisono.intergroup.membership.ground import StreamGround
from unisono.intergroup.membership.membership import Membership
from unisono.intergroup.peers import Peers
from unisono.intergroup.reasons import Reason
from unisono.intergroup.receiving import Receiving
from unisono.intergroup.repairing import Repairing
from unisono.intergroup.sending import Sending
from unisono.intergroup.speaking import Speaking
from unisono.reliable.step import Place, Step
from unisono.reliable.suppression import Asked
from unisono.reliable.suspicion import least_silence
from unisono.settings import SERVICE_CODES
from unisono.trace.schema import MembershipRow
from unisono.wire.census_messages import CensusAnswer, CensusRequest
from unisono.wire.control_messages import Gathered, HierarchyMessage
from unisono.wire.membership_messages import SENDERS_WORDS, MembershipMessage, Opinion
from unisono.wire.messages import (
    ActivationGrant,
    ActivationRequest,
    ControlPacket,
    DataPacket,
    Deactivation,
    KeepAlive,
    LeftBehindNotice,
    NameRequest,
    Packet,
    RepairRequest,
    Report,
)
from unisono.wire.probe_messages import ProbeMessage, ProbeRequest
from unisono.wire.proxy_messages import ProxyAnswer, ProxyRequest
from unisono.wire.session_messages import SessionMessage

GREETINGS = 3
"""So often a receiver that hears nobody says that it is there."""


class Phase(Enum):
    """Where this process stands in the group."""

    OUTSIDE = auto()
    MEMBER = auto()
    FINISHING = auto()
    """Its application is leaving: a member still, until the others have all that it sent, and itself delivered that."""
    LEAVING = auto()
    """It has said farewell, and repairs what somebody may lack of that."""


class Resumption(Struct, frozen=True):
    """What a process that left a group must remember, so that it repeats no identifier when it joins again."""

    sequence: int = 0
    number: int = 0
    views: int = 0
    stretch: int = 0
    attempts: int = 0
    repairs: int = 0
    asked: int = 0
    sessions: int = 0
    handed: tuple[tuple[ProcessId, int], ...] = ()


class IntergroupEngine:
    """One process in one group, whatever service it chose."""

    __slots__ = (
        "_answering",
        "_asking",
        "_carrying",
        "_census",
        "_context",
        "_delivery",
        "_gauged_at",
        "_greetings",
        "_joined_at",
        "_last_call",
        "_membership",
        "_peers",
        "_phase",
        "_place",
        "_receiving",
        "_repairing",
        "_sending",
        "_speaking",
    )

    def __init__(self, context: Context, resumption: Resumption) -> None:
        process, settings, clock = context.process, context.settings, context.clock
        self._context = context
        self._place = Place(
            context.group,
            SERVICE_CODES[settings.service],
            resumption.stretch + 1,
            settings.trace,
            settings.trace_messages,
        )
        # A returning process skips a sequence number, so that its first keep-alive stands above its farewell.
        last_sequence = resumption.sequence + 1 if resumption.sequence else 0
        self._sending = Sending(context, last_sequence, resumption.number)
        self._delivery = Delivery(
            process, self._place, clock, settings.event_limit, resumption.views, Handed(resumption.handed)
        )
        self._repairing = Repairing(context, self._sending)
        self._receiving = Receiving(
            context, self._place, self._sending, self._delivery, self._repairing, resumption.attempts
        )
        self._speaking = Speaking(context, self._sending, self._delivery, self._receiving)
        following = self._receiving.following
        ground = StreamGround(context, self._sending, following, self._repairing, self._speaking)
        self._membership = Membership(context, self._sending, following, self._speaking, ground, resumption.repairs)
        self._asking = Asking(
            context, self._delivery, following, self._repairing, resumption.asked, resumption.sessions
        )
        self._carrying = Carrying(context, self._speaking, self._membership.roles)
        self._census = Census(context)
        self._peers = Peers()
        self._answering = Answering(
            context,
            self._place,
            self._delivery,
            self._repairing,
            self._receiving,
            self._speaking,
            self._membership,
            self._peers,
        )
        self._phase = Phase.OUTSIDE
        self._last_call: int | None = None
        self._gauged_at = 0
        self._greetings = 0
        self._joined_at = 0

    @property
    def outside(self) -> bool:
        """Not yet, or no longer, in the group."""
        return self._phase is Phase.OUTSIDE

    @property
    def _takes_part(self) -> bool:
        """Whether this process is in the group like any other, whether or not it is about to go."""
        return self._phase in (Phase.MEMBER, Phase.FINISHING)

    @property
    def across(self) -> str:
        """The domain in which this group is delivered in one order with others, if any."""
        return self._context.settings.across

    @property
    def reached(self) -> int:
        """Whatever this group still delivers has a later timestamp, or this one where it is its next message's."""
        return self._receiving.following.reached

    def address_of(self, process: ProcessId) -> Address | None:
        """Where another process of the group is, if this one follows it."""
        stream = self._receiving.following.streams.get(process)
        return None if stream is None else stream.address

    def resumption(self) -> Resumption:
        sending = self._sending
        views, attempts = self._delivery.view_count, self._receiving.following.activations.attempts
        repairs = self._membership.repair.attempt
        asked, sessions, handed = self._asking.last_number, self._asking.last_session, self._delivery.handed.highest
        numbers = sending.last_sequence, sending.last_number
        return Resumption(*numbers, views, self._place.stretch, attempts, repairs, asked, sessions, handed)

    def deadline(self) -> int | None:
        return self._context.deadlines.earliest()

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        step = Step(self._place, now, wall)
        self._forgive_own_pause(step)
        gauged_at = self._gauged_at
        if isinstance(fact, PacketReceived):
            self._on_packet(step, fact)
        elif isinstance(fact, Send):
            self._on_send(step, fact)
        elif isinstance(fact, EventsTaken):
            self._on_taken(step, fact)
        elif isinstance(fact, Join):
            self._become_member(step)
        elif isinstance(fact, Leave):
            self._become_finishing(step)
        elif isinstance(fact, DistancesKnown):
            self._context.distances = fact.table
        elif isinstance(fact, ChangeService | ChangeRole | Recover | CountAudience):
            self._on_wish(step, fact)
        self._on_time(step)
        if self._takes_part:
            self._membership.settle(step)
            self._receiving.settle(step)
        if self._speaking.waits_for_view and self._receiving.following.may_send:
            self._speaking.advance(step)
        self._asking.settle(step)
        self._carrying.answer(step)
        if self._phase is Phase.FINISHING and self._has_finished:
            self._become_leaving(step)
        if self._phase is Phase.LEAVING and self._speaking.all_stable and self._asking.all_taken:
            self._become_outside(step)
        self._go_on_watching(step)
        just_measured = gauged_at != self._gauged_at and isinstance(fact, TimePassed) and not self._place.datagrams
        if self._place.tracing and not just_measured:
            self._go_on_measuring(step)
        return step.finish()

    def _go_on_watching(self, step: Step) -> None:
        """Look again soon while there is anything to look at; who has nothing to do with anybody is not woken.

        Of peers that only receive as well, all there is to do is to forget them when they have been silent for long.
        """
        deadlines, settings = self._context.deadlines, self._context.settings
        if deadlines.is_set("watch") or self.outside:
            return
        if (
            self._receiving.is_busy
            or (self._peers and not settings.reliable)
            or self._speaking.is_busy
            or self._repairing.retires
            or self._membership.has_company
        ):
            beat = settings.keep_alive
            deadlines.set("watch", step.now + beat - (step.now - self._joined_at) % beat)
            deadlines.clear("fade")
        elif self._peers and not deadlines.is_set("fade"):
            deadlines.set("fade", self._peers.next_silent(settings.source_timeout))

    def _go_on_measuring(self, step: Step) -> None:
        """Something happened, so that there is something to measure: nothing changes in a group by itself."""
        deadlines, interval = self._context.deadlines, self._context.settings.gauge_interval
        if not deadlines.is_set("gauge") and not self.outside:
            due = self._gauged_at + interval
            deadlines.set("gauge", due if due > step.now else step.now + interval)

    def _become_member(self, step: Step) -> None:
        settings, deadlines = self._context.settings, self._context.deadlines
        self._phase = Phase.MEMBER
        step.effect(JoinAddress(self._context.multicast))
        chosen = settings.senders if settings.service == "timestamp" else settings.sources
        wanted = chosen if isinstance(chosen, str) else ",".join(chosen)
        step.record(
            MembershipRow(
                kind="JOIN",
                reason=wanted if settings.rejoin else "once",
                across=settings.across or None,
                role=self._context.role,
            )
        )
        step.statistic("P_INIT", service=settings.service, role=self._context.role, protocol="intergroup")
        self._answering.begin(step)
        self._receiving.join(step)
        self._membership.join(step)
        if self._context.role == "sender":
            deadlines.set("keep-alive", step.now)
        elif settings.reliable or settings.membership:
            deadlines.set("greeting", step.now + self._context.spread(2 * settings.keep_alive))
        self._speaking.become_alone(step)
        self._gauged_at = self._joined_at = step.now

    def _become_finishing(self, step: Step) -> None:
        """The application takes its leave: what it sent reaches the others first, for the leave timeout at most."""
        if self._phase is not Phase.MEMBER:
            step.note(Reason.NOT_MEMBER)
            return
        self._phase = Phase.FINISHING
        self._context.deadlines.set("leave", step.now + self._context.settings.leave_timeout)
        self._census.want(step, False)
        self._membership.roles.finish()
        self._asking.leave(step)

    @property
    def _has_finished(self) -> bool:
        """Whether all who count have what this process sent, and so has its own application, as far as it takes it."""
        return (
            self._speaking.all_stable
            and self._asking.all_taken
            and (self._delivery.oldest_own is None or not self._delivery.has_room)
            and self._membership.roles.may_go
        )

    def _become_leaving(self, step: Step) -> None:
        """Stop listening, and say farewell."""
        self._phase = Phase.LEAVING
        self._membership.leave(step)
        self._receiving.leave(step)
        self._speaking.become_leaving(step)

    def _become_outside(self, step: Step) -> None:
        """This process is out: it has said farewell, or the leave timeout ran out."""
        complete = self._phase is Phase.LEAVING and self._asking.all_taken
        if self._phase is Phase.FINISHING:  # the others need not wait for what is left
            self._become_leaving(step)
        self._phase = Phase.OUTSIDE
        self._context.deadlines.clear_all()
        for ticket in self._sending.drop_queue():
            step.deliver(SendRefused(ticket, Reason.NOT_MEMBER))
        self._asking.give_up(step)
        step.record(MembershipRow(kind="LEAVE", reason=None if complete else "timeout"))
        step.deliver(Left(complete))
        step.effect(LeaveAddress(self._context.multicast))

    def _on_send(self, step: Step, send: Send) -> None:
        refusal = self._why_refuse(send)
        if refusal is not None:
            step.deliver(SendRefused(send.ticket, refusal))
            return
        if not send.messages:
            step.deliver(SendAccepted(send.ticket))
            return
        if self._goes_by_proxy(send):
            self._asking.enqueue(step, send.messages, send.ticket)
            return
        self._membership.roles.on_send(step)
        self._sending.enqueue(send.messages, send.ticket, send.names)
        self._speaking.advance(step)

    def _goes_by_proxy(self, send: Send) -> bool:
        """A sender needs nobody to send for it."""
        return send.proxy and self._context.role == "receiver"

    def _why_refuse(self, send: Send) -> str | None:
        settings, name = self._context.settings, self._context.process.name
        if self._phase is not Phase.MEMBER:
            return Reason.NOT_MEMBER
        if self._goes_by_proxy(send):
            return self._asking.why_refuse(send.messages, send.names)
        if settings.senders != "all" and name not in settings.senders:
            return f"{name!r} is not among the senders of this group: {', '.join(settings.senders)}"
        if not self._context.may_send:
            return 'this process joined as a receiver; join with role="sender" to send, or send with proxy=True'
        return self._sending.why_refuse(send.messages, send.names)

    def _on_wish(self, step: Step, wish: ChangeService | ChangeRole | Recover | CountAudience) -> None:
        if self._phase is not Phase.MEMBER:
            step.note(Reason.NOT_MEMBER)
        elif isinstance(wish, CountAudience):
            self._census.want(step, wish.wanted)
        elif isinstance(wish, ChangeService):
            self._receiving.change(step, wish.service, wish.sources)
            self._membership.on_change(step)
        elif isinstance(wish, ChangeRole):
            if self._context.may_send:
                self._membership.roles.become(step, wish.role)
        else:
            self._receiving.recover(step, wish)

    def _on_taken(self, step: Step, fact: EventsTaken) -> None:
        self._delivery.on_taken(fact.count)
        waited = self._delivery.oldest_own is not None
        self._receiving.on_taken(step)
        if waited:
            self._speaking.advance(step)

    def _on_packet(self, step: Step, fact: PacketReceived) -> None:
        packet = fact.packet
        if isinstance(packet, ControlPacket):
            for message in packet.messages:
                if isinstance(message, Gathered):
                    self._on_gathered(step, packet)
                    return
                if isinstance(message, ProbeMessage):
                    self._on_probe(step, packet, fact.source)
                    return
        said = _time_of(packet)
        ignore = self._why_ignore(step, packet.source, said)
        if ignore is not None:
            step.note(ignore)
            return
        if isinstance(packet, ControlPacket):
            self._hear(step, packet.source, said)
            self._on_control(step, packet, fact.source)
            return
        data = packet if isinstance(packet, DataPacket) else packet.data
        if not self._context.believes(step, data.messages[-1].timestamp):
            return
        self._hear(step, packet.source, said)
        if not self._takes_part:
            return
        if isinstance(packet, DataPacket):
            self._membership.on_mark(step, packet.source, fact.source, packet.view)
            self._receiving.consider(step, packet.source, fact.source)
            self._receiving.on_data(step, packet, fact.source)
        else:
            self._repairing.on_repaired(step, data, packet.source)
            self._receiving.on_repair(step, data)
        self._speaking.on_waited_for(step, data.messages[-1].timestamp)

    def _why_ignore(self, step: Step, source: ProcessId, said: int | None) -> Reason | None:
        itself = self._context.process
        if source == itself:
            return Reason.OWN_PACKET
        if source.name == itself.name:
            return Reason.OWN_NAME if source.incarnation > itself.incarnation else Reason.OLD_INCARNATION
        if self._phase is Phase.OUTSIDE:
            return Reason.NOT_MEMBER
        peers = self._peers
        if not peers.may_follow(source, said, step.now, least_silence(self._context.settings)):
            step.mark("old-incarnation")
            return Reason.OLD_INCARNATION
        if peers.full and peers.last(source.name) is None:
            return Reason.TOO_MANY_PEERS
        return None

    def _hear(self, step: Step, source: ProcessId, said: int | None) -> None:
        if not self._peers:
            self._speaking.meet_others(step)
        earlier = self._peers.hear(source, step.now, said)
        if earlier is not None:
            self._receiving.forget(step, earlier, ViewReason.RESTARTED)
            self._speaking.drop(step, earlier)
            self._carrying.forget(earlier)
            self._context.forget(earlier)
            self._context.end_life(earlier)
        if self._takes_part:
            self._membership.on_heard(step, source)
            self._receiving.on_heard(step, source)

    def _on_control(self, step: Step, packet: ControlPacket, address: Address) -> None:
        for refused in packet.refused:
            step.note(refused)
        source = packet.source
        for message in packet.messages:
            if isinstance(message, HierarchyMessage | ProbeMessage | SessionMessage):
                step.note(Reason.NOT_OURS)
            elif isinstance(message, KeepAlive):
                self._context.locate(source, message.whereabouts)
                if self._context.believes(step, message.timestamp) and self._takes_part:
                    self._membership.on_mark(step, source, address, message.view)
                    self._receiving.on_keep_alive(step, source, address, message)
            elif isinstance(message, MembershipMessage):
                if self._takes_part:
                    if isinstance(message, SENDERS_WORDS) and not (isinstance(message, Opinion) and message.out):
                        self._receiving.consider(step, source, address)
                    self._membership.on_message(step, source, address, message)
            elif isinstance(message, Report):
                self._speaking.on_report(step, source, address, message)
            elif isinstance(message, RepairRequest):
                self._on_repair_request(step, source, address, message)
            elif isinstance(message, CensusRequest):
                if self._phase is Phase.MEMBER:
                    self._census.on_request(step, source, address, message)
            elif isinstance(message, NameRequest):
                self._on_name_request(step, source, message)
            elif message.target != self._context.process:
                step.note(Reason.OTHER_LIFE)
            elif isinstance(message, ActivationRequest):
                if message.sender and self._takes_part:
                    self._receiving.consider(step, source, address)
                self._speaking.on_activation_request(step, source, address, message)
            elif isinstance(message, Deactivation):
                self._speaking.on_deactivation(step, source, message)
            elif isinstance(message, ActivationGrant):
                if self._context.believes(step, message.timestamp):
                    self._receiving.following.on_activation_grant(step, source, address, message)
            elif isinstance(message, ProxyRequest):
                self._carrying.on_request(step, source, address, message)
            elif isinstance(message, ProxyAnswer):
                self._asking.on_answer(step, source, message)
            elif isinstance(message, CensusAnswer):
                self._census.on_answer(step, source, message)
            elif isinstance(message, LeftBehindNotice):
                self._receiving.following.on_left_behind(step, source, message)

    def _on_gathered(self, step: Step, packet: ControlPacket) -> None:
        """A coordinator speaks for some receivers; it need not be in this group, and may be this process itself."""
        if self._phase is Phase.OUTSIDE:
            step.note(Reason.NOT_MEMBER)
            return
        for message in packet.messages:
            if isinstance(message, Gathered) and message.topic == CUT:
                self._membership.on_gathered(step, message)
            elif isinstance(message, Gathered):
                self._speaking.on_gathered(step, message)

    def _on_probe(self, step: Step, packet: ControlPacket, address: Address) -> None:
        """Somebody asks what goes on here. It is no member, so nothing else that it says counts."""
        for refused in packet.refused:
            step.note(refused)
        for message in packet.messages:
            if not isinstance(message, ProbeRequest) or self._phase is Phase.OUTSIDE:
                step.note(Reason.NOT_ASKED)
            else:
                self._answering.on_request(step, address, message)

    def _on_repair_request(self, step: Step, asker: ProcessId, address: Address, message: RepairRequest) -> None:
        """Somebody lacks something of a source: of this process, or of one whose messages it holds or lacks as well."""
        context = self._context
        context.locate(asker, message.whereabouts)
        asked = Asked(asker, context.distance(asker), message.to_source, message.tries)
        if message.target != context.process:
            self._receiving.following.on_others_request(step, asked, message)
            stream = self._receiving.following.streams.get(message.target)
            receivers = 1 if stream is None else stream.listeners
            self._repairing.on_request(step, message.target, message.ranges, asked, receivers)
        elif self._speaking.may_ask(step, asker, address, message):
            self._repairing.on_request(step, context.process, message.ranges, asked, len(self._speaking.audience))

    def _on_name_request(self, step: Step, asker: ProcessId, message: NameRequest) -> None:
        """A framed receiver asks by name; only the source knows its names."""
        if message.target != self._context.process:
            return
        found = self._sending.find_name(message.name)
        if found is None:
            step.note(Reason.NAME_UNKNOWN)
            return
        asked = Asked(asker, self._context.distance(asker), None, 0)
        self._repairing.on_request(step, self._context.process, (found,), asked, len(self._speaking.audience))

    def _on_time(self, step: Step) -> None:
        settings, deadlines = self._context.settings, self._context.deadlines
        for name in deadlines.expire(step.now):
            if name == "keep-alive":
                self._speaking.keep_alive(step)
            elif name == "early":
                self._speaking.say_early(step)
            elif name == "pace":
                self._speaking.advance(step)
            elif name == "repair":
                self._repairing.send_due(step)
            elif name == "report":
                self._receiving.following.reporting.report(step)
            elif name == "request":
                self._receiving.following.requesting.request(step)
            elif name == "activation":
                self._receiving.following.activations.ask_again(step)
            elif name in ("hold", "frames"):
                self._receiving.on_time(step)
            elif name in ("membership", "suspicion", "discovery"):
                self._membership.on_time(step, name)
            elif name == "role":
                pass  # looked at when the rest is settled
            elif name == "greeting":
                self._greet(step)
            elif name == "fade":
                self._forget_silent(step)
            elif name == "watch":
                self._forget_silent(step)
                self._receiving.on_time(step)
                self._repairing.expire(step.now)
                if self._context.role == "sender":
                    self._speaking.keep_informed(step)
                if self._takes_part:
                    self._membership.watch(step)
                self._speaking.lose_patience(step)
            elif name == "probe":
                self._answering.send_due(step)
            elif name == "gauge":
                self._gauged_at = step.now
                record_traffic(step, self._place)
                record_gauges(
                    step, settings, self._sending, self._delivery, self._receiving, self._repairing, self._peers
                )
                record_proxy(step, settings, self._asking, self._carrying)
            elif name == "asking":
                self._asking.on_time(step)
            elif name == "census":
                self._census.on_time(step)
            elif name == "answer":
                self._census.answer(step)
            elif name == "leave":
                self._become_outside(step)
                return

    def _forget_silent(self, step: Step) -> None:
        settings = self._context.settings
        for peer in self._peers.forget_silent(step.now, settings.source_timeout, leniently=not settings.reliable):
            self._receiving.forget(step, peer, ViewReason.SILENT)
            self._context.forget(peer)
        if not self._peers:
            self._speaking.become_alone(step)

    def _greet(self, step: Step) -> None:
        """Nobody was heard yet: a sender that is alone and speaks seldom answers at once (ADR 11)."""
        if self._peers or self._phase is not Phase.MEMBER:
            return
        self._context.broadcast(step, [Report(())])
        self._greetings += 1
        if self._greetings < GREETINGS:
            wait = 2 * self._context.settings.keep_alive << self._greetings
            self._context.deadlines.set("greeting", step.now + self._context.spread(wait))

    def _forgive_own_pause(self, step: Step) -> None:
        """A gap between two calls that no deadline explains: this process was stopped, and blames nobody for it."""
        last, self._last_call = self._last_call, step.now
        keep_alive = self._context.settings.keep_alive
        watched = self._context.deadlines.is_set("watch")  # otherwise it slept, and there is nobody to blame
        if last is None or step.now - last <= 2 * keep_alive or not watched:
            return
        gap = step.now - last - keep_alive
        self._peers.forgive(gap)
        self._speaking.audience.forgive(gap)
        self._membership.on_woken(step, gap)
        step.mark("woke-up")


def _time_of(packet: Packet) -> int | None:
    """The time that its sender had reached when it sent a packet, if that is in it."""
    if isinstance(packet, DataPacket):
        return packet.messages[-1].timestamp
    if isinstance(packet, ControlPacket):
        return max((message.timestamp for message in packet.messages if isinstance(message, KeepAlive)), default=None)
    return None  # a repair has the time of another
