"""The run so far, and the steps that a sampled trace may take next.

All choices come from the generator that is passed in: an equal state gives an equal trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unisono.properties.generator.order import begins_above, next_in_order, ready
from unisono.properties.generator.population import TIMED, Life, Member, Message
from unisono.properties.promises import CLOCK_HELD
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    GaugeRow,
    MembershipRow,
    Reason,
    RepairRow,
    SendRow,
    ViewRow,
)

if TYPE_CHECKING:
    from random import Random

SECOND = 1_000_000_000
NAMES = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
PACES = (SECOND // 20, SECOND // 2, 2 * SECOND)
QUIET_LIMIT = 6 * SECOND
LATE_PACE = SECOND // 50
SERVICES = {"RSO": 6, "RTO": 7, "UU": 2, "USO": 1, "UTO": 1, "ALF": 1}


class Sampler:
    """The run so far, and the steps that it may take next."""

    def __init__(self, random: Random, names: tuple[str, ...], groups: tuple[str, ...]) -> None:
        self.random = random
        self.names = names
        self.groups = groups
        self.rows: list[AnyRow] = []
        self.truth = random.randrange(SECOND)
        self.pace = random.choice(PACES)
        self.quiet_since = self.truth
        self.outside = Life("", 0, 0)
        self.lives: dict[str, Life] = {}
        self.everybody: list[Member] = []
        self.faults: list[list[str]] = []
        self.load = False

    def write(self, family: Any, kind: str, life: Life, group: str = "", **columns: Any) -> None:
        """Append one row of a life, now."""
        row = family(
            kind=kind,
            run="sampled",
            group=group,
            process=life.name,
            incarnation=life.incarnation,
            position=life.position,
            at=self.truth + life.offset,
            host=life.name,
            truth=self.truth,
            **columns,
        )
        life.position += 1
        self.rows.append(row)
        if kind == "VIEW" or (kind == "DELIVER" and row.source != row.process):
            self.quiet_since = self.truth

    def hear(self) -> None:
        """Everybody that lives hears how far the others' clocks are."""
        lives = [life for life in self.lives.values() if life.alive]
        sent = [message.timestamp for member in self.everybody for message in member.sent[-1:]]
        latest = max([*(life.clock for life in lives), *sent], default=0)
        for life in lives:
            life.clock = max(life.clock, latest)

    def note(self, family: Any, kind: str, member: Member, **columns: Any) -> None:
        """Append one row of a member, in its view and service."""
        place = {"view": member.view, "service": member.service, "stretch": member.stretch}
        self.write(family, kind, member.life, member.group, **place, **columns)

    def advance(self, pace: int) -> None:
        """Let time pass, with some progress in it where progress is due."""
        if self.progress_due() and self.truth - self.quiet_since > QUIET_LIMIT:
            members = [member for member in self.members() if member.ordered] or self.members()
            self.install(self.random.choice(members))
        self.truth += self.random.randrange(pace)
        if not self.progress_due():
            self.quiet_since = self.truth

    def progress_due(self) -> bool:
        cut_off = {name for fault in self.faults for name in fault}
        present = [
            name
            for name, life in self.lives.items()
            if life.alive and name not in cut_off and any(not member.left for member in life.members)
        ]
        return self.load and len(present) >= 2 and 2 * len(present) > len(self.lives)

    def members(self) -> list[Member]:
        """Every member that lives and has not left."""
        return [member for life in self.lives.values() for member in life.members if member.active]

    def one(self, candidates: list[Any]) -> Any:
        return self.random.choice(candidates) if candidates else None

    def begin(self, name: str) -> None:
        """A process starts, or starts again, and joins some groups."""
        before = self.lives[name].incarnation if name in self.lives else self.random.getrandbits(40)
        across = "everything" if len(self.groups) > 1 and self.random.random() < 0.7 else None
        offset = self.random.randrange(-SECOND, SECOND)
        life = Life(name, before + 2 + self.random.getrandbits(20), offset, across)
        self.lives[name] = life
        self.write(MembershipRow, "START", life)
        fewest = 1 if across is None else len(self.groups)
        for group in self.random.sample(self.groups, self.random.randint(fewest, len(self.groups))):
            member = Member(life, group, *self.choose_part(across))
            life.members.append(member)
            self.everybody.append(member)
            self.join(member)

    def choose_part(self, across: str | None) -> tuple[str, str]:
        """How a process takes part in a group: its service, and whose messages it wants."""
        service = "RTO" if across is not None and self.random.random() < 0.8 else self.choose_service()
        some = ",".join(self.random.sample(self.names, min(2, len(self.names))))
        return service, self.random.choices(("all", "once", some), (6, 1, 2))[0]

    def choose_service(self) -> str:
        return self.random.choices(list(SERVICES), list(SERVICES.values()))[0]

    def join(self, member: Member) -> None:
        """A member enters the group."""
        self.note(MembershipRow, "JOIN", member, reason=member.wants, across=member.across)
        if member.ordered:
            self.begin_alone(member)

    def begin_alone(self, member: Member) -> None:
        """The first view is of the member alone, where it listens to itself, from its next message on."""
        if member.listens_to_itself:
            member.due[member] = len(member.sent) + 1
        self.install(member)

    def install(self, member: Member, *reasons: Reason) -> None:
        """The member installs a view with the sources that it has now."""
        previous, life = member.view, member.life
        member.views += 1
        member.index = 0
        member.view = f"{self.truth}/{life.name}~{life.incarnation:x}/{member.views}"
        if member.service in TIMED:
            member.enter_order()
        self.note(
            ViewRow,
            "VIEW",
            member,
            start_time=self.truth,
            leader=life.name,
            leader_incarnation=life.incarnation,
            leader_sequence=member.views,
            previous=previous,
            role="sender" if member.sent else "receiver",
            start=[source.start_at(number) for source, number in member.due.items()],
            reasons=list(reasons),
        )

    def activate(self, member: Member, source: Member, number: int) -> None:
        """A spell begins: the source grants a start point and enters the view."""
        peer = {"peer": source.life.name, "peer_incarnation": source.life.incarnation}
        start = source.start_at(number)
        self.note(MembershipRow, "ACTIVATE", member, **peer)
        asker = {"peer": member.life.name, "peer_incarnation": member.life.incarnation}
        self.note(MembershipRow, "GRANT", source, sequence=start.sequence, number=number, **asker)
        source.counted.add(member)
        if member.service in TIMED and member.passed is not None:
            source.life.clock = max(source.life.clock, member.passed[0])
        member.due[source] = number
        self.install(member, Reason(source.life.name, source.life.incarnation, "activated"))

    def activation_point(self, member: Member, source: Member) -> int:
        """Where a spell may begin: after all that was delivered before, up to what comes next."""
        return self.random.randint(begins_above(member, source), len(source.sent) + 1)

    def deliver(self, member: Member, source: Member, message: Message) -> None:
        self.note(
            DeliverRow,
            "DELIVER",
            member,
            source=source.life.name,
            source_incarnation=source.life.incarnation,
            index=member.index,
            **message._asdict(),
        )
        member.index += 1
        life = member.life
        if not life.clock_held:
            life.clock = max(life.clock, message.timestamp)
        if member.service in TIMED:
            member.highest = member.enter_order().highest = source.key(message)
        if member.ordered:
            member.due[source] = member.lowest[source] = message.number + 1
        else:
            member.loose.setdefault(source, set()).add(message.number)

    def deliver_next(self, member: Member, source: Member) -> None:
        self.deliver(member, source, source.sent[member.due[source] - 1])

    def deliver_up_to(self, member: Member, source: Member) -> None:
        """The member gets all that a source of its view sent, in order with what else must come before."""
        self.hear()
        while member.due[source] <= len(source.sent):
            self.advance(1 + self.pace // 20)
            if member.service == "RTO":
                following = next_in_order(member)
                assert following is not None, "nothing is below what everybody heard of"
                self.deliver_next(*following[:2])
            else:
                self.deliver_next(member, source)

    def send(self) -> None:
        """A message leaves after protocol messages, in one to three fragments."""
        member = self.one(self.members())
        if member is not None:
            life = member.life
            life.clock = max(life.clock + 1, (self.truth + life.offset) // 1000 + SECOND)
            member.sequence += self.random.randrange(3) + self.random.randint(1, 3)
            size, body = self.random.randrange(2000), self.random.getrandbits(63)
            message = Message(len(member.sent) + 1, member.sequence, life.clock, size, body)
            member.sent.append(message)
            self.note(SendRow, "SEND", member, **message._asdict())

    def deliver_some(self) -> None:
        """A member delivers something that its service allows."""
        if self.random.random() < 0.7:
            self.hear()
        choices = [
            (member, source, number)
            for member in self.members()
            for source, number in ready(member, self.sources(member))
            if member.ordered or number + 4 > len(source.sent)
        ]
        choice = self.one(choices)
        if choice is not None:
            member, source, number = choice
            self.deliver(member, source, source.sent[number - 1])

    def sources(self, member: Member) -> list[Member]:
        """The members of the current lives in a member's group, itself included."""
        return [other for life in self.lives.values() for other in life.members if other.group == member.group]

    def meet(self) -> None:
        """An ordered member takes a source into its view."""
        pairs = [
            (member, source)
            for member in self.members()
            if member.ordered
            for source in self.sources(member)
            if source.active and source not in member.due
        ]
        pair = self.one(pairs)
        if pair is not None:
            member, source = pair
            self.activate(member, source, self.activation_point(member, source))

    def part(self) -> None:
        """A source drops out of a view."""
        pair = self.one([(member, source) for member in self.members() for source in member.due])
        if pair is not None:
            member, source = pair
            kind = self.random.choice(("LEFT_BEHIND", "UNAVAILABLE"))
            if kind == "LEFT_BEHIND" and source.active and member in source.counted:
                self.suspect(source, member)
            self.note(MembershipRow, kind, member, peer=source.life.name, peer_incarnation=source.life.incarnation)
            del member.due[source]
            source.counted.discard(member)
            self.install(member, Reason(source.life.name, source.life.incarnation, kind.lower()))

    def suspect(self, source: Member, member: Member) -> None:
        """A source no longer waits for a receiver."""
        peer = {"peer": member.life.name, "peer_incarnation": member.life.incarnation}
        self.note(MembershipRow, "SUSPECT", source, **peer)
        source.counted.discard(member)

    def leave_behind(self) -> None:
        """The receiver does not know it yet, and goes on."""
        pairs = [(source, member) for source in self.members() for member in source.counted]
        pair = self.one(sorted(pairs, key=lambda pair: (pair[1].life.name, pair[1].life.incarnation)))
        if pair is not None:
            self.suspect(*pair)

    def change_service(self) -> None:
        """A member takes another service while it stays; some row tells, be it a gauge."""
        member = self.one(self.members())
        service = self.choose_service()
        if member is None or member.service == service:
            return
        stays = member.ordered
        member.change(service)
        if member.ordered and stays:
            self.install(member)
        elif member.ordered:
            self.begin_alone(member)
        else:
            self.note(GaugeRow, "GAUGE", member, name="window_bytes", value=0)

    def release(self, source: Member) -> None:
        """A source forgets what all that count have."""
        have = [receiver.due[source] for receiver in source.counted if source in receiver.due]
        stable = min([source.sequence, *(source.start_at(number).sequence - 1 for number in have)])
        if stable > source.released:
            own = {"source": source.life.name, "source_incarnation": source.life.incarnation}
            self.note(RepairRow, "GC", source, first=source.released + 1, last=stable, **own)
            source.released = stable

    def release_some(self) -> None:
        source = self.one(self.members())
        if source is not None:
            self.release(source)

    def reinstall(self) -> None:
        member = self.one([member for member in self.members() if member.ordered])
        if member is not None:
            self.install(member)

    def appear(self) -> None:
        name = self.one([name for name in self.names if name not in self.lives or not self.lives[name].alive])
        if name is not None:
            self.begin(name)

    def crash(self) -> None:
        life = self.one([life for life in self.lives.values() if life.alive])
        if life is not None:
            self.write(MembershipRow, "CRASH", life)
            life.alive = False

    def leave(self) -> None:
        member = self.one(self.members())
        if member is not None:
            self.note(MembershipRow, "LEAVE", member)
            member.left = True
            for source in member.due:
                source.counted.discard(member)

    def rejoin(self) -> None:
        """A member that left comes back in the same life: most of those that have it in their view see it leave."""
        lives = [life for life in self.lives.values() if life.alive]
        source = self.one([member for life in lives for member in life.members if member.left])
        if source is not None:
            for member in self.members():
                if source in member.due and self.random.random() < 0.7:
                    self.part_after_the_last(member, source)
            same = self.random.random() < 0.5
            across = source.life.across if self.random.random() < 0.8 else None
            source.come_back(*((source.service, source.wants) if same else self.choose_part(across)), across)
            source.counted = {member for member in source.counted if member.active}
            self.join(source)

    def part_after_the_last(self, member: Member, source: Member) -> None:
        """A source that said farewell leaves the view when everything of it is delivered."""
        self.deliver_up_to(member, source)
        del member.due[source]
        source.counted.discard(member)
        self.install(member, Reason(source.life.name, source.life.incarnation, "left"))

    def fault(self, edge: str, name: str, members: list[str]) -> None:
        self.write(FaultRow, "FAULT", self.outside, fault=name, edge=edge, members=members)

    def disturb(self) -> None:
        """A partition begins or ends, or a loss that takes nobody away."""
        if self.faults and self.random.random() < 0.6:
            self.fault("end", "partition", self.faults.pop(self.random.randrange(len(self.faults))))
        elif self.random.random() < 0.3:
            self.fault("begin", "loss", [])
        else:
            members = self.random.sample(self.names, self.random.randint(1, 2))
            self.faults.append(members)
            self.fault("begin", "partition", members)

    def measure(self) -> None:
        member = self.one(self.members())
        if member is not None:
            cap = self.one([None, 100, 1000])
            value = self.random.randrange(5000) if cap is None else self.random.randint(0, cap)
            self.note(GaugeRow, "GAUGE", member, name="window_bytes", value=value, cap=cap)
            self.note(GaugeRow, "MARK", member, name="repair_of_repair", value=1)

    def hold_clock(self) -> None:
        """A process hears a timestamp that it does not follow, nor any later one."""
        member = self.one(self.members())
        if member is not None:
            self.note(GaugeRow, "MARK", member, name=CLOCK_HELD, value=1)
            member.life.clock_held = True

    def repair(self) -> None:
        """A receiver asks for what it lacks, somebody repairs it."""
        members = [member for member in self.members() if member.due]
        pairs = [(member, source) for member in members for source in member.due]
        lacking = [pair for pair in pairs if pair[0].due[pair[1]] <= len(pair[1].sent) and pair[0] is not pair[1]]
        pair = self.one(lacking)
        if pair is not None:
            member, source = pair
            first = self.random.randint(source.start_at(member.due[source]).sequence, source.sequence)
            life = source.life
            whose = {"source": life.name, "source_incarnation": life.incarnation, "first": first}
            last = self.random.randint(first, source.sequence)
            self.note(RepairRow, "RTR", member, last=last, **whose)
            self.note(RepairRow, "RTX", self.random.choice(members), last=last, peer=member.life.name, **whose)

    def pause(self) -> None:
        """A long silence, where nothing is due; or the load stops and starts."""
        if not self.progress_due():
            self.truth += self.random.randrange(30 * SECOND)
            self.quiet_since = self.truth
        elif self.random.random() < 0.3:
            self.set_load(False)
        if not self.load and self.random.random() < 0.7:
            self.set_load(True)

    def set_load(self, active: bool) -> None:
        self.load = active
        self.fault("begin" if active else "end", "load", [])

    STEPS = (
        (send, 10),
        (deliver_some, 16),
        (meet, 6),
        (part, 1),
        (reinstall, 1),
        (appear, 2),
        (crash, 0.6),
        (leave, 0.9),
        (rejoin, 3),
        (disturb, 1),
        (measure, 1.8),
        (hold_clock, 0.2),
        (repair, 3),
        (release_some, 3),
        (leave_behind, 0.4),
        (change_service, 1.2),
        (pause, 0.6),
    )

    def step(self) -> None:
        self.advance(self.pace)
        self.random.choices([step for step, _ in self.STEPS], [weight for _, weight in self.STEPS])[0](self)

    def settle(self) -> None:
        """Faults end, most of them; then everybody that lives gets all that it is promised."""
        while self.faults and self.random.random() < 0.9:
            self.fault("end", "partition", self.faults.pop())
        healed = self.random.random() < 0.85
        if healed:
            self.fault("begin", "heal", [])
        cut_off = {name for fault in self.faults for name in fault}
        for member in [member for member in self.members() if member.ordered]:
            for source in self.sources(member):
                excused = not healed or {member.life.name, source.life.name} & cut_off
                missing = source.active and source.sent and source not in member.due
                if missing and member.wants_source(source) and (not excused or self.random.random() < 0.5):
                    self.activate(member, source, self.activation_point(member, source))
            for source in [source for source in member.due if source.life.alive]:
                self.deliver_up_to(member, source)
        for source in self.members():
            self.release(source)
        if self.truth - self.quiet_since < 4 * SECOND and self.random.random() < 0.8:
            self.truth += 2 * SECOND + self.random.randrange(SECOND)

    def end(self) -> None:
        """The last moments, of which liveness asks nothing, and END at all that live."""
        for _ in range(self.random.randrange(12)):
            self.advance(LATE_PACE)
            steps = (Sampler.send, Sampler.deliver_some, Sampler.appear, Sampler.rejoin)
            self.random.choices(steps, (4, 4, 1, 1))[0](self)
        if self.load and self.random.random() < 0.7:
            self.set_load(False)
        for life in [life for life in self.lives.values() if life.alive]:
            self.advance(LATE_PACE)
            self.write(MembershipRow, "END", life)
            life.alive = False


def good_trace(
    random: Random,
    events: int = 30,
    names: tuple[str, ...] = NAMES[:4],
    groups: tuple[str, ...] = ("market",),
    truth: bool = True,
) -> list[AnyRow]:
    """A valid trace of about `events` chosen steps, in global order.

    Without `truth` it is a trace of a real run on one host: no global times, and local clocks that agree.
    """
    sampler = Sampler(random, names, groups)
    for name in names[: random.randint(2, len(names))]:
        sampler.begin(name)
    sampler.set_load(True)
    for _ in range(events):
        sampler.step()
    sampler.settle()
    sampler.end()
    if not truth:
        for row in sampler.rows:
            row.at, row.truth, row.host = row.truth or 0, None, "here"
    return sampler.rows
