"""Bugs to plant in what a receiver keeps, and in how it finds its way: each is a change of one method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from msgspec.msgpack import encode

from tests.simulation.planted_bugs import PlantedBug, planted_bug
from unisono.identity import ProcessId
from unisono.intergroup import reporting
from unisono.intergroup.membership.membership import Membership
from unisono.intergroup.membership.receiver import ReceiverRepair
from unisono.intergroup.peers import Peers
from unisono.reliable.gaps import Gaps
from unisono.wire.messages import ControlMessage
from unisono.wire.writing import DatagramWriter


@planted_bug("every datagram that finds no room has a ticket", "stalled-under-flood", "L7")
def tickets_without_limit(patch: pytest.MonkeyPatch) -> None:
    original = Gaps.look_further
    patch.setattr(Gaps, "look_further", lambda self, due, horizon: original(self, due, 1 << 62))


@planted_bug("a view is said whole, however large it is", "oversize-views", "L10")
def views_in_one_piece(patch: pytest.MonkeyPatch) -> None:
    def whole(self: DatagramWriter, messages: Iterable[ControlMessage]) -> Iterator[tuple[int, bytes]]:
        return ((message.code, encode(message)) for message in messages)

    patch.setattr(DatagramWriter, "_fitting", whole)


@planted_bug("a lower incarnation is nobody while a higher one is remembered", "clock-back", "L11")
def lower_is_nobody(patch: pytest.MonkeyPatch) -> None:
    def may_follow(self: Peers, peer: ProcessId, said: int | None, now: int, least: int) -> bool:
        last = self.last(peer.name)
        return last is None or peer >= last

    patch.setattr(Peers, "may_follow", may_follow)


@planted_bug("receivers go with whoever goes first, and that is one that was left behind", "step-out-drags", "L10")
def first_branch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReceiverRepair, "_prefers", lambda self, *arguments: True)


@planted_bug("a poll that goes on is answered once in all of a sender's patience", "polled-in-time", "L10")
def answers_seldom(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reporting, "_spread", lambda stream: stream.patience)


@planted_bug(
    "who begins to send while it changes its service aims at a view as a receiver", "auto-changes-service", "L1"
)
def aims_as_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "_look_anew", lambda self, step: None)


PLANTED_RECEIVERS = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
