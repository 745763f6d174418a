"""State transfer as engines alone: who gives what to whom, and what is asked for when somebody fails."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from tests.unit.ferry import GROUP, SETTINGS, Boat, Ferry
from unisono.engine import Channel, ClaimState, FrameReceived, Note, RenewState
from unisono.events import Event, Message, View, ViewReason
from unisono.identity import Point, ProcessId, StartPoint, ViewId
from unisono.transfer import Kept, Reach
from unisono.transfer.kept import after
from unisono.transfer.transfers import CALLERS_LIMIT
from unisono.units import KIB, MILLISECOND, SECOND
from unisono.wire.transfer_frames import (
    PAGE_DIGESTS,
    Offer,
    Want,
    WantChunk,
    WantPage,
    read_newcomer_frame,
    read_provider_frame,
    write_transfer_frame,
)

NOISE = Random(7).randbytes(300 * KIB + 5)


def _pair(state: bytes = NOISE) -> tuple[Ferry, Boat, Boat]:
    """One that has a state, and a newcomer in a view with it."""
    ferry = Ferry()
    old = ferry.founder("old", state)
    new = ferry.boat("new")
    ferry.view("new")
    ferry.view("old", "new")
    return ferry, old, new


def _trio(state: bytes = NOISE) -> tuple[Ferry, Boat, list[Boat], View]:
    """Two that have one state, the one that is asked first, and a newcomer."""
    ferry = Ferry()
    ferry.founder("a", state)
    second = ferry.boat("b")
    ferry.view("a", "b")
    ferry.run_for(SECOND)
    assert second.has_state
    assert second.state == state
    new = ferry.boat("new")
    view = ferry.view("a", "b", "new", along=("a", "b"))
    asked = ferry.asked("new")
    givers = sorted((ferry.boats["a"], second), key=lambda boat: boat.process.name != asked)
    return ferry, new, givers, view


def test_who_stays_alone_has_the_first_state() -> None:
    ferry = Ferry()
    boat = ferry.boat("a")
    ferry.view("a")
    assert not boat.has_state
    ferry.run_for(2 * SECOND)
    assert boat.has_state


def test_a_newcomer_gets_the_state_of_a_member() -> None:
    ferry, old, new = _pair()
    ferry.run_for(SECOND)
    assert new.has_state
    assert new.state == old.state == NOISE
    assert new.loaded is not None
    assert new.loaded.provider == old.process
    assert not new.blobs, "what was stored is thrown away"
    assert not old.blobs, "the snapshot is thrown away when nobody wants it"
    received = [told.received for told in new.progress]
    assert received == sorted(received)
    assert received[-1] == new.progress[-1].size == len(NOISE)


def test_an_empty_state_is_a_state() -> None:
    ferry, _, new = _pair(b"")
    ferry.run_for(SECOND)
    assert new.has_state
    assert new.state == b""


def test_equal_chunks_are_asked_for_once() -> None:
    ferry, _, new = _pair(bytes(500 * KIB))
    ferry.run_for(SECOND)
    assert new.state == bytes(500 * KIB)
    assert new.notes["transfer: chunks received"] == 1


def test_the_next_provider_gives_only_what_is_missing() -> None:
    ferry, new, givers, _ = _trio()
    ferry.stop_after = ferry.received + 150
    ferry.run_for(SECOND)
    ferry.stop_after = None
    ferry.kill(givers[0].process.name)
    ferry.view(givers[1].process.name, "new", along=(givers[1].process.name, "new"))
    ferry.run_for(SECOND)
    assert new.has_state
    assert new.state == givers[1].state
    assert new.notes["transfer: chunks received"] == 301, "each chunk once, whoever gave it"
    assert new.loaded is not None
    assert new.loaded.provider == givers[1].process


def test_a_later_snapshot_brings_only_what_differs() -> None:
    ferry, new, givers, view = _trio()
    ferry.stop_after = ferry.received + 150
    ferry.run_for(SECOND)
    ferry.stop_after = None
    ferry.message(view, "a", 1)
    ferry.kill(givers[0].process.name)
    rest = givers[1].process.name
    ferry.view(rest, "new", along=(rest, "new"))
    ferry.run_for(SECOND)
    assert new.has_state
    assert new.state == givers[1].state == NOISE + b" a1"
    assert new.notes["transfer: chunks received"] <= 302, "the last chunk is another one now"


def test_a_silent_provider_is_replaced() -> None:
    ferry, new, givers, _ = _trio()
    givers[0].saving = False
    ferry.run_for(3 * SECOND)
    assert new.notes["transfer: a provider is silent"] == 1
    assert new.has_state
    assert new.state == givers[1].state


def test_a_view_change_does_not_disturb() -> None:
    ferry, new, givers, _ = _trio()
    ferry.stop_after = ferry.received + 100
    ferry.run_for(SECOND)
    ferry.stop_after = None
    ferry.boat("other")
    ferry.view("a", "b", "new", "other", along=("a", "b", "new"))
    ferry.run_for(SECOND)
    assert new.state == givers[0].state
    assert new.notes["transfer: chunks received"] == 301
    assert sum(boat.saves for boat in givers) <= 3


def test_a_damaged_chunk_is_refused_and_asked_for_elsewhere() -> None:
    ferry, new, givers, _ = _trio()
    bad: list[str] = []

    def damage(boat: Boat, data: bytes) -> bytes:
        if data[:1] == b"\x06" and (not bad or bad[0] == boat.process.name) and boat is not new:
            bad[:] = [boat.process.name]
            return data[:-1] + bytes((data[-1] ^ 1,))
        return data

    ferry.damage = damage
    ferry.run_for(SECOND)
    assert bad
    assert new.notes["transfer: a chunk does not have its digest"] == 1
    assert new.state == givers[0].state
    assert new.loaded is not None
    assert new.loaded.provider.name != bad[0]


def test_a_full_disk_loses_nothing() -> None:
    ferry, old, new = _pair()
    new.disk_full = True
    ferry.run_for(3 * SECOND)
    assert not new.has_state
    assert "no space left" in new.progress[-1].trouble
    new.disk_full = False
    ferry.run_for(3 * SECOND)
    assert new.state == old.state


def test_a_provider_that_cannot_write_sends_the_newcomer_on() -> None:
    ferry, new, givers, _ = _trio()
    for boat in givers:
        boat.disk_full = True
    ferry.run_for(SECOND)
    assert not new.has_state
    givers[0].disk_full = False
    ferry.run_for(5 * SECOND)
    assert new.state == NOISE


def test_all_started_together_the_lowest_founds_and_the_others_get_its_state() -> None:
    ferry = Ferry()
    boats = [ferry.boat(name) for name in "abc"]
    for name in "abc":
        ferry.view(name)
    ferry.view("a", "b", "c")
    ferry.run_for(3 * SECOND)
    assert all(boat.has_state for boat in boats)
    assert {boat.state for boat in boats} == {b"initial state of a"}
    assert boats[0].loaded is None


def test_two_that_have_a_state_and_meet_keep_theirs() -> None:
    ferry = Ferry()
    one, two = ferry.founder("a", b"one"), ferry.founder("b", b"two")
    ferry.view("a", "b")
    ferry.run_for(SECOND)
    assert (one.state, two.state) == (b"one", b"two")


def test_who_gives_its_state_up_gets_the_other_one() -> None:
    ferry = Ferry()
    one, two = ferry.founder("a", b"one"), ferry.founder("b", b"two")
    ferry.view("a", "b")
    two.facts.append(RenewState(GROUP))
    ferry.run_for(SECOND)
    assert one.state == two.state == b"one"


def test_who_was_cut_off_before_it_had_the_state_does_not_found_until_it_is_told_to() -> None:
    ferry, _, new = _pair()
    ferry.stop_after = 10
    ferry.run_for(SECOND)
    ferry.stop_after = None
    ferry.view("new")
    ferry.run_for(10 * SECOND)
    assert not new.has_state
    assert new.progress[-1].trouble
    new.facts.append(ClaimState(GROUP))
    ferry.run_for(SECOND)
    assert new.has_state


def test_who_comes_back_goes_on_with_what_it_has() -> None:
    ferry, old, new = _pair()
    ferry.stop_after = 150
    ferry.run_for(SECOND)
    ferry.stop_after = None
    ferry.view("new")
    ferry.view("old")
    ferry.run_for(SECOND)
    assert not old.blobs, "the provider is free"
    ferry.view("old", "new")
    ferry.run_for(SECOND)
    assert new.state == old.state
    assert new.notes["transfer: chunks received"] == 301


def _falls_silent(ferry: Ferry, view: View, name: str) -> View:
    """A member only receives from here on: a view that follows by the order, at everybody."""
    gone = ferry.boats[name].process
    members = tuple(member for member in view.members if member != gone)
    following = View(
        ViewId(view.id.start + 1, gone, 9),
        view.id,
        members,
        tuple(StartPoint(member, 1, 1) for member in members),
        ((gone, ViewReason.ONLY_RECEIVES),),
        transitional=members,
        era=view.id,
    )
    for boat in list(ferry.boats):
        if ferry.boats[boat].process in view.members:
            ferry.deliver(boat, following)
    return following


def test_who_gives_a_state_and_only_receives_now_goes_on_giving() -> None:
    ferry = Ferry()
    old = ferry.founder("old", NOISE)
    new = ferry.boat("new")
    view = ferry.view("old", "new")
    ferry.stop_after = 50
    ferry.run()
    ferry.stop_after = None
    _falls_silent(ferry, view, "old")
    ferry.run_for(SECOND)
    assert new.has_state
    assert new.state == NOISE
    assert old.saves == 1
    assert new.notes["transfer: a provider is gone"] == 0


def test_newcomers_ask_who_fell_silent_and_tell_others_of_it() -> None:
    """The one who has the state falls silent before it is asked: neither of the others goes on with its own."""
    ferry = Ferry()
    old = ferry.founder("old", NOISE)
    old.disk_full = True
    first = ferry.boat("first")
    view = _falls_silent(ferry, ferry.view("old", "first"), "old")
    ferry.run()
    ferry.boat("second")
    ferry.deliver("second", replace(view, previous=None, members=(first.process,)))
    ferry.run_for(100 * MILLISECOND)
    assert not any(boat.has_state for boat in (first, ferry.boats["second"]))
    old.disk_full = False
    ferry.run_for(5 * SECOND)
    assert first.state == ferry.boats["second"].state == NOISE


def test_who_only_receives_never_goes_on_with_its_own_state() -> None:
    ferry = Ferry()
    receiver = ferry.boat("receiver", replace(SETTINGS, role="receiver"))
    ferry.run_for(10 * SECOND)
    assert not receiver.has_state
    assert receiver.progress[-1].trouble


def test_several_newcomers_share_one_snapshot() -> None:
    ferry = Ferry()
    old = ferry.founder("old", NOISE)
    new = [ferry.boat(name) for name in ("x", "y", "z")]
    ferry.view("old", "x", "y", "z")
    ferry.run_for(3 * SECOND)
    assert all(boat.state == NOISE for boat in new)
    assert old.saves <= 2


def test_a_state_above_the_limit_is_not_taken() -> None:
    ferry = Ferry()
    ferry.founder("old", NOISE)
    new = ferry.boat("new", replace(SETTINGS, state_limit_bytes=1000))
    ferry.view("old", "new")
    ferry.run_for(3 * SECOND)
    assert not new.has_state
    assert "state_limit_bytes" in new.progress[0].trouble
    assert not new.notes["transfer: chunks received"]


def test_chunks_are_asked_for_no_faster_than_the_rate() -> None:
    ferry = Ferry()
    ferry.founder("old", NOISE)
    new = ferry.boat("new", replace(SETTINGS, state_rate_bytes=100 * KIB))
    ferry.view("old", "new")
    ferry.run_for(SECOND)
    assert 90 <= new.notes["transfer: chunks received"] <= 110
    ferry.run_for(3 * SECOND)
    assert new.state == NOISE


def test_strangers_are_turned_away() -> None:
    ferry, old, _ = _pair()
    ferry.run_for(SECOND)
    bad = [
        b"",
        b"\x01",
        b"\x09abc",
        write_transfer_frame(WantPage(0)),
        write_transfer_frame(WantChunk(3)),
        write_transfer_frame(Offer(Point(ViewId(1, old.process, 1), ()), 5, KIB)),
    ]
    for number, data in enumerate(bad, 1000):
        channel = Channel(-number)
        old.transfers.on_called(channel, ferry.now)
        effects = old.transfers.handle(FrameReceived(channel, data), ferry.now)
        assert Note("transfer: a bad frame of a newcomer") in effects
        assert not old.transfers.owns(FrameReceived(channel, data))
    for number in range(CALLERS_LIMIT):
        assert not old.transfers.on_called(Channel(-2000 - number), ferry.now)
    assert Note("transfer: no room for another newcomer") in old.transfers.on_called(Channel(-3000), ferry.now)
    ferry.run_for(11 * SECOND)
    assert old.transfers.deadline() is None, "those who say nothing are forgotten"


def test_a_request_past_the_end_is_refused() -> None:
    ferry, old, _ = _pair()
    old.saving = True
    channel = Channel(-77)
    old.transfers.on_called(channel, ferry.now)
    point = old.transfers._groups[GROUP].track.point
    assert point is not None
    want = Want(GROUP, ProcessId("x", 1), point)
    ferry._carry_out(old, old.transfers.handle(FrameReceived(channel, write_transfer_frame(want)), ferry.now))
    ferry.run()
    effects = old.transfers.handle(FrameReceived(channel, write_transfer_frame(WantChunk(5000))), ferry.now)
    assert Note("transfer: a bad frame of a newcomer") in effects


def test_frames_come_back_as_they_were() -> None:
    process = ProcessId("p", 3)
    point = Point(ViewId(7, process, 2), ((process, 5),))
    for wanted in (Want("g", process, point), WantPage(PAGE_DIGESTS), WantChunk(9)):
        assert read_newcomer_frame(write_transfer_frame(wanted)) == wanted
        assert read_provider_frame(write_transfer_frame(wanted)) is None
    offer = Offer(point, 10 * KIB + 1, KIB)
    assert read_provider_frame(write_transfer_frame(offer)) == offer
    assert (offer.chunks, offer.chunk_size(10)) == (11, 1)
    assert read_newcomer_frame(write_transfer_frame(Want("g\n", process, point))) is None


def test_what_was_kept_is_split_at_the_point() -> None:
    p, q = ProcessId("p", 1), ProcessId("q", 1)
    first, second = ViewId(1, p, 1), ViewId(2, p, 2)
    start = (StartPoint(p, 1, 4), StartPoint(q, 1, 1))
    events: list[Event] = [
        View(first, None, (p, q), start, ()),
        Message(p, 4, 4, 10, b"", first, 0),
        Message(q, 1, 1, 11, b"", first, 1),
        Message(p, 5, 5, 12, b"", first, 2),
        View(second, first, (p, q), (StartPoint(p, 6, 6), StartPoint(q, 2, 2)), ()),
        Message(q, 2, 2, 13, b"", second, 0),
    ]
    inside = Point(first, ((p, 5), (q, 2)))
    kept = Kept()
    reached = []
    for event in events:
        kept.add(event)
        reached.append(kept.reach(inside))
    assert reached == [Reach.NOT_YET] * 2 + [Reach.REACHED] * 4
    assert list(after(inside, events)) == [events[0], *events[3:]]
    assert kept.reach(Point(first, ((p, 7),))) is Reach.NEVER, "the view ended before that"
    assert kept.reach(Point(ViewId(9, q, 1), ())) is Reach.NOT_YET
    assert kept.reach(Point(ViewId(0, q, 1), ())) is Reach.NEVER
