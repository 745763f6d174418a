"""The wire: what is written is read back, and nothing else is read; no bytes raise an error."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire_samples import (
    GROUP,
    SAMPLE_BATCH,
    SAMPLE_CONTROL,
    SAMPLES,
    SEAL,
    WRITER,
    A,
    B,
    batches,
    control_datagram,
    control_messages,
    names,
    plain_datagram,
)
from unisono.clock import TIMESTAMP_LIMIT
from unisono.identity import NAME_LIMIT_BYTES, NO_VIEW, ProcessId, ViewMark
from unisono.sealing import SEAL_ROOM_BYTES
from unisono.wire.layout import DATA_HEAD, DATAGRAM_LIMIT_BYTES, FRAGMENT_HEAD, HEADER, MESSAGE_HEAD, VERSION, body_room
from unisono.wire.messages import (
    FRAGMENT,
    RANGE_LIMIT,
    SEQUENCE_LIMIT,
    ActivationGrant,
    ActivationRequest,
    ControlMessage,
    ControlPacket,
    DataMessage,
    DataPacket,
    Deactivation,
    KeepAlive,
    RepairPacket,
    RepairRequest,
    Report,
    ReportEntry,
    Whereabouts,
)
from unisono.wire.reading import read_datagram
from unisono.wire.refusals import Refusal
from unisono.wire.writing import DatagramWriter

FAR = Whereabouts(SEQUENCE_LIMIT - 1, SEQUENCE_LIMIT - 1, SEQUENCE_LIMIT - 1)


class WideSeal:
    """As large as a seal may be."""

    def seal(self, plain: bytes) -> bytes:
        return plain + bytes(SEAL_ROOM_BYTES)

    def open(self, sealed: bytes) -> bytes | None:
        return sealed[:-SEAL_ROOM_BYTES]


@given(batches())
def test_data_is_read_as_it_was_written_and_written_as_it_was_read(batch: list[DataMessage]) -> None:
    stable = batch[0].sequence - 1
    view = ViewMark(batch[0].timestamp - 1, 77)
    datagram = WRITER.data(batch, stable, view)
    packet = read_datagram(datagram, SEAL)
    assert packet == DataPacket(A, GROUP, batch, stable, datagram, view)
    assert isinstance(packet, DataPacket)
    assert WRITER.data(packet.messages, packet.stable, packet.view) == datagram


@given(batches())
def test_a_repair_carries_the_datagram_as_it_was_first_sent(batch: list[DataMessage]) -> None:
    first = DatagramWriter(B, GROUP, SEAL, 1400).data(batch)
    datagram = WRITER.repair(first)
    assert read_datagram(datagram, SEAL) == RepairPacket(A, GROUP, DataPacket(B, GROUP, batch, 0, first))
    assert first in datagram


@given(st.lists(control_messages, min_size=1, max_size=12))
def test_control_messages_are_read_as_they_were_written(messages: list[ControlMessage]) -> None:
    datagrams = WRITER.control(messages)
    packets = [read_datagram(datagram, SEAL) for datagram in datagrams]
    read: list[ControlMessage] = []
    for packet, datagram in zip(packets, datagrams, strict=True):
        assert isinstance(packet, ControlPacket)
        assert (packet.source, packet.group, packet.refused) == (A, GROUP, ())
        assert WRITER.control(packet.messages) == [datagram]
        read += packet.messages
    assert read == messages


def test_the_samples_are_understood() -> None:
    data = DataPacket(A, GROUP, SAMPLE_BATCH, 0, SAMPLES["data"])
    assert read_datagram(SAMPLES["data"], SEAL) == data
    assert read_datagram(SAMPLES["control"], SEAL) == ControlPacket(A, GROUP, SAMPLE_CONTROL)
    assert read_datagram(SAMPLES["repair"], SEAL) == RepairPacket(A, GROUP, data)


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_truncation_is_refused(kind: str) -> None:
    datagram = SAMPLES[kind]
    for length in range(len(datagram)):
        assert isinstance(read_datagram(datagram[:length], SEAL), Refusal)


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_flipped_bit_is_refused(kind: str) -> None:
    datagram = SAMPLES[kind]
    for bit in range(8 * len(datagram)):
        flipped = bytearray(datagram)
        flipped[bit // 8] ^= 1 << bit % 8
        assert isinstance(read_datagram(bytes(flipped), SEAL), Refusal)


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_truncation_of_the_body_under_a_good_seal_is_refused_or_a_shorter_packet(kind: str) -> None:
    """A seal that fits proves little: what is inside is still checked."""
    plain = SAMPLES[kind][:-8]
    for length in range(HEADER.size + 1, len(plain)):
        packet = read_datagram(SEAL.seal(plain[:length]), SEAL)
        assert isinstance(packet, Refusal) or (kind == "control" and isinstance(packet, ControlPacket))


@given(st.binary(max_size=200), st.sampled_from([1, 2, 3]))
def test_garbage_never_raises(body: bytes, kind: int) -> None:
    assert isinstance(read_datagram(body, SEAL), Refusal)
    read_datagram(plain_datagram(kind, body), SEAL)


@given(st.integers(0, 8), st.binary(max_size=60))
def test_garbage_in_a_control_message_never_raises(code: int, body: bytes) -> None:
    packet = read_datagram(control_datagram((code, body)), SEAL)
    assert isinstance(packet, ControlPacket)
    assert len(packet.messages) + len(packet.refused) == 1


def test_a_name_that_is_not_text_is_refused() -> None:
    assert read_datagram(plain_datagram(1, b"", name=b"\xff"), SEAL) == Refusal.NAME
    body = msgspec.msgpack.encode(Deactivation(A, 1)).replace(b"a", b"\xff")
    assert read_datagram(control_datagram((Deactivation.code, body)), SEAL) == ControlPacket(
        A, GROUP, [], (Refusal.CONTROL_BODY,)
    )


@given(st.sampled_from(sorted(SAMPLES)), st.sampled_from(sorted(SAMPLES)), st.data())
def test_a_splice_of_two_datagrams_is_refused(left: str, right: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(SAMPLES[left])))
    resume = data.draw(st.integers(0, len(SAMPLES[right])))
    spliced = SAMPLES[left][:cut] + SAMPLES[right][resume:]
    if spliced not in SAMPLES.values():
        assert isinstance(read_datagram(spliced, SEAL), Refusal)


def data_body(
    first: int = 1,
    number: int = 1,
    timestamp: int = 1,
    count: int = 1,
    flags: int = 0,
    delta: int = 0,
    stable: int = 0,
    start: int = 0,
    rest: bytes = b"",
) -> bytes:
    """One message head, with everything wrong that a caller wants."""
    return DATA_HEAD.pack(first, number, timestamp, stable, start, 0, count) + MESSAGE_HEAD.pack(flags, delta, 0) + rest


def fragment_body(sequence: int, index: int, count: int, payload: bytes) -> bytes:
    head = DATA_HEAD.pack(sequence, 1, 1, 0, 0, 0, 1) + MESSAGE_HEAD.pack(FRAGMENT, 0, len(payload))
    return head + FRAGMENT_HEAD.pack(index, count) + payload


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (b"", Refusal.SHORT),
        (bytes(HEADER.size - 1), Refusal.SHORT),
        (bytes(DATAGRAM_LIMIT_BYTES + 1), Refusal.LONG),
        (plain_datagram(1, data_body(), magic=b"ou"), Refusal.MAGIC),
        (plain_datagram(1, data_body(), version=1), Refusal.VERSION),
        (plain_datagram(0, data_body()), Refusal.KIND),
        (plain_datagram(4, data_body()), Refusal.KIND),
        (plain_datagram(1, data_body())[:-1] + b"?", Refusal.SEAL),
        (plain_datagram(1, data_body(), name=b""), Refusal.NAME),
        (plain_datagram(1, data_body(), name=b"n" * (NAME_LIMIT_BYTES + 1)), Refusal.NAME),
        (plain_datagram(1, data_body(), name=b"a\nb"), Refusal.NAME),
        (plain_datagram(1, data_body(), name=b"\x1b[2J"), Refusal.NAME),
        (plain_datagram(1, data_body(), name="a\u202eb".encode()), Refusal.NAME),
        (SEAL.seal(HEADER.pack(b"uo", VERSION, 1, GROUP, 1 << 63, 1) + b"a" + data_body()), Refusal.NAME),
        (SEAL.seal(HEADER.pack(b"uo", VERSION, 1, GROUP, 5, 200) + b"a"), Refusal.LENGTH),
        (plain_datagram(1, b""), Refusal.LENGTH),
        (plain_datagram(1, data_body(count=0)), Refusal.EMPTY),
        (plain_datagram(1, data_body(stable=1)), Refusal.SEQUENCE),
        (plain_datagram(1, data_body(start=1)), Refusal.TIMESTAMP),
        (plain_datagram(1, data_body(start=-1)), Refusal.TIMESTAMP),
        (plain_datagram(1, data_body(count=2)), Refusal.LENGTH),
        (plain_datagram(1, data_body(count=65_535)), Refusal.LENGTH),
        (plain_datagram(1, data_body(rest=b"more")), Refusal.TRAILING),
        (plain_datagram(1, data_body(first=0)), Refusal.SEQUENCE),
        (plain_datagram(1, data_body(first=SEQUENCE_LIMIT - 1)), Refusal.SEQUENCE),
        (plain_datagram(1, data_body(first=(1 << 64) - 1)), Refusal.SEQUENCE),
        (plain_datagram(1, data_body(number=0)), Refusal.SEQUENCE),
        (plain_datagram(1, data_body(number=SEQUENCE_LIMIT)), Refusal.SEQUENCE),
        (plain_datagram(1, data_body(timestamp=0)), Refusal.TIMESTAMP),
        (plain_datagram(1, data_body(timestamp=-1)), Refusal.TIMESTAMP),
        (plain_datagram(1, data_body(timestamp=TIMESTAMP_LIMIT + 1)), Refusal.TIMESTAMP),
        (plain_datagram(1, data_body(delta=1)), Refusal.TIMESTAMP),
        (plain_datagram(1, data_body(count=2, rest=MESSAGE_HEAD.pack(0, 0, 0))), Refusal.TIMESTAMP),
        (
            plain_datagram(1, data_body(timestamp=TIMESTAMP_LIMIT, count=2, rest=MESSAGE_HEAD.pack(0, 1, 0))),
            Refusal.TIMESTAMP,
        ),
        (plain_datagram(1, data_body(flags=2 | 8)), Refusal.FLAGS),
        (plain_datagram(1, data_body(flags=3)), Refusal.FLAGS),
        (plain_datagram(1, fragment_body(9, 0, 1, b"x")), Refusal.FRAGMENT),
        (plain_datagram(1, fragment_body(9, 2, 2, b"x")), Refusal.FRAGMENT),
        (plain_datagram(1, fragment_body(2, 2, 3, b"x")), Refusal.FRAGMENT),
        (plain_datagram(1, fragment_body(9, 0, 2, b"")), Refusal.FRAGMENT),
        (plain_datagram(2, b""), Refusal.EMPTY),
        (plain_datagram(2, b"\x01"), Refusal.LENGTH),
        (plain_datagram(2, b"\x01\xff\xff"), Refusal.LENGTH),
        (plain_datagram(3, b""), Refusal.SHORT),
        (plain_datagram(3, SAMPLES["repair"]), Refusal.NESTED),
        (plain_datagram(3, SAMPLES["control"]), Refusal.NOT_DATA),
        (plain_datagram(3, DatagramWriter(B, GROUP + 1, SEAL, 1400).data(SAMPLE_BATCH)), Refusal.OTHER_GROUP),
        (plain_datagram(3, SAMPLES["data"][:-1] + b"?"), Refusal.SEAL),
    ],
)
def test_each_fault_has_its_own_reason(datagram: bytes, reason: Refusal) -> None:
    assert read_datagram(datagram, SEAL) is reason


KEEP_ALIVE = (KeepAlive.code, msgspec.msgpack.encode(KeepAlive(4, 5, 0, 0, 0, False, False, None, NO_VIEW)))
GOODBYE = (Deactivation.code, msgspec.msgpack.encode(Deactivation(A, 1)))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ((0, b""), Refusal.CONTROL_TYPE),
        ((200, b"from the future"), Refusal.CONTROL_TYPE),
        ((KeepAlive.code, b""), Refusal.CONTROL_BODY),
        ((KeepAlive.code, msgspec.msgpack.encode([1])), Refusal.CONTROL_BODY),
        ((KeepAlive.code, msgspec.msgpack.encode([1, 2, 3])), Refusal.CONTROL_BODY),
        ((KeepAlive.code, msgspec.msgpack.encode([-1, 2])), Refusal.CONTROL_BODY),
        ((KeepAlive.code, msgspec.msgpack.encode([1, TIMESTAMP_LIMIT + 1])), Refusal.CONTROL_BODY),
        ((KeepAlive.code, msgspec.msgpack.encode([SEQUENCE_LIMIT, 1])), Refusal.CONTROL_BODY),
        ((KeepAlive.code, msgspec.msgpack.encode([1, 2]) + b"\x00"), Refusal.CONTROL_BODY),
        ((KeepAlive.code, b"\x92\xcc\x01\x02"), Refusal.CONTROL_BODY),  # a number that is longer than it need be
        ((RepairRequest.code, msgspec.msgpack.encode([A, 1, []])), Refusal.CONTROL_BODY),
        ((RepairRequest.code, msgspec.msgpack.encode([A, 1, [(1, 1)] * (RANGE_LIMIT + 1)])), Refusal.CONTROL_BODY),
        ((RepairRequest.code, msgspec.msgpack.encode([A, 1, [(2, 1)]])), Refusal.CONTROL_BODY),
        ((RepairRequest.code, msgspec.msgpack.encode([A, 1, [(1, 1), (4, 9), (9, 4)]])), Refusal.CONTROL_BODY),
        ((ActivationRequest.code, msgspec.msgpack.encode([A, 1, bytes(8193)])), Refusal.CONTROL_BODY),
        ((ActivationGrant.code, msgspec.msgpack.encode([A, 1, 0, 1, 1, b""])), Refusal.CONTROL_BODY),
        ((ActivationGrant.code, msgspec.msgpack.encode([A, 1, 1, 0, 1, b""])), Refusal.CONTROL_BODY),
        ((ActivationGrant.code, msgspec.msgpack.encode([A, 1, 1, 1, 0, b""])), Refusal.CONTROL_BODY),
        ((ActivationGrant.code, msgspec.msgpack.encode([A, 1, 1, 1, SEQUENCE_LIMIT, b""])), Refusal.CONTROL_BODY),
        ((ActivationGrant.code, msgspec.msgpack.encode([A, 1, 1, 1, b""])), Refusal.CONTROL_BODY),
        ((Deactivation.code, msgspec.msgpack.encode([("", 1), 1])), Refusal.CONTROL_BODY),
        ((Deactivation.code, msgspec.msgpack.encode([("a", 1 << 63), 1])), Refusal.CONTROL_BODY),
        ((Deactivation.code, b"\x92\x92\xa1\xff\x01\x01"), Refusal.CONTROL_BODY),  # a name that is not UTF-8
        ((Report.code, b"\x91\x91\x93\x92\xa2\xc3(\x01\x01\x01"), Refusal.CONTROL_BODY),
    ],
)
def test_a_control_message_that_is_not_understood_is_counted_and_its_neighbours_are_understood(
    message: tuple[int, bytes], reason: Refusal
) -> None:
    packet = read_datagram(control_datagram(KEEP_ALIVE, message, GOODBYE), SEAL)
    assert packet == ControlPacket(
        A, GROUP, [KeepAlive(4, 5, 0, 0, 0, False, False, None, NO_VIEW), Deactivation(A, 1)], (reason,)
    )


HUGE = b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    "datagram",
    [
        plain_datagram(1, DATA_HEAD.pack(1, 1, 1, 0, 0, 0, 65_535) + bytes(100)),
        plain_datagram(1, fragment_body(1 << 40, (1 << 32) - 2, (1 << 32) - 1, b"x")),
        control_datagram((Report.code, b"\x91\xdd" + HUGE)),
        control_datagram((RepairRequest.code, b"\x93\x92\xa1a\x01\x01\xdd" + HUGE)),
        control_datagram((ActivationRequest.code, b"\x93\x92\xa1a\x01\x01\xc6" + HUGE)),
        control_datagram((Deactivation.code, b"\x92\x92\xdb" + HUGE)),
        control_datagram((Deactivation.code, b"\xdd" + HUGE)),
        control_datagram((Deactivation.code, b"\xdf" + HUGE)),
        control_datagram((Report.code, b"\x91" * 2000)),
        plain_datagram(3, plain_datagram(1, DATA_HEAD.pack(1, 1, 1, 0, 0, 0, 65_535) + bytes(100))),
    ],
)
def test_what_is_claimed_does_not_decide_what_is_allocated(datagram: bytes) -> None:
    read_datagram(datagram, SEAL)
    tracemalloc.start()
    try:
        read_datagram(datagram, SEAL)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 10 * len(datagram) + 4096


@given(names, st.integers(576, 2000), st.sampled_from([SEAL, WideSeal()]))
def test_a_full_data_datagram_fits_also_in_the_envelope_of_a_repair(
    name: str, datagram_bytes: int, seal: WideSeal
) -> None:
    source = ProcessId(name, 1)
    writer = DatagramWriter(source, GROUP, seal, datagram_bytes)
    whole = DataMessage(1, 1, 1, 0, 0, 1, bytes(writer.data_room - MESSAGE_HEAD.size))
    fragment = DataMessage(2, 2, 1, FRAGMENT, 0, 2, bytes(writer.fragment_room))
    for message in (whole, fragment):
        datagram = writer.data([message])
        repair = writer.repair(datagram)
        assert len(datagram) < len(repair) <= datagram_bytes
        if isinstance(seal, WideSeal):
            assert len(repair) == datagram_bytes


@given(names, st.integers(576, 65_000))
def test_the_arithmetic_of_the_room(name: str, datagram_bytes: int) -> None:
    envelope = HEADER.size + len(name.encode()) + SEAL_ROOM_BYTES
    assert body_room(datagram_bytes, name) + 2 * envelope == datagram_bytes


@given(st.lists(control_messages, max_size=30), st.integers(576, 1400))
def test_control_datagrams_fit(messages: list[ControlMessage], datagram_bytes: int) -> None:
    writer = DatagramWriter(A, GROUP, WideSeal(), datagram_bytes)
    small = [message for message in messages if len(msgspec.msgpack.encode(message)) < 200]
    assert all(len(datagram) <= datagram_bytes for datagram in writer.control(small))


@given(st.lists(st.builds(ReportEntry, st.builds(ProcessId, names, st.integers(0, 1 << 62)), st.just(1), st.just(9))))
def test_reports_are_cut_to_fit_however_many_sources_there_are(entries: list[ReportEntry]) -> None:
    writer = DatagramWriter(ProcessId("n" * 64, 1), GROUP, WideSeal(), 576)
    reports = writer.reports(entries)
    assert [entry for report in reports for entry in report.entries] == entries
    assert all(len(datagram) <= 576 for datagram in writer.control(reports))


@given(names, names, st.integers(576, 65_000), st.integers(0, SEQUENCE_LIMIT - 2 * RANGE_LIMIT))
def test_the_largest_repair_request_fits(name: str, target: str, datagram_bytes: int, first: int) -> None:
    """Whatever the numbers are; the number of ranges is what the writer says."""
    writer = DatagramWriter(ProcessId(name, 1), GROUP, WideSeal(), datagram_bytes)
    assert 1 <= writer.range_room <= RANGE_LIMIT
    ranges = tuple((first + number, first + number) for number in range(0, 2 * writer.range_room, 2))
    request = RepairRequest(
        ProcessId(target, (1 << 63) - 1), SEQUENCE_LIMIT - 1, ranges, SEQUENCE_LIMIT - 1, SEQUENCE_LIMIT - 1, FAR
    )
    assert [len(datagram) <= datagram_bytes for datagram in writer.control([request])] == [True]


def test_a_repair_request_fits_between_the_longest_names() -> None:
    writer = DatagramWriter(ProcessId("n" * NAME_LIMIT_BYTES, 1), GROUP, WideSeal(), 576)
    largest = SEQUENCE_LIMIT - 1
    target = ProcessId("m" * NAME_LIMIT_BYTES, (1 << 63) - 1)
    ranges = tuple((largest - 2 * place, largest - 2 * place) for place in reversed(range(writer.range_room)))
    request = RepairRequest(target, largest, ranges, largest, largest, FAR)
    assert [len(datagram) <= 576 for datagram in writer.control([request])] == [True]
    assert writer.range_room > 1


def test_a_small_datagram_names_fewer_ranges() -> None:
    assert DatagramWriter(A, GROUP, SEAL, 9000).range_room == RANGE_LIMIT
    assert DatagramWriter(A, GROUP, SEAL, 576).range_room < RANGE_LIMIT
