"""The monitor of restarts (L11): the new life of a process is heard by those who knew an earlier one."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.connected import Connected, Listener, Turn, turn_at
from unisono.properties.monitors.monitor import Handler, Member, Source
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS, exempt_services
from unisono.properties.violation import message_name, moment
from unisono.trace.schema import DeliverRow, SendRow, ViewRow


class First(Struct, frozen=True):
    """The first message of one life in one group."""

    position: int
    time: int
    clock: str | None
    number: int


class HeardAgain(Connected):
    """L11. Keeps what each life sent first, and when each member had each source first."""

    property_id: ClassVar[str] = "L11"
    exempt: ClassVar[frozenset[str]] = exempt_services("L11")

    firsts: dict[Member, First] = field(default_factory=dict)
    heard: dict[Member, dict[str, dict[int, int]]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {**Connected.handlers(self), "SEND": self.on_send, "DELIVER": self.on_deliver}

    def on_send(self, row: SendRow) -> None:
        key = (row.group, row.process, row.incarnation)
        first = self.firsts.get(key)
        if first is None or row.position < first.position:
            clock = row.host if row.truth is None else None
            self.firsts[key] = First(row.position, moment(row), clock, row.number)

    def on_deliver(self, row: DeliverRow) -> None:
        self._hear((row.group, row.process, row.incarnation), row.source, row.source_incarnation, moment(row))

    def on_view(self, row: ViewRow) -> None:
        Connected.on_view(self, row)
        for start in row.start:
            self._hear((row.group, row.process, row.incarnation), start.source, start.incarnation, moment(row))

    def _hear(self, member: Member, name: str, incarnation: int, time: int) -> None:
        lives = self.heard.setdefault(member, {}).setdefault(name, {})
        if time < lives.get(incarnation, time + 1):
            lives[incarnation] = time

    def conclude(self) -> None:
        Connected.conclude(self)
        for (group, name, incarnation), first in self.firsts.items():
            for key, listener in self.listeners.items():
                if key[0] == group and key[1] != name and self._knew_another(key, name, incarnation):
                    self._look(key, listener, (name, incarnation), first)

    def _knew_another(self, member: Member, name: str, incarnation: int) -> bool:
        return bool(self.heard.get(member, {}).get(name, {}).keys() - {incarnation})

    def _look(self, key: Member, listener: Listener, source: Source, first: First) -> None:
        view = turn_at(listener.turns, first.time, first.clock)
        if view is None or view.sources is None or not _is_known(listener.turns, view, source):
            return
        heard = self.heard[key][source[0]].get(source[1])
        late = heard is None or heard > first.time + STALL_LIMIT_NANOSECONDS
        if late and self.is_connected(key, source, first.time, first.clock):
            message = message_name(*source, first.number)
            self.report(*key, view.position, message, f"a new life sent {message} first, and was not heard for long.")


def _is_known(turns: list[Turn], view: Turn, source: Source) -> bool:
    """Whether another life of a source was in a view of this stretch, up to this one."""
    return any(
        one[0] == source[0] and one != source
        for turn in turns
        if turn.stretch == view.stretch and turn.position <= view.position
        for one in turn.sources or ()
    )
