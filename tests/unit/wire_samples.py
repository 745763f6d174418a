"""Packets of every kind, drawn and fixed."""

from __future__ import annotations

from hypothesis import strategies as st

from unisono.clock import TIMESTAMP_LIMIT
from unisono.identity import ProcessId
from unisono.sealing import NullSeal
from unisono.wire.layout import HEADER, MAGIC, VERSION
from unisono.wire.messages import (
    FRAGMENT,
    LEAVE,
    SEQUENCE_LIMIT,
    ActivationGrant,
    ActivationRequest,
    ControlMessage,
    DataMessage,
    Deactivation,
    KeepAlive,
    LeftBehindNotice,
    NameRequest,
    RepairRequest,
    Report,
    ReportEntry,
    Whereabouts,
)
from unisono.wire.writing import DatagramWriter

SEAL = NullSeal()
GROUP = 0x1234_5678_9ABC_DEF0
A, B = ProcessId("a", 5), ProcessId("b", 6)
WRITER = DatagramWriter(A, GROUP, SEAL, 1400)

names = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1, max_size=16)
processes = st.builds(ProcessId, names, st.integers(0, (1 << 63) - 1))
sequences = st.integers(0, SEQUENCE_LIMIT - 1)
positive = st.integers(1, SEQUENCE_LIMIT - 1)
whereabouts = st.builds(Whereabouts, sequences, sequences, sequences)
ranges = st.lists(sequences, min_size=2, max_size=12, unique=True).map(
    lambda drawn: tuple(batched_pairs(sorted(drawn[: len(drawn) // 2 * 2])))
)
timestamps = st.integers(0, TIMESTAMP_LIMIT)
extensions = st.binary(max_size=60)


def batched_pairs(numbers: list[int]) -> list[tuple[int, int]]:
    """First and last of ranges that do not meet."""
    return list(zip(numbers[::2], numbers[1::2], strict=True))


control_messages: st.SearchStrategy[ControlMessage] = st.one_of(
    st.builds(KeepAlive, sequences, timestamps, sequences, sequences, st.none() | whereabouts),
    st.builds(ActivationRequest, processes, sequences, st.booleans(), st.booleans(), extensions),
    st.builds(ActivationGrant, processes, sequences, positive, positive, timestamps, positive, extensions),
    st.builds(Report, st.lists(st.builds(ReportEntry, processes, sequences, sequences), max_size=4).map(tuple)),
    st.builds(
        RepairRequest,
        processes,
        sequences,
        ranges,
        sequences,
        st.none() | sequences,
        st.none() | whereabouts,
    ),
    st.builds(LeftBehindNotice, processes, sequences),
    st.builds(Deactivation, processes, sequences),
    st.builds(NameRequest, processes, names),
)


@st.composite
def batches(draw: st.DrawFn) -> list[DataMessage]:
    """Consecutive messages as a source numbers them: whole ones, fragments, perhaps a farewell at the end."""
    sequence = draw(st.integers(1, SEQUENCE_LIMIT - 100))
    number = draw(st.integers(1, SEQUENCE_LIMIT - 100))
    timestamp = draw(st.integers(1, TIMESTAMP_LIMIT - (1 << 40)))
    batch: list[DataMessage] = []
    for kind in draw(st.lists(st.sampled_from(["whole", "first", "last"]), min_size=1, max_size=8)):
        flags, index, count = (0, 0, 1) if kind == "whole" else (FRAGMENT, int(kind == "last"), 2)
        if index >= sequence:
            flags, index, count = 0, 0, 1
        payload = draw(st.binary(min_size=1 if flags else 0, max_size=40))
        batch.append(DataMessage(sequence, number, timestamp, flags, index, count, payload))
        number += index + 1 == count
        sequence += 1
        timestamp += draw(st.integers(1, (1 << 32) - 1))
    if draw(st.booleans()):
        batch.append(DataMessage(sequence, number, timestamp, LEAVE, 0, 1, b""))
    return batch


def control_datagram(*bodies: tuple[int, bytes]) -> bytes:
    """A sealed control datagram of a, with any code and bytes."""
    body = b"".join(bytes([code]) + len(data).to_bytes(2, "little") + data for code, data in bodies)
    return plain_datagram(2, body)


def plain_datagram(kind: int, body: bytes, version: int = VERSION, magic: bytes = MAGIC, name: bytes = b"a") -> bytes:
    """A sealed datagram of a with any body."""
    return SEAL.seal(HEADER.pack(magic, version, kind, GROUP, 5, len(name)) + name + body)


SAMPLE_BATCH = [
    DataMessage(7, 3, 1000, FRAGMENT, 1, 2, b"the end of a long message"),
    DataMessage(8, 4, 1001, 0, 0, 1, b"whole"),
    DataMessage(9, 5, 1005, LEAVE, 0, 1, b""),
]
SAMPLE_CONTROL: list[ControlMessage] = [
    KeepAlive(9, 1000, 6, 3, Whereabouts(11, 12, 13)),
    ActivationRequest(B, 1, True, True, b"key"),
    ActivationGrant(B, 1, 10, 4, 900, 10_000_000_000, b""),
    Report((ReportEntry(A, 1, 9), ReportEntry(B, 2, 8))),
    RepairRequest(B, 1, ((2, 3), (7, 7)), 0, 1_000_000, None),
    LeftBehindNotice(B, 1),
    Deactivation(B, 1),
    NameRequest(B, "page/7"),
]
SAMPLES: dict[str, bytes] = {
    "data": WRITER.data(SAMPLE_BATCH),
    "control": WRITER.control(SAMPLE_CONTROL)[0],
    "repair": WRITER.repair(WRITER.data(SAMPLE_BATCH)),
}
