"""A membership server alone: what it answers, to whom, in which order, and what it does not believe."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

from tests.unit.street import Even
from unisono.engine import (
    Address,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Effect,
    Fact,
    FrameReceived,
    Note,
    OpenChannel,
    SendFrame,
    Start,
    TimePassed,
)
from unisono.fingerprint import fingerprint
from unisono.identity import ProcessId, ViewId
from unisono.settings import Settings
from unisono.units import SECOND
from unisono.virtual_synchrony.servers import group as group_file
from unisono.virtual_synchrony.servers import reception
from unisono.virtual_synchrony.servers import server as servers
from unisono.virtual_synchrony.servers.exchange import ROUND_LIMIT
from unisono.virtual_synchrony.servers.links import LinkStates, cliques
from unisono.virtual_synchrony.servers.parts import divide, unite
from unisono.virtual_synchrony.servers.reception import CHANGE_LIMIT
from unisono.virtual_synchrony.servers.server import MembershipServer
from unisono.wire.controller_frames import Prepare, read_controller_frame
from unisono.wire.peer_frames import (
    LinkState,
    Listed,
    Proposal,
    RosterChange,
    RosterUpdate,
    ServerBeat,
    ServerHello,
    Synced,
    read_peer_frame,
)
from unisono.wire.server_frames import (
    ELSEWHERE,
    NEWER_LIFE,
    Accusation,
    Attach,
    Charge,
    Charges,
    Departure,
    Entry,
    JoinGroup,
    LeaveGroup,
    NewView,
    Overruled,
    Ping,
    Pong,
    Refused,
    Standing,
    StartChange,
    Welcome,
    read_client_frame,
    read_server_frame,
    write_server_frame,
)

ADA, BOB, CAT, DAN = (ProcessId(name, 2) for name in ("ada", "bob", "cat", "dan"))
SUE, TOM, UMA = (ProcessId(name, 5) for name in ("sue", "tom", "uma"))
G = "g"
SETTINGS = Settings()
INTERVAL, TIMEOUT = SETTINGS.server_interval, SETTINGS.server_timeout


class Server:
    """A server, and what it did last."""

    def __init__(self, process: ProcessId = TOM, peers: Iterable[str] = ()) -> None:
        self.engine = MembershipServer(process, tuple(map(Address, peers)), SETTINGS, Even(0.5), 100)
        self.now = 0
        self.effects = self.engine.handle(Start(), 0)

    def give(self, fact: Fact) -> list[object]:
        """What it does: frames with their channels, other effects as they are."""
        self.effects = self.engine.handle(fact, self.now)
        return [_read(effect) for effect in self.effects]

    def open(self, channel: int, peer: str, accepted: bool = True) -> list[object]:
        return self.give(ChannelOpened(Channel(channel), Address(peer), accepted))

    def hear(self, channel: int, *frames: object) -> list[object]:
        said: list[object] = []
        for frame in frames:
            said += self.give(FrameReceived(Channel(channel), write_server_frame(frame)))
        return said

    def attach(self, channel: int, process: ProcessId, *standings: Standing, controller: bool = False) -> list[object]:
        self.open(channel, f"at-{process.name}")
        return self.hear(channel, Attach(process, controller, standings))

    def link(self, channel: int, process: ProcessId, *rosters: RosterUpdate) -> list[object]:
        """Another server calls, and both know that they are linked."""
        self.open(channel, f"at-{process.name}")
        links = LinkState(process, 7, tuple(sorted({*self.engine.servers, self.engine.process})))
        return self.hear(channel, ServerHello(process), *rosters, Synced(9), links)

    def wait(self, span: int) -> list[object]:
        """Let time pass, from deadline to deadline."""
        end, said = self.now + span, []
        while (due := self.engine.deadline()) is not None and due <= end:
            self.now = max(due, self.now)
            said += self.give(TimePassed())
        self.now = end
        return said


def _read(effect: Effect) -> object:
    if isinstance(effect, SendFrame):
        return effect.channel, read_server_frame(effect.data) or read_peer_frame(effect.data)
    return effect


Kind = TypeVar("Kind")


def frames(said: list[object], kind: type[Kind]) -> list[tuple[int, Kind]]:
    """The frames of one kind, with their channels."""
    return [one for one in said if isinstance(one, tuple) and isinstance(one[1], kind)]


def kinds(said: list[object]) -> list[type]:
    """What was said, where it is frames alone."""
    return [type(one[1]) if isinstance(one, tuple) else type(one) for one in said]


def listed(process: ProcessId, held: ViewId | None = None, accused: tuple[ProcessId, ...] = ()) -> Listed:
    return Listed(Entry(process, f"at-{process.name}"), True, held, accused)


def update(*clients: Listed, version: int = 9, number: int = 0, base: int = 0) -> RosterUpdate:
    return RosterUpdate(G, number, RosterChange(base, version, clients, (), ()))


# Clients.


def test_the_first_client_has_its_view_at_once() -> None:
    server = Server()
    said = server.attach(-1, ADA, Standing(G))
    assert kinds(said) == [Welcome, StartChange, NewView]
    assert said[0] == (-1, Welcome(TOM, ()))
    ((_, start),), ((_, view),) = frames(said, StartChange), frames(said, NewView)
    assert start.anew
    assert start.added == (Entry(ADA, "at-ada"),)
    assert view == NewView(G, start.view)
    assert start.view[:2] == (1, TOM)
    assert server.engine.views(G) == [start.view]
    assert server.engine.members(G) == [ADA]


def test_the_next_is_told_as_a_difference() -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G))
    said = server.attach(-2, BOB, Standing(G))
    starts = dict(frames(said, StartChange))
    assert [(starts[c].anew, len(starts[c].added)) for c in (-1, -2)] == [(False, 1), (True, 2)]
    said = server.hear(-2, LeaveGroup(G))
    ((channel, start),) = frames(said, StartChange)
    assert channel == -1
    assert (start.added, start.removed) == ((), ((BOB, Departure.LEFT),))


def test_rounds_begin_above_what_a_client_saw() -> None:
    server = Server()
    old = ViewId(50, SUE, 1)
    ((_, start),) = frames(server.attach(-1, ADA, Standing(G, 60, old, old)), StartChange)
    assert start.change == 61


def test_identifiers_do_not_come_again_when_a_group_was_forgotten() -> None:
    server = Server()
    first = frames(server.attach(-1, ADA, Standing(G)), NewView)
    server.hear(-1, LeaveGroup(G))
    assert server.engine.groups == []
    second = frames(server.hear(-1, JoinGroup(Standing(G))), NewView)
    assert len(first) == len(second) == 1
    assert first != second


def test_a_client_that_comes_back_in_its_view_is_told_nothing() -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G))
    ((_, new),) = frames(server.attach(-2, BOB, Standing(G)), NewView)[1:]
    server.give(ChannelFailed(Channel(-2), "broken"))
    said = server.attach(-3, BOB, Standing(G, new.view.start, new.view, new.view))
    assert not frames(said, StartChange)
    assert not frames(said, NewView)
    assert server.wait(3 * SECOND)
    assert server.engine.members(G) == []  # nobody said a word for so long


def test_a_client_that_saw_the_start_change_is_told_that_the_view_stands() -> None:
    server = Server()
    ((_, first),) = frames(server.attach(-1, ADA, Standing(G)), NewView)
    ((_, second), _) = frames(server.attach(-2, BOB, Standing(G)), NewView)
    server.give(ChannelFailed(Channel(-1), "broken"))
    said = server.attach(-3, ADA, Standing(G, second.view.start, first.view, second.view))
    assert frames(said, NewView) == [(-3, second)]
    assert not frames(said, StartChange)


def test_a_client_to_which_others_announced_another_view_with_that_number_gets_the_next() -> None:
    """Servers that were parted count alike: a client may know the number of a view that it was never told of."""
    server = Server()
    ((_, first),) = frames(server.attach(-1, ADA, Standing(G)), NewView)
    ((_, second), _) = frames(server.attach(-2, BOB, Standing(G)), NewView)
    server.give(ChannelFailed(Channel(-1), "broken"))
    other = ViewId(second.view.start, SUE, 1)
    said = server.attach(-3, ADA, Standing(G, other.start, first.view, other))
    assert {start.change for _, start in frames(said, StartChange)} == {other.start + 1}


def test_a_client_that_saw_a_later_start_change_gets_another() -> None:
    server = Server()
    ((_, new),) = frames(server.attach(-1, ADA, Standing(G)), NewView)
    server.give(ChannelFailed(Channel(-1), "broken"))
    ((_, start),) = frames(server.attach(-2, ADA, Standing(G, 9, new.view, new.view)), StartChange)
    assert start.change == 10


def test_silent_clients_go_and_those_who_say_that_they_live_stay() -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G))
    server.attach(-2, BOB, Standing(G))
    for number in range(20):
        server.wait(INTERVAL)
        assert server.hear(-1, Ping(number)) == [(-1, Pong(number))]
    assert server.engine.clients == [ADA]
    assert server.engine.members(G) == [ADA]


def test_a_server_that_was_stopped_blames_nobody() -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G))
    server.link(-2, SUE)
    server.now += 60 * SECOND
    server.give(TimePassed())
    assert server.engine.clients == [ADA]
    assert server.engine.servers == (SUE, TOM)


@pytest.mark.parametrize(
    "frame",
    [b"", b"\x01", b"\xff\x00", write_server_frame(Welcome(TOM, ())), write_server_frame(Attach(ADA, False, ()))],
)
def test_a_bad_frame_of_a_client_closes_its_channel(frame: bytes) -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G))
    said = server.give(FrameReceived(Channel(-1), frame))
    assert frames(said, Refused)
    assert CloseChannel(Channel(-1)) in said
    assert server.engine.groups == []
    assert server.hear(-1, Ping(1)) == []


@pytest.mark.parametrize(
    "frame",
    [
        Charges(G, 0, (Charge(BOB, 1),), ()),
        Charges(G, CHANGE_LIMIT, (), ()),
        JoinGroup(Standing("\n")),
        JoinGroup(Standing(G, CHANGE_LIMIT)),
        JoinGroup(Standing(G, 0, ViewId(CHANGE_LIMIT, TOM, 0))),
        Accusation(G, (BOB,) * 5000),
    ],
)
def test_what_cannot_be_is_refused(frame: object) -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G))
    assert frames(server.hear(-1, frame), Refused)
    assert server.engine.clients == []


def test_an_older_life_is_refused_and_a_newer_one_takes_its_place() -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G))
    assert frames(server.attach(-2, ProcessId("ada", 1), Standing(G)), Refused)
    said = server.attach(-3, ProcessId("ada", 3), Standing(G))
    assert CloseChannel(Channel(-1)) in said
    assert server.engine.members(G) == [ProcessId("ada", 3)]


def test_limits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reception, "CLIENTS_LIMIT", 1)
    monkeypatch.setattr(reception, "GROUPS_LIMIT", 1)
    monkeypatch.setattr(servers, "STRANGERS_LIMIT", 2)
    server = Server()
    server.attach(-1, ADA, Standing(G))
    assert frames(server.attach(-2, BOB), Refused)
    assert not frames(server.open(-3, "x") + server.open(-4, "y"), Refused)
    assert frames(server.open(-5, "z"), Refused)
    assert frames(server.hear(-1, JoinGroup(Standing("h"))), Refused)


def test_who_does_not_say_who_it_is_is_turned_away() -> None:
    server = Server()
    server.open(-1, "x")
    assert CloseChannel(Channel(-1)) in server.wait(2 * TIMEOUT)
    assert server.engine.deadline() is None


def test_a_controller_comes_with_those_for_whom_it_speaks() -> None:
    server = Server()
    assert not frames(server.attach(-1, ADA, Standing(G), controller=True), StartChange)
    ((_, start),) = frames(server.hear(-1, Charges(G, 0, (Charge(BOB, 1), Charge(CAT, 1)), ())), StartChange)
    assert start.added == (Entry(ADA, "at-ada", ADA), Entry(BOB, "", ADA), Entry(CAT, "", ADA))
    server.hear(-1, Charges(G, 0, (), ((BOB, Departure.LEFT),)))
    assert server.engine.members(G) == [ADA, CAT]
    server.give(ChannelClosed(Channel(-1)))
    assert server.engine.groups == []


def test_whom_a_controller_loses_and_finds_again_begins_anew() -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G), controller=True)
    server.hear(-1, Charges(G, 0, (Charge(BOB, 1),), ()))
    assert frames(server.hear(-1, Charges(G, 0, (Charge(BOB, 1),), ((BOB, Departure.LEFT),))), NewView)


def overruled(said: list[object]) -> list[tuple[int, ProcessId, int, str]]:
    """Who is told that it speaks for whom no longer."""
    return [(channel, frame.process, frame.entry, frame.reason) for channel, frame in frames(said, Overruled)]


def controllers() -> Server:
    """A server with two controllers, the first of which speaks for one client by its second entry."""
    server = Server()
    server.attach(-1, ADA, Standing(G), controller=True)
    server.attach(-2, DAN, Standing(G), controller=True)
    server.hear(-1, Charges(G, 0, (Charge(BOB, 2),), ()))
    server.hear(-2, Charges(G, 0, (Charge(CAT, 1),), ()))
    return server


def test_of_two_controllers_that_claim_a_client_the_later_entry_counts() -> None:
    server = controllers()
    assert overruled(server.hear(-2, Charges(G, 0, (Charge(BOB, 1),), ()))) == [(-2, BOB, 1, ELSEWHERE)]
    said = server.hear(-2, Charges(G, 0, (Charge(BOB, 3),), ()))
    assert overruled(said) == [(-1, BOB, 2, ELSEWHERE)]
    assert Entry(BOB, "", DAN) in frames(said, StartChange)[-1][1].added
    assert not frames(server.hear(-1, Charges(G, 0, (), ((BOB, Departure.LEFT),))), StartChange)


def test_what_a_controller_says_twice_changes_nothing() -> None:
    server = controllers()
    assert not frames(server.hear(-1, Charges(G, 0, (Charge(BOB, 2),), ())), StartChange)


def test_what_the_clients_of_a_controller_saw_is_heeded() -> None:
    server = controllers()
    ((_, start), _) = frames(server.hear(-1, Charges(G, 40, (Charge(ProcessId("eve", 2), 1),), ())), StartChange)
    assert start.change > 40


def test_a_later_entry_at_another_server_overrules_the_one_here() -> None:
    server = controllers()
    server.link(-9, SUE)
    listing = [Listed(Entry(BOB, "", UMA), True, claim=claim) for claim in (1, 3)]
    assert not overruled(server.hear(-9, update(listing[0], version=10)))
    assert overruled(server.hear(-9, update(listing[1], version=11))) == [(-1, BOB, 2, ELSEWHERE)]
    assert overruled(server.hear(-1, Charges(G, 0, (Charge(BOB, 2),), ()))) == [(-1, BOB, 2, ELSEWHERE)]


def test_a_newer_life_ends_the_one_that_a_controller_speaks_for() -> None:
    newer = ProcessId("bob", 3)
    server = controllers()
    assert overruled(server.hear(-2, Charges(G, 0, (Charge(newer, 1),), ()))) == [(-1, BOB, 2, NEWER_LIFE)]
    assert overruled(server.hear(-1, Charges(G, 0, (Charge(BOB, 4),), ()))) == [(-1, BOB, 4, NEWER_LIFE)]
    server = controllers()
    assert overruled(server.attach(-3, newer, Standing(G))) == [(-1, BOB, 2, NEWER_LIFE)]
    assert server.engine.members(G) == [ADA, newer, CAT, DAN]
    server = controllers()
    server.link(-9, SUE)
    assert overruled(server.hear(-9, update(listed(newer), version=10))) == [(-1, BOB, 2, NEWER_LIFE)]


def test_a_client_gives_way_to_a_newer_life_at_a_controller_and_an_older_one_is_refused() -> None:
    newer = ProcessId("eve", 3)
    server = controllers()
    server.attach(-3, ProcessId("eve", 2), Standing(G))
    ((channel, refused),) = frames(server.hear(-1, Charges(G, 0, (Charge(newer, 1),), ())), Refused)
    assert (channel, refused.reason) == (-3, NEWER_LIFE)
    assert server.engine.members(G) == [ADA, BOB, CAT, DAN, newer]
    ((_, refused),) = frames(server.attach(-4, ProcessId("eve", 2), Standing(G)), Refused)
    assert refused.reason == NEWER_LIFE


# Why somebody is gone.


def told_why(said: list[object], channel: int = -1) -> dict[ProcessId, Departure]:
    """What the last start-change on a channel says of those who went."""
    return dict([frame for where, frame in frames(said, StartChange) if where == channel][-1].removed)


def go(server: Server, how: str) -> list[object]:
    """BOB, who is at -2, goes from the group."""
    if how == "leaves":
        return server.hear(-2, LeaveGroup(G))
    if how == "closes":
        return server.give(ChannelClosed(Channel(-2)))
    if how == "is lost":
        server.give(ChannelFailed(Channel(-2), "lost"))
    elif how == "says what cannot be":
        return server.hear(-2, Accusation(G, (ADA,) * 5000))
    elif how == "is followed":
        return server.attach(-3, ProcessId("bob", 3))
    elif how == "is lost and followed":
        server.give(ChannelFailed(Channel(-2), "lost"))
        return server.attach(-3, ProcessId("bob", 3))
    elif how == "is accused":
        return server.hear(-1, Accusation(G, (BOB,)))
    said: list[object] = []
    for number in range(12):  # BOB is silent
        server.hear(-1, Ping(number))
        said += server.wait(TIMEOUT // 2)
    return said


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("leaves", Departure.LEFT),
        ("closes", Departure.SUSPECTED),
        ("is lost", Departure.SUSPECTED),
        ("is silent", Departure.SUSPECTED),
        ("says what cannot be", Departure.SUSPECTED),
        ("is accused", Departure.SUSPECTED),
        ("is followed", Departure.RESTARTED),
        ("is lost and followed", Departure.RESTARTED),
    ],
)
def test_a_server_tells_why_a_client_is_gone(how: str, why: Departure) -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G))
    server.attach(-2, BOB, Standing(G))
    assert told_why(go(server, how)) == {BOB: why}
    server.attach(-4, CAT, Standing(G))
    said = server.attach(-5, DAN, Standing(G))
    away = {BOB: why} if how == "is accused" else {}
    assert (told_why(said), told_why(said, -5)) == ({}, away), "it is told once, and of who is apart to newcomers"


def test_who_was_with_a_controller_that_restarted_has_not_restarted() -> None:
    server = Server()
    server.attach(-1, CAT, Standing(G))
    server.attach(-2, ADA, Standing(G), controller=True)
    server.hear(-2, Charges(G, 0, (Charge(BOB, 1),), ()))
    said = server.attach(-3, ProcessId("ada", 3), Standing(G), controller=True)
    assert told_why(said) == {ADA: Departure.RESTARTED, BOB: Departure.SUSPECTED}


def test_who_went_with_its_controller_went_as_that_says() -> None:
    server = Server()
    server.attach(-1, CAT, Standing(G))
    server.attach(-2, ADA, Standing(G), controller=True)
    server.hear(-2, Charges(G, 0, (Charge(BOB, 1), Charge(DAN, 1)), ()))
    said = server.hear(-2, LeaveGroup(G, ((BOB, Departure.SUSPECTED),)))
    assert told_why(said) == {ADA: Departure.LEFT, BOB: Departure.SUSPECTED, DAN: Departure.UNKNOWN}


def settled(server: Server, said: list[object]) -> None:
    """SUE agrees to what the server proposes."""
    ((_, mine),) = frames(said, Proposal)
    server.hear(-9, Proposal(G, mine.round, mine.servers, mine.versions, mine.digest, None))
    assert not server.engine.is_changing(G)


def with_clients_elsewhere() -> Server:
    """ADA is with the server; BOB and CAT are with SUE, in one view with ADA."""
    server = Server()
    server.link(-9, SUE, update(listed(BOB), listed(CAT)))
    settled(server, server.attach(-1, ADA, Standing(G)))
    return server


def goes_at_sue(server: Server, version: int, *removed: tuple[ProcessId, Departure]) -> list[object]:
    return server.hear(-9, RosterUpdate(G, 0, RosterChange(version - 1, version, (), removed, ())))


def test_a_server_tells_what_another_says_and_nothing_of_who_came_to_it() -> None:
    server = with_clients_elsewhere()
    said = goes_at_sue(server, 10, (BOB, Departure.LEFT))
    assert told_why(said) == {BOB: Departure.LEFT}
    settled(server, said)
    settled(server, server.attach(-2, CAT, Standing(G)))
    assert not frames(goes_at_sue(server, 11, (CAT, Departure.UNKNOWN)), StartChange)
    assert told_why(server.hear(-2, LeaveGroup(G))) == {CAT: Departure.LEFT}


def test_a_word_that_comes_while_a_round_is_under_way_is_told_in_the_next() -> None:
    server = with_clients_elsewhere()
    said = server.attach(-2, DAN, Standing(G))
    assert not frames(goes_at_sue(server, 10, (BOB, Departure.LEFT)), StartChange)
    ((_, mine),) = frames(said, Proposal)
    said = server.hear(-9, Proposal(G, mine.round, mine.servers, mine.versions, mine.digest, None))
    assert told_why(said) == {BOB: Departure.LEFT}


def test_who_comes_from_another_server_is_told_why_others_went() -> None:
    server = with_clients_elsewhere()
    held = server.engine.views(G)[0]
    server.give(ChannelFailed(Channel(-1), "lost"))
    server.attach(-3, ADA, Standing(G, held.start, held, held))
    said = goes_at_sue(server, 10, (BOB, Departure.LEFT))
    ((_, start),) = frames(said, StartChange)
    assert start.anew
    assert start.removed == ((BOB, Departure.LEFT),)


def test_why_somebody_is_gone_is_remembered_of_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_file, "GONE_LIMIT", 1)
    server = with_clients_elsewhere()
    said = goes_at_sue(server, 10, (BOB, Departure.LEFT), (CAT, Departure.LEFT))
    assert told_why(said) == {BOB: Departure.UNKNOWN, CAT: Departure.LEFT}


@pytest.mark.parametrize("why", [4, -1, None, True, "left", 2.5])
def test_no_frame_has_another_reason(why: object) -> None:
    gone: Any = ((BOB, why),)
    change = RosterChange(0, 1, (), gone, ())
    assert read_client_frame(write_server_frame(LeaveGroup(G, gone))) is None
    assert read_client_frame(write_server_frame(Charges(G, 0, (), gone))) is None
    assert read_server_frame(write_server_frame(StartChange(G, 1, ViewId(1, TOM, 1), True, (), gone, 0))) is None
    assert read_peer_frame(write_server_frame(RosterUpdate(G, 1, change))) is None
    assert read_peer_frame(write_server_frame(Proposal(G, 1, (TOM,), (1,), 0, change))) is None
    assert read_controller_frame(write_server_frame(Prepare(G, 1, True, (), gone, 0))) is None


@pytest.mark.parametrize("why", Departure)
def test_a_reason_is_read_as_it_was_written_and_costs_two_bytes(why: Departure) -> None:
    leaving, prepare = LeaveGroup(G, ((BOB, why),)), Prepare(G, 1, True, (), ((BOB, why),), 0)
    assert read_client_frame(write_server_frame(leaving)) == leaving
    assert read_controller_frame(write_server_frame(prepare)) == prepare
    bare: Any = (BOB,)
    assert len(write_server_frame(leaving)) == len(write_server_frame(LeaveGroup(G, bare))) + 2


# Other servers.


def test_a_change_is_told_to_clients_first_and_then_to_servers() -> None:
    server = Server()
    server.link(-9, SUE)
    assert server.engine.servers == (SUE, TOM)
    server.attach(-1, ADA)
    said = server.hear(-1, JoinGroup(Standing(G)))
    assert kinds(said) == [StartChange, Proposal]
    ((_, mine),) = frames(said, Proposal)
    assert mine.servers == (SUE, TOM)
    assert server.engine.is_changing(G)
    said = server.hear(-9, Proposal(G, mine.round, mine.servers, mine.versions, mine.digest, None))
    assert kinds(said) == [NewView]


def test_proposals_that_differ_lead_to_the_next_round() -> None:
    server = Server()
    server.link(-9, SUE)
    ((_, mine),) = frames(server.attach(-1, ADA, Standing(G)), Proposal)
    change = RosterChange(0, 10, (listed(BOB),), (), ())
    said = server.hear(-9, Proposal(G, mine.round, mine.servers, (10, 0), 1, change))
    ((_, again),) = frames(said, Proposal)
    ((_, start),) = frames(said, StartChange)
    assert again.round == start.change == mine.round + 1
    assert [entry.process for entry in start.added] == [BOB]


def test_a_round_waits_for_what_its_proposals_build_on() -> None:
    server = Server(UMA)
    server.link(-8, SUE)
    server.open(-9, "at-tom")
    server.hear(-9, ServerHello(TOM), Synced(0), LinkState(TOM, 3, (SUE, UMA)))
    server.hear(-8, LinkState(SUE, 8, (TOM, UMA)))
    assert server.engine.servers == (SUE, TOM, UMA)
    built = Proposal(G, 1, (SUE, TOM, UMA), (10, 0, 0), 7, None)
    assert server.hear(-9, built) == []
    change = RosterChange(0, 10, (listed(BOB),), (), ())
    said = server.hear(-8, Proposal(G, 1, (SUE, TOM, UMA), (10, 0, 0), 7, change))
    assert frames(said, Proposal)


def test_what_changes_in_a_round_waits_for_its_end() -> None:
    server = Server()
    server.link(-9, SUE)
    ((_, mine),) = frames(server.attach(-1, ADA, Standing(G)), Proposal)
    assert not frames(server.attach(-2, BOB, Standing(G)), StartChange)
    said = server.hear(-9, Proposal(G, mine.round, mine.servers, mine.versions, mine.digest, None))
    ((_, following),) = frames(said, Proposal)
    assert following.change is not None
    assert [one.entry.process for one in following.change.listed] == [BOB]


def test_clients_of_a_lost_server_are_kept_for_a_while() -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G))
    said = server.link(-9, SUE, update(listed(BOB)))
    ((_, mine),) = frames(said, Proposal)
    server.hear(-9, Proposal(G, mine.round, mine.servers, mine.versions, mine.digest, None))
    server.give(ChannelFailed(Channel(-9), "crashed"))
    assert server.engine.servers == (TOM,)
    assert server.engine.members(G) == [ADA, BOB]
    assert not server.engine.is_changing(G)
    for number in range(8):
        server.wait(INTERVAL)
        server.hear(-1, Ping(number))
    assert server.engine.members(G) == [ADA]


@pytest.mark.parametrize(
    "frame",
    [
        ServerHello(SUE),
        Ping(1),
        update(listed(BOB), base=4),
        RosterUpdate(G, ROUND_LIMIT, RosterChange(0, 1, (), (), ())),
    ],
)
def test_a_bad_frame_of_a_server_ends_the_link(frame: object) -> None:
    server = Server()
    server.link(-9, SUE)
    assert CloseChannel(Channel(-9)) in server.hear(-9, frame)
    assert server.engine.servers == (TOM,)


def test_a_silent_server_is_gone_and_one_that_beats_is_not() -> None:
    server = Server()
    server.link(-8, SUE)
    server.open(-9, "at-uma")
    server.hear(-9, ServerHello(UMA), Synced(0), LinkState(UMA, 1, (SUE, TOM)))
    server.hear(-8, LinkState(SUE, 8, (TOM, UMA)))
    assert server.engine.servers == (SUE, TOM, UMA)
    for _ in range(10):
        said = server.wait(INTERVAL)
        server.hear(-8, ServerBeat())
    assert (-8, ServerBeat()) in said
    assert UMA not in server.engine.servers
    assert SUE in server.engine.servers


def test_channels_are_opened_again_and_again_with_growing_waits() -> None:
    server = Server(peers=["one"])
    assert server.effects == [OpenChannel(Channel(100), Address("one"))]
    waits = []
    for number in range(6):
        server.give(ChannelFailed(Channel(100 + number), "refused"))
        due = server.engine.deadline()
        assert due is not None
        waits.append(due - server.now)
        server.now = due
        assert server.give(TimePassed()) == [OpenChannel(Channel(101 + number), Address("one"))]
    assert waits == sorted(waits)
    assert waits[0] < waits[-1] == waits[-2]


def test_of_two_channels_the_one_of_the_lesser_server_is_kept() -> None:
    lesser = Server(TOM, peers=["at-uma"])
    lesser.link(-1, UMA)
    lesser.open(100, "at-uma", accepted=False)
    assert CloseChannel(Channel(-1)) in lesser.hear(100, ServerHello(UMA))
    greater = Server(TOM, peers=["at-sue"])
    greater.link(-1, SUE)
    greater.open(100, "at-sue", accepted=False)
    assert greater.hear(100, ServerHello(SUE)) == [CloseChannel(Channel(100))]
    assert greater.engine.servers == (SUE, TOM)


def test_a_server_that_calls_itself_stops() -> None:
    server = Server(peers=["me"])
    server.open(-1, "me")
    server.open(100, "me", accepted=False)
    assert server.hear(-1, ServerHello(TOM)) == [(-1, ServerHello(TOM)), CloseChannel(Channel(-1))]
    server.hear(100, ServerHello(TOM))
    assert server.wait(60 * SECOND) == []


def test_a_new_life_of_a_server_takes_the_place_of_the_old() -> None:
    server = Server()
    server.link(-1, SUE)
    server.open(-2, "at-sue")
    assert CloseChannel(Channel(-1)) in server.hear(-2, ServerHello(ProcessId("sue", 6)))
    server.open(-3, "at-sue")
    assert server.hear(-3, ServerHello(SUE)) == [CloseChannel(Channel(-3))]


def test_a_newer_life_of_a_client_elsewhere_ends_the_one_here() -> None:
    server = Server()
    server.attach(-1, ADA, Standing(G))
    server.link(-9, SUE)
    said = server.hear(-9, update(listed(ProcessId("ada", 3)), version=10))
    assert frames(said, Refused)
    assert server.engine.clients == []


def test_an_engine_can_be_copied_and_has_a_fingerprint() -> None:
    server = Server(peers=["one"])
    server.attach(-1, ADA, Standing(G))
    server.link(-9, SUE, update(listed(BOB)))
    twin = copy.deepcopy(server.engine)
    assert fingerprint(twin) == fingerprint(server.engine)
    twin.handle(ChannelClosed(Channel(-1)), 0)
    assert fingerprint(twin) != fingerprint(server.engine)


def test_facts_of_other_channels_come_to_nothing() -> None:
    server = Server()
    assert server.hear(-7, Ping(1)) == []
    assert server.give(ChannelClosed(Channel(-7))) == []
    assert server.open(500, "x", accepted=False) == []
    assert not any(isinstance(effect, Note) for effect in server.effects)


# Rules that all servers compute alike.


def test_cliques_are_of_those_who_all_have_links() -> None:
    assert cliques({SUE: (TOM,), TOM: (SUE, UMA), UMA: (TOM,)}) == [(SUE, TOM), (UMA,)]
    assert cliques({SUE: (TOM, UMA), TOM: (SUE, UMA), UMA: (SUE, TOM)}) == [(SUE, TOM, UMA)]
    assert cliques({SUE: (TOM,), TOM: (), UMA: ()}) == [(SUE,), (TOM,), (UMA,)]


def test_links_of_servers_that_cannot_be_reached_are_forgotten() -> None:
    states = LinkStates(TOM)
    states.tell((SUE,))
    assert states.learn(LinkState(SUE, 2, (TOM, UMA)))
    assert not states.learn(LinkState(SUE, 1, ()))
    assert states.learn(LinkState(UMA, 1, (SUE,)))
    states.learn(LinkState(SUE, 3, (TOM,)))
    states.forget_unreachable(0, TIMEOUT)
    assert len(states.states) == 3
    states.forget_unreachable(TIMEOUT, TIMEOUT)
    assert [state.server for state in states.states] == [SUE, TOM]


def test_links_of_a_server_that_is_reached_again_are_passed_on_once() -> None:
    """Who is behind this server may have forgotten it meanwhile, and the server itself has nothing new to say."""
    states = LinkStates(TOM)
    states.tell((SUE,))
    states.learn(LinkState(SUE, 1, (TOM, UMA)))
    far = LinkState(UMA, 1, (SUE,))
    assert [states.learn(far), states.learn(far)] == [True, False]
    states.tell(())
    states.forget_unreachable(0, TIMEOUT)
    states.tell((SUE,))
    assert [states.learn(far), states.learn(far)] == [True, False]


def test_no_accusation_stands_within_a_part() -> None:
    def parts(**accused: str) -> list[str]:
        people = {process.name[0]: process for process in (ADA, BOB, CAT, DAN)}
        clients = [listed(who, None, tuple(people[one] for one in accused.get(key, ""))) for key, who in people.items()]
        divided = divide(unite([{one.entry.process: one for one in clients}]))
        return ["".join(process.name[0] for process in part.entries) for part in divided]

    assert parts() == ["abcd"]
    assert parts(a="b") == ["acd", "b"]
    assert parts(b="ac") == ["acd", "b"]
    assert parts(a="bcd") == ["bcd", "a"]
    assert parts(a="b", c="d") == ["ac", "bd"]
    assert parts(a="bcd", b="cd", c="d") == ["a", "b", "c", "d"]


def test_of_a_name_the_newest_life_counts() -> None:
    older, newer = listed(ADA), listed(ProcessId("ada", 3))
    assert list(unite([{ADA: older}, {newer.entry.process: newer}])) == [newer.entry.process]
    charge = Listed(Entry(BOB, "", ADA), True)
    assert list(unite([{ADA: older, BOB: charge}])) == [ADA, BOB]
    assert list(unite([{BOB: charge}])) == []


def test_of_a_life_the_last_entry_counts_even_if_it_is_only_kept() -> None:
    roster = {ADA: listed(ADA), DAN: listed(DAN)}
    first = Listed(Entry(BOB, "", ADA), True, claim=1)
    later = Listed(Entry(BOB, "", DAN), False, claim=2)
    for rosters in ([{**roster, BOB: first}, {BOB: later}], [{**roster, BOB: later}, {BOB: first}]):
        assert unite(rosters)[BOB] == later
