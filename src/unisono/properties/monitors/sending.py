"""Monitors of the view that a message belongs to: that it was sent in (D3), and one for all (D4)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.agreed import NOT_AGREED, Eras
from unisono.properties.monitors.monitor import Handler, Member
from unisono.properties.violation import message_name
from unisono.trace.schema import DeliverRow, SendRow


class Early(Struct, frozen=True):
    """A delivery that was seen before its send."""

    process: str
    incarnation: int
    position: int
    view: str | None
    era: str | None


class SendingView(Eras):
    """D3. Keeps the view of each message for the whole run, and early deliveries until their send."""

    property_id: ClassVar[str] = "D3"

    sends: dict[Member, dict[int, str | None]] = field(default_factory=dict)
    early: dict[Member, dict[int, list[Early]]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"SEND": self.on_send, "DELIVER": self.on_deliver, "VIEW": self.follow}

    def on_send(self, row: SendRow) -> None:
        source = (row.group, row.process, row.incarnation)
        sent = self.sends.setdefault(source, {})
        if row.number in sent:
            return
        sent[row.number] = row.agreed
        for delivery in self.early.get(source, {}).pop(row.number, ()):
            self._compare(source, row.number, row.agreed, delivery)

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in NOT_AGREED:
            return
        source = (row.group, row.source, row.source_incarnation)
        sent = self.sends.get(source)
        era = self.era(row)
        if sent is not None and row.number in sent:
            if sent[row.number] == era:
                return
            delivery = Early(row.process, row.incarnation, row.position, row.view, era)
            self._compare(source, row.number, sent[row.number], delivery)
        else:
            delivery = Early(row.process, row.incarnation, row.position, row.view, era)
            self.early.setdefault(source, {}).setdefault(row.number, []).append(delivery)

    def _compare(self, source: Member, number: int, agreed: str | None, delivery: Early) -> None:
        if agreed != delivery.era:
            group, name, incarnation = source
            message = message_name(name, incarnation, number)
            text = f"{message} was sent in {agreed} and delivered in {delivery.view}."
            self.report(group, delivery.process, delivery.incarnation, delivery.position, message, text)


class SameView(Eras):
    """D4. Keeps one era of each message for the whole run, and which messages have more."""

    property_id: ClassVar[str] = "D4"

    eras: dict[Member, dict[int, str | None]] = field(default_factory=dict)
    split: set[tuple[str, str, int, int]] = field(default_factory=set)

    def handlers(self) -> dict[str, Handler]:
        return {"DELIVER": self.on_deliver, "VIEW": self.follow}

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in NOT_AGREED:
            return
        source = (row.group, row.source, row.source_incarnation)
        eras = self.eras.get(source)
        if eras is None:
            eras = self.eras[source] = {}
        era = self.era(row)
        if eras.setdefault(row.number, era) != era and (*source, row.number) not in self.split:
            self.split.add((*source, row.number))
            message = message_name(row.source, row.source_incarnation, row.number)
            self.report(row.group, "", 0, 0, message, f"{message} was delivered in more than one era.")
