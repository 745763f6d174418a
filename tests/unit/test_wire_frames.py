"""Frames: what was appended whole is read back, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.wire.frames import FRAME_LIMIT_BYTES, FRAME_OVERHEAD_BYTES, Ending, frame, read_frames

PAYLOADS = [b"", b"a", b"second frame", bytes(300)]
DATA = b"".join(map(frame, PAYLOADS))


def whole_frames_before(offset: int) -> tuple[list[bytes], int]:
    found, end = [], 0
    for payload in PAYLOADS:
        if end + FRAME_OVERHEAD_BYTES + len(payload) > offset:
            break
        end += FRAME_OVERHEAD_BYTES + len(payload)
        found.append(payload)
    return found, end


@given(st.lists(st.binary(max_size=200)))
def test_frames_come_back_in_order(payloads: list[bytes]) -> None:
    data = b"".join(map(frame, payloads))
    reader = read_frames(data)
    assert list(reader) == payloads
    assert reader.ending == Ending(len(data), 0, "whole")
    assert next(reader, None) is None


def test_a_cut_anywhere_loses_only_the_frame_it_hits() -> None:
    for offset in range(len(DATA)):
        expected, end = whole_frames_before(offset)
        reader = read_frames(DATA[:offset])
        assert list(reader) == expected
        assert reader.ending == Ending(end, offset - end, "whole" if end == offset else "cut")


def test_a_flipped_bit_anywhere_ends_the_reading_at_its_frame() -> None:
    for bit in range(len(DATA) * 8):
        damaged = bytearray(DATA)
        damaged[bit // 8] ^= 1 << bit % 8
        expected, end = whole_frames_before(bit // 8)
        reader = read_frames(damaged)
        assert list(reader) == expected
        assert reader.ending is not None
        assert reader.ending.why in ("cut", "damaged")
        assert (reader.ending.whole_bytes, reader.ending.dropped_bytes) == (end, len(DATA) - end)


@given(st.binary(max_size=400))
def test_any_bytes_end_without_an_exception(data: bytes) -> None:
    reader = read_frames(data)
    whole = b"".join(map(frame, reader))
    assert reader.ending is not None
    assert data[: reader.ending.whole_bytes] == whole
    assert reader.ending.whole_bytes + reader.ending.dropped_bytes == len(data)


def test_a_length_above_the_limit_is_damage_and_is_not_waited_for() -> None:
    reader = read_frames((FRAME_LIMIT_BYTES + 1).to_bytes(4, "little") + bytes(100))
    assert list(reader) == []
    assert reader.ending == Ending(0, 104, "damaged")


def test_a_file_that_ends_in_zeros_is_damaged_there() -> None:
    reader = read_frames(DATA + bytes(64))
    assert list(reader) == PAYLOADS
    assert reader.ending == Ending(len(DATA), 64, "damaged")


def test_a_payload_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unisono.wire.frames.FRAME_LIMIT_BYTES", 10)
    assert len(frame(bytes(10))) == 22
    with pytest.raises(ValueError, match="at most 10 bytes"):
        frame(bytes(11))
