"""A retained log: what was appended is read back by its offset, whatever happened to the process that wrote it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from unisono.errors import LogError, LogGone
from unisono.trace.log import segments
from unisono.trace.log.retained import LogReader, RetainedLog
from unisono.trace.log.segments import INDEX_BYTES

ROOT = Path(__file__).parents[2]


def payload(number: int, size: int = 100) -> bytes:
    return number.to_bytes(8, "big") * (1 + number % max(1, size // 8))


def fill(log: RetainedLog, count: int, size: int = 100) -> None:
    start = log.end
    for first in range(start, start + count, 10):
        batch = [payload(number, size) for number in range(first, min(first + 10, start + count))]
        assert log.append(batch) == first
    log.sync()


def read_all(log: LogReader, limit_bytes: int = 500) -> list[bytes]:
    found: list[bytes] = []
    offset = log.begin
    while payloads := log.read(offset, limit_bytes):
        found += payloads
        offset += len(payloads)
    return found


def files(directory: Path, suffix: str = ".segment") -> list[Path]:
    return sorted(directory.glob(f"*{suffix}"))


def test_payloads_are_read_by_their_offsets(tmp_path: Path) -> None:
    with RetainedLog(tmp_path) as log:
        assert (log.begin, log.end, log.read(0)) == (0, 0, [])
        fill(log, 95)
        assert log.append([]) == 95
        assert (log.begin, log.end, log.synced) == (0, 95, 95)
        for offset in range(95):
            assert log.read(offset, 1) == [payload(offset)]
        assert log.read(7, 10**6) == [payload(number) for number in range(7, 95)]
        assert log.read(95) == []
        for outside in (96, -1):
            with pytest.raises(LogError, match="its end is 95"):
                log.read(outside)


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for life in range(4):
        with RetainedLog(tmp_path, segment_bytes=4000) as log:
            assert log.end == 60 * life
            fill(log, 60)
    with RetainedLog(tmp_path, segment_bytes=4000) as log:
        assert read_all(log) == [payload(number) for number in range(240)]
    assert len(files(tmp_path)) > 2


def test_others_read_what_was_synced(tmp_path: Path) -> None:
    with RetainedLog(tmp_path, segment_bytes=2000) as log, LogReader(tmp_path) as reader:
        fill(log, 30)
        assert read_all(reader) == [payload(number) for number in range(30)]
        log.append([payload(30)])
        assert (reader.end, reader.read(30)) == (30, [])
        assert log.read(30) == [payload(30)]
        log.sync()
        assert reader.read(30) == [payload(30)]
        fill(log, 200)
        assert read_all(reader) == [payload(number) for number in range(231)]
        assert reader.begin == 0
    with pytest.raises(LogError, match="is not a directory"):
        LogReader(tmp_path / "nowhere")


def test_a_second_writer_is_refused_while_the_first_is_there(tmp_path: Path) -> None:
    with RetainedLog(tmp_path) as log:
        with pytest.raises(LogError, match="another process writes the log"):
            RetainedLog(tmp_path)
        fill(log, 1)
    with pytest.raises(LogError, match="is closed"):
        log.append([b""])
    with RetainedLog(tmp_path) as log:
        assert log.end == 1
    (tmp_path / "file").touch()
    with pytest.raises(LogError, match="choose another directory"):
        RetainedLog(tmp_path / "file")


def test_a_cut_tail_is_dropped(tmp_path: Path) -> None:
    with RetainedLog(tmp_path) as log:
        fill(log, 20)
        whole = files(tmp_path)[0].stat().st_size
        log.append([bytes(50), bytes(60)])
    (segment,) = files(tmp_path)
    data = segment.read_bytes()
    for size in range(whole, len(data)):
        segment.write_bytes(data[:size])
        with RetainedLog(tmp_path) as log:
            kept = int(size >= whole + 62)
            assert log.end == 20 + kept
            assert read_all(log)[:20] == [payload(number) for number in range(20)]
        assert segment.stat().st_size == whole + 62 * kept
        (tmp_path / "synced").unlink()  # the next cut is before what was synced here


def test_damage_before_the_tail_is_an_error(tmp_path: Path) -> None:
    with RetainedLog(tmp_path, segment_bytes=2000) as log:
        fill(log, 100)
    first, *_, last = files(tmp_path)
    sound = last.read_bytes()
    for damaged in (sound[:-1], sound[:-20] + b"?" + sound[-19:], sound[:60] + b"?" + sound[61:]):
        last.write_bytes(damaged)
        with pytest.raises(LogError, match=r"is damaged at byte \d+, before its tail"):
            RetainedLog(tmp_path)
    last.write_bytes(b"?" + sound[1:])
    with pytest.raises(LogError, match="no segment of a log"):
        RetainedLog(tmp_path)
    last.unlink()
    with pytest.raises(LogError, match="is missing"):
        RetainedLog(tmp_path)
    last.write_bytes(sound)
    early = first.read_bytes()
    first.write_bytes(early[:-1])
    with pytest.raises(LogError, match="does not follow the file before it"):
        RetainedLog(tmp_path)
    first.write_bytes(early[:700] + b"?" + early[701:])
    with RetainedLog(tmp_path) as log:  # found by whoever reads it
        with pytest.raises(LogError, match="is damaged: it has no payload"):
            read_all(log)
        assert log.read(99, 1) == [payload(99)]


def test_what_is_gone_is_named(tmp_path: Path) -> None:
    with RetainedLog(tmp_path, segment_bytes=1000) as log, LogReader(tmp_path) as reader:
        fill(log, 200)
        assert reader.read(0, 1) == [payload(0)]
        log.retain_from(100)
        assert 0 < log.begin <= 100
        assert reader.begin == log.begin
        with pytest.raises(LogGone, match=f"offsets 3 to {log.begin - 1} are no longer kept") as gone:
            log.read(3)
        assert (gone.value.offset, gone.value.begin) == (3, log.begin)
        with pytest.raises(LogGone):
            reader.read(log.begin - 1)
        begin = log.begin
        assert read_all(log) == read_all(reader) == [payload(number) for number in range(begin, 200)]
    with RetainedLog(tmp_path, segment_bytes=1000) as log:
        assert (log.begin, log.end) == (begin, 200)
        log.retain_from(10**9)
        assert log.end == 200
        assert log.append([b"next"]) == 200


def test_the_oldest_goes_when_there_is_too_much(tmp_path: Path) -> None:
    size = 512 * 1024
    with RetainedLog(tmp_path, retain_bytes=size) as log:
        fill(log, 400, 8000)
        assert log.begin > 0
        assert log.kept_bytes <= size + size // 8 + 81_000
        assert log.kept_bytes == sum(path.stat().st_size for path in files(tmp_path))
        log.hold_from(log.begin)
        held = log.begin
        fill(log, 400, 8000)
        assert log.begin == held
        log.hold_from(log.end)
        assert log.begin > held
        assert read_all(log) == [payload(number, 8000) for number in range(log.begin, 800)]


def test_a_read_by_offset_does_not_read_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, size = 4000, 4000
    with RetainedLog(tmp_path, segment_bytes=2 << 20) as log:
        fill(log, count, size)
    total = sum(path.stat().st_size for path in files(tmp_path))
    taken = 0
    real = os.pread

    def pread(descriptor: int, length: int, position: int) -> bytes:
        nonlocal taken
        data = real(descriptor, length, position)
        taken += len(data)
        return data

    monkeypatch.setattr(os, "pread", pread)
    draw = random.Random(5)
    with LogReader(tmp_path) as reader:
        for _ in range(20):
            offset = draw.randrange(count)
            taken = 0
            assert reader.read(offset, 1) == [payload(offset, size)]
            assert taken <= 2 * segments._READ_BYTES + INDEX_BYTES < total / 10


def test_without_its_index_a_log_is_read_all_the_same(tmp_path: Path) -> None:
    with RetainedLog(tmp_path, segment_bytes=1 << 20) as log:
        fill(log, 1500, 2000)
    first, second, *_ = files(tmp_path, ".index")
    first.unlink()
    index = bytearray(second.read_bytes())
    assert len(index) > 3 * 24
    index[30] ^= 1
    second.write_bytes(index)
    with RetainedLog(tmp_path, segment_bytes=1 << 20) as log:
        for offset in (1499, 700, 3, 701, 2, 350):
            assert log.read(offset, 1) == [payload(offset, 2000)]
        assert read_all(log, 10**5) == [payload(number, 2000) for number in range(1500)]


def test_what_was_synced_survives_a_kill(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from tests.unit.test_retained_log import fill, payload\n"
        "from unisono.trace.log.retained import RetainedLog\n"
        "log = RetainedLog(sys.argv[1], segment_bytes=3000)\n"
        "fill(log, 77)\n"
        "print(log.synced, flush=True)\n"
        "log.append([payload(77)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "77\n")
    with LogReader(tmp_path) as reader:
        assert read_all(reader) == [payload(number) for number in range(77)]
    with RetainedLog(tmp_path) as log:
        assert read_all(log)[:77] == [payload(number) for number in range(77)]
        assert 77 <= log.end <= 78


def test_an_append_that_fails_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with RetainedLog(tmp_path) as log:
        fill(log, 5)

        def full(descriptor: int, data: bytes) -> int:
            if len(data) > 50:
                return real(descriptor, data[:50])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(LogError, match="No space left"):
            log.append([bytes(30), bytes(30)])
        monkeypatch.undo()
        assert log.end == 5
        fill(log, 5)
        assert read_all(log) == [payload(number) for number in range(10)]


def test_who_watches_is_told_when_more_is_synced(tmp_path: Path) -> None:
    told: list[int] = []
    with RetainedLog(tmp_path) as log:
        stop = log.watch(lambda: told.append(log.synced))
        log.append([b"a"])
        log.sync()
        log.sync()
        log.append([b"b"])
        stop()
        log.sync()
    assert told == [1]
