"""The run so far, and the steps that a sampled trace may take next.

All choices come from the generator that is passed in: an equal state gives an equal trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.properties.generator.changes import Changing
from unisono.properties.generator.order import ready
from unisono.properties.generator.population import Member
from unisono.properties.generator.proxies import step_of_proxies
from unisono.properties.generator.regroup import Regrouping
from unisono.properties.generator.run import ANSWER_LIMIT, LATE_PACE, NAMES, SECOND
from unisono.properties.generator.settling import Settling
from unisono.properties.promises import CLOCK_HELD
from unisono.trace.schema import (
    AnyRow,
    GaugeRow,
    MembershipRow,
    Reason,
    RepairRow,
)

if TYPE_CHECKING:
    from random import Random


class Sampler(Settling):
    """The steps that a run may take next."""

    def send(self) -> None:
        member = self.one(self.speakers())
        if member is not None:
            self.send_from(member)

    def lose_one(self) -> None:
        """A sender drops out of its view right after it sent something, and the others go on without it."""
        views = [view for group in self.groups for view in self.agreed_views(group)]
        speakers = self.speakers()
        view = self.one([view for view in views if len([one for one in view.present() if one in speakers]) > 1])
        if view is not None:
            lost = self.random.choice([one for one in view.present() if one in speakers])
            self.release(lost)
            for _ in range(self.random.randint(1, 3)):
                self.tick()
                self.send_from(lost)
            if self.random.random() < 0.3:
                self.kill(lost.life)
            self.reform([member for member in view.present() if member is not lost])

    def deliver_some(self) -> None:
        """A member delivers something that its service allows."""
        if self.random.random() < 0.7:
            self.hear()
        choices = [
            (member, source, number)
            for member in self.members()
            for source, number in ready(member, self.sources(member))
            if member.ordered or source is None or number + 4 > len(source.sent)
        ]
        choice = self.one(choices)
        if choice is not None:
            member, source, number = choice
            if source is None:
                self.apply_change(member)
            else:
                self.deliver(member, source, source.sent[number - 1])

    def meet(self) -> None:
        """A member with a view of its own takes a source into it."""
        pairs = [
            (member, source)
            for member in self.members()
            if member.service == "RSO"
            for source in self.sources(member)
            if source.active and source not in member.due
        ]
        pair = self.one(pairs)
        if pair is not None:
            member, source = pair
            self.activate(member, source, self.activation_point(member, source))

    def part(self) -> None:
        """A source drops out of a view of somebody else's own."""
        own = [member for member in self.members() if member.service == "RSO"]
        pair = self.one([(member, source) for member in own for source in member.due if source is not member])
        if pair is not None:
            member, source = pair
            if source.active:
                self.release(source)
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
        if member is None or member.service == service or member.turning is not None:
            return
        if service == "RTO" and member.role == "receiver" and not self.may_follow(member):
            return
        if member.service == "RSO" and service == "RTO" and member in member.due:
            self.deliver_up_to(member, member)
        stays = member.ordered
        member.change(service)
        if service == "RTO":
            view = member.agreed or self.one(self.may_follow(member))
            member.view = None
            self.enter_middle(member, view)
        elif member.ordered and stays:
            self.install(member)
        elif member.ordered:
            self.begin_alone(member)
        else:
            self.note(GaugeRow, "GAUGE", member, name="window_bytes", value=0)

    def release_some(self) -> None:
        source = self.one(self.members())
        if source is not None:
            self.release(source)

    def reinstall(self) -> None:
        member = self.one([member for member in self.members() if member.service == "RSO"])
        if member is not None:
            self.install(member)

    def appear(self) -> None:
        name = self.one([name for name in self.names if name not in self.lives or not self.lives[name].alive])
        if name is not None:
            self.begin(name)

    def crash(self) -> None:
        life = self.one([life for life in self.lives.values() if life.alive])
        if life is not None:
            self.kill(life)

    def leave(self) -> None:
        member = self.one(self.members())
        if member is not None:
            self.leave_group(member)
            for other in [other for other in self.members() if other.service == "RSO" and member in other.due]:
                if self.own_random.random() < 0.9:
                    self.part_after_the_last(other, member)

    def rejoin(self) -> None:
        """A member that left comes back in the same life: most of those that have it in their view see it leave."""
        lives = [life for life in self.lives.values() if life.alive]
        source = self.one([member for life in lives for member in life.members if member.left])
        if source is not None:
            for member in self.members():
                if member.service == "RSO" and source in member.due and self.random.random() < 0.7:
                    self.part_after_the_last(member, source)
            same = self.random.random() < 0.5
            across = source.life.across if source.role == "sender" and self.random.random() < 0.8 else None
            source.come_back(*((source.service, source.wants) if same else self.choose_part(across)), across)
            source.counted = set()
            self.join(source)

    def part_after_the_last(self, member: Member, source: Member) -> None:
        """A source that said farewell leaves the view when everything of it is delivered."""
        self.deliver_up_to(member, source)
        del member.due[source]
        source.counted.discard(member)
        self.install(member, Reason(source.life.name, source.life.incarnation, "left"))

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
        lacking = [pair for pair in pairs if pair[0].due[pair[1]] < pair[0].end_of(pair[1]) and pair[0] is not pair[1]]
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
            self.relieve(0)
            self.truth += self.random.randrange(30 * SECOND)
            self.quiet_since = self.truth
        elif self.random.random() < 0.3:
            self.set_load(False)
        if not self.load and self.random.random() < 0.7:
            self.set_load(True)

    STEPS = (
        (send, 10),
        (deliver_some, 16),
        (meet, 6),
        (part, 2),
        (Changing.change_role, 1.5),
        (Regrouping.regroup, 2.5),
        (lose_one, 1.2),
        (Regrouping.follow_some, 3),
        (Regrouping.fail_some, 0.4),
        (reinstall, 1),
        (appear, 2),
        (crash, 0.6),
        (leave, 1.2),
        (rejoin, 3),
        (disturb, 1),
        (measure, 1.8),
        (hold_clock, 0.2),
        (repair, 3),
        (release_some, 3),
        (leave_behind, 0.4),
        (change_service, 2),
        (pause, 0.6),
    )

    def step(self) -> None:
        self.relieve(ANSWER_LIMIT)
        self.advance(self.pace)
        self.mend_some()
        if self.turns_often and self.random.random() < 0.25:
            self.change_role()
        self.random.choices([step for step, _ in self.STEPS], [weight for _, weight in self.STEPS])[0](self)
        step_of_proxies(self, self.own_random)

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
    sampler.gather()
    sampler.set_load(True)
    for _ in range(events):
        sampler.step()
    sampler.settle()
    sampler.end()
    if not truth:
        for row in sampler.rows:
            row.at, row.truth, row.host = row.truth or 0, None, "here"
    return sampler.rows
