"""The streams of all members in one view: what came, what everybody has, what is asked for and answered.

This is the reliable core below the algorithm (002 3.2): negative acknowledgements for what is missing, stable cuts for
what was delivered (002 5.9), and repairs by whoever holds a datagram.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from unisono.identity import ProcessId, ViewMark
from unisono.reliable.step import Step, repair_row
from unisono.reliable.suppression import Wait
from unisono.virtual_synchrony.reasons import Reason
from unisono.virtual_synchrony.session.context import Context
from unisono.virtual_synchrony.session.incoming import NO_BOUND, Incoming
from unisono.virtual_synchrony.session.outgoing import OwnStream
from unisono.virtual_synchrony.session.view import SessionView
from unisono.wire.messages import DataPacket
from unisono.wire.session_messages import SESSION_RANGE_LIMIT, Count, SessionRequest, StableCut

ANSWER_BYTES = 1 << 16
"""So much is repaired at once for one request; more is asked for again."""
FORWARD_BYTES = 1 << 20
"""So much is forwarded at once of one member that is gone; more is asked for."""
REMEMBERED_REPAIRS = 4096
"""Of so many datagrams it is known when they were repaired: fewer, and many who lack the same get it one by one."""
COUNT_BYTES = 14
"""A member's place and its sequence in a cut, at most."""
STABLE_BYTES = 1 << 14
"""After so many bytes a member tells what it has delivered, whatever `stable_after` says."""

Ask = Callable[[ProcessId, int], ProcessId]
"""Whom to ask for what a source sent, when it was asked for so often before."""


class Streams:
    """One view's streams at one member, its own among them."""

    __slots__ = ("_context", "_floors", "_repaired", "_rows", "_unsaid", "_unsaid_bytes", "incoming", "own", "view")

    def __init__(self, context: Context, view: SessionView, own: OwnStream) -> None:
        self._context = context
        self.view = view
        self.own = own
        self.incoming: dict[ProcessId, Incoming] = {
            member: Incoming(member, context.settings) for member in view.participants if member != context.process
        }
        self._rows: dict[ProcessId, dict[int, int]] = {member: {} for member in self.incoming}
        """The stability matrix: what each member has said that it delivered, of the member with each seat."""
        self._floors: dict[int, int] = {}
        """What everybody has delivered, by seat."""
        self._unsaid = 0
        self._unsaid_bytes = 0
        self._repaired: dict[tuple[ProcessId, int], tuple[int, ProcessId | None]] = {}

    @property
    def mark(self) -> ViewMark:
        return self.view.mark

    # ── what comes ──

    def take_in(self, step: Step, packet: DataPacket) -> Incoming | None:
        """Data of a member of this view; the stream that has something new, if any."""
        stream = self.incoming.get(packet.source)
        if stream is None:
            step.note(Reason.NOT_A_MEMBER)
            return None
        missing = bool(stream.gaps)
        asked = stream.gaps.tickets.asked_at(packet.messages[0].sequence) if missing else None
        new = stream.take_in(packet, step.now + self._context.settings.request_delay)
        stream.holding.release(packet.stable)
        if not new:
            step.note(Reason.DUPLICATE)
            return None
        if asked is not None:
            self._context.learn_answer_time(step.now - asked)
        if stream.gaps and not missing:
            step.mark("gap")
        return stream

    def on_standing(self, step: Step, source: ProcessId, sequence: int, stable: int) -> None:
        """A member says that it is in this view, how far it has sent, and how far it knows all to have delivered."""
        stream = self.incoming.get(source)
        if stream is None:
            return
        stream.started = True
        if stream.expect(sequence, step.now + self._context.settings.request_delay):
            step.mark("gap-at-the-end")
        if stable < stream.delivered:  # what this process said of it may be lost
            self._context.deadlines.advance("stable", step.now + self._context.settings.report_interval)

    # ── what everybody has ──

    def on_delivered(self, step: Step, count: int, size: int) -> None:
        """So many messages were delivered here, and the others do not know it yet."""
        self._unsaid += count
        self._unsaid_bytes += size
        if self._unsaid >= self._context.settings.stable_after or self._unsaid_bytes >= STABLE_BYTES:
            self.say_delivered(step)
        elif self._unsaid == count and count:
            self._context.deadlines.advance("stable", step.now + self._context.settings.report_interval)

    def say_delivered(self, step: Step) -> None:
        """Tell all what was delivered here (a stable cut)."""
        self._unsaid = self._unsaid_bytes = 0
        self._context.deadlines.clear("stable")
        counts = [
            (self.view.seats[source], stream.delivered) for source, stream in self.incoming.items() if stream.delivered
        ]
        self._context.broadcast(step, [StableCut(self.mark, part) for part in parted(self._context, counts)])
        self._settle(step, (seat for seat, _ in counts))

    def on_stable_cut(self, step: Step, source: ProcessId, cut: StableCut) -> int | None:
        """What a member delivered; how far all have what this process sent, if that has grown."""
        row = self._rows.get(source)
        if row is None:
            return None
        grown: list[int] = []
        for seat, count in cut.counts:
            if seat < len(self.view.participants) and count > row.get(seat, 0):
                before = row.get(seat, 0)
                row[seat] = count
                if before <= self._floors.get(seat, 0):
                    grown.append(seat)
        return self._settle(step, grown)

    def _settle(self, step: Step, seats: Iterable[int]) -> int | None:
        """Release what everybody has delivered of these; how far that is for the own stream, if it has grown."""
        own = None
        for seat in seats:
            member = self.view.participants[seat]
            floor = min((row.get(seat, 0) for other, row in self._rows.items() if other != member), default=NO_BOUND)
            if member == self._context.process:
                floor = min(floor, self.own.sequence)
            else:
                floor = min(floor, self.incoming[member].delivered)
            if floor <= self._floors.get(seat, 0):
                continue
            self._floors[seat] = floor
            if member == self._context.process:
                own = floor
            else:
                self.incoming[member].holding.release(floor)
        return own

    def own_floor(self) -> int:
        """How far everybody has delivered what this process sent in the view."""
        if not self._rows:
            return self.own.sequence
        return self._floors.get(self.view.seats[self._context.process], 0)

    def laggards(self) -> list[ProcessId]:
        """Who has not delivered what this process sent first of all that is kept."""
        first, seat = self.own.window.first, self.view.seats[self._context.process]
        if first is None:
            return []
        return [member for member, row in self._rows.items() if row.get(seat, 0) < first]

    # ── what is missing ──

    def ask(self, step: Step, whom: Ask) -> None:
        """Ask for what is due to be asked for."""
        settings = self._context.settings
        for source, stream in self.incoming.items():
            due = stream.next_due(step.now)
            if due is None or due > step.now:
                continue
            ranges, tries = stream.gaps.tickets.request(step.now, self._wait, SESSION_RANGE_LIMIT, stream.horizon)
            if tries:
                step.mark("repair-asked-again")
            most = min(len(ranges), self._context.writer.range_room)
            target = whom(source, tries)
            self._context.tell(step, target, SessionRequest(self.mark, source, tuple(ranges[:most])))
            for first, last in ranges[:most] if settings.trace else ():
                step.record(repair_row("RTR", source, first, last, target.name))

    def next_due(self, now: int) -> int | None:
        """When to ask next."""
        dues = [due for stream in self.incoming.values() if (due := stream.next_due(now)) is not None]
        return min(dues, default=None)

    def _wait(self, tries: int) -> Wait:
        """The time for an answer, longer with every try, and not at the same moment as others."""
        answer = self._context.answer_time
        quiet = min((answer + answer // 2) << min(tries, 8), max(self._context.settings.request_limit, answer))
        return Wait(quiet // 2, quiet + int(quiet * self._context.randomness.random() / 2))

    def answer(self, step: Step, asker: ProcessId, request: SessionRequest) -> None:
        """Repair what a member lacks, as far as it is held here."""
        found = self.find(request.target, list(request.ranges), ANSWER_BYTES)
        if not found:
            step.note(Reason.NOT_HELD)
        for first, last, datagram in found:
            self.repair(step, request.target, first, last, datagram, asker, "RTX")

    def find(self, source: ProcessId, ranges: list[tuple[int, int]], most: int) -> list[tuple[int, int, bytes]]:
        """Datagrams of a source that are held here, at most so many bytes."""
        if source == self._context.process:
            return self.own.window.find(ranges, most)
        stream = self.incoming.get(source)
        if stream is None:
            return []
        found: list[tuple[int, int, bytes]] = []
        size = 0
        for held in stream.holding.find(ranges):
            size += len(held[2])
            if found and size > most:
                break
            found.append(held)
        return found

    def repair(
        self, step: Step, source: ProcessId, first: int, last: int, datagram: bytes, to: ProcessId | None, kind: str
    ) -> None:
        """Send a datagram again, to one member or to all; to all where another has just asked for the same."""
        key, settings = (source, first), self._context.settings
        at, before = self._repaired.pop(key, (0, to))
        recently = step.now - at < settings.forward_timeout and at > 0
        if recently and before is None and step.now - at < settings.forward_timeout // 4:
            self._repaired[key] = (at, None)
            return  # everybody was sent it a moment ago
        if recently and before != to:
            to = None
        self._repaired[key] = (step.now, to)
        while len(self._repaired) > REMEMBERED_REPAIRS:
            del self._repaired[next(iter(self._repaired))]
        address = self._context.multicast if to is None else self._context.addresses.get(to, self._context.multicast)
        step.send(address, self._context.writer.repair(datagram), settings.scope)
        step.record(repair_row(kind, source, first, last, None if to is None else to.name))


def parted(context: Context, counts: list[Count]) -> list[tuple[Count, ...]]:
    """Counts in parts that each fit a datagram; one empty part where there are none."""
    room = max(1, (context.writer.control_room - 64) // COUNT_BYTES)
    return [tuple(counts[at : at + room]) for at in range(0, len(counts), room)] or [()]
