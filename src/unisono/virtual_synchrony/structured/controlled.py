"""One group at a controller: it takes part in the algorithm as a strong group does, and its application is its clients.

What the group would hand to an application goes down to the clients; what they send comes up and is sent for them. They
are asked to finish before the controller answers its block, so that what they sent in a view is sent in it.
"""

from __future__ import annotations

from msgspec.structs import replace

from unisono.engine import Address, BlockOk, Channel, Deliver, Effect, Fact, Join, Leave, Note, Send, SendFrame
from unisono.events import Block, DroppedOut, Event, Left, Message, SendAccepted, SendRefused, View
from unisono.identity import ProcessId, ViewId
from unisono.settings import Settings
from unisono.virtual_synchrony.reasons import Reason
from unisono.virtual_synchrony.session.context import Context
from unisono.virtual_synchrony.session.group import StrongGroup
from unisono.virtual_synchrony.session.phases import Resumption
from unisono.virtual_synchrony.session.relaying import wrap
from unisono.virtual_synchrony.session.view import SessionView
from unisono.virtual_synchrony.structured.attendants import Attendants, Place
from unisono.wire.controller_frames import Downward, Enter, Ready, Sent, Took, Upward
from unisono.wire.server_frames import Charge, Charges, Departure, write_server_frame


def controller_settings(settings: Settings) -> Settings:
    """How a controller takes part: its clients are asked to finish, and have time for that."""
    return replace(
        settings,
        semantics="strong",
        block="ask",
        block_timeout=settings.block_timeout + settings.server_timeout,
        optimistic=False,
        event_limit=1 << 30,
        trace=False,
    )


class ControlledGroup:
    """A strong group whose application is the clients of this controller.

    `added`, by their entries, and `removed` are what the servers are to be told of its clients.
    """

    __slots__ = (
        "_asked",
        "_engine",
        "_last_ticket",
        "_limit",
        "_members",
        "_name",
        "_process",
        "_tickets",
        "added",
        "attendants",
        "certain",
        "removed",
        "seen",
        "settings",
    )

    def __init__(self, context: Context, resumption: Resumption) -> None:
        self._name = context.group
        self._process = context.process
        self._engine = StrongGroup(context, resumption)
        self._limit = context.settings.receive_buffer_bytes
        self._asked = False
        """The clients were asked to finish, and the group waits for it."""
        self._last_ticket = 0
        self._tickets: dict[int, tuple[Place, int, int]] = {}
        """Whose message, with which number, and how large each send is."""
        self._members: tuple[ProcessId, ...] = ()
        self.settings = context.settings
        self.certain = True
        self.attendants = Attendants()
        self.added: dict[ProcessId, int] = {}
        self.removed: dict[ProcessId, Departure] = {}
        self.seen = 0
        """The last start-change that any of its clients saw before it came."""

    # ── what the servers are told ──

    @property
    def outside(self) -> bool:
        return self._engine.outside

    @property
    def leaving(self) -> bool:
        return self._engine.leaving

    @property
    def number(self) -> int:
        return self._engine.number

    @property
    def view(self) -> SessionView | None:
        return self._engine.view

    @property
    def last_change(self) -> int:
        return self._engine.last_change

    @property
    def offered(self) -> ViewId | None:
        return self._engine.offered

    @property
    def accused(self) -> tuple[ProcessId, ...]:
        return self._engine.accused

    def take_changed_accusations(self) -> bool:
        return self._engine.take_changed_accusations()

    def locate(self, process: ProcessId, address: Address) -> None:
        self._engine.locate(process, address)

    def resumption(self) -> Resumption:
        resumption = self._engine.resumption()
        resumption.change = max(resumption.change, self.seen)
        return resumption

    def deadline(self) -> int | None:
        return self._engine.deadline()

    # ── clients ──

    def may_enter(self, process: ProcessId) -> bool:
        """Whether a client may begin a stay: not one who is in the view, or expected in the next, by an earlier one."""
        return not self.counts(process) and not self.outside and not self.leaving

    def counts(self, process: ProcessId) -> bool:
        """Whether a client of this controller is in the view or expected in the next."""
        views = (self._engine.view, self._engine.expected)
        return any(view is not None and view.voice(process) == self._process for view in views)

    def enter(self, enter: Enter, channel: Channel) -> None:
        process = enter.process
        assert process not in self.attendants.places, "who enters again has gone before"
        self.attendants.places[process] = Place(process, channel, enter.entry)
        self.added[process] = enter.entry
        self.seen = max(self.seen, enter.change)

    def take_changed_charges(self) -> Charges | None:
        """What the servers are to be told of its clients, if anything; when the last goes, so does the group."""
        if self.outside or self.leaving or not (self.added or self.removed):
            return None
        added = tuple(Charge(process, entry) for process, entry in self.added.items())
        removed = tuple(self.removed.items())
        self.added, self.removed = {}, {}
        return Charges(self._name, self.seen, added, removed)

    def all_charges(self) -> Charges:
        """All clients, for a server that knows of none."""
        self.added, self.removed = {}, {}
        places = self.attendants.places.values()
        return Charges(self._name, self.seen, tuple(Charge(place.process, place.entry) for place in places), ())

    def exit(self, process: ProcessId, why: Departure, now: int, wall: int) -> list[Effect]:
        """A client is gone; what it sent goes its way."""
        place = self.attendants.places.pop(process, None)
        if place is None:
            return []
        if self.added.pop(process, None) is None:
            self.removed[process] = why
        return self._answer_block(now, wall)

    def on_frame(self, place: Place, frame: Upward | Ready | Took, now: int, wall: int) -> list[Effect]:
        if isinstance(frame, Took):
            place.outstanding = max(0, place.outstanding - frame.size)
            return []
        view = self._engine.view
        if isinstance(frame, Ready):
            if view is not None and frame.change > view.id.start:  # else it is for the change that is over
                place.ready = True
            return self._answer_block(now, wall)
        if view is None or not place.in_view or place.ready or frame.view != view.id.start or self._engine.blocked:
            return self.dismiss(place, "a message came after its view had ended", now, wall)
        if len(frame.data) > self.settings.message_limit_bytes or place.waiting > self.settings.window_bytes:
            return self.dismiss(place, "it sends larger messages, or more of them, than it may", now, wall)
        self._last_ticket = ticket = self._last_ticket + 1
        self._tickets[ticket] = (place, frame.number, len(frame.data))
        place.waiting += len(frame.data)
        wrapped = wrap(place.process, frame.number, frame.timestamp, frame.data)
        return self._carry(self._engine.handle(Send(self._name, ticket, (wrapped,), proxy=True), now, wall), now, wall)

    def dismiss(self, place: Place, reason: str, now: int, wall: int, final: bool = False) -> list[Effect]:
        """Speak for a client no longer; unless this is final, it may come anew."""
        return [
            Note(Reason.SLOW_CHARGE),
            place.dismiss(self._name, reason, final),
            *self.exit(place.process, Departure.SUSPECTED, now, wall),
        ]

    # ── the group ──

    def join(self, now: int, wall: int) -> list[Effect]:
        join = Join(self._name, self.settings, "virtual_synchrony")
        return self._carry(self._engine.handle(join, now, wall), now, wall)

    def leave(self, now: int, wall: int) -> list[Effect]:
        """The last client is gone."""
        return self._carry(self._engine.handle(Leave(self._name), now, wall), now, wall)

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        return self._carry(self._engine.handle(fact, now, wall), now, wall)

    def on_start_change(self, change: int, expected: SessionView, now: int, wall: int) -> list[Effect]:
        effects = self.attendants.prepare(self._name, change, expected, self._process)
        return effects + self._carry(self._engine.on_start_change(change, expected, now, wall), now, wall)

    def on_new_view(self, view: ViewId, now: int, wall: int) -> list[Effect]:
        return self._carry(self._engine.on_new_view(view, now, wall), now, wall)

    def on_moved(self, now: int, wall: int) -> list[Effect]:
        return self._carry(self._engine.on_moved(now, wall), now, wall)

    def on_stopped(self, gap: int, now: int, wall: int) -> list[Effect]:
        self.certain = False
        return self._carry(self._engine.on_stopped(gap, now, wall), now, wall)

    def on_certain(self, now: int, wall: int) -> list[Effect]:
        self.certain = True
        return self._carry(self._engine.on_certain(now, wall), now, wall)

    def on_superseded(self, now: int, wall: int) -> list[Effect]:
        return self._carry(self._engine.on_superseded(now, wall), now, wall)

    def _carry(self, effects: list[Effect], now: int, wall: int) -> list[Effect]:
        """Pass on what the group does; what is for an application goes to the clients."""
        passed: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Deliver):
                self._engine.take(sum(isinstance(event, Message) for event in effect.events))
                for event in effect.events:
                    passed += self._on_event(event, now, wall)
            else:
                passed.append(effect)
        return passed + self._answer_block(now, wall)

    def _on_event(self, event: Event, now: int, wall: int) -> list[Effect]:
        if isinstance(event, Message):
            frame = Downward(self._name, event.source, event.number, event.timestamp, event.data)
            effects = self.attendants.send_down(write_server_frame(frame), len(event.data))
            for place in list(self.attendants.in_view()):
                if place.outstanding > self._limit:
                    effects += self.dismiss(place, "the application does not take what it is sent", now, wall)
            return effects
        if isinstance(event, View):
            return self._on_view(event, now, wall)
        if isinstance(event, SendAccepted):
            sender, number, size = self._tickets.pop(event.ticket)
            sender.waiting -= size
            there = self.attendants.places.get(sender.process) is sender
            return [SendFrame(sender.channel, write_server_frame(Sent(self._name, number)))] if there else []
        if isinstance(event, SendRefused):
            sender = self._tickets.pop(event.ticket)[0]
            there = self.attendants.places.get(sender.process) is sender
            return self.dismiss(sender, event.reason, now, wall) if there else []
        if isinstance(event, DroppedOut):
            self._asked = False
            places, final = list(self.attendants.places.values()), self._engine.misfit is not None
            return [effect for place in places for effect in self.dismiss(place, event.reason, now, wall, final)]
        if isinstance(event, Block):
            self._asked = True
        elif isinstance(event, Left):
            self._members = ()
        return []

    def _on_view(self, view: View, now: int, wall: int) -> list[Effect]:
        """Tell the clients in it that a view stands, after all that belongs before it; but not who has not finished."""
        self._asked = False
        along, members = set(view.transitional or ()), set(view.members)
        apart = tuple(member for member in self._members if member in members and member not in along)
        self._members = view.members
        installed = self._engine.view
        assert installed is not None, "it was just installed"
        effects: list[Effect] = []
        for place in list(self.attendants.places.values()):
            if installed.voice(place.process) == self._process:
                if place.in_view and not place.ready:
                    effects += self.dismiss(place, "it did not finish before the view changed", now, wall)
                else:
                    effects.append(place.install(self._name, view.id, apart))
            elif place.in_view:
                place.in_view = False
                effects += self.dismiss(place, "the servers do not count it any more", now, wall)
        return effects

    def _answer_block(self, now: int, wall: int) -> list[Effect]:
        """All clients have finished, and what they sent has left: the group may say its cut."""
        if not self._asked or self._tickets or not self.attendants.all_ready():
            return []
        self._asked = False
        return self._carry(self._engine.handle(BlockOk(self._name), now, wall), now, wall)
