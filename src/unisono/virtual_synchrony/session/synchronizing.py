"""The one-round algorithm: cuts are exchanged while the servers agree, and what some lack is sent on (002 5.5-5.8)."""

from __future__ import annotations

from unisono.identity import NO_VIEW, ProcessId
from unisono.reliable.step import Step, repair_row
from unisono.trace.schema import MembershipRow
from unisono.virtual_synchrony.reasons import Reason
from unisono.virtual_synchrony.session.change import Cuts, ViewChange
from unisono.virtual_synchrony.session.context import Context
from unisono.virtual_synchrony.session.flow import Flow
from unisono.virtual_synchrony.session.streams import FORWARD_BYTES, Streams, parted
from unisono.virtual_synchrony.session.view import SessionView
from unisono.wire.session_messages import Cut, CutRequest

CUTS_LIMIT = 1 << 14
"""Of so many processes a cut is kept at most."""


class Synchronizing:
    """The change under way, if any, with everybody's cuts and this process's own."""

    __slots__ = ("_context", "_cut", "_cuts", "_flow", "change")

    def __init__(self, context: Context, flow: Flow) -> None:
        self._context = context
        self._flow = flow
        self._cuts = Cuts(CUTS_LIMIT)
        self._cut: list[Cut] = []
        """This process's last cut: others may ask for it after the view has changed here."""
        self.change: ViewChange | None = None

    def begin(self, step: Step, change: int, expected: SessionView) -> None:
        """The view is about to change; the cut follows when the application has finished."""
        streams = self._flow.streams
        self.change = ViewChange(change, expected, None if streams is None else streams.view, self._context.process)
        self._flow.urgent = False
        self._cuts.keep(expected.participants, change)

    def begin_alone(self, change: int, expected: SessionView) -> None:
        """The view is about to change, and nobody waits for anybody: nothing is to be delivered before."""
        self.change = ViewChange(change, expected, None, self._context.process)
        self.change.synchronized = True

    def end(self) -> ViewChange:
        """The next view is installed."""
        change = self.change
        assert change is not None, "a view is installed at the end of a change"
        self.change = None
        self._context.deadlines.clear("cuts")
        return change

    # ── cuts ──

    def send_cut(self, step: Step) -> None:
        """Say what can be delivered here. From now on only what somebody has answered for is."""
        change, flow = self.change, self._flow
        assert change is not None, "a cut is for a change"
        change.counts = counts = flow.counts()
        streams = flow.streams
        if streams is not None:
            for seat, count in sorted(counts.items()):
                member = streams.view.participants[seat]
                if count or member == self._context.process:
                    step.record(repair_row("CUT", member, 1, count, str(change.id)))
        mark = NO_VIEW if streams is None else streams.mark
        parts = parted(self._context, sorted((seat, count) for seat, count in counts.items() if count))
        self._cut = [Cut(change.id, mark, part, len(parts), entries) for part, entries in enumerate(parts)]
        self._context.broadcast(step, self._cut)
        self._context.deadlines.set("cuts", step.now + self._context.settings.forward_timeout)
        self.look(step)

    def on_cut(self, step: Step, source: ProcessId, cut: Cut) -> None:
        if self._cuts.take_in(source, cut):
            self.look(step)

    def on_cut_request(self, step: Step, source: ProcessId, request: CutRequest) -> None:
        if request.target != self._context.process:
            step.note(Reason.OTHER_TARGET)
        elif self._cut and self._cut[0].change == request.change:
            for part in self._cut:
                self._context.tell(step, source, part)

    def ask_for_cuts(self, step: Step) -> None:
        """Some cuts did not come in time."""
        change = self.change
        if change is None or change.counts is None or change.synchronized:
            return
        for member in change.missing(self._cuts):
            step.mark("vs-cut-asked")
            self._context.tell(step, member, CutRequest(change.id, member))
        self._context.deadlines.set("cuts", step.now + self._context.settings.forward_timeout)

    def look(self, step: Step) -> None:
        """A cut is there that was not before: more may be delivered, or all is known."""
        change, flow = self.change, self._flow
        if change is None or change.counts is None or change.synchronized:
            return
        flow.bound(change.committed(self._cuts))
        flow.deliver_all(step)
        if not change.missing(self._cuts):
            change.synchronize(self._cuts, self._context.process)
            self._context.deadlines.clear("cuts")
            step.record(MembershipRow(kind="SYNCHRONIZED", number=change.id))
            if flow.streams is not None:
                self._expect_agreed(step, change, flow.streams)
                flow.finish(step)
                self._forward(step, change, flow.streams)

    # ── what some lack ──

    def _expect_agreed(self, step: Step, change: ViewChange, streams: Streams) -> None:
        """What was agreed on and has not come is missing; of those who are gone, it is about to be forwarded."""
        settings = self._context.settings
        for source, stream in streams.incoming.items():
            along = source in change.together
            due = step.now + (settings.request_delay if along else settings.forward_timeout)
            agreed = change.agreed.get(streams.view.seats[source], 0)
            if agreed:
                stream.started = True  # who answers for its messages has seen it in the view
                stream.expect(agreed, due)

    def _forward(self, step: Step, change: ViewChange, streams: Streams) -> None:
        """Send what those who do not come along had sent, where this process is the least that has it (002 5.8)."""
        process = self._context.process
        for source in streams.incoming:
            if source in change.together:
                continue  # it answers for its messages itself
            forward = change.to_forward(streams.view.seats[source], self._cuts, process)
            if forward is None:
                continue
            first, last, lacking = forward
            to = lacking[0] if len(lacking) == 1 else None
            step.mark("vs-forwarded")
            for low, high, datagram in streams.find(source, [(first, last)], FORWARD_BYTES):
                streams.repair(step, source, low, high, datagram, to, "FORWARD")

    def whom_to_ask(self, streams: Streams, step: Step, source: ProcessId, tries: int) -> ProcessId:
        """Whom to ask for what a source sent: itself, or while a view ends those who have it, in turns (E12)."""
        change = self.change
        if change is None or not change.synchronized or streams is not self._flow.streams:
            return source
        stream = streams.incoming[source]
        holders = change.holders(
            streams.view.seats[source], stream.window.contiguous + 1, self._cuts, self._context.process
        )
        others = [holder for holder in holders if holder != source]
        candidates = [source, *others] if source in change.together else others
        if not candidates:
            return source
        if tries:
            step.mark("vs-take-over")
        return candidates[tries % len(candidates)]

    @property
    def complete(self) -> bool:
        """Everything is there that is to be delivered before the next view, and the servers agreed on it."""
        change, streams = self.change, self._flow.streams
        if change is None or not change.stands or not change.synchronized:
            return False
        if streams is None:
            return True
        seats = streams.view.seats
        return all(
            stream.window.contiguous >= change.agreed.get(seats[source], 0)
            for source, stream in streams.incoming.items()
        )
