"""The monitor of total order (O6): every process delivers by ever higher keys, over all groups of a domain."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.monitor import Handler, Key, Member, Monitor
from unisono.properties.promises import exempt_services
from unisono.properties.violation import message_name
from unisono.trace.schema import DeliverRow, MembershipRow, ViewRow

_O6_EXEMPT = exempt_services("O6", "receiver")

Domain = tuple[str, int, bool, str]
"""What one process orders together: name, incarnation, whether it is a domain, its name or that of the group."""


class Era(Struct):
    """The stretch of each group of a domain, and the highest key delivered since one of them changed."""

    stretches: dict[str, int] = field(default_factory=dict)
    highest: Key | None = None


class TotalOrder(Monitor):
    """O6. Keeps the highest key of each process and domain."""

    property_id: ClassVar[str] = "O6"

    domains: dict[Member, str] = field(default_factory=dict)
    eras: dict[Domain, Era] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"DELIVER": self.on_deliver, "VIEW": self.on_view, "JOIN": self.on_join}

    def on_join(self, row: MembershipRow) -> None:
        member = (row.group, row.process, row.incarnation)
        if row.across is None:
            self.domains.pop(member, None)
        else:
            self.domains[member] = row.across

    def on_view(self, row: ViewRow) -> None:
        if row.service not in _O6_EXEMPT:
            self._era(row)

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in _O6_EXEMPT:
            return
        era = self._era(row)
        key = (row.timestamp, row.source, row.source_incarnation)
        highest = era.highest
        if highest is None or key > highest:
            era.highest = key
            return
        message = message_name(row.source, row.source_incarnation, row.number)
        text = f"{message} with timestamp {row.timestamp} was delivered after {highest[1]} with {highest[0]}."
        self.report(row.group, row.process, row.incarnation, row.position, message, text)

    def _era(self, row: ViewRow | DeliverRow) -> Era:
        group = row.group
        across = self.domains.get((group, row.process, row.incarnation))
        domain = (row.process, row.incarnation, across is not None, group if across is None else across)
        era = self.eras.get(domain)
        if era is None:
            era = self.eras[domain] = Era()
        if era.stretches.get(group) != row.stretch:
            era.stretches[group] = row.stretch
            era.highest = None
        return era
