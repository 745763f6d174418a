"""A few real nodes, a network of which every packet is seen, and virtual time.

Storage answers at once. An application takes its events at once unless it stopped reading. The randomness handed to a
node is always zero, so that every wait is the shortest one and a reader can tell when it ends.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from tests.scenarios.wording import brief, describe_event, describe_message, describe_packet, kinds_of, sequences_of
from unisono.engine import (
    Address,
    AppendLog,
    DatagramReceived,
    Deliver,
    EventsTaken,
    Fact,
    JoinAddress,
    LeaveAddress,
    Listen,
    Note,
    ReadLog,
    Record,
    SendDatagram,
    Start,
    StorageDone,
    SyncLog,
    TimePassed,
    is_multicast,
)
from unisono.events import Event, Left, Message, SendAccepted, SendRefused, View
from unisono.identity import ProcessId, ViewId
from unisono.node import Node
from unisono.sealing import NullSeal
from unisono.trace.schema import GaugeRow
from unisono.units import MILLISECOND, SECOND, render_duration
from unisono.wire.messages import Packet
from unisono.wire.reading import read_datagram
from unisono.wire.refusals import Refusal

DEFAULT_GROUP = "g"
LATENCY = MILLISECOND
EPOCH = 1_700_000_000 * SECOND
STEP_LIMIT = 20_000
"""A command that takes more steps than this will never end."""


class NoRandomness:
    """Zero, always."""

    def random(self) -> float:
        return 0.0


class Parcel:
    """A datagram on its way to one process."""

    def __init__(self, sender: str, receiver: str, destination: Address, data: bytes, packet: Packet, at: int) -> None:
        self.sender = sender
        self.receiver = receiver
        self.destination = destination
        self.data = data
        self.packet = packet
        self.at = at

    def again(self, at: int) -> Parcel:
        return Parcel(self.sender, self.receiver, self.destination, self.data, self.packet, at)


class Pattern:
    """Which packets a command means; `once` for the next of them alone, `quiet` for a loss that is not shown."""

    def __init__(
        self, kind: str | None, sequence: int | None, sender: str | None, receiver: str | None, once: bool, quiet: bool
    ) -> None:
        self.kind = kind
        self.sequence = sequence
        self.sender = sender
        self.receiver = receiver
        self.once = once
        self.quiet = quiet

    def matches(self, parcel: Parcel) -> bool:
        if self.kind is not None and self.kind not in kinds_of(parcel.packet):
            return False
        if self.sequence is not None:
            span = sequences_of(parcel.packet)
            if span is None or not span[0] <= self.sequence <= span[1]:
                return False
        return self.sender in (None, parcel.sender) and self.receiver in (None, parcel.receiver)


class Station:
    """Where a process lives, one life after another."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.life = 0
        self.disk: list[bytes] = []
        self.clock_offset = 0
        self.addresses: dict[Address, None] = {}
        self.reading = True
        self.paused = False
        self.backlog: list[Fact] = []
        """What happened to a process while it was paused."""
        self.identifiers: list[ViewId] = []
        self.inbox: deque[tuple[str, Event]] = deque()
        self.notes: Counter[str] = Counter()
        self.marks: Counter[str] = Counter()
        self.waiting: set[int] = set()
        self.late: set[int] = set()
        self.delivered: list[str] = []
        self.view: View | None = None


class Line:
    """A line of output; equal things that happen in a row are told in one."""

    def __init__(self, text: str, key: object = None, number: int = 0) -> None:
        self.text = text
        self.key = key
        self.number = number
        self.count = 1


class Lives(dict[ProcessId, str]):
    """How every life is called, also one that only a forged packet speaks of."""

    def __missing__(self, process: ProcessId) -> str:
        return f"{process.name}?"


class World:
    """Stations, packets and time."""

    def __init__(self) -> None:
        self.now = 0
        self.began = 0
        self.stations: dict[str, Station] = {}
        self.lives = Lives()
        self.queue: deque[Parcel] = deque()
        self.held: list[Parcel] = []
        self.losing: list[Pattern] = []
        self.withholding: list[Pattern] = []
        self.members: dict[ViewId, tuple[ProcessId, ...]] = {}
        """The members of every view that anybody was ever in."""
        self.watched: set[str] = set()
        self.sent: set[bytes] = set()
        self.lines: list[Line] = []
        self._entropy = 0

    def say(self, text: str, key: object = None, number: int = 0, many: Callable[[int], str] | None = None) -> None:
        last = self.lines[-1] if self.lines else None
        if last is not None and many is not None and last.key == key and number in (0, last.number + last.count):
            last.count += 1
            last.text = many(last.count)
        else:
            self.lines.append(Line(text, key, number))

    def start(self, station: Station) -> None:
        """A new life."""
        station.life += 1
        station.node = Node(station.name, NoRandomness(), self._new_entropy)
        self.handle(station, Start())
        assert station.node.process is not None, "storage answers at once"
        self.lives[station.node.process] = station.name + (f"/{station.life}" if station.life > 1 else "")

    def stop(self, station: Station) -> None:
        """The process is gone, with all that its application had not taken."""
        station.node = None
        station.addresses.clear()
        station.inbox.clear()
        station.waiting.clear()
        station.late.clear()
        station.reading = True
        station.paused = False
        station.backlog.clear()

    def handle(self, station: Station, fact: Fact) -> None:
        """Hand a fact to a node, and to it every fact that follows at once from the effects."""
        if station.paused:
            station.backlog.append(fact)
            return
        facts = deque([fact])
        while facts and station.node is not None:
            for effect in station.node.handle(facts.popleft(), self.now, EPOCH + self.now + station.clock_offset):
                match effect:
                    case SendDatagram():
                        self._transmit(station, effect)
                    case JoinAddress():
                        station.addresses[effect.address] = None
                    case LeaveAddress():
                        station.addresses.pop(effect.address, None)
                    case Deliver():
                        self._deliver(station, effect)
                    case Note():
                        station.notes[effect.reason] += 1
                    case Record():
                        if isinstance(effect.row, GaugeRow) and effect.row.kind == "MARK":
                            station.marks[effect.row.name] += 1
                    case ReadLog():
                        facts.append(StorageDone(effect.request, tuple(station.disk)))
                    case AppendLog():
                        station.disk.append(effect.record)
                        facts.append(StorageDone(effect.request))
                    case SyncLog():
                        facts.append(StorageDone(effect.request))
                    case Listen():
                        pass  # nobody opens a channel here
                    case _:
                        raise AssertionError(f"no hands for {effect}")
            if station.reading:
                facts.extend(self._take(station))

    def resume(self, station: Station) -> None:
        """The process goes on, with all that came meanwhile."""
        station.paused = False
        backlog, station.backlog = station.backlog, []
        for fact in backlog:
            self.handle(station, fact)

    def read(self, station: Station) -> None:
        """The application takes what waits for it, and goes on reading."""
        station.reading = True
        for fact in self._take(station):
            self.handle(station, fact)

    def deliver(self) -> None:
        """Hand over packets, and fire what is due, until nothing more happens at this instant."""
        for _ in range(STEP_LIMIT):
            if self.queue:
                self._hand_over(self.queue.popleft())
            elif not self._fire_due():
                return
        raise AssertionError("the packets never end")

    def run(self, duration: int) -> None:
        """Let time pass; a packet takes a millisecond."""
        end = self.now + duration
        for _ in range(STEP_LIMIT):
            times = [max(self.queue[0].at + LATENCY, self.now)] if self.queue else []
            times += [max(due, self.now) for station in self.stations.values() if (due := _due(station)) is not None]
            if not times or min(times) > end:
                self.now = end
                return
            self.now = min(times)
            if self.queue and self.queue[0].at + LATENCY <= self.now:
                self._hand_over(self.queue.popleft())
            else:
                self._fire_due()
        raise AssertionError("time never ends")

    def describe(self, parcel: Parcel) -> str:
        return f"{parcel.sender} -> {parcel.receiver}: {describe_packet(parcel.packet, self.lives)}"

    def forge(self, sender: str, receiver: str, data: bytes) -> None:
        """Send a datagram that no node has written."""
        packet = read_datagram(data, NullSeal())
        assert not isinstance(packet, Refusal), f"refused before any engine sees it: {packet}"
        parcel = Parcel(sender, receiver, Address(receiver), data, packet, self.now)
        forged = f"forged {self.describe(parcel)}"
        self.say(forged, forged, many=lambda count: f"{forged} ({count} times)")
        self.queue.append(parcel)

    def _new_entropy(self, size: int) -> bytes:
        self._entropy += 1
        return self._entropy.to_bytes(size, "big")

    def _transmit(self, station: Station, effect: SendDatagram) -> None:
        packet = read_datagram(effect.data, NullSeal())
        assert not isinstance(packet, Refusal), f"a node sent what nobody can read: {packet}"
        if is_multicast(effect.to):
            receivers = [
                name for name, other in self.stations.items() if other is not station and effect.to in other.addresses
            ]
        else:
            receivers = [effect.to]
        for receiver in receivers:
            parcel = Parcel(station.name, receiver, effect.to, effect.data, packet, self.now)
            if self.watched.intersection(kinds_of(packet)):
                self.say(f"at {render_duration(self.now - self.began)} {self.describe(parcel)}")
            if any(rule.matches(parcel) for rule in self.withholding):
                self.held.append(parcel)
                continue
            rule = next((rule for rule in self.losing if rule.matches(parcel)), None)
            if rule is None:
                self.queue.append(parcel)
                continue
            if not rule.quiet:
                self.say(f"lost {self.describe(parcel)}")
            if rule.once:
                self.losing.remove(rule)

    def _hand_over(self, parcel: Parcel) -> None:
        source = Address(parcel.sender)
        fact = DatagramReceived(source, parcel.destination, 1, self.now, 0, parcel.data)
        self.handle(self.stations[parcel.receiver], fact)

    def _fire_due(self) -> bool:
        for station in self.stations.values():
            due = _due(station)
            if due is not None and due <= self.now:
                self.handle(station, TimePassed())
                return True
        return False

    def _deliver(self, station: Station, effect: Deliver) -> None:
        for event in effect.events:
            if isinstance(event, SendAccepted | SendRefused):
                self._answer(station, event)
            else:
                station.inbox.append((effect.group, event))

    def _answer(self, station: Station, event: SendAccepted | SendRefused) -> None:
        station.waiting.remove(event.ticket)
        if isinstance(event, SendRefused):
            station.late.discard(event.ticket)
            self.say(f"{station.name}: send refused: {event.reason}")
        elif event.ticket in station.late:
            station.late.remove(event.ticket)
            self.say(
                f"{station.name}: a waiting send is accepted",
                ("accepted", station.name),
                many=lambda count: f"{station.name}: {count} waiting sends are accepted",
            )

    def _take(self, station: Station) -> list[EventsTaken]:
        taken: Counter[str] = Counter()
        while station.inbox:
            group, event = station.inbox.popleft()
            where = station.name if group == DEFAULT_GROUP else f"{station.name} in {group}"
            if isinstance(event, Message):
                taken[group] += 1
                if event.repeated:
                    continue
                station.delivered.append(brief(event))
                self._say_message(where, event)
            else:
                self.say(f"{where}: {describe_event(event, self.lives)}")
                if isinstance(event, View):
                    station.view = event
                    station.identifiers.append(event.id)
                    members = self.members.setdefault(event.id, event.members)
                    assert members == event.members, f"two views are called {event.id}"
                if isinstance(event, Left):
                    del taken[group]
        return [EventsTaken(group, count) for group, count in taken.items()]

    def _say_message(self, where: str, message: Message) -> None:
        what, source = describe_message(message, self.sent), self.lives[message.source]
        if message.by is not None:
            source += f" by {self.lives[message.by]}"
        text = f"{where}: {what} from {source} #{message.number}"
        if what.startswith('"'):
            self.say(text)
            return
        key, first = (where, what, source), message.number
        last = self.lines[-1] if self.lines else None
        if last is not None and last.key == key:
            first = last.number
        self.say(text, key, message.number, lambda count: f"{where}: {what} from {source} #{first}-{first + count - 1}")


def _due(station: Station) -> int | None:
    return station.node.deadline() if station.node is not None and not station.paused else None
