"""Control messages larger than a datagram: in parts that fit, put together again whole or not at all, within bounds."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire_samples import GROUP, SEAL, A, B, control_datagram, control_messages
from unisono.identity import ProcessId, ViewId
from unisono.units import MIB, SECOND
from unisono.wire.membership_messages import NewView, Origin, Ready, Seat, UpTo
from unisono.wire.messages import ControlMessage, ControlPacket
from unisono.wire.part_messages import PARTS_LIMIT, MessagePart, parted
from unisono.wire.parting import KEPT_FOR, KEPT_LIMIT_BYTES, MESSAGE_LIMIT_BYTES, PART_WEIGHT_BYTES, Parting
from unisono.wire.reading import read_datagram
from unisono.wire.refusals import Refusal
from unisono.wire.writing import DatagramWriter

SMALL = 576
NARROW = DatagramWriter(A, GROUP, SEAL, SMALL)


def view(members: int, name: str = "n" * 60) -> NewView:
    """A view of so many senders, each with a long name."""
    processes = tuple(ProcessId(f"{number:04}{name}", number + 1) for number in range(members))
    stands = ViewId(5, processes[0], 1)
    seats = tuple(Seat(process, 1, 1, 1) for process in processes)
    origin = Origin(stands, stands, processes, tuple(UpTo(process, 0) for process in processes))
    return NewView(1, stands, stands, seats, (origin,), (), (), processes, b"")


def packets(datagrams: list[bytes]) -> list[ControlPacket]:
    read = [read_datagram(datagram, SEAL) for datagram in datagrams]
    assert all(isinstance(packet, ControlPacket) and not packet.refused for packet in read)
    return [packet for packet in read if isinstance(packet, ControlPacket)]


def joined(parting: Parting, arrived: list[ControlPacket], now: int = 0) -> list[ControlMessage]:
    return [message for packet in arrived for message in parting.join(packet, now).messages]


LARGE = st.integers(1, 40).map(view)


@given(st.lists(st.one_of(control_messages, LARGE), min_size=1, max_size=6))
def test_every_datagram_fits_and_together_they_say_the_same(messages: list[ControlMessage]) -> None:
    datagrams = NARROW.control(messages)
    assert max(map(len, datagrams)) <= SMALL
    parting = Parting()
    assert joined(parting, packets(datagrams)) == messages
    assert parting.weight == 0


@given(LARGE.filter(lambda message: len(message.seats) > 2), st.data())
def test_parts_in_any_order_and_more_than_once_give_the_message_once(message: NewView, data: st.DataObject) -> None:
    arrived = packets(NARROW.control([message]))
    order = data.draw(st.permutations(arrived))
    again = data.draw(st.lists(st.sampled_from(order[:-1]), max_size=5))
    parting = Parting()
    assert joined(parting, [*order[:-1], *again]) == []
    assert joined(parting, order[-1:]) == [message]


@given(LARGE.filter(lambda message: len(message.seats) > 2), st.data())
def test_what_is_lost_of_one_saying_comes_with_the_next(message: NewView, data: st.DataObject) -> None:
    arrived = packets(NARROW.control([message]))
    lost = data.draw(st.sets(st.sampled_from(range(len(arrived))), min_size=1))
    parting = Parting()
    assert joined(parting, [one for place, one in enumerate(arrived) if place not in lost]) == []
    assert joined(parting, [arrived[place] for place in sorted(lost)], SECOND) == [message]


def test_a_message_of_which_nothing_more_comes_is_given_up() -> None:
    arrived = packets(NARROW.control([view(20)]))
    parting = Parting()
    assert joined(parting, arrived[:-1]) == []
    other = packets(NARROW.control([view(21)]))
    assert joined(parting, other[:1], KEPT_FOR + 1) == []
    assert parting.weight == PART_WEIGHT_BYTES


def packet_of(source: ProcessId, part: MessagePart) -> ControlPacket:
    return ControlPacket(source, GROUP, [], (), (part,))


def test_one_source_that_begins_ever_more_keeps_its_room_and_nobody_elses() -> None:
    parting, message = Parting(), view(20)
    mine = packets(NARROW.control([message]))
    assert joined(parting, mine[:-1]) == []
    for number in range(3 * MESSAGE_LIMIT_BYTES // PART_WEIGHT_BYTES):
        parting.join(packet_of(B, MessagePart(number.to_bytes(8), 33, 0, 2, b"x")), 0)
    assert parting.weight <= MESSAGE_LIMIT_BYTES + (len(mine) + 1) * PART_WEIGHT_BYTES
    assert joined(parting, mine[-1:]) == [message]


@settings(deadline=None)
@given(st.integers(5, 9))
def test_many_sources_together_keep_within_the_limit(sources: int) -> None:
    parting = Parting()
    for number in range(sources):
        for index in range(64):
            part = MessagePart(bytes(8), 33, index, 65, bytes([index]) * (MESSAGE_LIMIT_BYTES // 65))
            parting.join(packet_of(ProcessId(f"s{number}", 1), part), 0)
    kept = sum(unfinished.weight for unfinished in parting._kept.values())
    assert parting.weight == sum(parting._weights.values()) == kept <= KEPT_LIMIT_BYTES


def refusals(part: MessagePart, *more: MessagePart) -> tuple[str, ...]:
    parting = Parting()
    for one in (part, *more)[:-1]:
        parting.join(packet_of(A, one), 0)
    packet = parting.join(packet_of(A, (part, *more)[-1]), 0)
    assert packet.messages == []
    return packet.refused


def test_parts_that_make_no_message_are_refused() -> None:
    body = msgspec.msgpack.encode(view(3))
    first, second = parted(33, body, len(body) // 2 + 1)
    assert refusals(first, msgspec.structs.replace(second, payload=second.payload[:-1] + b"?")) == (Refusal.PARTS,)
    unknown = list(parted(99, body, len(body) // 2 + 1))
    assert refusals(*unknown) == (Refusal.CONTROL_TYPE,)
    nested = list(parted(MessagePart.code, msgspec.msgpack.encode(first), len(body) // 2))
    assert refusals(*nested) == (Refusal.PARTS,)
    broken = list(parted(33, body[:-3], len(body) // 2))
    assert refusals(*broken) == (Refusal.CONTROL_BODY,)
    assert refusals(MessagePart(bytes(8), 33, 0, PARTS_LIMIT, bytes(MIB))) == (Refusal.PARTS,)


@given(st.binary(max_size=60))
def test_garbage_in_a_part_never_raises(body: bytes) -> None:
    packet = read_datagram(control_datagram((MessagePart.code, body)), SEAL)
    assert isinstance(packet, ControlPacket)
    assert len(packet.parts) + len(packet.refused) == 1


def test_a_message_that_fits_goes_whole() -> None:
    (packet,) = packets(NARROW.control([Ready(7)]))
    assert (packet.messages, packet.parts) == ([Ready(7)], ())
