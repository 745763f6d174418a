"""How agreed views come about in a sampled run: senders merge and part, receivers follow, and some lose track."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.properties.generator.agreement import AgreedView, Passage
from unisono.properties.generator.changes import first_above
from unisono.properties.generator.order import begins_above
from unisono.properties.generator.parting import Parting
from unisono.trace import schema
from unisono.trace.schema import MembershipRow, Reason, RepairRow, ViewRow, body_hash

if TYPE_CHECKING:
    from random import Random

    from unisono.properties.generator.population import Life, Member


class Regrouping(Parting):
    """The views of each group's senders, and who installs them."""

    def __init__(self, random: Random, names: tuple[str, ...], groups: tuple[str, ...]) -> None:
        super().__init__(random, names, groups)
        self.with_primary = random.random() < 0.4
        self.primary_names: dict[str, set[str]] = {}
        self.turns_often = random.random() < 0.25

    def join(self, member: Member) -> None:
        super().join(member)
        if member.role == "sender":
            self.found_alone(member)

    def found_alone(self, member: Member) -> None:
        """A sender is in a view of its own at first."""
        if member.agreed is not None:
            member.agreed.ends.setdefault(member, len(member.sent) + 1)
        member.agreed = self.create([member])
        if member.service == "RTO":
            member.drop_sources()
            self.enter(member, member.agreed, None, [member])

    def create(self, members: list[Member]) -> AgreedView:
        """A new view with these members; its identifier is above all before."""
        self.tick()
        leader = self.random.choice(members)
        leader.views += 1
        view = AgreedView(self.truth, leader, leader.views, members)
        view.primary = False if self.with_primary else None
        return view

    def choose_primary(self, view: AgreedView) -> None:
        """A view may be primary if it has somebody of the last one; nobody has installed it yet."""
        group, names = view.leader.group, {member.life.name for member in view.members}
        known = self.primary_names.get(group)
        if self.with_primary and (known is None or known & names) and self.random.random() < 0.7:
            view.primary = True
            self.primary_names[group] = names

    def enter(
        self,
        member: Member,
        view: AgreedView,
        previous: str | None,
        along: list[Member],
        middle: dict[Member, int] | None = None,
        changes: int = 0,
        *reasons: Reason,
    ) -> None:
        """A member installs an agreed view, from its beginning or in the middle of it, after some changes."""
        starts = view.starts if middle is None else middle
        for source in [source for source in member.due if source not in starts]:
            del member.due[source]
            source.counted.discard(member)
        for source, number in starts.items():
            if source is member or source in member.due or not source.active:
                member.due[source] = number
            else:
                self.grant(member, source, number)
        member.view, member.installed, member.index = view.word_at(changes), view, 0
        member.cut = member.limit = member.turning = None
        member.newest, member.applied = view.start_time_at(changes), changes
        member.state = None if middle is not None else body_hash(view.word.encode())
        member.enter_order()
        if member.role == "sender" and not view.seen and not changes:
            if middle is None:
                self.choose_primary(view)
            view.seen = True
        self.note(
            ViewRow,
            "VIEW",
            member,
            **view.identifier_at(changes),
            previous=previous,
            role=member.role,
            start=view.points if middle is None else [source.start_at(number) for source, number in middle.items()],
            transitional=[schema.Member(one.life.name, one.life.incarnation) for one in along],
            merged=view.merged,
            whole=middle is None,
            primary=None if changes else view.primary,
            reasons=list(reasons),
            era=view.word if changes else None,
        )

    def enter_middle(self, member: Member, view: AgreedView) -> None:
        """A member comes into a view that is there already, at points that it has not passed."""
        self.hear()
        changes = self.place_in(member, view)
        middle = self.points_in(member, view, changes)
        along: list[Member] = []
        if member.role == "sender":
            middle[member] = max(member.lowest.get(member, 1), len(member.sent) + 1)
            along = [member]
        whole = not along and not changes
        whole = whole and all(begins_above(member, source) <= start for source, start in view.starts.items())
        if whole and middle != view.starts:
            whole = self.random.random() < 0.3
        member.drop_sources()
        self.enter(member, view, None, along, None if whole else middle, changes)

    def reform(self, participants: list[Member]) -> None:
        """These senders install one view together, when all that they agree on of their last ones is delivered."""
        self.hear()
        participants = self.catch_up_with_each_other(participants)
        if not participants:
            return
        old = {member.agreed: [one for one in participants if one.agreed is member.agreed] for member in participants}
        ways: dict[AgreedView, dict[Member, int]] = {}
        farewell = False
        for view, along in old.items():
            assert view is not None, "a sender is always in some view"
            gone = [member for member in view.senders_at(_seen(view, along)) if member not in along]
            farewell = len(old) == 1 and bool(gone) and all(member.left and member.agreed is view for member in gone)
            ways[view] = self.choose_cut(view, along, farewell)
            for member in along:
                self.accuse(member, gone)
                self.answer(member, view, ways[view])
                if member.service == "RTO":
                    self.deliver_until(member, ways[view], member.applied)
        view = self.create(sorted(participants, key=lambda member: (member.life.name, member.life.incarnation)))
        view.merged = [] if farewell else sorted(one.word for one in ways)
        passages = {before: Passage(view, old[before], cut, _seen(before, old[before])) for before, cut in ways.items()}
        for before, passage in passages.items():
            before.passages.append(passage)
            before.ends.update({member: len(member.sent) + 1 for member in passage.along})
        for member in self.random.sample(participants, len(participants)):
            left = member.agreed
            assert left is not None, "a sender is always in some view"
            member.agreed = view
            complete = all(number == left.end_of(source) for source, number in ways[left].items())
            if complete and len(participants) > 1 and not self.settled and self.random.random() < 0.02:
                self.kill(member.life)
            elif member.service == "RTO":
                passages[left].seen = True
                reasons = _reasons(left, member.applied, view)
                self.enter(member, view, member.view, passages[left].along, None, 0, *reasons)
            else:
                member.turning = None
        for before in ways:
            for member in before.present():
                if member.service == "RTO" and self.random.random() < 0.3:
                    self.note(MembershipRow, "EXCLUDED", member)

    def catch_up_with_each_other(self, participants: list[Member]) -> list[Member]:
        """Of those who go on together all come over the changes that one of them has; who is a sender then goes on."""
        for view in {member.agreed: None for member in participants}:
            assert view is not None, "a sender is always in some view"
            along = [member for member in participants if member.agreed is view]
            for member in along:
                if member.service == "RTO":
                    self.go_on_to(member, _seen(view, along))
        return [member for member in participants if member.role == "sender"]

    def choose_cut(self, view: AgreedView, along: list[Member], farewell: bool) -> dict[Member, int]:
        """Where the deliveries of a view end: with all of those who come along, and somewhere of the others."""
        cut: dict[Member, int] = {}
        changes = _seen(view, along)
        inside = view.senders_at(changes)
        for source in view.everybody():
            cut[source] = view.end_of(source)
            if source.left and source.agreed is view:
                continue
            if source in inside and source not in along and not farewell and self.random.random() < 0.5:
                reached = [member.due[source] for member in along if member.service == "RTO"]
                if changes:
                    reached.append(first_above(view, source, view.changes[changes - 1].key))
                lowest = max([view.seat_at(source, changes), *reached])
                cut[source] = self.random.randint(lowest, cut[source])
        return cut

    def accuse(self, member: Member, gone: list[Member]) -> None:
        """A sender suspects others, and waits for them no more."""
        for other in gone:
            if not other.left and self.random.random() < 0.3:
                peer = {"peer": other.life.name, "peer_incarnation": other.life.incarnation}
                self.note(MembershipRow, "SUSPECT", member, reason="accused", **peer)
                member.counted.discard(other)

    def answer(self, member: Member, view: AgreedView, cut: dict[Member, int]) -> None:
        """A sender says what it can answer for, now and then twice: then only the second time counts."""
        if member.service != "RTO":
            return
        for again in (True, False) if self.random.random() < 0.2 else (False,):
            self.tick()
            proposal = f"{self.random.getrandbits(32):08x}"
            changes = member.applied
            for source in view.senders_at(changes):
                point = source.start_at(view.seat_at(source, changes))
                beyond = cut[source] <= len(source.sent)
                most = source.sent[cut[source] - 1].sequence - 1 if beyond else source.sequence
                last = self.random.randint(point.sequence - 1, max(most, point.sequence - 1))
                if again:
                    last += self.random.randrange(5)
                whose = {"source": source.life.name, "source_incarnation": source.life.incarnation}
                self.note(RepairRow, "CUT", member, first=point.sequence, last=last, peer=proposal, **whose)

    def deliver_until(self, member: Member, cut: dict[Member, int], changes: int) -> None:
        """A member delivers what is left of its era."""
        member.cut, member.limit = cut, changes
        self.deliver_all(member)
        self.tick()

    def regroup(self) -> None:
        """Some senders of one group agree on a view: to merge, to go on without somebody, or just so."""
        views = self.agreed_views(self.random.choice(self.groups))
        if views:
            count = len(views) if self.random.random() < 0.5 else self.random.randint(1, len(views))
            chosen = self.random.sample(views, count)
            participants = [member for view in chosen for member in view.present()]
            if self.random.random() < 0.2 and len(participants) > 1:
                participants = self.random.sample(participants, self.random.randint(1, len(participants) - 1))
            self.reform(participants)

    def gather(self) -> None:
        """Often those who begin together find each other at once."""
        for group in self.groups:
            participants = [member for view in self.agreed_views(group) for member in view.present()]
            if participants and self.random.random() < 0.7:
                self.reform(participants)
                for member in [member for member in self.receivers() if member.group == group]:
                    if self.random.random() < 0.7:
                        self.follow(member)

    def agreed_views(self, group: str) -> list[AgreedView]:
        """The views that active senders of a group are in."""
        senders = [member for member in self.members() if member.group == group and member.agreed is not None]
        return list({member.agreed: None for member in senders if member.agreed is not None})

    def may_follow(self, member: Member) -> list[AgreedView]:
        """The views that a receiver may come into."""
        views = [view for view in self.agreed_views(member.group) if self.is_new_enough(member, view)]
        return [view for view in views if (view.seen or not view.is_judged()) and member not in view.senders()]

    def is_new_enough(self, member: Member, view: AgreedView) -> bool:
        return view.start_time_at(len(view.changes)) >= member.newest

    def make_progress(self) -> None:
        """Somebody installs a view: one of its own, or an agreed one."""
        views = [view for group in self.groups for view in self.agreed_views(group)]
        timed = [view for view in views if any(member.service == "RTO" for member in view.present())]
        if self.settled or any(member.service == "RSO" for member in self.members()) or not timed:
            super().make_progress()
        else:
            self.reform(self.random.choice(timed).present())

    def relieve(self, limit: int) -> None:
        """To whom nothing came for that long though another sent gets what there is, or a view, or goes."""
        for member in self.members():
            if self.is_kept_waiting(member, limit) and member.installed is not None:
                self.deliver_all(member)
            if not self.is_kept_waiting(member, limit):
                continue
            if member.service == "RSO":
                self.install(member)
            elif member.role == "sender":
                self.reform([member])
            else:
                self.leave_group(member)
        self.introduce(limit)

    def introduce(self, limit: int) -> None:
        """Whose earlier life was known, and who sent first so long ago, is heard now, or goes."""
        for source in self.members():
            if not source.said or self.truth - source.said[0] < limit:
                continue
            for member in [one for one in self.members() if one.group == source.group and one.ordered]:
                if member.life.name == source.life.name or not member.misses(source):
                    continue
                if member.service == "RSO":
                    self.activate(member, source, self.activation_point(member, source))
                elif member.agreed is not None and source.agreed is not None:
                    self.reform(list(dict.fromkeys([*member.agreed.present(), *source.agreed.present()])))
                if member.misses(source):
                    self.leave_group(source)

    def is_kept_waiting(self, member: Member, limit: int) -> bool:
        since = member.unanswered() if member.ordered and member.active else None
        return since is not None and self.truth - since >= limit

    def receivers(self) -> list[Member]:
        return [member for member in self.members() if member.role == "receiver" and member.service == "RTO"]

    def follow_some(self) -> None:
        """A receiver follows its senders into the next view, or comes into one."""
        member = self.one(self.receivers())
        if member is not None:
            self.follow(member)

    def follow(self, member: Member) -> bool:
        """One step of a receiver; false where there is none to take."""
        if member.installed is None:
            view = self.one(self.may_follow(member))
            if view is None:
                return False
            self.enter_middle(member, view)
            return True
        passages = [
            passage
            for passage in member.installed.passages
            if member.applied <= passage.changes
            and all(number <= passage.cut[source] for source, number in member.due.items())
            and (passage.seen or not passage.view.is_judged())
        ]
        passage = self.one(passages)
        if passage is not None:
            before = member.installed
            self.go_on_to(member, passage.changes)
            if member.role == "receiver":
                self.deliver_until(member, passage.cut, passage.changes)
                reasons = _reasons(before, member.applied, passage.view)
                self.enter(member, passage.view, member.view, passage.along, None, 0, *reasons)
        elif member.installed.passages:
            self.lose_track(member)
        return passage is not None

    def lose_track(self, member: Member) -> None:
        """A process can follow the others no more, and begins anew."""
        self.note(MembershipRow, "SELF_FAIL", member, reason="cannot follow")
        member.lost = [*member.lost, *member.due]
        member.view = member.installed = member.turning = member.cut = member.limit = None
        member.drop_sources()
        if member.role == "sender":
            self.found_alone(member)
        elif self.random.random() < 0.7:
            self.note(MembershipRow, "BOOTSTRAP", member)

    def fail_some(self) -> None:
        member = self.one([member for member in self.members() if member.installed is not None])
        if member is not None:
            self.lose_track(member)

    def catch_up(self, member: Member, view: AgreedView | None) -> None:
        """A receiver gets into this view, or any that its senders are in now; where there is none, it leaves."""
        while member.installed is None or not member.installed.is_current() or view not in (None, member.installed):
            if view is not None and not self.is_new_enough(member, view):
                self.leave_group(member)
                return
            if member.installed is None and view is not None:
                self.enter_middle(member, view)
            elif member.installed is not None and not member.installed.passages:
                self.lose_track(member)
            elif not self.follow(member) and member.installed is None and not self.may_follow(member):
                self.leave_group(member)
                return

    def kill(self, life: Life) -> None:
        self.write(MembershipRow, "CRASH", life)
        life.alive = False

    def leave_group(self, member: Member) -> None:
        self.note(MembershipRow, "LEAVE", member)
        member.left = True
        for source in member.due:
            source.counted.discard(member)


def _seen(view: AgreedView, along: list[Member]) -> int:
    """How many changes any of those who go on together has come over."""
    added = {change.member: count for count, change in enumerate(view.changes, 1) if change.adds}
    return max((member.applied if member.service == "RTO" else added.get(member, 0) for member in along), default=0)


def _reasons(left: AgreedView, changes: int, view: AgreedView) -> list[Reason]:
    """Who is new in a view, and who of those before is not in it any more."""
    before = left.senders_at(changes)
    new = [member for member in view.members if member not in before]
    gone = [member for member in before if member not in view.members]
    reasons = [Reason(member.life.name, member.life.incarnation, "merged") for member in new]
    reasons.extend(
        Reason(member.life.name, member.life.incarnation, _why(member, left), [view.leader.life.name])
        for member in gone
    )
    return reasons


def _why(gone: Member, view: AgreedView) -> str:
    """Who left a view had not gone on from it without the others."""
    return "left" if gone.left and gone.agreed is view else "suspected"
