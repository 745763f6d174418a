"""A sampled run in the making: its rows, its processes and its time, and what they do one at a time."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from unisono.properties.generator.order import Next, begins_above, next_in_order
from unisono.properties.generator.population import TIMED, Life, Member, Message
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    MembershipRow,
    Reason,
    ViewRow,
    body_hash,
)

if TYPE_CHECKING:
    from random import Random

SECOND = 1_000_000_000
NAMES = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
PACES = (SECOND // 20, SECOND // 2, 2 * SECOND)
QUIET_LIMIT = 6 * SECOND
ANSWER_LIMIT = 4 * SECOND
LATE_PACE = SECOND // 50
SERVICES = {"RSO": 6, "RTO": 7, "UU": 2, "USO": 1, "UTO": 1, "ALF": 1}


class Run:
    """The run so far, and what happens in it."""

    def __init__(self, random: Random, names: tuple[str, ...], groups: tuple[str, ...]) -> None:
        self.random = random
        self.own_random = copy(random)
        """For what stands beside all else: it changes nothing in the rest of the trace."""
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
        self.said = 0
        self.settled = False
        self.only_service = "RTO" if random.random() < 0.45 else None

    def tick(self) -> None:
        self.truth += self.random.randint(1, 1000)

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
        latest = max([*(life.clock for life in lives), *sent, self.said])
        for life in lives:
            life.clock = max(life.clock, latest)

    def note(self, family: Any, kind: str, member: Member, **columns: Any) -> None:
        """Append one row of a member, in its view and service."""
        place = {"view": member.view, "service": member.service, "stretch": member.stretch}
        self.write(family, kind, member.life, member.group, **place, **columns)
        if kind == "VIEW" or (kind == "DELIVER" and columns["source"] != member.life.name):
            member.progress, member.lost = self.truth, []
        elif kind == "SEND":
            member.said.append(self.truth)
        if kind == "VIEW":
            lives = {(start.source, start.incarnation) for start in columns["start"]}
            member.met.setdefault(member.stretch, set()).update(lives)
        elif kind == "DELIVER":
            member.heard.add((columns["source"], columns["source_incarnation"]))

    def advance(self, pace: int) -> None:
        """Let time pass, with some progress in it where progress is due."""
        if self.progress_due() and self.truth - self.quiet_since > QUIET_LIMIT:
            self.make_progress()
        self.truth += self.random.randrange(pace)
        if not self.progress_due():
            self.quiet_since = self.truth

    def make_progress(self) -> None:
        """Somebody installs a view of its own; where nobody can, the load stops."""
        members = [member for member in self.members() if member.service != "RTO"]
        reliable = [member for member in members if member.ordered]
        member = self.one(reliable or members)
        if member is None:
            self.set_load(False)
        else:
            self.install(member)

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
            role = "sender" if self.random.random() < 0.75 else "receiver"
            member = Member(life, group, role, *self.choose_part(across if role == "sender" else None))
            life.members.append(member)
            self.everybody.append(member)
            self.join(member)

    def choose_part(self, across: str | None) -> tuple[str, str]:
        """How a process takes part in a group: its service, and whose messages it wants."""
        service = "RTO" if across is not None and self.random.random() < 0.8 else self.choose_service()
        some = ",".join(self.random.sample(self.names, min(2, len(self.names))))
        return service, self.random.choices(("all", "once", some), (6, 1, 2))[0]

    def choose_service(self) -> str:
        if self.only_service is not None:
            return self.only_service
        return self.random.choices(list(SERVICES), list(SERVICES.values()))[0]

    def join(self, member: Member) -> None:
        """A member enters the group."""
        self.note(MembershipRow, "JOIN", member, reason=member.wants, across=member.across, role=member.role)
        if member.service == "RSO":
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
        self.note(
            ViewRow,
            "VIEW",
            member,
            start_time=self.truth,
            leader=life.name,
            leader_incarnation=life.incarnation,
            leader_sequence=member.views,
            previous=previous,
            role="receiver",
            start=[source.start_at(number) for source, number in member.due.items()],
            reasons=list(reasons),
        )

    def activate(self, member: Member, source: Member, number: int) -> None:
        """A spell begins under reliable source order: the source grants a start point and enters the view."""
        self.grant(member, source, number)
        self.install(member, Reason(source.life.name, source.life.incarnation, "activated"))

    def grant(self, member: Member, source: Member, number: int) -> None:
        """A source is asked for its messages, and lets the member have them from a number on."""
        peer = {"peer": source.life.name, "peer_incarnation": source.life.incarnation}
        start = source.start_at(number)
        self.note(MembershipRow, "ACTIVATE", member, **peer)
        asker = {"peer": member.life.name, "peer_incarnation": member.life.incarnation}
        self.note(MembershipRow, "GRANT", source, sequence=start.sequence, number=number, **asker)
        source.counted.add(member)
        member.due[source] = number

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
        if member.service == "RTO" and member.state is not None:
            self.change_state(member, message)

    def change_state(self, member: Member, message: Message) -> None:
        """An application whose state is what it delivered in the view tells it now and then."""
        member.state = body_hash(f"{member.state} {message.timestamp} {message.body}".encode())
        if message.number % 2 == 0:
            point = sorted((source.life.name, source.life.incarnation, due) for source, due in member.due.items())
            told = {"sequence": body_hash(repr(point).encode()), "number": member.state, "reason": member.view}
            self.note(MembershipRow, "STATE", member, **told)

    def take(self, following: Next) -> None:
        """What comes next in the total order."""
        raise NotImplementedError

    def deliver_next(self, member: Member, source: Member) -> None:
        self.deliver(member, source, source.sent[member.due[source] - 1])

    def deliver_up_to(self, member: Member, source: Member) -> None:
        """The member gets all that a source of its view sent, in order with what else must come before."""
        self.hear()
        while source in member.due and member.due[source] < member.end_of(source):
            if member.service != "RTO":
                self.advance(1 + self.pace // 20)
            if member.service == "RTO":
                following = next_in_order(member)
                assert following is not None, "nothing is below what everybody heard of"
                self.take(following)
            else:
                self.deliver_next(member, source)

    def set_load(self, active: bool) -> None:
        self.load = active
        self.fault("begin" if active else "end", "load", [])

    def fault(self, edge: str, name: str, members: list[str], sides: list[list[str]] | None = None) -> None:
        self.write(FaultRow, "FAULT", self.outside, fault=name, edge=edge, members=members, sides=sides or [])

    def sources(self, member: Member) -> list[Member]:
        """The members of the current lives in a member's group, itself included."""
        return [other for life in self.lives.values() for other in life.members if other.group == member.group]
