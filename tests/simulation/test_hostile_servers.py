"""A membership server that is told anything, by anybody, in any order: it never raises, and goes on afterwards."""

from __future__ import annotations

from random import Random

from unisono.engine import Address, Channel, ChannelClosed, ChannelFailed, ChannelOpened, Fact, FrameReceived, Start
from unisono.engine import TimePassed as Passed
from unisono.identity import ProcessId, ViewId
from unisono.settings import Settings
from unisono.units import MILLISECOND
from unisono.virtual_synchrony.servers.server import MembershipServer
from unisono.wire.peer_frames import LinkState, Listed, Proposal, RosterChange, RosterUpdate, ServerHello, Synced
from unisono.wire.server_frames import (
    Accusation,
    Attach,
    Charge,
    Charges,
    Departure,
    Entry,
    JoinGroup,
    LeaveGroup,
    NewView,
    Ping,
    Removed,
    Standing,
    read_server_frame,
    write_server_frame,
)

OWN = ProcessId("own", 1)


class Hostile:
    """Draws facts from few names, groups and numbers, so that they meet."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.channels = [Channel(number) for number in (-1, -2, -3, -4, -5, -6, 1, 2)]
        self.opened: set[Channel] = set()
        self.views = [ViewId(start, self.process("s"), self.random.randrange(3)) for start in range(6)]

    def process(self, kind: str = "cs") -> ProcessId:
        if self.random.random() < 0.03:
            return OWN
        return ProcessId(f"{self.random.choice(kind)}{self.random.randrange(4)}", self.random.randrange(1, 4))

    def some(self, count: int = 4) -> tuple[ProcessId, ...]:
        return tuple(self.process() for _ in range(self.random.randrange(count)))

    def gone(self) -> Removed:
        return tuple((one, self.random.choice(list(Departure))) for one in self.some())

    def view(self) -> ViewId | None:
        return self.random.choice([None, *self.views])

    def number(self) -> int:
        return self.random.choice([0, 1 << 61, 1 << 62]) if self.random.random() < 0.01 else self.random.randrange(9)

    def group(self) -> str:
        return "\n" if self.random.random() < 0.01 else self.random.choice("ggh")

    def standing(self) -> Standing:
        return Standing(self.group(), self.number(), self.view(), self.view())

    def change(self) -> RosterChange:
        listed = tuple(
            Listed(Entry(one, "x", self.random.choice([None, None, self.process()])), self.random.random() < 0.8)
            for one in self.some()
        )
        base = 0 if self.random.random() < 0.98 else self.number()
        views = tuple((view, self.random.randrange(3)) for view in self.views[:2])
        return RosterChange(base, self.number(), listed, self.gone(), views)

    def of_client(self) -> object:
        drawn: list[object] = [
            JoinGroup(self.standing()),
            LeaveGroup(self.group(), self.gone()),
            Charges(
                self.group(),
                self.random.randrange(3),
                tuple(Charge(process, self.random.randrange(3)) for process in self.some()),
                self.gone(),
            ),
            Accusation(self.group(), self.some()),
            Ping(1),
        ]
        return self.random.choice(drawn)

    def of_server(self, channel: Channel) -> object:
        servers = tuple(sorted({OWN, *(self.server(one) for one in self.channels if self.random.random() < 0.3)}))
        proposal = (self.group(), self.number(), servers, tuple(self.number() for _ in servers))
        drawn: list[object] = [
            LinkState(self.server(channel), self.random.randrange(99), servers),
            RosterUpdate(self.group(), self.number(), self.change()),
            Synced(self.number()),
            Proposal(*proposal, self.random.randrange(3), self.change()),
            Proposal(*proposal, self.random.randrange(3), None),
        ]
        return self.random.choice(drawn)

    def server(self, channel: Channel) -> ProcessId:
        return ProcessId(f"s{abs(channel)}", 1)

    def frame(self, channel: Channel) -> bytes:
        """Mostly what somebody says who is a client, or a server, on this channel."""
        as_server = (channel % 2 == 0) != (self.random.random() < 0.01)
        if channel in self.opened:
            self.opened.discard(channel)
            standings = tuple(self.standing() for _ in range(2))
            hello = ServerHello(self.server(channel) if self.random.random() < 0.9 else self.process("s"))
            first = hello if as_server else Attach(self.process("c"), self.random.random() < 0.3, standings)
            return write_server_frame(first)
        data = write_server_frame(self.of_server(channel) if as_server else self.of_client())
        return data if self.random.random() < 0.99 else data[: self.random.randrange(len(data))]

    def fact(self) -> Fact:
        channel = self.random.choice(self.channels)
        drawn = self.random.random()
        if drawn < 0.80:
            return FrameReceived(channel, self.frame(channel))
        if drawn < 0.96:
            self.opened.add(channel)
            return ChannelOpened(channel, Address(f"at{channel}"), channel < 0)
        if drawn < 0.97:
            return ChannelClosed(channel)
        return ChannelFailed(channel, "broken") if drawn < 0.98 else Passed()


def test_nothing_that_anybody_says_makes_a_server_raise() -> None:
    for seed in range(20):
        hostile = Hostile(seed)
        server = MembershipServer(OWN, (Address("one"), Address("two")), Settings(), hostile.random)
        server.handle(Start(), 0)
        now = 0
        for _ in range(1500):
            now += int(hostile.random.random() * 20 * MILLISECOND)
            server.handle(hostile.fact(), now)
        for channel in hostile.channels:
            server.handle(ChannelClosed(channel), now)
        end = now + 3 * Settings().failover
        while (due := server.deadline()) is not None and due <= end:
            now = max(due, now)
            server.handle(Passed(), now)
        assert server.groups == [], seed
        server.handle(ChannelOpened(Channel(-9), Address("x"), True), now)
        attach = write_server_frame(Attach(ProcessId("new", 1), False, (Standing("g"),)))
        said = [
            read_server_frame(getattr(one, "data", b""))
            for one in server.handle(FrameReceived(Channel(-9), attach), now)
        ]
        assert isinstance(said[-1], NewView)
