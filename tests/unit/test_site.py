"""One host for each site: found, taken over, given up, and never two."""

from __future__ import annotations

import copy
from random import Random

import pytest

from tests.unit.street import SHORT, TIMEOUT, Even, House, Street
from unisono.engine import (
    SITE,
    Address,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    FrameReceived,
    Listen,
    ListenFailed,
    Listening,
    Note,
    OpenChannel,
    SendFrame,
    Start,
    StopListening,
    TimePassed,
)
from unisono.fingerprint import fingerprint
from unisono.identity import ProcessId
from unisono.site import Change, Site, Standing
from unisono.site.hosting import GUEST_LIMIT
from unisono.units import MILLISECOND, SECOND
from unisono.wire.site_frames import (
    CONTENT_LIMIT_BYTES,
    Claim,
    Downward,
    FromHost,
    FromMember,
    Heartbeat,
    Hello,
    Upward,
    Welcome,
    read_host_frame,
    read_member_frame,
    write_site_frame,
)

ADA, BOB, EVE = (ProcessId(name, 1) for name in ("ada", "bob", "eve"))
FIRST = Channel(1)


def new_site(daemon: bool = False) -> Site:
    return Site(ADA, Even(0.5), TIMEOUT, daemon)


def host(daemon: bool = False) -> Site:
    site = new_site(daemon)
    site.handle(Start(), 0)
    if not daemon:
        site.handle(ChannelFailed(FIRST, "refused"), 0)
    site.handle(Listening(SITE), 0)
    assert site.hosting
    return site


def member(daemon_host: bool = False) -> Site:
    site = new_site()
    site.handle(Start(), 0)
    site.handle(ChannelOpened(FIRST, SITE, False), 0)
    site.handle(FrameReceived(FIRST, write_site_frame(Welcome(BOB, daemon_host, None))), 0)
    assert site.standing is Standing.MEMBER
    return site


def guest(site: Site, process: ProcessId, channel: int, upward: bytes | None = None) -> None:
    site.handle(ChannelOpened(Channel(channel), SITE, True), 0)
    site.handle(FrameReceived(Channel(channel), write_site_frame(Hello(process, upward))), 0)


# Step by step.


def test_the_first_process_finds_nobody_and_hosts() -> None:
    site = new_site()
    assert site.handle(Start(), 0) == ([OpenChannel(FIRST, SITE)], Change.NONE)
    assert site.standing is Standing.SEEKING
    assert site.handle(ChannelFailed(FIRST, "refused"), 1) == ([Listen(SITE)], Change.NONE)
    assert site.handle(Listening(SITE), 2) == ([], Change.STANDING | Change.MEMBERS)
    assert site.hosting
    assert new_site().host is None
    assert (site.host, site.guests) == (ADA, [])
    assert not site.of_daemon


def test_the_second_says_hello_and_is_a_member_when_it_is_welcome() -> None:
    site = new_site()
    assert site.set_upward(b"mine") == []
    site.handle(Start(), 0)
    effects, _ = site.handle(ChannelOpened(FIRST, SITE, False), 0)
    assert effects == [SendFrame(FIRST, write_site_frame(Hello(ADA, b"mine")))]
    assert site.alone
    welcome = FrameReceived(FIRST, write_site_frame(Welcome(BOB, True, b"for all")))
    assert site.handle(welcome, 0) == ([], Change.STANDING | Change.DOWNWARD)
    assert (site.standing, site.host, site.of_daemon, site.downward) == (Standing.MEMBER, BOB, True, b"for all")
    assert site.set_upward(b"newer") == [SendFrame(FIRST, write_site_frame(Upward(b"newer")))]
    assert site.handle(FrameReceived(FIRST, write_site_frame(Downward(b"next"))), 0) == ([], Change.DOWNWARD)
    assert site.downward == b"next"
    assert site.set_downward(b"not mine to say") == []
    assert (site.downward, dict(site.members), site.guests) == (b"next", {}, [])


def test_who_was_slower_opens_a_channel_after_a_short_while() -> None:
    site = new_site()
    site.handle(Start(), 0)
    site.handle(ChannelFailed(FIRST, "refused"), 0)
    assert site.handle(ListenFailed(SITE, "taken"), 0) == ([Note("site: cannot host it: taken")], Change.NONE)
    assert site.deadline() == 10 * MILLISECOND
    assert site.handle(TimePassed(), 9 * MILLISECOND) == ([], Change.NONE)
    assert site.handle(TimePassed(), 10 * MILLISECOND)[0] == [OpenChannel(Channel(2), SITE)]


def test_waits_differ_between_processes_and_grow_to_a_limit() -> None:
    def waits(value: float) -> list[int]:
        site = Site(ADA, Even(value), TIMEOUT)
        site.handle(Start(), 0)
        found, now = [], 0
        for number in range(1, 40):
            site.handle(ChannelFailed(Channel(number), "refused"), now)
            site.handle(ListenFailed(SITE, "no permission"), now)
            due = site.deadline()
            assert due is not None
            found.append(due - now)
            now = due
            site.handle(TimePassed(), now)
        return found

    assert waits(0.0)[:3] == [5 * MILLISECOND, 10 * MILLISECOND, 20 * MILLISECOND]
    assert waits(0.5)[:3] == [10 * MILLISECOND, 20 * MILLISECOND, 40 * MILLISECOND]
    assert max(waits(0.5)) == TIMEOUT // 4


@pytest.mark.parametrize("end", [ChannelClosed(FIRST), ChannelFailed(FIRST, "peer crashed")])
def test_a_member_whose_channel_ends_waits_a_little_and_listens_first(end: ChannelClosed | ChannelFailed) -> None:
    site = member()
    assert site.handle(end, SECOND) == ([], Change.STANDING)
    assert site.alone
    due = site.deadline()
    assert due == SECOND + 10 * MILLISECOND
    assert site.handle(TimePassed(), due)[0] == [Listen(SITE)]


def test_a_channel_that_ends_before_the_welcome_leaves_others_the_first_try() -> None:
    site = new_site()
    site.handle(Start(), 0)
    site.handle(ChannelOpened(FIRST, SITE, False), 0)
    assert site.handle(ChannelClosed(FIRST), 0) == ([], Change.NONE)
    assert site.handle(TimePassed(), 10 * MILLISECOND)[0] == [Listen(SITE)]


def test_a_silent_host_is_left_and_its_place_asked_for_while_the_member_is_alone() -> None:
    site = member()
    site.handle(FrameReceived(FIRST, write_site_frame(Heartbeat())), SECOND)
    assert site.deadline() == SECOND + TIMEOUT
    effects, changes = site.handle(TimePassed(), SECOND + TIMEOUT)
    assert effects == [Note("site: the host is silent"), CloseChannel(FIRST), Listen(SITE)]
    assert changes == Change.STANDING
    assert site.alone
    site.handle(ListenFailed(SITE, "taken"), 4 * SECOND)
    now = site.deadline()
    assert now is not None
    assert site.handle(TimePassed(), now)[0] == [OpenChannel(Channel(2), SITE)]
    site.handle(ChannelOpened(Channel(2), SITE, False), now)
    effects, changes = site.handle(TimePassed(), now + TIMEOUT)
    assert effects == [Note("site: the host is silent"), CloseChannel(Channel(2)), Listen(SITE)]
    assert changes == Change.NONE
    assert site.alone


def test_facts_of_other_channels_come_to_nothing() -> None:
    for site in (new_site(), member(), host()):
        if site.alone:
            site.handle(Start(), 0)
        before = fingerprint(site)
        for fact in (
            ChannelClosed(Channel(9)),
            ChannelFailed(Channel(9), "gone"),
            FrameReceived(Channel(9), b"what"),
            ChannelOpened(Channel(9), Address("127.0.0.1:1"), False),
            ChannelOpened(Channel(-9), Address("127.0.0.1:1"), True),
            Listening(SITE),
            ListenFailed(SITE, "taken"),
        ):
            assert site.handle(fact, 0) == ([], Change.NONE)
        assert fingerprint(site) == before


def test_a_host_collects_what_the_members_say() -> None:
    site = host()
    site.set_upward(b"own")
    guest(site, EVE, -1, b"eve")
    guest(site, BOB, -2)
    assert list(site.members.items()) == [(ADA, b"own"), (EVE, b"eve")]
    assert site.guests == [BOB, EVE]
    assert site.handle(FrameReceived(Channel(-2), write_site_frame(Upward(b"bob"))), 0) == ([], Change.MEMBERS)
    assert list(site.members.items()) == [(ADA, b"own"), (BOB, b"bob"), (EVE, b"eve")]
    assert site.handle(ChannelClosed(Channel(-1)), 0) == ([], Change.MEMBERS)
    assert list(site.members) == [ADA, BOB]


def test_a_host_speaks_to_all_and_gives_a_newcomer_the_last() -> None:
    site = host()
    guest(site, BOB, -1)
    site.handle(ChannelOpened(Channel(-2), SITE, True), 0)
    assert site.set_downward(b"one") == [SendFrame(Channel(-1), write_site_frame(Downward(b"one")))]
    assert site.downward == b"one"
    effects, _ = site.handle(FrameReceived(Channel(-2), write_site_frame(Hello(EVE, None))), 0)
    assert effects == [SendFrame(Channel(-2), write_site_frame(Welcome(ADA, False, b"one")))]
    due = site.deadline()
    assert due == TIMEOUT // 4
    beat = write_site_frame(Heartbeat())
    assert site.handle(TimePassed(), due)[0] == [SendFrame(Channel(-2), beat), SendFrame(Channel(-1), beat)]


def test_a_new_host_does_not_repeat_what_the_last_one_said() -> None:
    site = member()
    site.handle(FrameReceived(FIRST, write_site_frame(Downward(b"of bob"))), 0)
    site.handle(ChannelClosed(FIRST), 0)
    due = site.deadline()
    assert due is not None
    site.handle(TimePassed(), due)
    site.handle(Listening(SITE), due)
    assert site.downward == b"of bob"
    site.handle(ChannelOpened(Channel(-1), SITE, True), due)
    effects, _ = site.handle(FrameReceived(Channel(-1), write_site_frame(Hello(EVE, None))), due)
    assert effects == [SendFrame(Channel(-1), write_site_frame(Welcome(ADA, False, None)))]


def test_a_member_that_comes_again_is_counted_once() -> None:
    site = host()
    guest(site, BOB, -1, b"old")
    site.handle(ChannelOpened(Channel(-2), SITE, True), 0)
    effects, _ = site.handle(FrameReceived(Channel(-2), write_site_frame(Hello(BOB, b"new"))), 0)
    assert effects[:2] == [Note("site: a guest came again"), CloseChannel(Channel(-1))]
    assert site.handle(ChannelClosed(Channel(-1)), 0) == ([], Change.NONE)
    assert dict(site.members) == {BOB: b"new"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\x01",
        b"\x01\xc1",
        write_site_frame(Hello(BOB, None))[:-1],
        write_site_frame(Upward(b"x")) + b"x",
        write_site_frame(Heartbeat()),
        write_site_frame(Hello(BOB, None)),
        write_site_frame(Hello(ProcessId("bad\nname", 1), None)),
        b"\x02" + bytes(CONTENT_LIMIT_BYTES + 2000),
    ],
)
def test_a_bad_frame_of_a_guest_ends_its_channel(data: bytes) -> None:
    site = host()
    guest(site, BOB, -1, b"said")
    effects, changes = site.handle(FrameReceived(Channel(-1), data), 0)
    assert effects == [Note("site: a bad frame of a guest"), CloseChannel(Channel(-1))]
    assert changes == Change.MEMBERS
    assert site.guests == []


def test_a_guest_says_hello_first_and_soon_and_under_its_own_name() -> None:
    site = host()
    site.handle(ChannelOpened(Channel(-1), SITE, True), 0)
    upward = FrameReceived(Channel(-1), write_site_frame(Upward(b"x")))
    assert site.handle(upward, 0)[0] == [Note("site: a bad frame of a guest"), CloseChannel(Channel(-1))]
    site.handle(ChannelOpened(Channel(-2), SITE, True), 0)
    hello = FrameReceived(Channel(-2), write_site_frame(Hello(ADA, None)))
    assert site.handle(hello, 0)[0][0] == Note("site: a guest with the name of the host")
    site.handle(ChannelOpened(Channel(-3), SITE, True), 0)
    assert site.handle(TimePassed(), TIMEOUT)[0] == []
    assert site.handle(TimePassed(), 2 * TIMEOUT)[0] == [
        Note("site: a guest that does not say hello"),
        CloseChannel(Channel(-3)),
    ]


def test_a_host_has_room_for_so_many() -> None:
    site = host()
    for number in range(1, GUEST_LIMIT + 1):
        assert site.handle(ChannelOpened(Channel(-number), SITE, True), 0)[0] == []
    last = Channel(-GUEST_LIMIT - 1)
    assert site.handle(ChannelOpened(last, SITE, True), 0)[0] == [
        Note("site: no room for another guest"),
        CloseChannel(last),
    ]


@pytest.mark.parametrize(
    "data", [b"", b"\x05", write_site_frame(Upward(b"x")), write_site_frame(Welcome(BOB, False, None))]
)
def test_a_bad_frame_of_the_host_ends_the_channel(data: bytes) -> None:
    site = member()
    effects, changes = site.handle(FrameReceived(FIRST, data), 0)
    assert effects == [Note("site: a bad frame of the host"), CloseChannel(FIRST)]
    assert changes == Change.STANDING
    assert site.alone


def test_an_embedded_host_gives_way_to_a_daemon() -> None:
    site = host()
    guest(site, BOB, -1, b"said")
    guest(site, EVE, -2)
    effects, changes = site.handle(FrameReceived(Channel(-2), write_site_frame(Claim())), 0)
    assert effects == [StopListening(SITE), CloseChannel(Channel(-2)), CloseChannel(Channel(-1))]
    assert changes == Change.STANDING | Change.MEMBERS
    assert site.alone
    assert dict(site.members) == {}
    late = ChannelOpened(Channel(-3), SITE, True)
    assert site.handle(late, 0) == ([CloseChannel(Channel(-3))], Change.NONE)
    due = site.deadline()
    assert due is not None
    assert site.handle(TimePassed(), due)[0] == [OpenChannel(Channel(2), SITE)]


def test_a_daemon_listens_first_claims_the_site_and_stands_by_for_another_daemon() -> None:
    site = new_site(daemon=True)
    assert site.handle(Start(), 0)[0] == [Listen(SITE)]
    site.handle(ListenFailed(SITE, "taken"), 0)
    due = site.deadline()
    assert due is not None
    assert site.handle(TimePassed(), due)[0] == [OpenChannel(FIRST, SITE)]
    site.handle(ChannelOpened(FIRST, SITE, False), due)
    embedded = FrameReceived(FIRST, write_site_frame(Welcome(BOB, False, None)))
    assert site.handle(embedded, due) == ([SendFrame(FIRST, write_site_frame(Claim()))], Change.NONE)
    assert site.alone
    assert site.handle(FrameReceived(FIRST, write_site_frame(Heartbeat())), due) == ([], Change.NONE)
    assert site.handle(ChannelClosed(FIRST), due)[0] == [Listen(SITE)]
    site.handle(ListenFailed(SITE, "taken"), due)
    due = site.deadline()
    assert due is not None
    site.handle(TimePassed(), due)
    site.handle(ChannelOpened(Channel(2), SITE, False), due)
    other = FrameReceived(Channel(2), write_site_frame(Welcome(BOB, True, None)))
    assert site.handle(other, due) == ([], Change.STANDING)
    assert (site.standing, site.of_daemon) == (Standing.MEMBER, True)
    assert site.handle(ChannelFailed(Channel(2), "gone"), due)[0] == [Listen(SITE)]


def test_a_daemon_gives_way_to_nobody() -> None:
    site = host(daemon=True)
    guest(site, BOB, -1)
    effects, _ = site.handle(FrameReceived(Channel(-1), write_site_frame(Claim())), 0)
    assert effects == [Note("site: a daemon hosts it already")]
    assert site.hosting


def test_damaged_frames_are_read_or_refused_and_never_raise() -> None:
    random = Random(5)
    frames: list[FromMember | FromHost]
    frames = [Hello(BOB, b"up"), Upward(b"x" * 50), Claim(), Welcome(ADA, True, b"down"), Downward(b"y"), Heartbeat()]
    for whole in map(write_site_frame, frames):
        for _ in range(300):
            data = bytearray(whole)
            data[random.randrange(len(data))] = random.randrange(256)
            del data[random.randrange(len(data) + 1) :]
            read_member_frame(bytes(data))
            read_host_frame(bytes(data))
        kinds = [type(read) for read in (read_member_frame(whole), read_host_frame(whole)) if read is not None]
        assert len(kinds) == 1


# Together.


def three() -> tuple[Street, list[House]]:
    street = Street()
    houses = [street.build(name, value) for name, value in (("ada", 0.1), ("bob", 0.5), ("eve", 0.9))]
    for house in houses:
        street.say(house, house.site.set_upward(house.process.name.encode()))
    street.run(SECOND)
    return street, houses


def said(house: House) -> dict[str, bytes]:
    return {process.name: upward for process, upward in house.site.members.items()}


EVERYBODY = {"ada": b"ada", "bob": b"bob", "eve": b"eve"}


def test_three_agree_on_one_host_who_hears_all_of_them() -> None:
    street, (ada, bob, eve) = three()
    assert street.hosts() == ["ada"]
    assert {bob.site.host, eve.site.host} == {ada.process}
    assert said(ada) == EVERYBODY
    street.say(ada, ada.site.set_downward(b"for all"))
    street.settle()
    assert bob.site.downward == eve.site.downward == b"for all"
    street.run(10 * TIMEOUT)
    assert street.hosts() == ["ada"]
    assert "site: the host is silent" not in bob.notes + eve.notes


def test_one_takes_over_and_gets_everything_again() -> None:
    street, (ada, bob, eve) = three()
    street.kill(ada)
    street.settle()
    assert bob.site.alone
    assert eve.site.alone
    street.run(SHORT)
    assert street.hosts() == ["bob"]
    assert said(bob) == {"bob": b"bob", "eve": b"eve"}
    again = street.build("ada")
    street.run(SHORT)
    assert street.hosts() == ["bob"]
    assert again.site.host == bob.process


def test_all_but_one_go_and_it_hosts() -> None:
    street, (ada, bob, eve) = three()
    for house in (ada, bob):
        street.kill(house)
        street.run(SHORT)
    assert street.hosts() == ["eve"]
    assert said(eve) == {"eve": b"eve"}


def test_a_paused_host_keeps_the_site_and_the_others_are_alone_until_it_goes_on() -> None:
    street, (ada, bob, eve) = three()
    ada.paused = True
    street.run(TIMEOUT)
    assert bob.site.alone
    assert eve.site.alone
    street.run(5 * TIMEOUT)
    assert bob.site.alone
    assert street.hosts() == ["ada"]
    ada.paused = False
    street.run(2 * TIMEOUT)
    assert {bob.site.host, eve.site.host} == {ada.process}
    assert said(ada) == EVERYBODY


def test_a_paused_host_that_dies_is_replaced() -> None:
    street, (ada, bob, eve) = three()
    ada.paused = True
    street.run(3 * TIMEOUT)
    street.kill(ada)
    street.run(2 * TIMEOUT)
    assert len(street.hosts()) == 1
    assert {bob.site.host, eve.site.host} == {street.houses[street.hosts()[0]].process}


def test_a_daemon_takes_the_site_over_and_keeps_it() -> None:
    street, (ada, bob, eve) = three()
    daemon = street.build("daemon", daemon=True)
    street.run(SHORT)
    assert street.hosts() == ["daemon"]
    assert {house.site.host for house in (ada, bob, eve)} == {daemon.process}
    assert all(house.site.of_daemon for house in (ada, bob, eve))
    assert said(daemon) == EVERYBODY
    standby = street.build("standby", daemon=True)
    street.run(SHORT)
    assert street.hosts() == ["daemon"]
    assert standby.site.host == daemon.process
    street.kill(daemon)
    street.run(SHORT)
    assert street.hosts() == ["standby"]
    assert said(standby) == EVERYBODY


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_there_is_never_a_second_host_and_in_the_end_one(seed: int) -> None:
    random = Random(seed)
    street = Street()
    for turn in range(60):
        act = random.choice(["build", "daemon", "kill", "pause", "resume", "run"])
        living = [house for house in street.houses.values() if house.alive]
        if act in ("build", "daemon") and len(living) < 6:
            street.build(f"p{turn}", random.random(), daemon=act == "daemon")
        elif living:
            house = random.choice(living)
            if act == "kill":
                street.kill(house)
            elif act in ("pause", "resume"):
                house.paused = act == "pause"
        street.run(random.randrange(3 * TIMEOUT))
        assert len(street.hosts()) <= 1
    street.build("last")
    for house in street.houses.values():
        house.paused = False
    street.run(5 * TIMEOUT)
    living = [house for house in street.houses.values() if house.alive]
    assert len(street.hosts()) == 1
    assert {house.site.host for house in living} == {street.houses[street.hosts()[0]].process}
    assert street.houses[street.hosts()[0]].site.daemon == any(house.site.daemon for house in living)


def test_a_copy_goes_on_like_the_original() -> None:
    street, (ada, _, _) = three()
    copied = copy.deepcopy(ada.site)
    assert fingerprint(copied) == fingerprint(ada.site)
    assert copied.handle(TimePassed(), street.now + TIMEOUT) == ada.site.handle(TimePassed(), street.now + TIMEOUT)
