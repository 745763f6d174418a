"""The engine of one group at one process: every fact of the group comes in here.

It keeps the phase and the peers, and lets its halves do the rest: `Speaking` as a source, `Following` as a receiver.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from unisono.engine import (
    Address,
    Effect,
    EventsTaken,
    Fact,
    Join,
    JoinAddress,
    Leave,
    LeaveAddress,
    PacketReceived,
    Send,
)
from unisono.events import Left, SendAccepted, SendRefused, ViewReason
from unisono.identity import ProcessId
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.following import Following
from unisono.intergroup.gauges import record_gauges, record_traffic
from unisono.intergroup.peers import Peers
from unisono.intergroup.reasons import Reason
from unisono.intergroup.sending import Sending
from unisono.intergroup.speaking import Speaking
from unisono.intergroup.unordered import Unordered
from unisono.reliable.step import Place, Step
from unisono.settings import SERVICE_CODES
from unisono.trace.schema import MembershipRow
from unisono.wire.control_messages import HierarchyMessage
from unisono.wire.messages import (
    ActivationGrant,
    ActivationRequest,
    ControlPacket,
    DataPacket,
    Deactivation,
    KeepAlive,
    LeftBehindNotice,
    RepairRequest,
    Report,
)


class Phase(Enum):
    """Where this process stands in the group."""

    OUTSIDE = auto()
    MEMBER = auto()
    LEAVING = auto()


class Resumption(Struct, frozen=True):
    """What a process that left a group must remember, so that it repeats no identifier when it joins again."""

    sequence: int = 0
    number: int = 0
    views: int = 0
    stretch: int = 0
    attempts: int = 0


class IntergroupEngine:
    """Unreliable unordered and reliable source ordered delivery for one group."""

    __slots__ = (
        "_context",
        "_delivery",
        "_following",
        "_last_call",
        "_peers",
        "_phase",
        "_place",
        "_sending",
        "_speaking",
        "_unordered",
    )

    def __init__(self, context: Context, resumption: Resumption) -> None:
        process, settings, clock = context.process, context.settings, context.clock
        self._context = context
        self._place = Place(context.group, SERVICE_CODES[settings.service], resumption.stretch + 1, settings.trace)
        # A returning process skips a sequence number, so that its first keep-alive stands above its farewell.
        last_sequence = resumption.sequence + 1 if resumption.sequence else 0
        self._sending = Sending(context, last_sequence, resumption.number)
        self._delivery = Delivery(process, self._place, clock, settings.event_limit, resumption.views)
        self._speaking = Speaking(context, self._sending, self._delivery)
        self._following = Following(context, self._sending, self._delivery, resumption.attempts)
        self._unordered = Unordered(self._delivery, settings.message_limit_bytes)
        self._peers = Peers()
        self._phase = Phase.OUTSIDE
        self._last_call: int | None = None

    @property
    def outside(self) -> bool:
        """Not yet, or no longer, in the group."""
        return self._phase is Phase.OUTSIDE

    def resumption(self) -> Resumption:
        sending = self._sending
        views, attempts = self._delivery.view_count, self._following.attempts
        return Resumption(sending.last_sequence, sending.last_number, views, self._place.stretch, attempts)

    def deadline(self) -> int | None:
        return self._context.deadlines.earliest()

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        step = Step(self._place, now, wall)
        self._forgive_own_pause(step)
        if isinstance(fact, PacketReceived):
            self._on_packet(step, fact)
        elif isinstance(fact, Send):
            self._on_send(step, fact)
        elif isinstance(fact, EventsTaken):
            self._on_taken(step, fact)
        elif isinstance(fact, Join):
            self._become_member(step)
        elif isinstance(fact, Leave):
            self._become_leaving(step)
        self._on_time(step)
        if self._phase is Phase.LEAVING and self._speaking.all_stable:
            self._become_outside(step)
        return step.finish()

    @property
    def _follows(self) -> bool:
        return self._phase is Phase.MEMBER and self._context.settings.service == "source"

    def _become_member(self, step: Step) -> None:
        settings, deadlines = self._context.settings, self._context.deadlines
        self._phase = Phase.MEMBER
        step.effect(JoinAddress(self._context.multicast))
        wanted = settings.sources if isinstance(settings.sources, str) else ",".join(settings.sources)
        step.record(MembershipRow(kind="JOIN", reason=wanted if settings.rejoin else "once"))
        if self._follows:
            self._following.join(step)
        deadlines.set("keep-alive", step.now)
        deadlines.set("watch", step.now + settings.keep_alive)
        deadlines.set("gauge", step.now + settings.gauge_interval)

    def _become_leaving(self, step: Step) -> None:
        """Stop listening at once; stay until the others have what was sent, or for the leave timeout."""
        if self._phase is not Phase.MEMBER:
            step.note(Reason.NOT_MEMBER)
            return
        self._phase = Phase.LEAVING
        self._following.leave(step)
        self._context.deadlines.set("leave", step.now + self._context.settings.leave_timeout)
        self._speaking.become_leaving(step)

    def _become_outside(self, step: Step) -> None:
        self._phase = Phase.OUTSIDE
        self._context.deadlines.clear_all()
        for ticket in self._sending.drop_queue():
            step.deliver(SendRefused(ticket, Reason.NOT_MEMBER))
        step.record(MembershipRow(kind="LEAVE"))
        step.deliver(Left())
        step.effect(LeaveAddress(self._context.multicast))

    def _on_send(self, step: Step, send: Send) -> None:
        member = self._phase is Phase.MEMBER
        refusal = self._sending.why_refuse(send.messages) if member else str(Reason.NOT_MEMBER)
        if refusal is not None:
            step.deliver(SendRefused(send.ticket, refusal))
            return
        if not send.messages:
            step.deliver(SendAccepted(send.ticket))
            return
        self._sending.enqueue(send.messages, send.ticket)
        self._speaking.advance(step)

    def _on_taken(self, step: Step, fact: EventsTaken) -> None:
        self._delivery.on_taken(fact.count)
        if self._delivery.oldest_own is not None:
            self._delivery.own_messages(step, ())
            self._speaking.advance(step)
        self._following.drain(step)

    def _on_packet(self, step: Step, fact: PacketReceived) -> None:
        packet = fact.packet
        ignore = self._why_ignore(step, packet.source)
        if ignore is not None:
            step.note(ignore)
            return
        self._hear(step, packet.source, fact.source)
        if isinstance(packet, DataPacket):
            self._context.observe(step, packet.messages[-1].timestamp)
            if self._follows:
                self._following.on_data(step, packet, fact.source)
            elif self._phase is Phase.MEMBER:
                self._unordered.on_data(step, packet)
        elif isinstance(packet, ControlPacket):
            self._on_control(step, packet, fact.source)
        elif self._follows:  # unreliable delivery discards repairs (000 4.6)
            self._following.on_repair(step, packet.data)

    def _why_ignore(self, step: Step, source: ProcessId) -> Reason | None:
        itself = self._context.process
        if source == itself:
            return Reason.OWN_PACKET
        if source.name == itself.name:
            return Reason.OWN_NAME if source.incarnation > itself.incarnation else Reason.OLD_INCARNATION
        if self._phase is Phase.OUTSIDE:
            return Reason.NOT_MEMBER
        newest = self._peers.newest(source.name)
        if newest is not None and source.incarnation < newest.incarnation:
            step.mark("old-incarnation")
            return Reason.OLD_INCARNATION
        if newest is None and self._peers.full:
            return Reason.TOO_MANY_PEERS
        return None

    def _hear(self, step: Step, source: ProcessId, address: Address) -> None:
        earlier = self._peers.hear(source, step.now)
        if earlier is not None:
            self._forget(step, earlier, ViewReason.RESTARTED)
            self._speaking.drop(step, earlier)
        if self._follows:
            self._following.consider(step, source, address)

    def _forget(self, step: Step, peer: ProcessId, reason: ViewReason) -> None:
        self._following.forget(step, peer, reason)
        self._unordered.forget(peer)

    def _on_control(self, step: Step, packet: ControlPacket, address: Address) -> None:
        for refused in packet.refused:
            step.note(refused)
        source = packet.source
        for message in packet.messages:
            if isinstance(message, HierarchyMessage):
                step.note(Reason.NOT_OURS)
            elif isinstance(message, KeepAlive):
                self._context.observe(step, message.timestamp)
                if self._follows:
                    self._following.on_keep_alive(step, source, address, message)
            elif isinstance(message, Report):
                self._speaking.on_report(step, source, address, message)
            elif message.target != self._context.process:
                step.note(Reason.OTHER_LIFE)
            elif isinstance(message, RepairRequest):
                self._speaking.on_repair_request(step, source, address, message)
            elif isinstance(message, ActivationRequest):
                self._speaking.on_activation_request(step, source, address, message)
            elif isinstance(message, Deactivation):
                self._speaking.on_deactivation(step, source, message)
            elif isinstance(message, ActivationGrant):
                self._following.on_activation_grant(step, source, address, message)
            elif isinstance(message, LeftBehindNotice):
                self._following.on_left_behind(step, source, message)

    def _on_time(self, step: Step) -> None:
        settings, deadlines = self._context.settings, self._context.deadlines
        for name in deadlines.expire(step.now):
            if name == "keep-alive":
                self._context.broadcast(step, [self._sending.keep_alive(step)])
                deadlines.set(name, step.now + settings.keep_alive)
            elif name == "report":
                self._following.report(step)
            elif name == "request":
                self._following.request_repairs(step)
            elif name == "activation":
                self._following.activate(step)
            elif name == "watch":
                deadlines.set(name, step.now + settings.keep_alive)
                for peer in self._peers.forget_silent(step.now, settings.source_timeout):
                    self._forget(step, peer, ViewReason.SILENT)
                self._unordered.on_time(step, settings.patience)
                self._speaking.lose_patience(step)
            elif name == "gauge":
                deadlines.set(name, step.now + settings.gauge_interval)
                record_traffic(step, self._place)
                record_gauges(step, settings, self._sending, self._delivery, self._following, self._unordered)
            elif name == "leave":
                self._become_outside(step)
                return

    def _forgive_own_pause(self, step: Step) -> None:
        """A gap between two calls that no deadline explains: this process was stopped, and blames nobody for it."""
        keep_alive = self._context.settings.keep_alive
        if self._last_call is not None and not self.outside:
            gap = step.now - self._last_call - keep_alive
            if gap > keep_alive:
                self._peers.forgive(gap)
                self._speaking.audience.forgive(gap)
                step.mark("woke-up")
        self._last_call = step.now
