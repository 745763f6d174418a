"""How a sampled run comes to its end: faults end, and everybody gets what it is promised."""

from __future__ import annotations

from unisono.properties.generator.population import Member, Message
from unisono.properties.generator.regroup import Regrouping
from unisono.properties.generator.run import SECOND
from unisono.properties.promises import PRECISION_NANOSECONDS
from unisono.trace.schema import RepairRow, SendRow


class Settling(Regrouping):
    """What sources do, and what must be done before the end."""

    def send_from(self, member: Member) -> None:
        """A message leaves after protocol messages, in one to three fragments."""
        timestamp = self.next_time(member)
        member.sequence += self.random.randrange(3) + self.random.randint(1, 3)
        size, body = self.random.randrange(2000), self.random.getrandbits(63)
        message = Message(len(member.sent) + 1, member.sequence, timestamp, size, body)
        member.sent.append(message)
        agreed = None if member.agreed is None else member.agreed.word
        self.note(SendRow, "SEND", member, agreed=agreed, **message._asdict())

    def speakers(self) -> list[Member]:
        """Who may send now."""
        return [member for member in self.members() if member.role == "sender" and member.turning is None]

    def release(self, source: Member) -> None:
        """A source forgets what all that count have."""
        have = [receiver.due[source] for receiver in source.counted if source in receiver.due]
        stable = min([source.sequence, *(source.start_at(number).sequence - 1 for number in have)])
        if stable > source.released:
            own = {"source": source.life.name, "source_incarnation": source.life.incarnation}
            self.note(RepairRow, "GC", source, first=source.released + 1, last=stable, **own)
            source.released = stable

    def settle(self) -> None:
        """Faults end, most of them; then everybody that lives gets all that it is promised."""
        self.relieve(0)
        self.mend_all()
        while self.faults and self.random.random() < 0.9:
            self.fault("end", "partition", self.faults.pop())
        healed = self.random.random() < 0.85
        if healed:
            self.fault("begin", "heal", [])
        cut_off = {name for fault in self.faults for name in fault}
        self.settled = True
        for group in self.groups:
            self.settle_views(group, cut_off, healed)
        for _ in range(self.random.randrange(6)):
            self.tick()
            sender = self.one(self.speakers())
            if sender is not None:
                self.send_from(sender)
        self.introduce(0)
        for member in [member for member in self.members() if member.ordered]:
            for source in self.sources(member) if member.service == "RSO" else ():
                excused = not healed or {member.life.name, source.life.name} & cut_off
                missing = source.active and source.sent and source not in member.due
                if missing and member.wants_source(source) and (not excused or self.random.random() < 0.5):
                    self.activate(member, source, self.activation_point(member, source))
            for source in [source for source in member.due if source.life.alive]:
                self.deliver_up_to(member, source)
        for source in self.members():
            self.release(source)
        if healed and self.random.random() < 0.5:
            if self.load:
                self.set_load(False)
            self.truth += PRECISION_NANOSECONDS + self.random.randrange(2 * SECOND)
            self.quiet_since = self.truth
        elif self.truth - self.quiet_since < 4 * SECOND and self.random.random() < 0.8:
            self.truth += 2 * SECOND + self.random.randrange(SECOND)

    def settle_roles(self, group: str) -> None:
        """Who is to become a sender or a receiver does so, and all others in its view see that."""
        for member in [member for member in self.members() if member.group == group and member.turning is not None]:
            self.turn_over(member)
        for view in self.agreed_views(group):
            for member in [member for member in self.members() if member.installed is view]:
                self.go_on_to(member, len(view.changes))

    def settle_views(self, group: str, cut_off: set[str], healed: bool) -> None:
        """Senders that can reach each other get into one view, all others into views without those who went on."""
        self.settle_roles(group)
        senders = [member for view in self.agreed_views(group) for member in view.present()]
        reachable = [member for member in senders if member.life.name not in cut_off]
        last = reachable[0].agreed if healed and reachable else None
        if last is not None and (set(last.senders()) != set(reachable) or not last.is_current()):
            self.reform(reachable)
            last = reachable[0].agreed
        while True:
            stale = [view for view in self.agreed_views(group) if not view.is_current()]
            if not stale:
                break
            self.reform(stale[0].present())
        for member in [member for member in self.receivers() if member.group == group]:
            self.catch_up(member, last if member.life.name not in cut_off else None)
            if member.active and member.installed is not None:
                self.deliver_all(member)
