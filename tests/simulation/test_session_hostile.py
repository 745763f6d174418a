"""Whatever frames and messages come to members, servers and controllers of a session, in any state, nothing raises.

Frames are cut, flipped, random, or genuine ones of another time and another channel; messages are genuine ones with
other numbers, views and processes in them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from tests.simulation.session_worlds import session_situation
from tests.simulation.test_replay import Recording, record_nodes
from unisono.engine import (
    Address,
    Channel,
    ChannelOpened,
    DatagramReceived,
    Engine,
    FrameReceived,
    TimePassed,
)
from unisono.identity import NO_VIEW, ProcessId, ViewMark
from unisono.sealing import NullSeal
from unisono.wire.messages import ControlMessage, ControlPacket
from unisono.wire.reading import read_datagram
from unisono.wire.session_messages import Cut, StableCut, ViewStart
from unisono.wire.writing import DatagramWriter

STATES = 6
"""How many states of each life are tried."""
TRIES = 6
"""How much is tried in each."""
MOMENTS = 3
"""How often the engine is called afterwards, when it wants to be."""
NUMBERS = (0, 1, 2, 7, 1000, (1 << 20) - 1, 1 << 40, (1 << 63) - 2)
SITUATIONS = ("parted and met", "sending goes on", "the application is asked", "controllers")


def states(recording: Recording) -> Iterator[tuple[Engine, list[Channel], int, int]]:
    """The engine after every so many steps, with the channels it knew last; it goes on as recorded."""
    engine = recording.build()
    channels: list[Channel] = []
    every = max(1, len(recording.steps) // STATES)
    for index, (fact, now, wall, _) in enumerate(recording.steps):
        engine.handle(fact, now, wall)
        if isinstance(fact, ChannelOpened | FrameReceived):
            channels = [fact.channel, *(channel for channel in channels if channel != fact.channel)][:3]
        if index % every == every - 1:
            yield engine, channels, now, wall


def go_on(engine: Engine, now: int, wall: int) -> None:
    """Let the engine do what it wants to do next."""
    for _ in range(MOMENTS):
        due = engine.deadline()
        if due is None:
            return
        now, wall = max(now, due), wall + max(0, due - now)
        engine.handle(TimePassed(), now, wall)


def hostile_frame(random: Random, genuine: list[bytes]) -> bytes:
    data, kind = random.choice(genuine), random.randrange(5)
    at = random.randrange(len(data))
    if kind == 0:
        return data  # of another time, and most likely of another kind of process
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
    if kind == 3:
        return data[:1] + random.randbytes(random.randrange(60))
    return bytes([random.choice(genuine)[0]]) + data[1:]


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_no_frame_raises_anything(name: str) -> None:
    random = Random(name)
    recordings = record_nodes(session_situation(name, 4))
    genuine = [fact.data for one in recordings for fact, *_ in one.steps if isinstance(fact, FrameReceived)]
    tried = 0
    for recording in recordings:
        for engine, channels, now, wall in states(recording):
            for _ in range(TRIES if channels else 0):
                copied = copy.deepcopy(engine)
                for _ in range(3):
                    frame = FrameReceived(random.choice(channels), hostile_frame(random, genuine))
                    copied.handle(frame, now, wall)
                go_on(copied, now, wall)
                tried += 1
    assert tried > 100


class Forger:
    """Makes messages out of genuine ones: of the same kinds, with other things in them."""

    def __init__(self, random: Random, packets: list[ControlPacket]) -> None:
        self._random = random
        self._messages = [message for packet in packets for message in packet.messages]
        self._groups = [packet.group for packet in packets]
        self.sources = sorted({packet.source for packet in packets})
        self._marks = [NO_VIEW, *{message.view for message in self._messages if hasattr(message, "view")}]

    def forge(self) -> list[bytes]:
        message = self._random.choice(self._messages)
        changed = {
            name: self._other(getattr(message, name))
            for name in message.__struct_fields__
            if self._random.random() < 0.5
        }
        try:
            forged: Any = msgspec.structs.replace(message, **changed)
            forged = msgspec.msgpack.decode(msgspec.msgpack.encode(forged), type=type(message))
        except ValueError:
            return []  # the wire layer refuses it
        source = self._random.choice(self.sources)
        writer = DatagramWriter(source, self._random.choice(self._groups), NullSeal(), 1400)
        messages: list[ControlMessage] = [forged]
        return list(writer.control(messages))

    def _other(self, value: Any) -> Any:
        random = self._random
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return random.choice((*NUMBERS, value + 1, max(0, value - 1)))
        if isinstance(value, ViewMark):
            return random.choice(self._marks)
        if isinstance(value, ProcessId):
            return random.choice(self.sources)
        return tuple(tuple(sorted(random.choices(NUMBERS, k=2))) for _ in range(random.randrange(4)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_no_message_raises_anything(name: str) -> None:
    random = Random(name)
    recordings = record_nodes(session_situation(name, 4))
    facts = [fact for one in recordings for fact, *_ in one.steps if isinstance(fact, DatagramReceived)]
    packets = [packet for fact in facts if isinstance(packet := read_datagram(fact.data, NullSeal()), ControlPacket)]
    assert {type(message) for packet in packets for message in packet.messages} >= {ViewStart, Cut, StableCut}
    forger = Forger(random, packets)
    tried = 0
    for recording in recordings:
        for engine, _, now, wall in states(recording):
            copied = copy.deepcopy(engine)
            for _ in range(4 * TRIES):
                for data in forger.forge():
                    source = Address(f"member:{random.randrange(4)}")
                    copied.handle(DatagramReceived(source, Address("member:0"), 1, now, 0, data), now, wall)
                    tried += 1
            go_on(copied, now, wall)
    assert tried > 200
