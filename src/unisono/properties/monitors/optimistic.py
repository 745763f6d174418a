"""The monitor of optimistic messages (D12): delivered in the view that they are for, or returned, and only once."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.monitors.sessions import ANEW
from unisono.properties.monitors.settled import Time, time_of
from unisono.properties.promises import SETTLING_NANOSECONDS, STRONG
from unisono.properties.violation import message_name
from unisono.trace.schema import DeliverRow, MembershipRow, SendRow, ViewRow


class Early(Struct, frozen=True):
    """A delivery that was seen before its send."""

    process: str
    incarnation: int
    position: int
    view: str | None


class Hope(Struct):
    """An optimistic message that its sender has neither heard nor taken back.

    `entered` is when its sender installed the next view, `fulfilled` whether that is the one it is for.
    """

    position: int
    agreed: str
    entered: Time | None = None
    fulfilled: bool = False
    returned: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether something is missing once the view after the next one is there."""
        return self.fulfilled or not self.returned


class Hopes(Struct):
    """What one sender sent: numbers that are in time, and of the optimistic ones the view that each is for."""

    plain: list[int] = field(default_factory=list)
    optimistic: dict[int, str] = field(default_factory=dict)
    returned: set[int] = field(default_factory=set)
    waiting: dict[int, Hope] = field(default_factory=dict)


class OptimisticOnce(Monitor):
    """D12. Keeps of every optimistic message the view that it is for, and whether somebody delivered it."""

    property_id: ClassVar[str] = "D12"

    senders: dict[Member, Hopes] = field(default_factory=dict)
    early: dict[Member, dict[int, list[Early]]] = field(default_factory=dict)
    delivered: set[tuple[str, str, int, int]] = field(default_factory=set)
    returns: list[tuple[Member, int, int]] = field(default_factory=list)
    ends: dict[Source, Time] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "SEND": self.on_send,
            "DELIVER": self.on_deliver,
            "VIEW": self.on_view,
            "RETURNED": self.on_returned,
            **dict.fromkeys(ANEW, self.on_anew),
            "END": self.on_end,
        }

    def on_send(self, row: SendRow) -> None:
        if row.service != STRONG:
            return
        member = (row.group, row.process, row.incarnation)
        hopes = self._of(member)
        number = row.number
        if number in hopes.optimistic or intervals.holds(hopes.plain, number):
            return
        early = self.early.get(member, {}).pop(number, ())
        if row.agreed is None or row.agreed == row.view:
            intervals.add(hopes.plain, number)
            return
        hopes.optimistic[number] = row.agreed
        hopes.waiting[number] = Hope(row.position, row.agreed)
        for delivery in early:
            self._take(member, number, delivery)

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service != STRONG:
            return
        source = (row.group, row.source, row.source_incarnation)
        hopes = self.senders.get(source)
        if hopes is not None and intervals.holds(hopes.plain, row.number):
            return
        delivery = Early(row.process, row.incarnation, row.position, row.view)
        if hopes is None or row.number not in hopes.optimistic:
            self.early.setdefault(source, {}).setdefault(row.number, []).append(delivery)
            return
        self._take(source, row.number, delivery)
        if (row.process, row.incarnation) == source[1:]:
            hope = hopes.waiting.get(row.number)
            if hope is not None and hope.fulfilled:
                del hopes.waiting[row.number]

    def _take(self, source: Member, number: int, delivery: Early) -> None:
        self.delivered.add((*source, number))
        agreed = self.senders[source].optimistic[number]
        if delivery.view != agreed:
            message = message_name(*source[1:], number)
            text = f"{message} was sent for {agreed} and delivered in {delivery.view}."
            self.report(source[0], delivery.process, delivery.incarnation, delivery.position, message, text)

    def on_returned(self, row: MembershipRow) -> None:
        if row.service != STRONG:
            return
        member = (row.group, row.process, row.incarnation)
        hopes, number = self._of(member), row.number or 0
        if number not in hopes.optimistic or number in hopes.returned:
            wrong = "twice" if number in hopes.returned else "though it was not optimistic"
            message = message_name(*member[1:], number)
            self.report(*member, row.position, message, f"{message} was returned {wrong}.")
        else:
            self.returns.append((member, row.position, number))
        hopes.returned.add(number)
        if number in hopes.waiting:
            hopes.waiting[number].returned = True

    def on_view(self, row: ViewRow) -> None:
        if row.service != STRONG:
            return
        member = (row.group, row.process, row.incarnation)
        waiting = self._of(member).waiting
        for number, hope in list(waiting.items()):
            if hope.entered is None:
                hope.entered, hope.fulfilled = time_of(row), row.view == hope.agreed
            else:
                self._judge(member, number, waiting.pop(number))

    def on_anew(self, row: MembershipRow) -> None:
        if row.service == STRONG:
            self._of((row.group, row.process, row.incarnation)).waiting.clear()

    def on_end(self, row: MembershipRow) -> None:
        self.ends[row.process, row.incarnation] = time_of(row)

    def conclude(self) -> None:
        for member, position, number in self.returns:
            if (*member, number) in self.delivered:
                message = message_name(*member[1:], number)
                self.report(*member, position, message, f"{message} was returned, and delivered too.")
        self.returns.clear()
        for member, hopes in self.senders.items():
            time, clock = self.ends.get(member[1:], (0, ""))
            for number, hope in hopes.waiting.items() if member[1:] in self.ends else ():
                entered, entered_clock = hope.entered or (0, "never")
                if entered_clock == clock and entered <= time - SETTLING_NANOSECONDS:
                    self._judge(member, number, hope)

    def _judge(self, member: Member, number: int, hope: Hope) -> None:
        if hope.is_lost:
            message = message_name(*member[1:], number)
            wrong = "its sender never heard it there" if hope.fulfilled else "it was not returned"
            self.report(*member, hope.position, message, f"{message} was sent for {hope.agreed}, but {wrong}.")

    def _of(self, member: Member) -> Hopes:
        hopes = self.senders.get(member)
        if hopes is None:
            hopes = self.senders[member] = Hopes()
        return hopes
