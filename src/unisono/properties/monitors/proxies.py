"""Monitor of what members let others send for them: asked for, handed over once, in its order (D11)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Stream
from unisono.properties.promises import exempt_services
from unisono.properties.violation import message_name
from unisono.trace.schema import ProxyRow

_EXEMPT = exempt_services("D11")
_UNORDERED = exempt_services("O1")

Content = tuple[int, int, int | None]
"""Size and body of a message, and the global time where it is known."""


class Unasked(Struct, frozen=True):
    """A message that was handed over and whose ASKED row was not seen yet."""

    process: str
    incarnation: int
    position: int
    content: Content


class ProxiedOnce(Monitor):
    """D11. Keeps what each message was for the whole run, and the numbers that each process handed over."""

    property_id: ClassVar[str] = "D11"

    asked: dict[Member, dict[int, Content]] = field(default_factory=dict)
    unasked: dict[Member, dict[int, list[Unasked]]] = field(default_factory=dict)
    handed: dict[Stream, list[int]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"ASKED": self.on_asked, "HANDED": self.on_handed}

    def on_asked(self, row: ProxyRow) -> None:
        origin = (row.group, row.process, row.incarnation)
        known = self.asked.setdefault(origin, {})
        if row.number in known:
            return
        content = known[row.number] = (row.size, row.body, row.truth)
        for early in self.unasked.get(origin, {}).pop(row.number, ()):
            if _differ(content, early.content):
                self._report(origin, row.number, early, "was not handed over as it was asked for")

    def on_handed(self, row: ProxyRow) -> None:
        if row.service in _EXEMPT:
            return
        origin = (row.group, row.origin, row.origin_incarnation)
        one = Unasked(row.process, row.incarnation, row.position, (row.size, row.body, row.truth))
        runs = self.handed.setdefault((row.group, row.process, row.incarnation, row.origin, row.origin_incarnation), [])
        highest = runs[-1] - 1 if runs else 0
        if not intervals.add(runs, row.number):
            self._report(origin, row.number, one, "was handed over before")
        elif row.number < highest and row.service not in _UNORDERED:
            self._report(origin, row.number, one, f"was handed over after number {highest}")
        elif (content := self.asked.get(origin, {}).get(row.number)) is None:
            self.unasked.setdefault(origin, {}).setdefault(row.number, []).append(one)
        elif _differ(content, one.content):
            self._report(origin, row.number, one, "was not handed over as it was asked for")

    def conclude(self) -> None:
        for origin, waiting in self.unasked.items():
            for number, found in waiting.items():
                for one in found:
                    self._report(origin, number, one, "was handed over, and never asked for")
        self.unasked.clear()

    def _report(self, origin: Member, number: int, one: Unasked, text: str) -> None:
        group, name, incarnation = origin
        message = message_name(name, incarnation, number)
        said = f"At {one.process}, {message} {text}."
        self.report(group, one.process, one.incarnation, one.position, message, said)


def _differ(asked: Content, handed: Content) -> bool:
    late = asked[2] is not None and handed[2] is not None and asked[2] > handed[2]
    return asked[:2] != handed[:2] or late
