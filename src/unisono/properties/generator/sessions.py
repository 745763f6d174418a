"""Traces of sessions that keep every promise, sampled from the statements: views change by rounds of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.properties.generator.session_parts import SECOND, Life, Seat, SessionRows, View
from unisono.properties.promises import SETTLING_NANOSECONDS, STRONG, WEAK
from unisono.trace.schema import AnyRow, GaugeRow, MembershipRow, Reason, Start, ViewRow

if TYPE_CHECKING:
    from random import Random

CLIENTS = ("ada", "ben", "cleo", "dora", "emil")
SERVERS = ("server:0", "server:1")
CALM = 12 * SECOND
"""Long enough for the end to be judged."""


def good_session_trace(random: Random, events: int = 30) -> list[AnyRow]:
    """The rows of one run of sessions in which every property holds."""
    run = SessionRun(random, CLIENTS[: random.randint(2, len(CLIENTS))])
    run.play(events)
    run.settle()
    return run.rows


class SessionRun(SessionRows):
    """A run of clients in strong groups and weak ones, under a few servers."""

    def __init__(self, random: Random, names: tuple[str, ...]) -> None:
        super().__init__(random)
        self.names = names
        self.groups = {"hall": STRONG}
        if random.random() < 0.4:
            self.groups["yard"] = WEAK
        self.servers = [Life(name, random.getrandbits(30), random.randrange(SECOND)) for name in SERVERS]
        self.lives: dict[str, Life] = {}
        self.round = random.randrange(1, 100)
        self.side: list[str] = []
        """Who is cut off from the rest, and whether servers are there, too."""
        self.side_is_served = False

    def play(self, events: int) -> None:
        for server in self.servers:
            self.write(MembershipRow, "START", server)
        for name in self.names:
            self.begin(name)
        self.change_all()
        self.fault("load", "begin")
        acts = {self.talk: 12, self.hear: 8, self.change_all: 2, self.come_or_go: 2, self.crash: 1, self.split: 1}
        acts |= {self.lose_controller: 1, self.tell: 1}
        for _ in range(events):
            self.advance()
            self.random.choices(list(acts), list(acts.values()))[0]()
        self.fault("load", "end")

    def seats(self, group: str | None = None) -> list[Seat]:
        """Everybody who lives and is in a group, or in any."""
        everybody = [seat for life in self.lives.values() for seat in life.seats]
        return [seat for seat in everybody if seat.active and group in (None, seat.group)]

    def begin(self, name: str) -> None:
        before = self.lives[name].incarnation if name in self.lives else self.random.getrandbits(30)
        life = Life(name, before + 1 + self.random.getrandbits(8), self.random.randrange(SECOND))
        life.structured = self.random.random() < 0.2
        self.lives[name] = life
        self.write(MembershipRow, "START", life)
        for group, service in self.groups.items():
            seat = Seat(life, group, service)
            life.seats.append(seat)
            self.note(MembershipRow, "JOIN", seat)

    def talk(self) -> None:
        """Somebody sends."""
        seats = [seat for seat in self.seats() if seat.view is not None and not seat.blocked]
        if seats:
            self.say(self.random.choice(seats))

    def say(self, seat: Seat) -> None:
        assert seat.view is not None, "who sends has a view"
        message = self.send(seat)
        if seat.service == STRONG:
            seat.view.streams[seat].append(message)
        else:
            seat.stay.append(message)

    def hear(self) -> None:
        """Somebody delivers some of what it lacks."""
        seats = [seat for seat in self.seats() if seat.view is not None]
        if seats:
            seat = self.random.choice(seats)
            for source in list(seat.got) if seat.service == WEAK else seat.view.streams if seat.view else ():
                if self.random.random() < 0.6:
                    self.hear_some(seat, source)

    def hear_some(self, seat: Seat, source: Seat, everything: bool = False) -> None:
        if seat.service == WEAK:
            due = [message for message in source.stay if message.number >= seat.got[source]]
            for message in due if everything else due[: self.random.randint(0, len(due))]:
                seat.got[source] = message.number + 1
                self.deliver(seat, source, message)
        elif not seat.blocked or everything:
            lacking = len(seat.lacks(source))
            more = lacking if everything else self.random.randint(0, lacking)
            self.deliver_up_to(seat, source, seat.got.get(source, 0) + more)

    def tell(self) -> None:
        if self.seats():
            seat = self.random.choice(self.seats())
            self.note(GaugeRow, "GAUGE", seat, name="window", value=self.random.randrange(8), cap=8)
            others = [] if seat.view is None else [one for one in seat.view.members if one is not seat]
            for source in others[:1]:
                self.repair("RTR", seat, source, 1)
                if source in self.seats(seat.group):
                    self.repair("RTX", source, source, 1)
                self.repair("FORWARD", seat, source, 1)

    def come_or_go(self) -> None:
        """Somebody leaves, or comes back."""
        seat = self.random.choice([seat for life in self.lives.values() for seat in life.seats])
        if not seat.life.alive:
            return
        if seat.inside and len(self.seats(seat.group)) > 2:
            self.note(MembershipRow, "LEAVE", seat)
            seat.inside = False
            self.leave_view(seat)
        elif not seat.inside:
            seat.inside = True
            seat.stretch += 1
            self.note(MembershipRow, "JOIN", seat)
        self.change(seat.group)

    def leave_view(self, seat: Seat) -> None:
        """A client has no view any more, and nothing to go on from."""
        seat.view = seat.coming = None
        seat.blocked = False
        seat.sequence = 0
        seat.hoped.clear()
        seat.got.clear()
        seat.stay = []

    def lose_controller(self) -> None:
        """A structured client begins anew."""
        seats = [seat for seat in self.seats() if seat.life.structured and seat.service == STRONG]
        if seats:
            seat = self.random.choice(seats)
            self.note(MembershipRow, "EXCLUDED", seat)
            self.leave_view(seat)
            seat.stretch += 1
            self.change(seat.group)

    def crash(self) -> None:
        name = self.random.choice(self.names)
        if self.lives[name].alive and len([one for one in self.lives.values() if one.alive]) > 2:
            self.lives[name].alive = False
            self.write(MembershipRow, "CRASH", self.lives[name])
        elif not self.lives[name].alive:
            self.begin(name)
        self.change_all()

    def split(self) -> None:
        """The group falls apart, or comes together again."""
        if self.side:
            self.fault("partition", "end", *self.side)
            self.side = []
        else:
            names = list(self.random.sample(self.names, self.random.randint(1, len(self.names) - 1)))
            self.side_is_served = self.random.random() < 0.6
            self.side = [*names, *([SERVERS[1]] if self.side_is_served else [])]
            self.fault("partition", "begin", *self.side)
        self.change_all()

    def change_all(self) -> None:
        for group in self.groups:
            self.change(group)

    def change(self, group: str) -> None:
        """Every part of the group that has a server gets a view of those who are in it."""
        rest = [seat for seat in self.seats(group) if seat.life.name not in self.side]
        apart = [seat for seat in self.seats(group) if seat.life.name in self.side]
        for part in [rest, *([apart] if self.side_is_served else [])]:
            if part and self.groups[group] == WEAK:
                self.change_weak(part)
            elif part:
                self.change_strong(part)

    def new_view(self, members: list[Seat]) -> View:
        self.round += self.random.randint(1, 3)
        leader, digest = self.servers[0], self.random.getrandbits(20)
        words = f"{self.round}/{leader.name}~{leader.incarnation:x}/{digest}"
        return View(words, self.round, leader, digest, list(members))

    def change_weak(self, members: list[Seat]) -> None:
        """One change: perhaps somebody skips a view in which others speak."""
        late, *others = self.random.sample(members, len(members))
        if others and self.random.random() < 0.5:
            for source in late.got:
                self.hear_some(late, source)
            self.install_weak(self.new_view(members), others)
            for seat in others:
                self.say(seat)
        self.install_weak(self.new_view(members), members)

    def install_weak(self, view: View, members: list[Seat]) -> None:
        """Who skipped a view of a source may never hear what that sent until now."""
        before = {seat: seat.view for seat in view.members}
        for seat in members:
            known = [one for one in view.members if before[one] is before[seat] or self.random.random() < 0.3]
            got = {source: seat.got[source] for source in known if source in seat.got}
            seat.got = {source: got.get(source, source.number + 1) for source in view.members}
            self.write_view(seat, view, None, None)

    def change_strong(self, members: list[Seat]) -> None:
        """One change: perhaps overtaken by another one, perhaps skipped by some."""
        view = self.new_view(members)
        cuts: dict[Seat, dict[Seat, int]] = {}
        for seat in self.random.sample(members, len(members)):
            self.start_change(seat, view)
            if seat.view is not None:
                self.block(seat, view)
                cuts[seat] = self.cut(seat, view)
        fate = self.random.random()
        if fate < 0.15 and len(members) > 2 and members[-1].life.alive:
            members[-1].life.alive = False
            self.write(MembershipRow, "CRASH", members[-1].life)
        if fate < 0.25:
            self.change_strong([seat for seat in members if seat.active])
            return
        skipping = members[:1] if fate < 0.4 and len(members) > 1 else []
        self.install(view, cuts, [seat for seat in members if seat not in skipping])
        if skipping:
            self.change_strong(members)

    def start_change(self, seat: Seat, view: View) -> None:
        """A client hears that its view is about to change; what it hoped for before does not come."""
        if self.random.random() < 0.5:
            self.give_back(seat)
        absent = [life.member for life in self.lives.values() if self.random.random() < 0.1]
        expected = {seat.life.member: None for seat in view.members} | dict.fromkeys(absent)
        self.note(MembershipRow, "START_CHANGE", seat, number=view.round, members=list(expected))
        if seat.hoped:
            self.give_back(seat)
        seat.coming = view

    def block(self, seat: Seat, view: View) -> None:
        """A client finishes its view, and goes on for the next one."""
        if not seat.blocked:
            self.note(MembershipRow, "BLOCK", seat, number=view.round)
            if self.random.random() < 0.3:
                self.say(seat)
            self.note(MembershipRow, "BLOCK_OK", seat, number=view.round, reason="application")
            seat.blocked = True
        for _ in range(self.random.choice((0, 0, 1, 2))):
            seat.hoped.append(self.send(seat, view))

    def cut(self, seat: Seat, view: View) -> dict[Seat, int]:
        """How many messages of each stream of its view a client has, and tells that it has."""
        assert seat.view is not None, "who tells a cut has a view"
        has: dict[Seat, int] = {}
        for source, stream in seat.view.streams.items():
            got = seat.got.get(source, 0)
            has[source] = len(stream) if source is seat else self.random.randint(got, len(stream))
        for source in seat.view.members if not seat.life.structured else ():
            count = has.get(source, 0)
            last = seat.view.streams[source][count - 1].sequence if count else 0
            self.repair("CUT", seat, source, last, peer=str(view.round))
        return has

    def install(self, view: View, cuts: dict[Seat, dict[Seat, int]], members: list[Seat]) -> None:
        """Everybody delivers what those who come along have, and installs the view."""
        before = {seat: seat.view for seat in view.members}
        for seat in members:
            told = {"number": view.round}
            self.note(MembershipRow, "NEW_VIEW", seat, **told)
            self.note(MembershipRow, "SYNCHRONIZED", seat, **told)
            along = [one for one in view.members if one is seat or (before[one] is before[seat] is not None)]
            for source in [] if seat.view is None else list(seat.view.streams):
                self.deliver_up_to(seat, source, max(cuts[one].get(source, 0) for one in along))
            view.streams[seat] = []
            self.write_view(seat, view, along, view.round, self.farewells(seat, view))
            view.streams[seat].extend(seat.hoped)
            seat.sequence = seat.hoped[-1].sequence if seat.hoped else 0
            seat.hoped.clear()
            seat.got.clear()
            seat.blocked = False
            seat.coming = None

    def farewells(self, seat: Seat, view: View) -> list[Reason]:
        """Who of the view before left after all that this one has of it."""
        streams = {} if seat.view is None else seat.view.streams
        return [
            Reason(source.life.name, source.life.incarnation, "left")
            for source in streams
            if source not in view.members and not source.inside and not seat.lacks(source)
        ]

    def write_view(
        self, seat: Seat, view: View, along: list[Seat] | None, change: int | None, reasons: list[Reason] | None = None
    ) -> None:
        previous = None if seat.view is None else seat.view.words
        seat.view, seat.index = view, 0
        self.note(
            ViewRow,
            "VIEW",
            seat,
            start_time=view.round,
            leader=view.leader.name,
            leader_incarnation=view.leader.incarnation,
            leader_sequence=view.digest,
            previous=previous,
            role="sender",
            start=[Start(one.life.name, one.life.incarnation, 1, 0) for one in view.members],
            transitional=None if along is None else [one.life.member for one in along],
            reasons=reasons or [],
            change=change,
        )

    def settle(self) -> None:
        """Faults end, but for one that may last; a last view; everything is delivered and released."""
        if self.side:
            self.fault("partition", "end", *self.side)
            self.side = []
        fate = self.random.random()
        if fate < 0.15 and len(self.lives) > 2:
            self.side, self.side_is_served = [self.names[0]], False
        self.change_all()
        if fate > 0.9:
            self.side = list(SERVERS)
        if self.side:
            self.fault("partition", "begin", *self.side)
        self.fault("heal", "end")
        together = [seat for seat in self.seats() if seat.life.name not in self.side]
        for _ in range(self.random.randint(0, 4) if together else 0):
            self.say(self.random.choice(together))
        for seat in [seat for seat in self.seats() if seat.view is not None]:
            for source in list(seat.got) if seat.service == WEAK else list(seat.view.streams if seat.view else ()):
                if source is seat or (source in together and seat in together):
                    self.hear_some(seat, source, everything=True)
        for seat in [seat for seat in together if seat.sequence]:
            self.repair("GC", seat, seat, seat.sequence)
        self.truth += self.random.choice((SETTLING_NANOSECONDS // 2, CALM))
        for life in [*self.lives.values(), *self.servers]:
            if life.alive:
                self.write(MembershipRow, "END", life)
