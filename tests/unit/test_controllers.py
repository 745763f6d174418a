"""What a controller does with its clients, and what it tells its server of them."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TypeVar

from unisono.clock import LamportClock
from unisono.engine import Address, Channel, ChannelClosed, ChannelOpened, Effect, Fact, FrameReceived, SendFrame
from unisono.identity import ProcessId, ViewId
from unisono.sealing import NullSeal
from unisono.settings import Settings
from unisono.units import SECOND
from unisono.virtual_synchrony.reasons import NAME_TAKEN
from unisono.virtual_synchrony.session import phases
from unisono.virtual_synchrony.session.phases import Resumption, Resumptions
from unisono.virtual_synchrony.structured.controller import Controller
from unisono.wire.controller_frames import (
    LEFT,
    Dismissed,
    Enter,
    Exit,
    Installed,
    Prepare,
    Ready,
    read_controller_frame,
)
from unisono.wire.server_frames import (
    ELSEWHERE,
    NEWER_LIFE,
    Charge,
    Charges,
    Departure,
    Entry,
    JoinGroup,
    LeaveGroup,
    NewView,
    Overruled,
    StartChange,
    Welcome,
    digest_of,
    read_client_frame,
    write_server_frame,
)

OWN, TOM = ProcessId("kit", 1), ProcessId("tom", 1)
ADA, BOB, NEWER = ProcessId("ada", 1), ProcessId("bob", 1), ProcessId("ada", 2)
G = "g"
SERVER = Channel(1)
Kind = TypeVar("Kind")


class Play:
    """A controller with a server that does as it is told, and what was said last."""

    def __init__(self) -> None:
        place, other = Address("10.0.0.1:7500"), Address("10.0.0.2:7500")
        self.engine = Controller(
            OWN, "realm", (place, other), Settings(trace=False), LamportClock(SECOND), Random(1), NullSeal(), SERVER
        )
        self.engine.start(0)
        self.round = 0
        self.give(ChannelOpened(SERVER, place, accepted=False))
        self.hear(SERVER, Welcome(TOM, ()))

    def give(self, fact: Fact) -> list[tuple[int, object]]:
        return [_read(effect) for effect in self.engine.handle(fact, 0, 0) if isinstance(effect, SendFrame)]

    def open(self, channel: int) -> None:
        self.give(ChannelOpened(Channel(channel), Address("x"), accepted=True))

    def hear(self, channel: int, *frames: object) -> list[tuple[int, object]]:
        return [
            said for frame in frames for said in self.give(FrameReceived(Channel(channel), write_server_frame(frame)))
        ]

    def announce(self, *charges: ProcessId) -> list[tuple[int, object]]:
        """A start-change that expects these clients of the controller."""
        self.round += 1
        entries = (Entry(OWN, "", OWN), *(Entry(charge, "", OWN) for charge in charges))
        digest = digest_of(entry.process for entry in entries)
        view = ViewId(self.round, TOM, digest >> 1)
        said = self.hear(SERVER, StartChange(G, self.round, view, True, entries, (), digest))
        self.view = view
        return said

    def agree(self) -> list[tuple[int, object]]:
        return self.hear(SERVER, NewView(G, self.view))


def _read(effect: SendFrame) -> tuple[int, object]:
    read = read_client_frame if effect.channel == SERVER else read_controller_frame
    return effect.channel, read(effect.data)


def of(said: Iterable[tuple[int, object]], kind: type[Kind]) -> list[tuple[int, Kind]]:
    return [(channel, frame) for channel, frame in said if isinstance(frame, kind)]


def in_view() -> Play:
    """Ada and bob are in a view."""
    play = Play()
    play.open(-1)
    play.open(-2)
    play.hear(-1, Enter(ADA, G, 0, 1))
    play.hear(-2, Enter(BOB, G, 0, 1))
    play.announce(ADA, BOB)
    assert [channel for channel, _ in of(play.agree(), Installed)] == [-1, -2]
    return play


def test_a_controller_joins_a_group_and_says_for_whom_at_once() -> None:
    play = Play()
    play.open(-1)
    said = play.hear(-1, Enter(ADA, G, 7, 1))
    assert [type(frame) for _, frame in said] == [JoinGroup, Charges]
    assert said[1][1] == Charges(G, 7, (Charge(ADA, 1),), ())


def test_who_says_twice_that_it_enters_is_there_once() -> None:
    play = Play()
    play.open(-1)
    play.hear(-1, Enter(ADA, G, 0, 1))
    assert play.hear(-1, Enter(ADA, G, 0, 1)) == []
    play.announce(ADA)
    play.agree()
    assert play.hear(-1, Enter(ADA, G, 1, 1)) == []
    ((channel, prepare),) = of(play.announce(ADA), Prepare)
    assert (channel, prepare.anew) == (-1, False), "its place is what it was"


def test_who_enters_anew_waits_until_the_view_has_changed() -> None:
    play = in_view()
    assert of(play.hear(-1, Enter(ADA, G, 1, 2)), Charges) == [(SERVER, Charges(G, 0, (), ((ADA, Departure.UNKNOWN),)))]
    play.announce(BOB)
    play.hear(-2, Ready(G, 2))
    assert of(play.agree(), Charges) == [(SERVER, Charges(G, 1, (Charge(ADA, 2),), ()))]


def test_who_left_while_its_view_was_announced_waits_too() -> None:
    play = Play()
    play.open(-1)
    play.open(-2)
    play.hear(-2, Enter(BOB, G, 0, 1))
    play.hear(-1, Enter(ADA, G, 0, 1))
    play.announce(ADA, BOB)
    said = play.hear(-1, Exit(G), Enter(ADA, G, 1, 2))
    assert of(said, Dismissed) == [(-1, Dismissed(G, LEFT))]
    assert of(said, Charges) == [(SERVER, Charges(G, 0, (), ((ADA, Departure.LEFT),)))]
    assert [channel for channel, _ in of(play.agree(), Installed)] == [-2]
    play.announce(BOB)
    assert of(play.hear(-2, Ready(G, 2)), Charges) == []
    assert of(play.agree(), Charges) == [(SERVER, Charges(G, 1, (Charge(ADA, 2),), ()))]


def test_what_comes_late_on_an_earlier_channel_does_not_matter() -> None:
    play = in_view()
    play.open(-3)
    play.hear(-3, Enter(ADA, G, 1, 2))
    play.announce(BOB)
    play.hear(-2, Ready(G, 2))
    play.agree()
    assert of(play.hear(-1, Enter(ADA, G, 1, 1)), Charges) == []
    assert of(play.hear(-1, Exit(G)), Charges) == []
    assert of(play.give(ChannelClosed(Channel(-1))), Charges) == []
    play.announce(ADA, BOB)
    play.hear(-2, Ready(G, 3))
    assert [channel for channel, _ in of(play.agree(), Installed)] == [-2, -3]


def test_the_last_client_takes_the_controller_along() -> None:
    play = in_view()
    assert of(play.hear(-1, Exit(G)), Charges) == [(SERVER, Charges(G, 0, (), ((ADA, Departure.LEFT),)))]
    said = play.hear(-2, Exit(G))
    assert of(said, LeaveGroup) == [(SERVER, LeaveGroup(G, ((BOB, Departure.LEFT),)))]
    assert not of(said, Charges)


def test_a_newer_life_at_the_same_controller_ends_the_older_one_in_all_its_groups() -> None:
    play = in_view()
    play.hear(-1, Enter(ADA, "h", 0, 2))
    play.open(-3)
    said = play.hear(-3, Enter(NEWER, G, 0, 1))
    assert of(said, Dismissed) == [(-1, Dismissed(G, NAME_TAKEN, True)), (-1, Dismissed("h", NAME_TAKEN, True))]
    assert of(said, Charges) == [
        (SERVER, Charges(G, 0, (), ((ADA, Departure.RESTARTED),))),
        (SERVER, Charges(G, 0, (Charge(NEWER, 1),), ())),
    ]
    assert play.hear(-1, Enter(ADA, G, 1, 3)) == [(-1, Dismissed(G, NAME_TAKEN, True))]


def test_a_controller_that_is_overruled_lets_go() -> None:
    play = in_view()
    assert not of(play.hear(SERVER, Overruled(G, ADA, 0, ELSEWHERE)), Dismissed), "that was an earlier entry"
    said = play.hear(SERVER, Overruled(G, ADA, 1, ELSEWHERE))
    assert of(said, Dismissed) == [(-1, Dismissed(G, ELSEWHERE))]
    said = play.hear(SERVER, Overruled(G, BOB, 1, NEWER_LIFE))
    assert of(said, Dismissed) == [(-2, Dismissed(G, NAME_TAKEN, True))]
    assert of(said, LeaveGroup)


def test_a_server_that_is_new_is_told_of_all_clients_with_the_first_frames() -> None:
    play = in_view()
    play.give(ChannelClosed(SERVER))
    place = Address("10.0.0.2:7500")
    effects: list[Effect] = play.engine.handle(ChannelOpened(Channel(SERVER + 1), place, accepted=False), 0, 0)
    frames = [read_client_frame(effect.data) for effect in effects if isinstance(effect, SendFrame)]
    assert Charges(G, 0, (Charge(ADA, 1), Charge(BOB, 1)), ()) in frames


def test_what_is_kept_of_groups_that_were_left_is_bounded() -> None:
    left = Resumptions()
    for number in range(phases.LEFT_LIMIT + 10):
        left.keep(f"g{number}", Resumption(number * 7 % 10, 2, 1000 - number, {ADA: number}))
    assert len(left) == phases.LEFT_LIMIT
    exact = left.take(f"g{phases.LEFT_LIMIT}")
    assert (exact.number, exact.stretch, exact.heard) == (phases.LEFT_LIMIT * 7 % 10, 2, {ADA: phases.LEFT_LIMIT})
    old = left.take("g3")
    assert (old.number, old.stretch, old.change, old.heard) == (9, 2, 1000, {}), "above all that is not known exactly"
