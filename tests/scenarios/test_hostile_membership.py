"""Membership messages that no engine would send: nothing breaks, nothing grows without bound, and the group goes on."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.scenarios.harness import Interpreter
from tests.scenarios.world import DEFAULT_GROUP, EPOCH
from unisono.identity import ProcessId, ViewId
from unisono.intergroup.group import IntergroupEngine
from unisono.sealing import NullSeal
from unisono.units import SECOND
from unisono.wire.layout import group_number
from unisono.wire.membership_messages import (
    MEMBER_LIMIT,
    CutInfo,
    MembershipMessage,
    NewView,
    Opinion,
    Origin,
    PrimaryRecord,
    Ready,
    RecoveryInfo,
    Seat,
    UpTo,
    ViewRequest,
)
from unisono.wire.writing import DatagramWriter

LAST = (1 << 63) - 2
STRANGER = ProcessId("x", 7)
CROWD = tuple(ProcessId(f"y{number:04}", 1) for number in range(MEMBER_LIMIT - 3))
"""As many as fit into a message beside a few that exist."""


class Stage:
    """Three senders and a receiver in one view, of whom `a` gets forged messages."""

    def __init__(self) -> None:
        self.play = Interpreter()
        self.run("start a b c r", "join a b c service=timestamp", "join r service=timestamp role=receiver", "run 600ms")

    def run(self, *commands: str) -> list[str]:
        return self.play.play(list(commands))

    def engine(self, name: str) -> IntergroupEngine:
        node = self.play._world.stations[name].node
        assert node is not None
        engine = node._groups[DEFAULT_GROUP]
        assert isinstance(engine, IntergroupEngine)
        return engine

    def life(self, name: str) -> ProcessId:
        return self.play._life(name)

    @property
    def view(self) -> ViewId:
        view = self.play._world.stations["a"].view
        assert view is not None
        return view.id

    def forge(self, sender: ProcessId, messages: Iterable[MembershipMessage], to: tuple[str, ...] = ("a", "r")) -> None:
        writer = DatagramWriter(sender, group_number("", DEFAULT_GROUP), NullSeal(), 60_000)
        address = sender.name if sender.name in self.play._world.stations else "b"
        for message in messages:
            for datagram in writer.control([message]):
                for receiver in to:
                    self.play._world.forge(address, receiver, datagram)

    def opinion(self, attempt: int, **fields: object) -> Opinion:
        values: dict[str, object] = {
            "view": self.view,
            "procs": (self.life("a"), self.life("b"), self.life("c")),
            "accused": (),
            "failed": (),
            "refused": (),
            "lacks": (),
            "out": False,
            "paused": 0,
        }
        return Opinion(attempt=attempt, **{**values, **fields})  # type: ignore[arg-type]

    def goes_on(self) -> None:
        """After some time everybody is in one view and delivers the same, whatever was said."""
        self.run("run 20s", "order")
        self.run("send a one", "send b two", "send c three", "run 1s")
        (line,) = self.run("order")
        names, delivered = line.split(": ")
        assert names == "a b c r"
        assert sorted(delivered.split()) == ["one", "three", "two"]


def test_an_opinion_of_a_stranger_with_very_many_processes() -> None:
    stage = Stage()
    everybody = (*CROWD, STRANGER, stage.life("a"))
    stage.forge(STRANGER, [stage.opinion(attempt, procs=everybody, accused=CROWD) for attempt in (1, 2, 3)])
    stage.run("run 10s")
    stage.goes_on()
    assert len(stage.engine("a")._membership.repair._agreement.procs) == 3


def test_an_opinion_of_a_member_with_many_processes() -> None:
    stage = Stage()
    everybody = (*CROWD[:100], stage.life("a"), stage.life("b"), stage.life("c"))
    stage.play._world.watched = {"opinion"}
    stage.forge(stage.life("b"), [stage.opinion(1000, procs=everybody)])
    said = stage.run("run 5s")
    stage.play._world.watched = set()
    assert sum(" opinion" in line for line in said) < 300, "a hundred silent processes are not a hundred opinions"
    stage.goes_on()
    assert len(stage.engine("a")._membership.repair._agreement.procs) == 3


def test_opinions_that_flap() -> None:
    stage = Stage()
    a, b, c = (stage.life(name) for name in "abc")
    for attempt in range(1000, 1200):
        accused = (c,) if attempt % 2 else ()
        stage.forge(b, [stage.opinion(attempt, accused=accused, failed=accused, procs=(a, b, c))], to=("a", "c"))
        stage.run("run 10ms")
    stage.goes_on()


def test_opinions_at_the_end_of_all_attempts() -> None:
    stage = Stage()
    stage.forge(stage.life("b"), [stage.opinion(LAST, accused=(stage.life("c"),))])
    stage.run("run 5s")
    stage.goes_on()


def test_a_view_other_than_the_one_agreed() -> None:
    """The right proposal with the wrong members, starts or ends is not installed."""
    stage = Stage()
    a, b, c = (stage.life(name) for name in "abc")
    stage.run("crash c", "lose new-view from a to b", "run 700ms")
    for _ in range(20):
        proposal = stage.engine("b")._membership.repair._recovery.proposal
        if proposal is not None:
            start = EPOCH + stage.play._world.now
            for members in ((a,), (a, b), (a, b, c), (STRANGER,)):
                stage.forge(a, [new_view(stage, proposal.number, ViewId(start, a, 99), *members)], to=("b",))
        stage.run("run 20ms")
    view = stage.engine("b")._membership.repair.view
    assert view is not None
    assert view.id == stage.play._world.stations["b"].view.id  # type: ignore[union-attr]
    assert view.id.sequence != 99
    stage.run("lose nothing", "run 5s", "restart c", "join c service=timestamp", "run 1s")
    stage.goes_on()


def test_accusations_of_itself_and_of_nobody() -> None:
    stage = Stage()
    a, b = stage.life("a"), stage.life("b")
    stage.forge(
        b,
        [
            stage.opinion(1000, accused=(b,), failed=(b,)),
            stage.opinion(1001, procs=(), accused=(a,), failed=(a,), refused=(a,)),
            stage.opinion(1002, procs=(STRANGER,), lacks=(UpTo(STRANGER, LAST), UpTo(a, 1), UpTo(b, 0))),
            stage.opinion(1003, paused=LAST),
        ],
    )
    stage.goes_on()


def new_view(stage: Stage, proposal: int, view: ViewId, *members: ProcessId) -> NewView:
    seats = tuple(Seat(member, 1, 1, 1) for member in members)
    cut = tuple(UpTo(member, LAST) for member in members)
    return NewView(proposal, view, view, seats, (Origin(stage.view, stage.view, members, cut),), (), (), None, b"")


@pytest.mark.parametrize("ahead", [1, 3600 * SECOND, 365 * 86400 * SECOND], ids=["soon", "later", "next year"])
def test_a_view_that_nobody_proposed(ahead: int) -> None:
    stage = Stage()
    a, b, c = (stage.life(name) for name in "abc")
    start = EPOCH + stage.play._world.now + ahead
    for sender in (b, STRANGER):
        stage.forge(sender, [new_view(stage, 17, ViewId(start, b, 9), a, b, c)])
        stage.forge(sender, [new_view(stage, 18, ViewId(start, b, 10), b, c)])
        stage.forge(sender, [new_view(stage, 0, ViewId(LAST, STRANGER, LAST), STRANGER)])
    stage.run("run 5s")
    stage.goes_on()


def test_recovery_information_far_ahead() -> None:
    stage = Stage()
    a, b, c = (stage.life(name) for name in "abc")
    record = PrimaryRecord(ViewId(LAST, b, LAST), (b,))
    far = tuple(UpTo(process, LAST) for process in (a, b, c, STRANGER))
    infos = [
        RecoveryInfo(number, stage.view, stage.view, time, LAST, LAST, far, record, (record,) * 16, b"")
        for number in (0, 1, LAST)
        for time in (0, LAST)
    ]
    stage.forge(b, infos)
    stage.run("crash c")
    stage.forge(b, infos)
    stage.run("run 500ms")
    stage.forge(b, infos)
    stage.run("run 5s", "restart c", "join c service=timestamp", "run 1s")
    stage.goes_on()


def test_recovery_information_for_the_proposal_itself() -> None:
    """One member answers for messages that do not exist: it is not waited for longer than patience allows."""
    stage = Stage()
    a, b = stage.life("a"), stage.life("b")
    far = (UpTo(a, LAST), UpTo(stage.life("c"), LAST), UpTo(STRANGER, 5))
    stage.run("crash c", "lose recovery-info from b to a", "run 700ms")
    for _ in range(40):
        proposal = stage.engine("a")._membership.repair._recovery.proposal
        if proposal is not None:
            info = RecoveryInfo(proposal.number, stage.view, stage.view, EPOCH, 0, 1, far, None, (), b"")
            stage.forge(b, [info, Ready(proposal.number)])
        stage.run("run 20ms")
    assert a in stage.engine("a")._membership.repair.view.members  # type: ignore[union-attr]
    stage.run("lose nothing", "run 10s", "restart c", "join c service=timestamp", "run 1s")
    stage.goes_on()


def test_ready_and_requests_from_anybody() -> None:
    stage = Stage()
    for number in range(300):
        stage.forge(ProcessId(f"z{number}", 1), [Ready(number), ViewRequest(stage.life("a"), None)], to=("a",))
    stage.forge(stage.life("b"), [ViewRequest(STRANGER, stage.view), ViewRequest(stage.life("a"), stage.view)])
    stage.run("run 1s")
    stage.goes_on()
    assert len(stage.engine("a")._membership.repair._recovery.ready) <= 3


def test_cut_information_of_who_is_no_receiver() -> None:
    stage = Stage()
    points = tuple(UpTo(stage.life(name), LAST) for name in "abc")
    stage.forge(STRANGER, [CutInfo(stage.view, points)])
    stage.forge(stage.life("r"), [CutInfo(stage.view, points)], to=("a", "b"))
    stage.run("crash c", "run 10s", "restart c", "join c service=timestamp", "run 1s")
    stage.goes_on()


def test_many_lives_leave_nothing_behind() -> None:
    stage = Stage()
    for number in range(300):
        life = ProcessId("x", 100 + number)
        stage.forge(life, [stage.opinion(1, procs=(life,)), ViewRequest(stage.life("b"), None)])
        stage.run("run 1ms")
    stage.run("run 10s")
    stage.goes_on()
    repair = stage.engine("a")._membership.repair
    assert len(repair._addresses) < 20
    assert len(repair._agreement.opinions) < 20
    assert len(stage.engine("r")._membership._receiver._addresses) < 20
