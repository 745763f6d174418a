"""Monitors of single deliveries: sent as delivered (D1), delivered once (D2), written in a view (M3)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Stream
from unisono.properties.promises import exempt_services
from unisono.properties.violation import message_name
from unisono.trace.schema import DeliverRow, SendRow, ViewRow

_D1_EXEMPT = exempt_services("D1")
_D2_EXEMPT = exempt_services("D2")
_UNRELIABLE = exempt_services("O2")
_M3_EXEMPT = exempt_services("M3")

Content = tuple[int, int, int, int, str | None, int, str | None]
"""What a message is: sequence, size, body, timestamp, origin; and when, by a host's clock or the global one (None)."""


class Early(Struct, frozen=True):
    """A delivery that was seen before its send."""

    process: str
    incarnation: int
    position: int
    content: Content


class DeliveryIntegrity(Monitor):
    """D1. Keeps what each message was for the whole run, and early deliveries until their send or the end."""

    property_id: ClassVar[str] = "D1"

    sends: dict[Member, dict[int, Content]] = field(default_factory=dict)
    early: dict[Member, dict[int, list[Early]]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"SEND": self.on_send, "DELIVER": self.on_deliver}

    def on_send(self, row: SendRow) -> None:
        source = (row.group, row.process, row.incarnation)
        sent = self.sends.get(source)
        if sent is None:
            sent = self.sends[source] = {}
        if row.number in sent:
            return
        content = sent[row.number] = _content(row)
        waiting = self.early.get(source)
        if waiting:
            for delivery in waiting.pop(row.number, ()):
                wrong = _differences(content, delivery.content)
                if wrong:
                    self._report(source, row.number, delivery, f"was not delivered as it was sent: {wrong}")

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in _D1_EXEMPT:
            return
        source = (row.group, row.source, row.source_incarnation)
        sent = self.sends.get(source)
        content = None if sent is None else sent.get(row.number)
        if content is not None:
            sequence, size, body, timestamp, origin, when, clock = content
            if (
                body == row.body
                and sequence == row.sequence
                and size == row.size
                and timestamp == row.timestamp
                and origin == row.origin
                and (
                    (row.truth is None or when <= row.truth)
                    if clock is None
                    else (row.truth is not None or clock != row.host or when <= row.at)
                )
            ):
                return
        delivered = _content(row)
        delivery = Early(row.process, row.incarnation, row.position, delivered)
        if content is None:
            self.early.setdefault(source, {}).setdefault(row.number, []).append(delivery)
        else:
            wrong = _differences(content, delivered)
            self._report(source, row.number, delivery, f"was not delivered as it was sent: {wrong}")

    def conclude(self) -> None:
        for source, waiting in self.early.items():
            for number, deliveries in waiting.items():
                for delivery in deliveries:
                    self._report(source, number, delivery, "was delivered, but never sent")
        self.early.clear()

    def _report(self, source: Member, number: int, delivery: Early, text: str) -> None:
        group, name, incarnation = source
        message = message_name(name, incarnation, number)
        self.report(group, delivery.process, delivery.incarnation, delivery.position, message, f"{message} {text}.")


def _content(row: SendRow | DeliverRow) -> Content:
    when, clock = (row.at, row.host) if row.truth is None else (row.truth, None)
    return (row.sequence, row.size, row.body, row.timestamp, row.origin, when, clock)


def _differences(sent: Content, delivered: Content) -> str:
    labels = ("sequence", "size", "body", "timestamp", "origin")
    found = [
        f"{label} {left} became {right}"
        for label, left, right in zip(labels, sent, delivered, strict=False)
        if left != right
    ]
    if sent[6] == delivered[6] and sent[5] > delivered[5]:
        found.append(f"sent at {sent[5]}, delivered at {delivered[5]}")
    return ", ".join(found)


class NoDuplication(Monitor):
    """D2. Keeps the numbers that each member delivered of each source, as runs; unreliable stretches apart."""

    property_id: ClassVar[str] = "D2"

    delivered: dict[Stream, list[int]] = field(default_factory=dict)
    loose: dict[Stream, dict[int, list[int]]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"DELIVER": self.on_deliver}

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in _D2_EXEMPT:
            return
        stream = (row.group, row.process, row.incarnation, row.source, row.source_incarnation)
        number = row.number
        if row.service in _UNRELIABLE:
            runs = self.loose.setdefault(stream, {}).setdefault(row.stretch, [])
        else:
            reliable = self.delivered.get(stream)
            if reliable is None:
                self.delivered[stream] = [number, number + 1]
                return
            runs = reliable
        if runs and runs[-1] == number:
            runs[-1] = number + 1
        elif not intervals.add(runs, number):
            message = message_name(row.source, row.source_incarnation, number)
            self.report(
                row.group, row.process, row.incarnation, row.position, message, f"{message} was delivered before."
            )


class InView(Monitor):
    """M3. Keeps the current view of each member."""

    property_id: ClassVar[str] = "M3"

    current: dict[Member, str | None] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"SEND": self.on_send, "DELIVER": self.on_deliver, "VIEW": self.on_view}

    def on_view(self, row: ViewRow) -> None:
        self.current[row.group, row.process, row.incarnation] = row.view

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in _M3_EXEMPT:
            return
        view = row.view
        if view is None or self.current.get((row.group, row.process, row.incarnation)) != view:
            self._report(row, message_name(row.source, row.source_incarnation, row.number), "delivered")

    def on_send(self, row: SendRow) -> None:
        if row.service in _M3_EXEMPT:
            return
        view = row.view
        if view is None or self.current.get((row.group, row.process, row.incarnation)) != view:
            self._report(row, message_name(row.process, row.incarnation, row.number), "sent")

    def _report(self, row: SendRow | DeliverRow, message: str, done: str) -> None:
        current = self.current.get((row.group, row.process, row.incarnation))
        where = "outside any view" if row.view is None else f"in view {row.view}"
        installed = "none was installed" if current is None else f"the installed one is {current}"
        text = f"{message} was {done} {where}, but {installed}."
        self.report(row.group, row.process, row.incarnation, row.position, message, text)
