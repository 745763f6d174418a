"""Packets of every kind, drawn and fixed."""

from __future__ import annotations

from hypothesis import strategies as st

from unisono.clock import TIMESTAMP_LIMIT
from unisono.identity import NO_VIEW, ProcessId, ViewId, ViewMark
from unisono.sealing import NullSeal
from unisono.wire.census_messages import CensusAnswer, CensusRequest
from unisono.wire.control_messages import (
    WORD,
    Contributed,
    Contribution,
    CoordinatorControl,
    CoordinatorLeave,
    Entry,
    Farewell,
    Gathered,
    GlobalControl,
    HierarchyMessage,
    LocalControl,
    RingQuery,
    SearchResponse,
    Summary,
    TimestampPair,
    pack_distances,
    pack_pairs,
)
from unisono.wire.layout import HEADER, MAGIC, VERSION
from unisono.wire.membership_messages import (
    AddRequest,
    CutInfo,
    Leaver,
    MembershipMessage,
    NewView,
    Opinion,
    Origin,
    PrimaryRecord,
    Ready,
    RecoveryInfo,
    Seat,
    UpTo,
    ViewRequest,
)
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
from unisono.wire.probe_messages import (
    Level,
    Levels,
    ProbeAnswer,
    ProbedView,
    ProbeMessage,
    ProbeRequest,
    Silent,
    Traffic,
    pack_known,
)
from unisono.wire.proxy_messages import ProxyAnswer, ProxyRequest
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
view_marks = st.builds(ViewMark, timestamps, st.integers(0, (1 << 32) - 1))

words = st.integers(0, WORD)
microseconds = st.integers(0, (1 << 62) - 1)
hops = st.integers(0, 255)
intervals = st.integers(1, 600_000)
counts = st.integers(0, 1_000_000)
wide = st.integers(0, (1 << 64) - 1)
pairs = st.lists(st.builds(TimestampPair, words, words, words), max_size=12).map(pack_pairs)
distances = st.lists(st.tuples(words, words), max_size=12).map(pack_distances)
addresses = st.text(max_size=20)
entries = st.lists(st.builds(Entry, processes, microseconds, counts, wide, addresses), max_size=3).map(tuple)
contributions = st.lists(st.builds(Contribution, wide, st.integers(0, 3), entries), max_size=3).map(tuple)
summaries = st.lists(st.builds(Summary, processes, microseconds, counts, wide), max_size=4).map(tuple)


def contributed(target: st.SearchStrategy[ProcessId]) -> st.SearchStrategy[HierarchyMessage]:
    parts = st.tuples(st.integers(0, 63), st.integers(1, 64)).filter(lambda drawn: drawn[0] < drawn[1])
    return st.builds(
        lambda to, serial, part, said: Contributed(to, serial, part[0], part[1], said),
        target,
        microseconds,
        parts,
        contributions,
    )


def hierarchy_messages(peers: st.SearchStrategy[ProcessId]) -> st.SearchStrategy[HierarchyMessage]:
    """Any message of the hierarchy; whom it names is drawn from `peers`."""
    return st.one_of(
        st.builds(LocalControl, microseconds, hops, intervals, peers, counts, pairs),
        st.builds(
            CoordinatorControl,
            *(microseconds, hops, intervals, microseconds, counts, counts, counts, pairs, distances, distances),
        ),
        st.builds(GlobalControl, microseconds, hops, intervals, counts, counts, pairs),
        st.builds(RingQuery, microseconds, hops, microseconds, st.booleans()),
        st.builds(SearchResponse, microseconds, st.integers(0, 5), microseconds, counts),
        st.builds(CoordinatorLeave, microseconds),
        st.builds(Farewell, peers),
        contributed(peers),
        st.builds(Gathered, st.integers(0, 3), peers, microseconds, summaries),
    )


def membership_messages(peers: st.SearchStrategy[ProcessId]) -> st.SearchStrategy[MembershipMessage]:
    """Any message of the agreement on views."""
    views = st.builds(ViewId, timestamps, peers, sequences)
    sets = st.lists(peers, max_size=4).map(tuple)
    points = st.lists(st.builds(UpTo, peers, sequences), max_size=4).map(tuple)
    records = st.builds(PrimaryRecord, views, sets)
    proposals = st.integers(0, (1 << 63) - 1)
    seats = st.lists(st.builds(Seat, peers, sequences, positive, positive), min_size=1, max_size=4).map(tuple)
    origins = st.lists(st.builds(Origin, views, views, sets, points), max_size=3).map(tuple)
    suspects = st.lists(st.tuples(peers, sets), max_size=3).map(tuple)
    primaries, attempts = st.none() | records, st.lists(records, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Opinion, views, positive, sets, sets, sets, sets, points, st.booleans(), sequences),
        st.builds(
            RecoveryInfo,
            *(proposals, views, views, sequences, sequences, positive, points, primaries, attempts, extensions),
        ),
        st.builds(Ready, proposals),
        st.builds(NewView, proposals, views, views, seats, origins, suspects, sets, st.none() | sets, extensions),
        st.builds(CutInfo, views, points),
        st.builds(ViewRequest, peers, st.none() | views),
        st.builds(AddRequest, peers, views, st.builds(Seat, peers, sequences, positive, positive)),
        st.builds(Leaver, peers, views, positive),
    )


def probe_messages(peers: st.SearchStrategy[ProcessId]) -> st.SearchStrategy[ProbeMessage]:
    """A probe, or an answer to one."""
    rounds = st.integers(0, WORD)
    views = st.none() | st.builds(
        ProbedView,
        *(st.builds(ViewId, timestamps, peers, sequences), sequences, st.lists(peers, max_size=4).map(tuple), counts),
    )
    levels = st.builds(Level, sequences, sequences)
    return st.one_of(
        st.builds(
            ProbeRequest,
            *(sequences, rounds, st.integers(0, 2_000_000_000), st.lists(peers, max_size=9).map(pack_known)),
        ),
        st.builds(
            ProbeAnswer,
            *(sequences, rounds, sequences, sequences, st.booleans()),
            *(st.sampled_from(["source", "timestamp"]), st.sampled_from(["settled", "recovery info", "apart"])),
            *(views, st.booleans(), views),
            st.builds(Traffic, *(sequences,) * 6),
            st.builds(Levels, *(levels,) * 5),
            *(st.lists(st.builds(Silent, peers, sequences), max_size=3).map(tuple), counts, counts, counts),
        ),
    )


def batched_pairs(numbers: list[int]) -> list[tuple[int, int]]:
    """First and last of ranges that do not meet."""
    return list(zip(numbers[::2], numbers[1::2], strict=True))


control_messages: st.SearchStrategy[ControlMessage] = st.one_of(
    hierarchy_messages(processes),
    membership_messages(processes),
    probe_messages(processes),
    st.builds(
        KeepAlive,
        *(sequences, timestamps, sequences, sequences, st.integers(0, 2), st.booleans(), st.booleans()),
        *(st.none() | whereabouts, view_marks),
    ),
    st.builds(ActivationRequest, processes, sequences, st.booleans(), st.booleans(), view_marks, extensions),
    st.builds(ActivationGrant, processes, sequences, positive, positive, timestamps, positive, positive, extensions),
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
    st.builds(LeftBehindNotice, processes, sequences, view_marks),
    st.builds(Deactivation, processes, sequences),
    st.builds(NameRequest, processes, names),
    st.builds(
        CensusRequest,
        positive,
        st.integers(0, 32),
        st.integers(0, (1 << 32) - 1),
        sequences,
        sequences,
        sequences,
        st.booleans(),
    ),
    st.builds(CensusAnswer, processes, positive),
    st.builds(
        ProxyRequest,
        processes,
        positive,
        positive,
        positive,
        st.integers(0, 3),
        st.integers(4, 9),
        timestamps,
        st.binary(max_size=40),
    ),
    st.builds(ProxyAnswer, processes, positive, sequences, st.integers(0, 2)),
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


VIEW = ViewId(900, A, 3)
MARK = VIEW.mark
SAMPLE_BATCH = [
    DataMessage(7, 3, 1000, FRAGMENT, 1, 2, b"the end of a long message"),
    DataMessage(8, 4, 1001, 0, 0, 1, b"whole"),
    DataMessage(9, 5, 1005, LEAVE, 0, 1, b""),
]
SAMPLE_CONTROL: list[ControlMessage] = [
    KeepAlive(9, 1000, 6, 3, 1, True, True, Whereabouts(11, 12, 13), MARK),
    ActivationRequest(B, 1, True, True, NO_VIEW, b"key"),
    ActivationGrant(B, 1, 10, 4, 900, 7, 10_000_000_000, b""),
    Report((ReportEntry(A, 1, 9), ReportEntry(B, 2, 8))),
    RepairRequest(B, 1, ((2, 3), (7, 7)), 0, 1_000_000, None),
    LeftBehindNotice(B, 1, MARK),
    Deactivation(B, 1),
    NameRequest(B, "page/7"),
    LocalControl(123_456_789, 3, 1000, B, 4, pack_pairs([TimestampPair(1, 2, 3)])),
    CoordinatorControl(5, 3, 1000, 700, 4, 2, 9, pack_pairs([TimestampPair(1, 2, 3)]), pack_distances([(1, 2)]), b""),
    GlobalControl(6, 32, 1000, 4, 2, pack_pairs([TimestampPair(1, 2, 3), TimestampPair(4, 5, 6)])),
    RingQuery(7, 8, 1, True),
    SearchResponse(8, 1, 7, 4),
    CoordinatorLeave(9),
    Farewell(B),
    Contributed(B, 3, 0, 1, (Contribution(1 << 63, 0, (Entry(A, 9, 1, (1 << 64) - 1, "member:1"),)),)),
    Gathered(1, B, 4, (Summary(A, 9, 2, 5),)),
    Opinion(VIEW, 3, (A, B), (B,), (B,), (), (UpTo(B, 7),), False, 5),
    RecoveryInfo(1 << 62, VIEW, VIEW, 900, 9, 4, (UpTo(B, 7),), PrimaryRecord(VIEW, (A, B)), (), b"key"),
    Ready(1 << 62),
    NewView(
        1 << 62,
        VIEW,
        VIEW,
        (Seat(A, 3, 10, 4),),
        (Origin(VIEW, VIEW, (A,), (UpTo(B, 7),)),),
        ((B, (A,)),),
        (B,),
        (A, B),
        b"",
    ),
    CutInfo(VIEW, (UpTo(B, 7),)),
    ViewRequest(B, None),
    AddRequest(B, VIEW, Seat(A, 3, 10, 4)),
    Leaver(B, VIEW, 3),
    ProbeRequest(1 << 62, 3, 250_000_000, pack_known([A, B])),
    ProbeAnswer(
        token=1 << 62,
        round=3,
        at=10_000_000_000,
        age=5_000_000_000,
        sends=True,
        service="timestamp",
        state="consensus",
        agreed=ProbedView(VIEW, 4_000_000_000, (A, B), 2),
        same=False,
        shown=ProbedView(VIEW, 0, (A,), 1),
        traffic=Traffic(7, 700, 9, 900, 40, 4000),
        levels=Levels(Level(1, 1 << 20), Level(0, 1 << 27), Level(2, 1 << 20), Level(3, 1 << 23), Level(4, 10_000)),
        suspects=(Silent(B, 1_500_000_000),),
        suspected=1,
        follows=2,
        followers=3,
    ),
    CensusRequest(1, 12, 0, 0, 0, 0, False),
    CensusAnswer(A, 3),
    ProxyRequest(A, 1, 2, 3, 0, 2, 7, b"part"),
    ProxyAnswer(A, 1, 2, 1),
]
SAMPLES: dict[str, bytes] = {
    "data": WRITER.data(SAMPLE_BATCH),
    "control": WRITER.control(SAMPLE_CONTROL)[0],
    "repair": WRITER.repair(WRITER.data(SAMPLE_BATCH)),
}
