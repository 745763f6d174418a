"""Groups in which nothing happens: nobody wakes them, nobody looks at them, and what they say when they are alone."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random

import pytest

from unisono.engine import (
    Address,
    DatagramReceived,
    Deliver,
    Effect,
    Fact,
    Join,
    Leave,
    ReadLog,
    Record,
    Send,
    SendDatagram,
    Start,
    StorageDone,
    SyncLog,
    TimePassed,
)
from unisono.events import Event, View
from unisono.intergroup import IntergroupEngine
from unisono.node import Node
from unisono.settings import SERVICE_CODES, Service, Settings
from unisono.trace.schema import GaugeRow
from unisono.units import MILLISECOND, SECOND

WALL = 1_750_000_000 * SECOND
GREETINGS = 3


class Life:
    """One node, driven by hand, and every datagram that it sent."""

    def __init__(self, name: str = "a", now: int = SECOND) -> None:
        self.node = Node(name, Random(name), Random(name).randbytes)
        self.now = now
        self.sent: list[tuple[int, bytes]] = []
        self.gauges = 0
        self._events: list[Event] = []
        self.give(Start())

    def give(self, fact: Fact) -> None:
        self.carry_out(self.node.handle(fact, self.now, WALL + self.now))

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ReadLog | SyncLog):
                self.give(StorageDone(effect.request))
            elif isinstance(effect, SendDatagram):
                self.sent.append((self.now, effect.data))
            elif isinstance(effect, Deliver):
                self._events += effect.events
            elif isinstance(effect, Record) and isinstance(effect.row, GaugeRow) and effect.row.kind == "GAUGE":
                self.gauges += 1

    def taken(self) -> list[Event]:
        """What was delivered since this was last asked."""
        events, self._events = self._events, []
        return events

    def hear(self, data: bytes, source: str = "b") -> None:
        self.give(DatagramReceived(Address(source), Address("multicast:g"), 0, self.now, 0, data))

    def run(self, duration: int) -> int:
        """Let time pass; how often the node wanted to be woken."""
        end, wakes = self.now + duration, 0
        while (due := self.node.deadline()) is not None and due <= end:
            self.now = max(due, self.now)
            self.give(TimePassed())
            wakes += 1
        self.now = end
        return wakes


@pytest.mark.parametrize("service", SERVICE_CODES)
def test_a_receiver_that_hears_nobody_is_left_in_peace(service: Service) -> None:
    life = Life()
    life.give(Join("g", Settings(role="receiver", service=service, trace=False)))
    assert life.run(60 * SECOND) <= GREETINGS + 1
    assert life.run(60 * SECOND) == 0
    assert life.node.deadline() is None


@pytest.mark.parametrize("service", SERVICE_CODES)
def test_a_traced_receiver_is_measured_after_something_happened_and_then_no_more(service: Service) -> None:
    life = Life()
    life.give(Join("g", Settings(role="receiver", service=service, trace=True)))
    life.run(60 * SECOND)
    assert life.gauges > 0
    told = life.gauges
    assert life.run(600 * SECOND) == 0
    assert life.gauges == told


def test_an_active_group_is_measured_every_interval() -> None:
    life = Life()
    life.give(Join("g", Settings(trace=True)))
    times = []
    for turn in range(100):
        life.give(Send("g", turn, (b"x",)))
        before = life.gauges
        life.run(100 * MILLISECOND)
        if life.gauges > before:
            times.append(life.now)
    assert len(times) == 10
    assert {later - earlier for earlier, later in itertools.pairwise(times)} == {SECOND}


def test_untraced_groups_are_not_measured() -> None:
    life = Life()
    life.give(Join("g", Settings(trace=False)))
    life.give(Send("g", 1, (b"x",)))
    life.run(60 * SECOND)
    assert life.gauges == 0


@pytest.mark.parametrize("service", SERVICE_CODES)
def test_a_lone_sender_says_ever_less_often_that_it_lives(service: Service) -> None:
    settings = Settings(service=service, trace=False)
    life = Life()
    life.give(Join("g", settings))
    life.run(1200 * SECOND)
    times = sorted({at for at, _ in life.sent})
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    longest = 2 * settings.source_timeout
    assert gaps[:8] == [settings.keep_alive] * 8
    assert all(longest // 2 < gap <= longest for at, gap in zip(times, gaps, strict=False) if at > 600 * SECOND)
    assert life.run(10 * longest) <= 20


@pytest.mark.parametrize("service", ["unordered", "source-latest", "timestamp-latest", "framed"])
def test_who_listens_in_silence_does_not_take_a_lone_sender_for_gone(service: Service) -> None:
    """Not even when it misses every third of what the sender says."""
    sender, listener = Life("a"), Life("b")
    sender.give(Join("g", Settings(trace=False)))
    listener.give(Join("g", Settings(role="receiver", service=service, membership=True, trace=False)))
    views: list[View] = []
    heard = 0
    for _ in range(3600):
        sender.run(SECOND)
        for place, (_, data) in enumerate(sender.sent[heard:], heard):
            if place % 3:
                listener.hear(data, "a")
        heard = len(sender.sent)
        listener.run(SECOND)
        views += [event for event in listener.taken() if isinstance(event, View)]
    assert [len(view.members) for view in views] == [1, 2]
    listener.run(600 * SECOND)
    assert [len(view.members) for view in listener.taken() if isinstance(view, View)] == [1]


def test_alone_again_the_wait_is_an_eighth_of_the_time_at_most() -> None:
    """So that two who were parted find each other soon, measured by how long they were parted."""
    settings = Settings(trace=False)
    life = Life()
    life.give(Join("g", settings))
    life.run(60 * SECOND)
    life.hear(word_of("b", settings))
    heard, first = life.now, len(life.sent)
    life.run(90 * SECOND)
    times = [at for at, _ in life.sent[first:]]
    for earlier, later in itertools.pairwise(times):
        assert later - earlier <= max(settings.keep_alive, (later - heard) // 8)


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_newcomer_and_a_lone_sender_find_each_other_at_once(role: str) -> None:
    settings = Settings(trace=False)
    lone = Life("a")
    lone.give(Join("g", settings))
    lone.run(600 * SECOND)
    newcomer = Life("b", lone.now)
    newcomer.give(Join("g", Settings(role="sender" if role == "sender" else "receiver", trace=False)))
    began = newcomer.now
    while not newcomer.sent:
        newcomer.run(MILLISECOND)
    lone.run(newcomer.now - lone.now)
    said = len(lone.sent)
    lone.hear(newcomer.sent[0][1])
    assert len(lone.sent) > said  # not at its next keep-alive, which may be seconds away
    assert newcomer.now - began <= 4 * settings.keep_alive
    newcomer.hear(lone.sent[said][1], "a")
    newcomer.run(settings.keep_alive)
    assert newcomer.node.deadline() is not None  # it asks to be let in, and watches


def test_what_a_lone_sender_sends_is_followed_by_keep_alives_as_before() -> None:
    settings = Settings(trace=False)
    life = Life()
    life.give(Join("g", settings))
    life.run(600 * SECOND)
    said = len(life.sent)
    life.give(Send("g", 1, (b"x",)))
    life.run(SECOND)
    assert len(life.sent) - said == 1 + SECOND // settings.keep_alive


def test_receivers_that_hear_only_receivers_are_woken_once_more() -> None:
    settings = Settings(role="receiver", trace=False)
    life = Life()
    life.give(Join("g", settings))
    life.run(60 * SECOND)
    life.hear(word_of("b", settings))
    assert life.run(600 * SECOND) == 1  # to forget the other
    assert life.node.deadline() is None


def test_only_groups_that_are_due_are_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life()
    life.give(Join("active", Settings(trace=False)))
    life.give(Join("active too", Settings(trace=False)))
    for index in range(500):
        life.give(Join(f"idle {index}", Settings(role="receiver", trace=False)))
    life.run(60 * SECOND)
    handled: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    handle, deadline = IntergroupEngine.handle, IntergroupEngine.deadline

    def counted_handle(engine: IntergroupEngine, fact: Fact, now: int, wall: int) -> list[Effect]:
        handled[engine._context.group] += 1
        return handle(engine, fact, now, wall)

    def counted_deadline(engine: IntergroupEngine) -> int | None:
        asked[engine._context.group] += 1
        return deadline(engine)

    monkeypatch.setattr(IntergroupEngine, "handle", counted_handle)
    monkeypatch.setattr(IntergroupEngine, "deadline", counted_deadline)
    wakes = life.run(60 * SECOND)
    assert wakes > 0
    assert set(handled) == set(asked) == {"active", "active too"}
    assert handled.total() == asked.total() <= 2 * wakes
    word, foreign = word_of("b", Settings(), "idle 8"), word_of("b", Settings(), "a group of others")
    handled.clear()
    life.give(Send("idle 7", 1, (b"x",)))
    life.hear(word)
    life.hear(foreign)
    assert handled == {"idle 7": 1, "idle 8": 1}


def test_groups_that_were_left_are_not_looked_at_any_more() -> None:
    life = Life()
    for index in range(50):
        life.give(Join(f"g{index}", Settings(trace=False)))
    for index in range(50):
        life.give(Leave(f"g{index}"))
    life.run(60 * SECOND)
    assert life.node.deadline() is None
    assert not life.node._groups
    assert not life.node._numbers


def word_of(name: str, settings: Settings, group: str = "g") -> bytes:
    """The first thing that another process says in a group."""
    other = Life(name)
    other.give(Join(group, settings))
    while not other.sent:
        other.run(MILLISECOND)
    return other.sent[0][1]


def test_joins_that_wait_for_the_start_are_never_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The application waits for each: thousands may come before a slow disk has answered."""
    monkeypatch.setattr("unisono.node.WAITING_LIMIT", 5)
    node = Node("a", Random(1), Random(1).randbytes)
    node.handle(Start(), SECOND, WALL)
    for index in range(20):
        assert node.handle(Join(f"g{index}", Settings(trace=False)), SECOND, WALL) == []
    assert node.handle(Send("g0", 1, (b"x",)), SECOND, WALL) != []  # refused, and told so
    for request in (1, 2, 3):
        node.handle(StorageDone(request), SECOND, WALL)
    assert len(node._groups) == 20
