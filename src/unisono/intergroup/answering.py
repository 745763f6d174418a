"""What this member says of itself to whoever asks, without counting the asker as anybody.

An answer waits for a random part of the time that the question allows, so that many members do not answer at once, and
only a few are given a second, whoever asks. It says what is true when it leaves, and fits a datagram: lists are cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unisono.engine import Address
from unisono.identity import ProcessId, ViewId
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.membership.contract import Phase
from unisono.intergroup.membership.membership import Membership
from unisono.intergroup.peers import Peers
from unisono.intergroup.reasons import Reason
from unisono.intergroup.receiving import Receiving
from unisono.intergroup.repairing import Repairing
from unisono.intergroup.speaking import Speaking
from unisono.reliable.step import Place, Step
from unisono.reliable.suspicion import least_silence
from unisono.units import SECOND
from unisono.wire.probe_messages import (
    LISTED_LIMIT,
    Level,
    Levels,
    ProbeAnswer,
    ProbedView,
    ProbeRequest,
    Silent,
    State,
    Traffic,
)

ANSWERS_A_SECOND = 5
"""So many answers are given a second, all askers together; as many may be given at once after a quiet time."""
_COST = SECOND // ANSWERS_A_SECOND

_PHASES: dict[Phase, State] = {
    Phase.SETTLED: "settled",
    Phase.CONSENSUS: "consensus",
    Phase.CUT_INFO: "cut info",
    Phase.RECOVERY_INFO: "recovery info",
    Phase.RECOVERY: "recovery",
    Phase.COMMIT: "commit",
}


class Answering:
    """One member's answers to probes."""

    __slots__ = (
        "_context",
        "_delivery",
        "_joined_at",
        "_membership",
        "_peers",
        "_pending",
        "_place",
        "_receiving",
        "_repairing",
        "_speaking",
        "_spent_until",
    )

    def __init__(
        self,
        context: Context,
        place: Place,
        delivery: Delivery,
        repairing: Repairing,
        receiving: Receiving,
        speaking: Speaking,
        membership: Membership,
        peers: Peers,
    ) -> None:
        self._context = context
        self._place = place
        self._delivery = delivery
        self._repairing = repairing
        self._receiving = receiving
        self._speaking = speaking
        self._membership = membership
        self._peers = peers
        self._joined_at = 0
        self._spent_until = 0
        """Until then the answers that were given count; each counts for its part of a second."""
        self._pending: dict[tuple[Address, int], tuple[int, int]] = {}
        """When each asker is answered, and for which round; as many as are answered a second, and a little more."""

    def begin(self, step: Step) -> None:
        """This process has joined."""
        self._joined_at = step.now

    def on_request(self, step: Step, address: Address, request: ProbeRequest) -> None:
        """Somebody asks; it gets one answer, later, unless it has one or too many are asked for."""
        context = self._context
        key = address, request.token
        if request.knows(context.process):
            return
        if key in self._pending:
            self._pending[key] = self._pending[key][0], request.round
            return
        if self._spent_until - step.now > SECOND - _COST:
            step.note(Reason.TOO_MANY_PROBES)
            return
        self._spent_until = max(self._spent_until, step.now) + _COST
        due = step.now + int(request.spread * context.randomness.random())
        self._pending[key] = due, request.round
        context.deadlines.advance("probe", due)

    def send_due(self, step: Step) -> None:
        """Give the answers whose time has come."""
        context = self._context
        for key, (due, number) in sorted(self._pending.items()):
            if due > step.now:
                context.deadlines.advance("probe", due)
                continue
            del self._pending[key]
            address, token = key
            context.tell(step, address, self._cut(self._answer(step, token, number)))

    def _cut(self, answer: ProbeAnswer) -> ProbeAnswer:
        """The answer with as much of its lists as fits a datagram."""
        room, listed = self._context.writer.control_room, LISTED_LIMIT
        while len(msgspec.msgpack.encode(answer)) > room:
            if not listed:
                return msgspec.structs.replace(answer, shown=None)
            listed //= 2
            answer = msgspec.structs.replace(
                answer,
                agreed=_shorter(answer.agreed, listed),
                shown=_shorter(answer.shown, listed),
                suspects=answer.suspects[:listed],
            )
        return answer

    def _answer(self, step: Step, token: int, number: int) -> ProbeAnswer:
        context, agreed, shown = self._context, self._context.agreed, self._delivery.view
        same = (None if agreed is None else agreed.id) == (None if shown is None else shown.id)
        suspects = self._suspects(step.now)
        return ProbeAnswer(
            token=token,
            round=number,
            at=step.now,
            age=step.now - self._joined_at,
            sends=context.role == "sender",
            service=context.settings.service,
            state=self._state,
            agreed=None if agreed is None else self._view(agreed.id, agreed.members),
            same=same,
            shown=None if shown is None or same else self._view(shown.id, shown.members),
            traffic=self._traffic(),
            levels=self._levels(),
            suspects=tuple(suspects[:LISTED_LIMIT]),
            suspected=len(suspects),
            follows=sum(stream.ending is None for stream in self._receiving.following.streams.values()),
            followers=len(self._speaking.audience),
        )

    @property
    def _state(self) -> State:
        context, following = self._context, self._receiving.following
        if self._speaking.leaving or self._membership.roles.finishes:
            return "leaving"
        if context.role == "receiver":
            if following.entering is not None:
                return "enters"
            return "apart" if following.ordered is None else "follows"
        if context.agreed is None:
            return "apart"
        return _PHASES[self._membership.repair.phase]

    def _view(self, identifier: ViewId, members: Sequence[ProcessId]) -> ProbedView:
        """A view starts at a time of the group's clock, which every process keeps up with."""
        age = max(0, self._context.clock.last - identifier.start)
        return ProbedView(identifier, age, tuple(members[:LISTED_LIMIT]), len(members))

    def _traffic(self) -> Traffic:
        sending, delivery, place = self._speaking.sending, self._delivery, self._place
        return Traffic(
            sending.sent,
            sending.sent_bytes,
            delivery.delivered,
            delivery.delivered_bytes,
            place.earlier_datagrams + place.datagrams,
            place.earlier_bytes + place.datagram_bytes,
        )

    def _levels(self) -> Levels:
        sending, settings = self._speaking.sending, self._context.settings
        streams = self._receiving.following.streams.values()
        return Levels(
            window=Level(sending.window.bytes, sending.window.limit),
            queue=Level(sending.queued_bytes, settings.send_queue_bytes),
            repair=Level(self._repairing.fullest, settings.window_bytes),
            receive=Level(max((stream.window.bytes for stream in streams), default=0), settings.receive_buffer_bytes),
            untaken=Level(self._delivery.untaken, settings.event_limit),
        )

    def _suspects(self, now: int) -> list[Silent]:
        """Whom the membership suspects; and, whatever the service, sources that are followed and as silent as that."""
        settings, suspicion = self._context.settings, self._membership.suspicion
        suspects = {peer: suspicion.silence(peer, now)[0] for peer in suspicion.suspects(now)}
        least = least_silence(settings)
        for source in self._receiving.following.streams:
            silence = self._peers.silence(source, now)
            if silence is not None and silence >= least:
                suspects.setdefault(source, silence)
        return [Silent(peer, silence) for peer, silence in sorted(suspects.items())]


def _shorter(view: ProbedView | None, listed: int) -> ProbedView | None:
    return None if view is None else msgspec.structs.replace(view, members=view.members[:listed])
