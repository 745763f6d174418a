"""How senders of a sampled run become receivers and back, at places in the order of messages, without a repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.properties.generator.agreement import AgreedView, Change
from unisono.properties.generator.order import Next, begins_above, next_in_order, pending
from unisono.properties.generator.run import SECOND, Run
from unisono.trace import schema
from unisono.trace.schema import MembershipRow, Reason, ViewRow

if TYPE_CHECKING:
    from unisono.properties.generator.population import Key, Member


class Changing(Run):
    """What is said of who sends, and what comes of it at each process."""

    def change_role(self) -> None:
        """Somebody who sends will only receive, or a receiver will send."""
        members = [member for member in self.members() if member.service == "RTO" and member.installed is not None]
        candidates = [member for member in members if self.may_turn(member)]
        member = self.one(candidates)
        if member is not None:
            self.say(member)

    def may_turn(self, member: Member) -> bool:
        era = member.installed
        if era is None or member.turning is not None or member.cut is not None:
            return False
        others = [one for one in era.present() if one is not member and one.turning is None]
        if member.role == "sender":  # a receiver goes from view to view on its own, and cannot be in step with others
            return member.agreed is era and bool(others) and member.across is None
        return bool(others) and member not in era.senders()

    def say(self, member: Member) -> None:
        """A sponsor, or the member itself, says that who sends changes: a place in the order."""
        era = member.installed
        assert era is not None, "who turns is in a view"
        self.hear()
        self.tick()
        adds = member.role == "receiver"
        others = [one for one in era.present() if one is not member and one.turning is None]
        speaker = self.random.choice(others) if adds else member
        speaker.views += 1
        key = (self.next_time(speaker), speaker.life.name, speaker.life.incarnation)
        before = era.senders()
        after = [*before, member] if adds else [one for one in before if one is not member]
        after.sort(key=lambda one: (one.life.name, one.life.incarnation))
        self.said = max(self.said, key[0])
        era.changes.append(Change(key, self.truth, speaker, speaker.views, member, adds, after))
        member.turning = era
        if adds:  # it sends nothing here before it comes to that place, and perhaps it never does
            era.ends[member] = len(member.sent) + 1

    def next_time(self, member: Member) -> int:
        """The timestamp of what a member says now."""
        life = member.life
        life.clock = max(life.clock + 1, (self.truth + life.offset) // 1000 + SECOND)
        return life.clock

    def take(self, following: Next) -> None:
        """What comes next in the order: a message, or a change of who sends."""
        if following.source is None:
            self.apply_change(following.member)
        else:
            self.deliver_next(following.member, following.source)

    def apply_change(self, member: Member) -> None:
        """A member has come to where somebody becomes a sender or a receiver."""
        era = member.installed
        assert era is not None, "changes are in the order of a view"
        change = era.changes[member.applied]
        member.applied += 1
        member.life.clock = max(member.life.clock, change.key[0])
        who = change.member
        if change.adds:
            self.admit(member, who, change.seat)
        else:
            self.dismiss(member, who)
        if not change.points:
            change.starts = {source: member.due[source] for source in change.members}
            change.points = [source.start_at(number) for source, number in change.starts.items()]
        assert change.starts == {source: member.due[source] for source in change.members}, "all are at one place"
        previous, member.view = member.view, change.word
        member.index, member.newest = 0, change.start_time
        member.enter_order()
        reason = Reason(who.life.name, who.life.incarnation, "sends now" if change.adds else "only receives now")
        self.note(
            ViewRow,
            "VIEW",
            member,
            **change.identifier(),
            previous=previous,
            role=member.role,
            start=change.points,
            transitional=[schema.Member(one.life.name, one.life.incarnation) for one in change.members],
            reasons=[reason],
            era=era.word,
        )
        if member is who:
            self.note(MembershipRow, "ROLE", member, role=member.role)

    def admit(self, member: Member, who: Member, number: int) -> None:
        """Somebody is heard from here on."""
        if member is who and member.installed is not None:
            member.role, member.agreed, member.turning = "sender", member.installed, None
            member.installed.ends.pop(member, None)
        if member is not who and who.active:
            self.grant(member, who, number)
        else:
            member.due[who] = number

    def dismiss(self, member: Member, who: Member) -> None:
        """Somebody is heard no more."""
        del member.due[who]
        who.counted.discard(member)
        if member is who and member.installed is not None:
            member.installed.ends[member] = len(member.sent) + 1
            member.role, member.agreed, member.turning = "receiver", None, None

    def go_on_to(self, member: Member, count: int) -> None:
        """A member delivers until it has come over so many changes."""
        self.hear()
        while member.applied < count:
            following = next_in_order(member)
            assert following is not None, "nothing is below what everybody heard of"
            self.take(following)

    def turn_over(self, member: Member) -> None:
        """A member comes to where it becomes what it is said to become."""
        self.hear()
        while member.turning is not None:
            self.go_on_to(member, member.applied + 1)

    def deliver_all(self, member: Member) -> None:
        """A member delivers what there is in its order."""
        self.hear()
        while pending(member):
            following = next_in_order(member)
            assert following is not None, "nothing is below what everybody heard of"
            self.take(following)

    def place_in(self, member: Member, era: AgreedView) -> int:
        """After how many changes a member may come into an era."""
        if member.role == "sender" or not era.changes:
            return len(era.changes)
        fitting = [
            count
            for count in range(len(era.changes) + 1)
            if era.start_time_at(count) >= member.newest
            and all(
                begins_in(era, member, source) <= first_above(era, source, era.changes[count].key)
                for source in era.senders_at(count)
                if count < len(era.changes)
            )
        ]
        return int(self.random.choice(fitting)) if fitting else len(era.changes)

    def points_in(self, member: Member, era: AgreedView, count: int) -> dict[Member, int]:
        """Where a member that comes into an era after so many changes may begin: what it has not passed."""
        middle: dict[Member, int] = {}
        for source in era.senders_at(count):
            start = era.seat_at(source, count)
            if count:
                start = max(start, first_above(era, source, era.changes[count - 1].key))
            lowest = max(start, begins_in(era, member, source))
            highest = era.end_of(source)
            if count < len(era.changes):
                highest = min(highest, first_above(era, source, era.changes[count].key))
            middle[source] = self.random.randint(lowest, self.random.choice((lowest, highest)))
        return middle


def first_above(era: AgreedView, source: Member, key: Key) -> int:
    """The first number of a source that comes after a place in the order of an era, at most where it ends there."""
    end = era.end_of(source)
    return next((message.number for message in source.sent[: end - 1] if source.key(message) > key), end)


def begins_in(era: AgreedView, member: Member, source: Member) -> int:
    """The lowest number of a source that a member may still deliver in an era, at most where it ends there."""
    return min(begins_above(member, source), era.end_of(source))
