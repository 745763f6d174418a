"""What this process receives, by the service that its application chose; it may choose another while it is joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from unisono.engine import Address, Recover
from unisono.events import ViewReason
from unisono.identity import ProcessId, StartPoint
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.following import Following
from unisono.intergroup.framed import Framed
from unisono.intergroup.latest import SourceLatest, TimestampLatest
from unisono.intergroup.reasons import Reason
from unisono.intergroup.repairing import Repairing
from unisono.intergroup.sending import OwnMessage, Sending
from unisono.intergroup.unordered import Unordered
from unisono.reliable.step import Place, Step
from unisono.settings import SERVICE_CODES, Service
from unisono.wire.messages import DataPacket, KeepAlive

Casual = Unordered | SourceLatest | TimestampLatest | Framed
"""Receivers that take what comes and are promised no message."""

_CASUAL: dict[Service, type[Casual]] = {
    "unordered": Unordered,
    "source-latest": SourceLatest,
    "timestamp-latest": TimestampLatest,
    "framed": Framed,
}


class Receiving:
    """The receiver's side of one process in one group."""

    __slots__ = ("_context", "_delivery", "_heard", "_place", "casual", "following")

    def __init__(
        self,
        context: Context,
        place: Place,
        sending: Sending,
        delivery: Delivery,
        repairing: Repairing,
        attempts: int,
    ) -> None:
        self._context = context
        self._place = place
        self._delivery = delivery
        self._heard: set[ProcessId] = set()
        self.following = Following(context, sending, delivery, repairing, attempts)
        self.casual = self._choose()

    def _choose(self) -> Casual | None:
        kind = _CASUAL.get(self._context.settings.service)
        return None if kind is None else kind(self._context, self._delivery)

    @property
    def is_busy(self) -> bool:
        """Whether anybody is followed, or asked to be."""
        return bool(self.following.streams) or bool(self.following.activations)

    def join(self, step: Step) -> None:
        self.following.begin(step, ViewReason.JOINED)
        self._show_members(step, [(self._context.process, ViewReason.JOINED)])

    def leave(self, step: Step) -> None:
        self._context.changing = False
        self.following.leave(step)
        self.casual = None

    def change(self, step: Step, service: Service, sources: Literal["all"] | tuple[str, ...]) -> None:
        """Serve the application differently: into timestamp order as soon as it can begin, otherwise from now on.

        Between two reliable services nothing is lost or repeated.
        """
        if service != "timestamp":
            self._begin_service(step, service, sources)
            self.following.begin(step, ViewReason.SERVICE)
            self._show_members(step, [(self._context.process, ViewReason.SERVICE)])
            if self.casual is not None:
                self.casual.own_messages(step, self._delivery.take_own())
        elif self._context.settings.service != "timestamp" and not self._context.changing:
            self._context.changing = True
            self.following.look_for_entry(step)

    def settle(self, step: Step) -> None:
        """After every fact: see whether timestamp order can begin."""
        start = self.following.find_entry(step)
        if start is None:
            return
        reason = ViewReason.SERVICE if self._context.changing else ViewReason.JOINED
        if self._context.changing:
            self._begin_service(step, "timestamp", "all")
        self.following.take_over(step, start, reason)

    def _begin_service(self, step: Step, service: Service, sources: Literal["all"] | tuple[str, ...]) -> None:
        context = self._context
        if isinstance(self.casual, TimestampLatest):
            self.casual.release_all(step)
        for _, point in () if self.casual is None else sorted(self.casual.taken.items()):
            self.following.note_taken(point)
        step.flush()
        across = context.settings.across if service == "timestamp" else ""
        context.settings = replace(context.settings, service=service, sources=sources, across=across)
        context.changing = False
        self._place.stretch += 1
        self._place.service = SERVICE_CODES[service]
        self._delivery.begin_stretch()
        self.casual = self._choose()
        step.mark("service-changed")

    def on_heard(self, step: Step, peer: ProcessId) -> None:
        """A peer lives: news for an application that asked for membership (003 6.1)."""
        if peer not in self._heard:
            self._heard.add(peer)
            self._show_members(step, [(peer, ViewReason.HEARD)])

    def consider(self, step: Step, source: ProcessId, address: Address) -> None:
        if self.following.active:
            self.following.consider(step, source, address)

    def on_data(self, step: Step, packet: DataPacket, address: Address) -> None:
        if self.following.active:
            self.following.on_data(step, packet, address)
        if self.casual is not None:
            self.casual.on_data(step, packet)

    def on_repair(self, step: Step, packet: DataPacket) -> None:
        if self.following.active:
            self.following.on_repair(step, packet)
        if isinstance(self.casual, Framed):  # the others discard repairs (000 4.6)
            self.casual.on_repair(step, packet)

    def on_keep_alive(self, step: Step, source: ProcessId, address: Address, message: KeepAlive) -> None:
        if self.following.active:
            self.following.on_keep_alive(step, source, address, message)
        if self.casual is not None:
            self.casual.on_keep_alive(step, source, message)

    def own_messages(self, step: Step, messages: Sequence[OwnMessage]) -> None:
        """A process receives its own messages too (000 4.1)."""
        if self.casual is not None:
            self.casual.own_messages(step, [own for own in messages if own.change is None])
            self.following.note_changes(messages)
        else:
            self.following.own_messages(step, messages)

    def on_taken(self, step: Step) -> None:
        if self.casual is not None:
            self._delivery.own_messages(step, ())
        self.following.drain(step)

    def recover(self, step: Step, wanted: Recover) -> None:
        if isinstance(self.casual, Framed):
            self.casual.recover(step, wanted)
        else:
            step.note(Reason.NOT_FRAMED)

    def on_time(self, step: Step) -> None:
        if self.casual is not None:
            self.casual.on_time(step)

    def forget(self, step: Step, peer: ProcessId, reason: ViewReason) -> None:
        """A peer is gone without a farewell."""
        self.following.forget(step, peer, reason)
        if self.casual is not None:
            self.casual.forget(peer)
        if peer in self._heard:
            self._heard.remove(peer)
            self._show_members(step, [(peer, reason)])

    def _show_members(self, step: Step, reasons: list[tuple[ProcessId, ViewReason]]) -> None:
        settings = self._context.settings
        if settings.reliable or not settings.membership:
            return
        members = sorted([*self._heard, self._context.process])
        self._delivery.install(step, [StartPoint(member, 0, 0) for member in members], reasons)
