"""How everybody in a large trace gets into the next agreed view, and how who sends changes within one."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from unisono.pipeline.large.epoch import Epoch, Hearing
from unisono.pipeline.large.messages import Messages
from unisono.pipeline.large.plan import Cast, Life
from unisono.trace.schema import Member, MembershipRow, Reason, RepairRow, Start, ViewRow

MILLISECOND = 1_000_000


class Identifier(Struct, frozen=True):
    """What names a view."""

    start_time: int
    leader: str
    leader_incarnation: int
    leader_sequence: int

    @property
    def word(self) -> str:
        return f"{self.start_time}/{self.leader}~{self.leader_incarnation:x}/{self.leader_sequence}"


class AgreedView(Struct, frozen=True):
    """A view that was agreed, and what every row of it says."""

    identifier: Identifier
    start: list[Start]
    merged: list[str]


class Passages:
    """The views of the group so far; `agreed` is the last that was agreed."""

    def __init__(self, cast: Cast, time: int) -> None:
        self.cast = cast
        self.time = time
        self.agreed = AgreedView(Identifier(0, "", 0, 0), [], [])
        self.coming: dict[str, Life] = {}
        """Senders that are alone until the next view."""
        self.crashed: list[Life] = []
        self.entered: Life | None = None

    @property
    def era(self) -> str:
        return self.agreed.identifier.word

    def found(self, epoch: Epoch) -> None:
        """Everybody starts and joins; a sender is alone at first."""
        for life in self.cast.listeners():
            self.begin(epoch, life, self.time)
        self.coming, self.cast.senders = self.cast.senders, {}
        self.time += MILLISECOND

    def begin(self, epoch: Epoch, life: Life, time: int) -> None:
        """A process starts and joins."""
        epoch.note(life, time, MembershipRow, "START", bare=True)
        epoch.note(life, time, MembershipRow, "JOIN", reason="all", role=life.role)
        if life.role == "sender":
            alone = AgreedView(_identifier(time, life), [life.start], [])
            self._install(epoch, life, time + 1, alone, [life.itself], primary=False)
        elif life.service == "RSO":
            self._install_own(epoch, life, time + 1, [life.start])

    def pass_on(self, epoch: Epoch) -> None:
        """All senders agree on the next view, the receivers follow; what each can answer for is said before."""
        senders = {**self.cast.senders, **self.coming}
        members = [senders[name] for name in sorted(senders)]
        merged = sorted({life.view for life in members if life.view is not None})
        for life in members:
            for other in self.crashed:
                peer: dict[str, Any] = {"peer": other.name, "peer_incarnation": other.incarnation}
                epoch.note(life, self.time, MembershipRow, "SUSPECT", reason="accused", **peer)
            self._answer(epoch, life, {one.itself: one for one in (*members, *self.crashed)})
        self.time += MILLISECOND
        starts = [life.start for life in members]
        self.agreed = AgreedView(_identifier(self.time, members[0]), starts, merged)
        stayed = [life.itself for life in members if life.name not in self.coming]
        for life in (*members, *self.cast.receivers.values()):
            self._hear_new(epoch, life, members)
            along = [] if life.view is None else stayed
            if life.name in self.coming:
                along = [life.itself]
            self._install(epoch, life, self.time, self.agreed, along, primary=True, reasons=self._reasons(life))
        for life in self.cast.apart.values():
            self._hear_new(epoch, life, members)
            self._install_own(epoch, life, self.time, starts)
        self.cast.senders, self.coming = {life.name: life for life in members}, {}
        self.crashed = []
        self.time += MILLISECOND

    def _answer(self, epoch: Epoch, life: Life, lives: dict[Member, Life]) -> None:
        """A sender says what it has of the view that ends."""
        for start in [life.start] if life.name in self.coming else self.agreed.start:
            source = lives[Member(start.source, start.incarnation)]
            whose: dict[str, Any] = {
                "source": start.source,
                "source_incarnation": start.incarnation,
                "first": start.sequence,
            }
            epoch.note(life, self.time, RepairRow, "CUT", last=source.sequence, peer=f"{self.time:x}", **whose)

    def _reasons(self, life: Life) -> list[Reason]:
        """Who is new, and who is gone, for one that was in the view before."""
        if life.view is None or life.name in self.coming:
            return []
        return [
            *(Reason(one.name, one.incarnation, "merged") for one in self.coming.values()),
            *(Reason(one.name, one.incarnation, "suspected", [self.agreed.identifier.leader]) for one in self.crashed),
        ]

    def enter_middle(self, epoch: Epoch, messages: Messages, hearing: Hearing) -> None:
        """A receiver starts, and comes into the view at a place of its order."""
        life, time = hearing.life, int(hearing.times[0]) - 1
        self.begin(epoch, life, time)
        starts = _starts(messages, messages.sources, hearing.first)
        for source, start in zip(messages.sources, starts, strict=True):
            self._grant(epoch, life, source, start, time)
        life.due = {source.name: source.incarnation for source in messages.sources}
        middle = AgreedView(self.agreed.identifier, starts, self.agreed.merged)
        self._install(epoch, life, time, middle, [], primary=True, whole=False)

    def turn(self, epoch: Epoch, messages: Messages, hearings: list[Hearing], who: Life) -> None:
        """A receiver becomes a sender at one place of the order, and a receiver again at another."""
        for share, role, reason in ((1, "sender", "sends now"), (2, "receiver", "only receives now")):
            place = turn_place(len(messages), share)
            inside = messages.sources if role == "sender" else messages.sources[:-1]
            starts = _starts(messages, inside, place)
            told = _identifier(int(messages.time[place]), inside[0])
            following: dict[str, Any] = {
                "transitional": [life.itself for life in inside],
                "reasons": [Reason(who.name, who.incarnation, reason)],
                "era": self.era,
            }
            for one in hearings:
                life, time = one.life, one.time_of(place) - 1
                if life is who:
                    life.role = role
                elif role == "sender":
                    self._grant(epoch, life, who, who.start, time)
                if life.service == "RSO":
                    self._install_own(epoch, life, time, starts)
                else:
                    _note_view(epoch, life, time, told, starts, following)
                if life is who:
                    epoch.note(life, time, MembershipRow, "ROLE", role=role)

    def _hear_new(self, epoch: Epoch, life: Life, sources: list[Life]) -> None:
        """A process asks the sources that it did not hear so far."""
        for source in sources:
            if source is not life and life.due.get(source.name) != source.incarnation:
                self._grant(epoch, life, source, source.start, self.time)
        life.due = {source.name: source.incarnation for source in sources}

    def _grant(self, epoch: Epoch, life: Life, source: Life, start: Start, time: int) -> None:
        peer: dict[str, Any] = {"peer": source.name, "peer_incarnation": source.incarnation}
        epoch.note(life, time, MembershipRow, "ACTIVATE", **peer)
        asker: dict[str, Any] = {"peer": life.name, "peer_incarnation": life.incarnation}
        epoch.note(source, time, MembershipRow, "GRANT", sequence=start.sequence, number=start.number, **asker)

    def _install(
        self,
        epoch: Epoch,
        life: Life,
        time: int,
        view: AgreedView,
        along: list[Member],
        primary: bool,
        whole: bool = True,
        reasons: list[Reason] | None = None,
    ) -> None:
        """A process installs an agreed view."""
        columns: dict[str, Any] = {"transitional": along, "merged": view.merged, "primary": primary, "whole": whole}
        _note_view(epoch, life, time, view.identifier, view.start, columns | {"reasons": reasons or []})

    def _install_own(self, epoch: Epoch, life: Life, time: int, starts: list[Start]) -> None:
        """A process installs a view of its own."""
        _note_view(epoch, life, time, _identifier(time, life), starts, {})


def turn_place(count: int, share: int) -> int:
    """Of so many messages, the place of the order at which who sends changes: the first or the second third."""
    return count * share // 3


def _note_view(
    epoch: Epoch, life: Life, time: int, identifier: Identifier, starts: list[Start], columns: dict[str, Any]
) -> None:
    previous, life.view = life.view, identifier.word
    parts: dict[str, Any] = {name: getattr(identifier, name) for name in Identifier.__struct_fields__}
    role = life.role
    epoch.note(life, time, ViewRow, "VIEW", **parts, previous=previous, role=role, start=starts, **columns)


def _identifier(time: int, leader: Life) -> Identifier:
    """The next one of this leader."""
    leader.views += 1
    return Identifier(time, leader.name, leader.incarnation, leader.views)


def _starts(messages: Messages, sources: list[Life], place: int) -> list[Start]:
    """Where these sources go on from at a place of the order."""
    points = dict(zip(messages.sources, messages.starts_before(place), strict=True))
    return [Start(life.name, life.incarnation, *points[life]) for life in sources]
