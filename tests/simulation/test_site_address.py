"""The address SITE in simulation: one process of a site has it, others reach it, it is free when that one ends."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.neighbour import LISTEN, Neighbour, opening
from tests.simulation.worlds import scenario
from unisono.engine import (
    SITE,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Effect,
    Engine,
    FrameReceived,
    ListenFailed,
    Listening,
    SendFrame,
    StopListening,
)
from unisono.simulation.scenario import Fault, Network
from unisono.simulation.world import World
from unisono.units import MILLISECOND, SECOND

FAR = Network(latency=100 * MILLISECOND, site_latency=200 * MILLISECOND)
Plan = tuple[list[Effect], list[tuple[int, Effect]]]


def neighbours(plans: list[Plan], *faults: Fault, sites: int = 1) -> list[list[Neighbour]]:
    """Run one member for each plan; the lives of each."""
    lives: list[list[Neighbour]] = [[] for _ in plans]

    def build(name: str, randomness: Random, entropy: Callable[[int], bytes], **rest: Any) -> Engine:
        index = int(name[1:])
        neighbour = Neighbour(list(plans[index][0]), list(plans[index][1]))
        lives[index].append(neighbour)
        return neighbour

    drawn = scenario(
        members=len(plans), duration=8 * SECOND, settle=SECOND, workloads=(), faults=faults, network=FAR, sites=sites
    )
    World(drawn, keep_rows=False, node=build).run()
    return lives


def test_one_process_of_a_site_listens_and_frames_take_microseconds() -> None:
    said = SendFrame(Channel(1), b"hello")
    (host,), (other,) = neighbours(
        [([LISTEN], []), ([], [(SECOND, LISTEN), (2 * SECOND, opening()), (3 * SECOND, said)])]
    )
    assert host.facts == [
        Listening(SITE),
        ChannelOpened(Channel(-1), SITE, True),
        FrameReceived(Channel(-1), b"hello"),
    ]
    assert other.facts == [
        ListenFailed(SITE, "another process has it"),
        ChannelOpened(Channel(1), SITE, False),
        FrameReceived(Channel(1), b"re:hello"),
    ]
    assert other.times[2] - other.times[1] - SECOND < MILLISECOND


def test_every_site_has_an_address_of_its_own() -> None:
    lives = neighbours([([LISTEN], []) for _ in range(4)], sites=2)
    answers = [neighbour.facts for (neighbour,) in lives]
    for site in (0, 1):
        of_site = answers[site::2]
        assert sorted(map(repr, of_site)) == sorted(
            map(repr, [[Listening(SITE)], [ListenFailed(SITE, "another process has it")]])
        )


def test_a_channel_to_a_site_without_a_host_is_refused() -> None:
    ((alone,),) = neighbours([([opening()], [])])
    assert alone.facts == [ChannelFailed(Channel(1), "refused")]


def test_no_partition_cuts_a_channel_inside_a_site() -> None:
    cut = Fault(kind="partition", at=0, groups=((0,), (1,)))
    said = SendFrame(Channel(1), b"hello")
    _, (other,) = neighbours([([LISTEN], []), ([], [(SECOND, opening()), (2 * SECOND, said)])], cut)
    assert FrameReceived(Channel(1), b"re:hello") in other.facts


def test_a_crash_of_the_host_breaks_its_channels_and_frees_the_address() -> None:
    crash = Fault(kind="crash", at=2 * SECOND, members=(0,), restart=2 * SECOND)
    first, (other,) = neighbours([([LISTEN], []), ([], [(SECOND, opening()), (3 * SECOND, LISTEN)])], crash)
    assert other.facts == [
        ChannelOpened(Channel(1), SITE, False),
        ChannelFailed(Channel(1), "peer crashed"),
        Listening(SITE),
    ]
    assert first[1].facts == [ListenFailed(SITE, "another process has it")]


def test_a_paused_host_keeps_the_address() -> None:
    pause = Fault(kind="pause", at=SECOND, members=(0,), lasts=4 * SECOND)
    said = SendFrame(Channel(1), b"hello")
    (host,), (other,) = neighbours(
        [([LISTEN], []), ([], [(2 * SECOND, LISTEN), (3 * SECOND, opening()), (4 * SECOND, said)])], pause
    )
    assert other.facts[0] == ListenFailed(SITE, "another process has it")
    assert other.facts[-1] == FrameReceived(Channel(1), b"re:hello")
    assert other.times[-1] - other.times[0] > 2 * SECOND
    assert len(host.facts) == 3


def test_stopping_frees_the_address_and_channels_go_on_until_closed() -> None:
    said = SendFrame(Channel(1), b"hello")
    (host,), (other,) = neighbours(
        [
            ([LISTEN], [(2 * SECOND, StopListening(SITE)), (5 * SECOND, CloseChannel(Channel(-1)))]),
            ([], [(SECOND, opening()), (3 * SECOND, said), (4 * SECOND, LISTEN)]),
        ]
    )
    assert other.facts == [
        ChannelOpened(Channel(1), SITE, False),
        FrameReceived(Channel(1), b"re:hello"),
        Listening(SITE),
        ChannelClosed(Channel(1)),
    ]
    assert host.facts[0] == Listening(SITE)
