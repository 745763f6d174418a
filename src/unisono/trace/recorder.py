"""The driver's side of the trace: turns what an engine did into rows that say who, where and when.

A delivery is recorded from the event that the application gets, not from what the engine believes it handed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from unisono.engine import Deliver, Effect, Record
from unisono.events import DroppedOut, Event, Excluded, LeftBehind, Message, SourceUnavailable, View
from unisono.identity import ProcessId, ViewId
from unisono.trace.column_buffer import Circumstances, ColumnBuffer
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    Member,
    MembershipRow,
    ProxyRow,
    Reason,
    Start,
    ViewRow,
    body_hash,
)


class Recorder:
    """Writes the rows of one life of one process, in order, with dense positions."""

    __slots__ = ("_host", "_position", "_process", "_run", "_views", "incarnation")

    def __init__(self, run: str, process: str, host: str) -> None:
        self._run = run
        self._process = process
        self._host = host
        self._position = 0
        self._views: dict[str, tuple[ViewId | None, str | None]] = {}
        self.incarnation = 0

    def rows(self, effect: Effect, at: int, truth: int | None) -> Iterator[AnyRow]:
        """The rows that an effect leaves in the trace."""
        if isinstance(effect, Deliver):
            for event in effect.events:
                yield from self._rows_of(effect, event, at, truth)
        elif isinstance(effect, Record):
            if effect.row.kind == "START":
                self.incarnation = effect.row.incarnation
            yield self.stamp(effect.row, at, truth)

    def gather(self, effect: Deliver | Record, at: int, buffer: ColumnBuffer, messages: bool = True) -> None:
        """The same rows as `rows` gives, into a buffer; without `messages` none of sends, deliveries and proxies."""
        if isinstance(effect, Record):
            if effect.row.kind == "START":
                self.incarnation = effect.row.incarnation
            row = effect.row
            row.position, row.at = self._position, at  # a buffer has the rest once, for all its rows
            self._position += 1
            buffer.add(row)
            return
        for kind, run in groupby(effect.events, type):
            if kind is Message:
                if messages:
                    self._gather_messages(effect, list(run), at, buffer)  # type: ignore[arg-type]  # as their type says
                continue
            for event in run:
                for row in self._rows_of(effect, event, at, None):
                    buffer.add(row)

    def _gather_messages(self, effect: Deliver, run: list[Message], at: int, buffer: ColumnBuffer) -> None:
        view, count = run[0].view, len(run)
        alike = [message.view for message in run].count(view) == count
        if alike and [message.by for message in run].count(None) == count:
            words = self._words(effect.group, view)
            circumstances = Circumstances(effect.group, at, words, effect.service, effect.stretch)
            buffer.deliveries.add(run, self._position, circumstances)
            self._position += count
            return
        for message in run:
            for row in self._rows_of(effect, message, at, None):
                buffer.add(row)

    def stamp(self, row: AnyRow, at: int, truth: int | None) -> AnyRow:
        """Fill in who, where and when."""
        row.run = self._run
        row.process = self._process
        row.incarnation = self.incarnation
        row.position = self._position
        row.at = at
        row.host = self._host
        row.truth = truth
        self._position += 1
        return row

    def _rows_of(self, effect: Deliver, event: Event, at: int, truth: int | None) -> Iterator[AnyRow]:
        row = self._event_row(effect.group, event)
        if row is not None:
            row.group, row.service, row.stretch = effect.group, effect.service, effect.stretch
            yield self.stamp(row, at, truth)
            if isinstance(event, Message) and event.by is not None and not event.repeated:
                yield self.stamp(_handed(effect, event, event.by, row), at, truth)

    def _event_row(self, group: str, event: Event) -> AnyRow | None:
        if isinstance(event, Message):
            return DeliverRow(
                kind="DELIVER",
                view=self._words(group, event.view),
                source=event.carrier.name,
                source_incarnation=event.carrier.incarnation,
                sequence=event.sequence,
                number=event.carrier_number,
                timestamp=event.timestamp,
                size=len(event.data),
                body=body_hash(event.data),
                index=event.index,
                origin=None if event.by is None else str(event.source),
            )
        if isinstance(event, View):
            return self._view_row(group, event)
        if isinstance(event, LeftBehind | SourceUnavailable):
            kind = "LEFT_BEHIND" if isinstance(event, LeftBehind) else "UNAVAILABLE"
            peer = event.source
            view = self.view_of(group)
            return MembershipRow(kind=kind, view=view, peer=peer.name, peer_incarnation=peer.incarnation)
        if isinstance(event, Excluded | DroppedOut):
            view = self.view_of(group)
            if isinstance(event, Excluded):
                return MembershipRow(kind="EXCLUDED", view=view, reason=str(event.view))
            return MembershipRow(kind="SELF_FAIL", view=view, reason=event.reason)
        return None

    def _view_row(self, group: str, event: View) -> ViewRow:
        suspects = dict(event.suspects)
        return ViewRow(
            kind="VIEW",
            view=self._words(group, event.id),
            start_time=event.id.start,
            leader=event.id.leader.name,
            leader_incarnation=event.id.leader.incarnation,
            leader_sequence=event.id.sequence,
            previous=None if event.previous is None else str(event.previous),
            role=event.role,
            start=[Start(p.source.name, p.source.incarnation, p.sequence, p.number) for p in event.start],
            transitional=None if event.transitional is None else [Member(*process) for process in event.transitional],
            reasons=[
                Reason(*process, str(reason), [accuser.name for accuser in suspects.get(process, ())])
                for process, reason in event.reasons
            ],
            merged=[str(view) for view in event.merged],
            whole=event.whole,
            primary=event.primary,
            era=None if event.era is None else str(event.era),
            change=event.change,
        )

    def view_of(self, group: str) -> str | None:
        """The current view of a group, in words."""
        return self._views.get(group, (None, None))[1]

    def _words(self, group: str, view: ViewId | None) -> str | None:
        """A view in words; the words of each group's current view are kept."""
        current = self._views.get(group)
        if current is None or current[0] is not view:
            current = self._views[group] = (view, None if view is None else str(view))
        return current[1]


def _handed(effect: Deliver, message: Message, by: ProcessId, row: AnyRow) -> ProxyRow:
    """What the application gets of a message that another sent for its source."""
    return ProxyRow(
        kind="HANDED",
        group=effect.group,
        service=effect.service,
        stretch=effect.stretch,
        view=row.view,
        origin=message.source.name,
        origin_incarnation=message.source.incarnation,
        number=message.number,
        size=len(message.data),
        body=body_hash(message.data),
        by=by.name,
        by_incarnation=by.incarnation,
    )
