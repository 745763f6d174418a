"""A mere receiver that lets others send for it (000 8): it asks one sender of its view at a time.

What it asks for it keeps until that has come back to it. Parts go in a session, in order; when the sender it asks is
gone, refuses or does not answer, the next session begins with everything that has not come back, at another one.
So what two senders sent is in order, wherever copies of it meet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from unisono.engine import Address
from unisono.events import SendAccepted, SendRefused
from unisono.identity import NAME_LIMIT_BYTES, ProcessId, ViewId
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.following import Following
from unisono.intergroup.reasons import Reason
from unisono.intergroup.repairing import Repairing
from unisono.reliable.step import Step
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES
from unisono.trace.schema import ProxyRow, body_hash
from unisono.wire.origins import ORIGIN_ROOM_BYTES
from unisono.wire.proxy_messages import BUSY, TAKEN, ProxyAnswer, ProxyRequest

PART_LIMIT = 32
"""So many parts may be on their way that nobody has said to have come."""
MESSAGE_LIMIT = 128
"""So many messages may be asked for that have not come back."""
AGAIN_LIMIT = 8
"""So many parts are sent again at once."""
TRIES = 6
"""After so many times without an answer another sender is asked."""
_HEAD_BYTES = NAME_LIMIT_BYTES + 96
"""What a request takes beside its payload, at the most."""


class Wanted:
    """A message that is to be sent, and has not come back."""

    __slots__ = ("number", "payload", "ticket")

    def __init__(self, number: int, payload: bytes) -> None:
        self.number = number
        self.payload = payload
        self.ticket: int | None = None


class Session:
    """What one sender is asked for: from which activation on it is followed, and how far it was asked."""

    __slots__ = (
        "address",
        "attempt",
        "carrier",
        "flight",
        "forgotten",
        "last",
        "number",
        "offset",
        "serial",
        "stretch",
        "view",
        "wanted",
    )

    def __init__(
        self, number: int, carrier: ProcessId, address: Address, attempt: int, stretch: int, view: ViewId | None
    ) -> None:
        self.number = number
        self.carrier = carrier
        self.address = address
        self.attempt = attempt
        self.stretch = stretch
        self.view = view
        self.serial = 0
        self.flight: deque[ProxyRequest] = deque()
        """Parts that were sent, and not said to have come."""
        self.last: ProxyRequest | None = None
        """The last part that was said to have come: sent again, it asks whether the sender lives."""
        self.forgotten = False
        """The sender knows less of this session than it did: it has lost it, as long as it says nothing else."""
        self.wanted = 0
        """The message that is cut next, and where."""
        self.offset = 0


class Asking:
    """What one process wants to be sent for it, in one group."""

    __slots__ = (
        "_asked_at",
        "_carrier",
        "_context",
        "_delivery",
        "_following",
        "_former_until",
        "_leaving",
        "_repairing",
        "_rest_until",
        "_session",
        "_shunned",
        "_tries",
        "_waiting",
        "bytes",
        "high_water",
        "last_number",
        "last_session",
    )

    def __init__(
        self,
        context: Context,
        delivery: Delivery,
        following: Following,
        repairing: Repairing,
        last_number: int,
        last_session: int,
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._following = following
        self._repairing = repairing
        self._waiting: deque[Wanted] = deque()
        self._session: Session | None = None
        self._carrier: ProcessId | None = None
        """Whom this process asked last."""
        self._shunned: dict[ProcessId, int] = {}
        """Who refused, or did not answer, and until when it is not asked again."""
        self._asked_at = 0
        self._rest_until = 0
        self._former_until = 0
        """So long another one waits until all have what the one before sent."""
        self._tries = 0
        self._leaving = False
        self.bytes = 0
        self.high_water = 0
        self.last_number = last_number
        self.last_session = last_session

    @property
    def all_taken(self) -> bool:
        """Nothing is left that no sender has said to have."""
        return not self._waiting

    def why_refuse(self, messages: Sequence[bytes], names: Sequence[str]) -> str | None:
        settings = self._context.settings
        if not settings.reliable and not self._context.changing:
            return (
                f'others send for receivers by "source" or "timestamp", and this one receives by "{settings.service}"'
            )
        if names:
            return "what another sends has no names; send it without, or as a sender"
        most = settings.message_limit_bytes - ORIGIN_ROOM_BYTES
        largest = max(map(len, messages), default=0)
        if largest > most:
            return f"a message of {largest} bytes is larger than message_limit_bytes allows by proxy ({most})"
        weight = sum(map(len, messages)) + MESSAGE_OVERHEAD_BYTES * len(messages)
        if self._waiting and self.bytes + weight > settings.send_queue_bytes:
            return f"more than send_queue_bytes ({settings.send_queue_bytes}) would wait; wait for earlier sends"
        return None

    def enqueue(self, step: Step, messages: Sequence[bytes], ticket: int) -> None:
        for payload in messages:
            self.last_number += 1
            self._waiting.append(Wanted(self.last_number, payload))
            self.bytes += len(payload) + MESSAGE_OVERHEAD_BYTES
            if step.tracing_messages:
                process = self._context.process
                step.record(
                    ProxyRow(
                        kind="ASKED",
                        origin=process.name,
                        origin_incarnation=process.incarnation,
                        number=self.last_number,
                        size=len(payload),
                        body=body_hash(payload),
                    )
                )
        self._waiting[-1].ticket = ticket
        self.high_water = max(self.high_water, self.bytes)

    def settle(self, step: Step) -> None:
        """After every fact: see what has come back and who can be asked, and go on."""
        if not self._waiting:
            return
        back = self._delivery.came_back
        while back is not None and self._waiting and self._waiting[0].number <= back.number:
            self._drop_first(step)
        if not self._waiting:
            self._end()
            return
        if self._session is not None and not self._leaving and not self._can_go_on(self._session):
            self._change(step)
        if self._session is None:
            self._choose(step)
        if self._session is not None:
            self._go_on(step, self._session)

    def leave(self, step: Step) -> None:
        """Stay until a sender has said that it has everything; if none is asked, nothing more is sent."""
        self._leaving = True
        if self._session is None or self._is_taken(self._session):
            self.give_up(step)

    def _is_taken(self, session: Session) -> bool:
        """Whether the sender said that it has everything."""
        return not session.flight and session.wanted > self.last_number

    def give_up(self, step: Step) -> None:
        """What waits is not sent; what was asked for already may be."""
        for wanted in self._waiting:
            if wanted.ticket is not None:
                step.deliver(SendRefused(wanted.ticket, Reason.NOT_MEMBER))
        self._waiting.clear()
        self.bytes = 0
        self._end()

    def on_answer(self, step: Step, source: ProcessId, message: ProxyAnswer) -> None:
        session = self._session
        if session is None or session.carrier != source or session.number != message.session:
            step.note(Reason.ANSWER_STALE)
            return
        if message.taken > session.serial:
            step.note(Reason.REPORT_AHEAD)
            return
        if session.last is not None and message.taken < session.last.serial and message.word == TAKEN:
            session.forgotten = True  # or an answer came late
            return
        session.forgotten = False
        while session.flight and session.flight[0].serial <= message.taken:
            session.last = session.flight.popleft()
        self._tries = 0
        self._asked_at = step.now
        if message.word != TAKEN:
            self._on_refused(step, session, message.word)
        elif self._leaving and self._is_taken(session):
            self.give_up(step)

    def on_time(self, step: Step) -> None:
        """Ask again, or another, when no answer came."""
        session = self._session
        if session is None or step.now < self._due(session):
            return
        if self._tries >= TRIES:
            if self._leaving:
                self.give_up(step)
                return
            if not session.forgotten:
                self._shunned[session.carrier] = step.now + 2 * self._context.settings.patience
            self._change(step)
            return
        self._tries += 1
        if session.flight:
            step.mark("proxy-asked-again")
        again = list(session.flight)[:AGAIN_LIMIT]
        if not again and session.last is not None:
            again = [session.last]
        self._tell(step, session, again)

    def _on_refused(self, step: Step, session: Session, word: int) -> None:
        step.mark("proxy-refused")
        first = session.flight[0] if session.flight else None
        nothing_there = first is not None and first.index == 0 and first.number == self._waiting[0].number
        if self._leaving and word != BUSY:
            self.give_up(step)
        elif word == BUSY and (not nothing_there or self._leaving):
            # what it has taken comes back soon, and a copy by another would be wasted
            self._rest_until = step.now + self._context.settings.keep_alive
            self._tries = 0
        else:
            self._shunned[session.carrier] = step.now + 2 * self._context.settings.keep_alive
            self._change(step)

    def _change(self, step: Step) -> None:
        step.mark("proxy-changed")
        self._former_until = step.now + self._context.settings.patience
        self._end()

    def _end(self) -> None:
        self._session = None
        self._tries = 0
        self._rest_until = 0
        self._context.deadlines.clear("asking")

    def _candidates(self) -> list[ProcessId]:
        """Senders whose messages this process delivers."""
        following, settings = self._following, self._context.settings
        if settings.service == "timestamp":
            ordered = following.ordered
            view = None if ordered is None else ordered.presented
            return [] if view is None else [member for member in sorted(view.members) if following.follows(member)]
        if not settings.reliable:
            return []
        return [
            source
            for source, stream in sorted(following.streams.items())
            if stream.ending is None and not stream.silent and not following.is_entering(source)
        ]

    def _can_go_on(self, session: Session) -> bool:
        """Whether all that the sender sends still comes here, from the first message of the session on."""
        stream = self._following.streams.get(session.carrier)
        if stream is None or stream.attempt != session.attempt or self._delivery.stretch != session.stretch:
            return False
        view = self._delivery.view
        if view is not None and view.id != session.view:
            session.view = view.id
            if view.transitional is not None and session.carrier not in view.transitional:
                return False
        return session.carrier in self._candidates()

    def _choose(self, step: Step) -> None:
        """Begin a session with the sender that was asked last, or with any other, if it can be asked now."""
        if self._leaving:
            self.give_up(step)
            return
        for carrier in [one for one, until in self._shunned.items() if until <= step.now]:
            del self._shunned[carrier]
        candidates = self._candidates()
        if not candidates:
            return
        free = [one for one in candidates if one not in self._shunned]
        if not free or self._waits_for_former(step, free):
            rest = self._context.settings.keep_alive // 2
            self._context.deadlines.set("asking", step.now + rest)
            return
        place = int(len(free) * self._context.randomness.random())
        carrier = self._carrier if self._carrier in free else free[place]
        stream = self._following.streams[carrier]
        view = self._delivery.view
        self.last_session += 1
        self._carrier = carrier
        self._session = Session(
            self.last_session,
            carrier,
            stream.address,
            stream.attempt,
            self._delivery.stretch,
            None if view is None else view.id,
        )
        self._session.wanted = self._waiting[0].number
        self._asked_at = step.now

    def _waits_for_former(self, step: Step, free: Sequence[ProcessId]) -> bool:
        """Nothing orders two sources: under source order all must have what one sent before another goes on."""
        back = self._delivery.came_back
        if back is None or self._context.settings.service == "timestamp" or self._carrier in free:
            return False
        if step.now >= self._former_until:
            return False
        return self._following.follows(back.carrier) and self._repairing.holds(back.carrier, back.sequence)

    def _go_on(self, step: Step, session: Session) -> None:
        """Ask for as much as may be on its way."""
        session.wanted, session.offset = (
            (session.wanted, session.offset)
            if session.wanted >= self._waiting[0].number
            else (self._waiting[0].number, 0)
        )
        if step.now < self._rest_until:
            self._context.deadlines.set("asking", self._rest_until)
            return
        requests: list[ProxyRequest] = []
        while len(session.flight) < PART_LIMIT and (request := self._next_part(step, session)) is not None:
            session.flight.append(request)
            requests.append(request)
        if requests:
            if len(session.flight) == len(requests):
                self._asked_at = step.now
            self._tell(step, session, requests)
        self._context.deadlines.set("asking", self._due(session))

    def _next_part(self, step: Step, session: Session) -> ProxyRequest | None:
        place = session.wanted - self._waiting[0].number
        if place >= len(self._waiting) or (place >= MESSAGE_LIMIT and not self._leaving):
            return None
        room = self._context.writer.control_room - _HEAD_BYTES
        wanted = self._waiting[place]
        count = max(1, -(-len(wanted.payload) // room))
        session.serial += 1
        request = ProxyRequest(
            session.carrier,
            session.number,
            session.serial,
            wanted.number,
            session.offset,
            count,
            self._context.clock.last,
            wanted.payload[session.offset * room : (session.offset + 1) * room],
        )
        session.offset += 1
        if session.offset == count:
            session.wanted, session.offset = wanted.number + 1, 0
            self._accept(step, wanted)
        return request

    def _tell(self, step: Step, session: Session, requests: Sequence[ProxyRequest]) -> None:
        for datagram in self._context.writer.control(requests):
            step.send(session.address, datagram, self._context.settings.scope)
        self._context.deadlines.set("asking", self._due(session))

    def _due(self, session: Session) -> int:
        """When to ask again: soon for what may be lost, later for what the sender has and has not sent yet."""
        keep_alive = self._context.settings.keep_alive
        if not session.flight:
            return self._asked_at + (self._tries + 1) * keep_alive
        wait = keep_alive // 4
        return max(self._asked_at + sum(wait << min(tries, 2) for tries in range(self._tries + 1)), self._rest_until)

    def _accept(self, step: Step, wanted: Wanted) -> None:
        """All of it has left this process."""
        if wanted.ticket is not None:
            step.deliver(SendAccepted(wanted.ticket))
            wanted.ticket = None

    def _drop_first(self, step: Step) -> None:
        """It has come back, so that all who are here have it, or will."""
        wanted = self._waiting.popleft()
        self.bytes -= len(wanted.payload) + MESSAGE_OVERHEAD_BYTES
        self._accept(step, wanted)
