"""Monitors of keys: they grow with what a process knows (O3), and are the same everywhere (O8)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.monitor import Handler, Key, Member, Monitor, Source, Stretch
from unisono.properties.promises import CLOCK_HELD, exempt_services
from unisono.properties.violation import message_name
from unisono.trace.schema import DeliverRow, GaugeRow, SendRow

_O3_EXEMPT = exempt_services("O3", "receiver")
_O3_SENDERS_EXEMPT = exempt_services("O3", "sender")
_O8_EXEMPT = exempt_services("O8", "receiver")
_O8_SENDERS_EXEMPT = exempt_services("O8", "sender")


class Causal(Monitor):
    """O3. Keeps the highest timestamps that each process sent and heard, and the last key of each stretch."""

    property_id: ClassVar[str] = "O3"

    sent: dict[Source, int] = field(default_factory=dict)
    heard: dict[Source, int] = field(default_factory=dict)
    excused: set[Source] = field(default_factory=set)
    last: dict[Member, tuple[int, Key]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"SEND": self.on_send, "DELIVER": self.on_deliver, "MARK": self.on_mark}

    def on_mark(self, row: GaugeRow) -> None:
        if row.name == CLOCK_HELD:
            self.excused.add((row.process, row.incarnation))

    def on_send(self, row: SendRow) -> None:
        life = (row.process, row.incarnation)
        known = self.sent.get(life)
        if known is None or row.timestamp > known:
            self.sent[life] = row.timestamp
        if life not in self.excused:
            heard = self.heard.get(life)
            if heard is not None and (known is None or heard > known):
                known = heard
        if known is not None and known >= row.timestamp and row.service not in _O3_SENDERS_EXEMPT:
            message = message_name(row.process, row.incarnation, row.number)
            text = f"{message} was sent with timestamp {row.timestamp}, but {known} was known."
            self.report(row.group, row.process, row.incarnation, row.position, message, text)

    def on_deliver(self, row: DeliverRow) -> None:
        life = (row.process, row.incarnation)
        timestamp = row.timestamp
        heard = self.heard.get(life)
        if heard is None or timestamp > heard:
            self.heard[life] = timestamp
        if row.service in _O3_EXEMPT:
            return
        member = (row.group, row.process, row.incarnation)
        key = (timestamp, row.source, row.source_incarnation)
        last = self.last.get(member)
        self.last[member] = (row.stretch, key)
        if last is not None and last[0] == row.stretch and last[1] >= key:
            message = message_name(row.source, row.source_incarnation, row.number)
            text = f"{message} with timestamp {timestamp} was delivered after {last[1][1]} with {last[1][0]}."
            self.report(row.group, row.process, row.incarnation, row.position, message, text)


class Early(Struct, frozen=True):
    """A delivery that was seen before its send."""

    process: str
    incarnation: int
    position: int
    timestamp: int


class KeyDiscipline(Monitor):
    """O8. Keeps the timestamp of each message for the whole run, and the horizon of each stretch."""

    property_id: ClassVar[str] = "O8"

    sends: dict[Member, dict[int, int]] = field(default_factory=dict)
    last: dict[Member, tuple[int, int]] = field(default_factory=dict)
    early: dict[Member, dict[int, list[Early]]] = field(default_factory=dict)
    horizons: dict[Stretch, int] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"SEND": self.on_send, "DELIVER": self.on_deliver}

    def on_send(self, row: SendRow) -> None:
        source = (row.group, row.process, row.incarnation)
        number, timestamp = row.number, row.timestamp
        if row.service not in _O8_SENDERS_EXEMPT:
            last = self.last.get(source)
            self.last[source] = (number, timestamp)
            if last is not None and not (number > last[0] and timestamp > last[1]) and not _alike(last, row):
                message = message_name(row.process, row.incarnation, number)
                text = f"{message} has timestamp {timestamp}, and number {last[0]} before it has {last[1]}."
                self.report(row.group, row.process, row.incarnation, row.position, message, text)
        sent = self.sends.get(source)
        if sent is None:
            sent = self.sends[source] = {}
        if number in sent:
            return
        sent[number] = timestamp
        waiting = self.early.get(source)
        if waiting:
            for delivery in waiting.pop(number, ()):
                if delivery.timestamp != timestamp:
                    self._differs(source, number, timestamp, delivery)

    def on_deliver(self, row: DeliverRow) -> None:
        service, timestamp = row.service, row.timestamp
        if service in _O8_EXEMPT:
            return
        source = (row.group, row.source, row.source_incarnation)
        sent = self.sends.get(source)
        expected = None if sent is None else sent.get(row.number)
        if expected != timestamp:
            delivery = Early(row.process, row.incarnation, row.position, timestamp)
            if expected is None:
                self.early.setdefault(source, {}).setdefault(row.number, []).append(delivery)
            else:
                self._differs(source, row.number, expected, delivery)
        if service in _O3_EXEMPT:
            return
        stretch = (row.group, row.process, row.incarnation, row.stretch)
        horizon = self.horizons.get(stretch)
        if horizon is None or timestamp > horizon:
            self.horizons[stretch] = timestamp
        elif timestamp < horizon:
            message = message_name(row.source, row.source_incarnation, row.number)
            text = f"{message} with timestamp {timestamp} was delivered below the horizon of {horizon}."
            self.report(row.group, row.process, row.incarnation, row.position, message, text)

    def _differs(self, source: Member, number: int, expected: int, delivery: Early) -> None:
        group, name, incarnation = source
        message = message_name(name, incarnation, number)
        text = f"{message} was sent with timestamp {expected} and delivered with {delivery.timestamp}."
        self.report(group, delivery.process, delivery.incarnation, delivery.position, message, text)


def _alike(last: tuple[int, int], row: SendRow) -> bool:
    """Whether number and timestamp moved the same way, for a source that goes back or repeats a number."""
    if row.number < last[0]:
        return row.timestamp < last[1]
    return row.number == last[0] and row.timestamp == last[1]
