"""The collector on real sockets: what it acknowledged it has, once; what it does not take it refuses by name."""

from __future__ import annotations

import asyncio
import socket
import textwrap
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.network.meeting import run, until
from tests.unit.report_samples import ROWS, report
from unisono.errors import LogError, NetworkError
from unisono.runtime.collecting import runs, server
from unisono.runtime.collecting.daemon import Collecting, CollectorOptions
from unisono.runtime.reporter import Reporter
from unisono.trace.catalogue import CATALOGUE, entries
from unisono.trace.holes import holes_of
from unisono.trace.log.client import LogClient
from unisono.trace.log.retained import LogReader
from unisono.trace.report_messages import GREETING, Answer, Refused, Stored, decode_answer
from unisono.trace.reports import REPORT_LIMIT_BYTES, Report, ReportId, decode, encode, table_of
from unisono.trace.run_directory import is_run_directory, read_run
from unisono.trace.schema import GaugeRow, MembershipRow
from unisono.wire.frames import frame, read_frames

HELLO = frame(GREETING)


class Events(list[tuple[str, dict[str, Any]]]):
    def tell(self, event: str, facts: dict[str, Any]) -> None:
        self.append((event, facts))

    def named(self, event: str) -> list[dict[str, Any]]:
        return [facts for name, facts in self if name == event]


@asynccontextmanager
async def collecting(data: Path, port: int = 0, **options: Any) -> AsyncIterator[tuple[Collecting, Events]]:
    options = {"settle_seconds": 0.0, "gone_seconds": 60.0, "lake_seconds": 0.0, **options}
    events = Events()
    one = Collecting(CollectorOptions(data=data, host="127.0.0.1", port=port, **options), events.tell)
    stop = asyncio.Event()
    task = asyncio.ensure_future(one.run(stop))
    await until(lambda: bool(events) or task.done())
    try:
        yield one, events
    finally:
        stop.set()
        await task


def talk(address: str, data: bytes, answers: int | None = None) -> list[Answer]:
    """Send this, and take so many answers, or all until the connection ends."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(data)
        if answers is None:
            connection.shutdown(socket.SHUT_WR)
        found = bytearray()
        while answers is None or len(list(read_frames(found))) < answers:
            part = connection.recv(4096)
            if not part:
                break
            found += part
    return [decode_answer(payload) for payload in read_frames(found)]


async def say(one: Collecting, reports: list[Report], answers: int = 1) -> list[int]:
    """The numbers that were acknowledged."""
    data = HELLO + b"".join(frame(encode(each)) for each in reports)
    found: list[int] = []
    for answer in await asyncio.to_thread(talk, one.collector.address, data, answers):
        assert isinstance(answer, Stored), answer
        found += answer.numbers
    return found


def logged(data: Path) -> list[ReportId]:
    with LogReader(data / "log") as log:
        found: list[bytes] = []
        while payloads := log.read(len(found)):
            found += payloads
    return [decode(payload).id for payload in found]


def test_reports_are_acknowledged_and_become_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with collecting(tmp_path) as (one, events):
            assert await say(one, [report("ada", 0)]) == [0]
            assert await say(one, [report("bob", 0, last=True)]) == [0]
            assert not is_run_directory(tmp_path / "runs" / "r")
            assert await say(one, [report("ada", 1, last=True)]) == [1]
            await until(lambda: bool(events.named("run complete")))
        assert events.named("run complete")[0]["rows"] == 3 * ROWS
        rows = read_run(tmp_path / "runs" / "r")
        assert Counter((row.process, row.position) for row in rows) == Counter(
            [("ada", position) for position in range(2 * ROWS)] + [("bob", position) for position in range(ROWS)]
        )
        assert events.named("stopped")[0]["reports"] == 3

    run(main())


def test_what_comes_twice_is_stored_once_also_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        reports = [report("ada", number) for number in (0, 1, 3)]
        for life in range(4):
            lake_seconds = 0.0 if life % 2 else 60.0  # sometimes only the log knows
            async with collecting(tmp_path, lake_seconds=lake_seconds) as (one, _):
                sent = [*reports, *reports, report("ada", 10 + life)]
                numbers = [number for each in sent for number in await say(one, [each])]
                assert numbers == [0, 1, 3, 0, 1, 3, 10 + life]
                assert one.facts()["duplicates"] == (3 if life == 0 else 6)
        assert sorted(one_id.number for one_id in logged(tmp_path)) == [0, 1, 3, 10, 11, 12, 13]
        async with collecting(tmp_path, gone_seconds=0.0) as (_, events):
            await until(lambda: bool(events.named("run complete")))
        rows = read_run(tmp_path / "runs" / "r")
        assert len({row.position for row in rows}) == len(rows) == 7 * ROWS
        summary = msgspec.json.decode((tmp_path / "runs" / "r" / "summary.json").read_bytes())
        assert summary["processes"][0]["missing"] == [[2, 2], [4, 9]]
        assert holes_of(tmp_path / "runs" / "r") == [
            "the trace of ada~7 has a hole: its reports 2, 4 to 9 never came",
            "the trace of ada~7 has no end: what it did last may be missing",
        ]
        (entry,) = entries(tmp_path / "runs")
        assert (entry.run, entry.command, entry.rows, entry.verdict) == ("r", "unisono collect", 35, "not audited")
        (tmp_path / "runs" / CATALOGUE).unlink()
        async with collecting(tmp_path):
            assert [entry.run for entry in entries(tmp_path / "runs")] == ["r"]

    run(main())


def test_a_late_report_is_not_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with collecting(tmp_path) as (one, events):
            await say(one, [report("ada", 1, last=True)])
            await until(lambda: len(events.named("run complete")) == 1)
            await say(one, [report("ada", 1, last=True)])  # known although the run is complete
            await say(one, [report("ada", 0)])
            await until(lambda: len(events.named("run complete")) == 2)
            assert len(read_run(tmp_path / "runs" / "r")) == 2 * ROWS
            assert one.facts()["open"] == []

    run(main())


def test_the_log_is_kept_to_its_size_and_read_over_the_same_port(tmp_path: Path) -> None:
    async def main() -> None:
        async with collecting(tmp_path, retain_bytes=200_000) as (one, _):
            for number in range(60):
                extended = report("ada", number)
                rows = [GaugeRow(kind="GAUGE", name=f"{index:0100d}", value=1, position=index) for index in range(200)]
                extended.tables = {"gauge": table_of("gauge", rows)}
                await say(one, [extended])
            await until(lambda: one.facts()["lake"] == 60)
            await until(lambda: one.facts()["log"]["bytes"] < 400_000)

            def read() -> tuple[int, int, int]:
                with LogClient(one.collector.address) as client:
                    begin, end = client.bounds()
                    return begin, end, decode(client.read(begin, 1)[0]).number

            begin, end, number = await asyncio.to_thread(read)
            assert 0 < begin == number < end == 60

    run(main())


def test_the_example_of_the_page_reads_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
    begin = page.index("    from unisono.trace.log.client")
    example = textwrap.dedent(page[begin : page.index("\n\n`read` gives", begin)])

    async def main() -> None:
        async with collecting(tmp_path) as (one, _):
            await say(one, [report("ada", 0)])
            await asyncio.to_thread(exec, example.replace("127.0.0.1:7464", one.collector.address), {})

    run(main())
    assert capsys.readouterr().out == f"{report('ada', 0).id} {ROWS}\n"


def spoiled(place: int, value: Any) -> bytes:
    plain = msgspec.msgpack.decode(encode(report()))
    plain[place] = value
    return frame(msgspec.msgpack.encode(plain))


def test_hostile_clients_get_a_reason_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FRAME_SECONDS", 0.05)
    good = frame(encode(report()))
    cases: list[tuple[bytes, str]] = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "bad frame"),
        (frame(b"unisono report 9"), "other protocol"),
        (HELLO + (REPORT_LIMIT_BYTES + 1).to_bytes(4, "little"), "bad frame"),
        (HELLO + b"\xff\xff\xff\x7f" + bytes(100), "bad frame"),
        (HELLO + good[:-1] + b"?", "bad frame"),
        (HELLO + frame(b"\xc1\xc1"), "unreadable"),
        (HELLO + frame(b"\x91" * 50_000), "unreadable"),
        (HELLO + spoiled(0, 3), "other schema"),
        (HELLO + spoiled(1, "\n"), "bad run"),
        (HELLO + spoiled(6, {"gauge": [1, []]}), "columns do not match"),
        (HELLO + good + frame(encode(report("bob"))), "other process"),
    ]

    async def main() -> None:
        async with collecting(tmp_path) as (one, _):
            address = one.collector.address
            for data, reason in cases:
                answers = [
                    answer for answer in await asyncio.to_thread(talk, address, data) if isinstance(answer, Refused)
                ]
                assert [answer.reason.partition(":")[0] for answer in answers] == [reason]
            refused = one.facts()["refused"]
            assert sum(refused.values()) == len(cases)
            assert refused["other schema"] == 1
            slow = await asyncio.to_thread(talk, address, HELLO + good[:50], 1)
            assert isinstance(slow[0], Refused)
            assert "did not come in" in slow[0].reason
            for data in (b"", HELLO, HELLO[:7]):
                assert await asyncio.to_thread(talk, address, data) == []
            assert await say(one, [report("cat", 0)]) == [0]
        assert {one_id.process for one_id in logged(tmp_path)} == {"ada", "cat"}

    run(main())


def test_a_refused_report_does_not_end_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with collecting(tmp_path) as (one, _):
            data = HELLO + spoiled(4, "h" * 99) + frame(encode(report("ada", 4)))
            found = await asyncio.to_thread(talk, one.collector.address, data, 2)
            assert [type(answer) for answer in found] == [Refused, Stored]
            assert isinstance(found[0], Refused)
            assert (found[0].number, found[0].reason.partition(":")[0]) == (0, "bad host")

    run(main())


def test_there_is_a_limit_to_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUNS_LIMIT", 2)
    monkeypatch.setattr(runs, "LIVES_LIMIT", 2)
    monkeypatch.setattr(runs, "GAPS_LIMIT", 3)
    monkeypatch.setattr(server, "GREETING_SECONDS", 0.05)

    async def refusal(one: Collecting, each: Report) -> str:
        (answer,) = await asyncio.to_thread(talk, one.collector.address, HELLO + frame(encode(each)), 1)
        assert isinstance(answer, Refused)
        return answer.reason

    async def main() -> None:
        async with collecting(tmp_path) as (one, _):
            await say(one, [report("ada", 0, "r"), report("ada", 2, "r"), report("ada", 4, "r")], 1)
            assert "too many gaps" in await refusal(one, report("ada", 9, "r"))
            await say(one, [report("bob", 0, "r")])
            assert "too many processes" in await refusal(one, report("cat", 0, "r"))
            await say(one, [report("ada", 0, "s")])
            assert "too many runs" in await refusal(one, report("ada", 0, "t"))
            monkeypatch.setattr(one.collector, "_connection_limit", 0)
            assert "too many connections" in await refusal(one, report("ada", 1, "r"))
            monkeypatch.setattr(one.collector, "_connection_limit", 9)
            reader, writer = await asyncio.open_connection(*one.collector.address.split(":"))
            (silent,) = read_frames(await reader.read())
            assert "no greeting" in str(decode_answer(silent))
            writer.close()

    run(main())


def test_two_collectors_do_not_share_a_directory_or_a_port(tmp_path: Path) -> None:
    async def main() -> None:
        async with collecting(tmp_path / "one") as (one, _):
            with pytest.raises(LogError, match="another process writes the log"):
                async with collecting(tmp_path / "one"):
                    pass
            port = int(one.collector.address.split(":")[1])
            with pytest.raises(NetworkError, match="cannot listen"):
                async with collecting(tmp_path / "two", port):
                    pass

    run(main())


def reporter(address: str, kept_bytes: int = 1 << 20) -> tuple[Reporter, Counter[str], list[tuple[int, ...]]]:
    one = Reporter(address, "r", "ada", "h", kept_bytes)
    counters: Counter[str] = Counter()
    holes: list[tuple[int, ...]] = []
    one.start(asyncio.get_running_loop(), lambda reason: counters.update([reason]), lambda *hole: holes.append(hole))
    return one, counters, holes


def feed(one: Reporter, number: int, last: bool = False) -> None:
    """One report of one row."""
    kind = "END" if last else "JOIN"
    one.buffer.add(MembershipRow(kind=kind, run="r", process="ada", incarnation=7, position=number, host="h"))
    one.gathered(7)
    one._seal()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_a_reporter_waits_for_its_collector_and_sends_again(tmp_path: Path) -> None:
    async def main() -> None:
        port = free_port()
        one, counters, holes = reporter(f"127.0.0.1:{port}")
        for number in range(3):
            feed(one, number)
        for life in range(2):
            async with collecting(tmp_path, port) as (_, _):
                feed(one, 3 + life)
                await until(lambda: not one.unacknowledged)
            feed(one, 10 + life)
            assert one.unacknowledged == 1
        async with collecting(tmp_path, port, gone_seconds=0.0) as (_, events):
            feed(one, 20, last=True)
            await one.close(20.0)
            await until(lambda: bool(events.named("run complete")))
        assert (one.unacknowledged, counters, holes) == (0, Counter(), [])
        assert sorted(one_id.number for one_id in logged(tmp_path)) == list(range(8))
        positions = [row.position for row in read_run(tmp_path / "runs" / "r")]
        assert positions == [0, 1, 2, 3, 4, 10, 11, 20]

    run(main())


def test_a_reporter_keeps_what_it_may_and_tells_of_the_rest(tmp_path: Path) -> None:
    async def main() -> None:
        port = free_port()
        one, counters, holes = reporter(f"127.0.0.1:{port}", kept_bytes=2000)
        for number in range(100):
            feed(one, number)
        dropped = counters["report dropped"]
        assert 50 < dropped == 100 - one.unacknowledged
        assert sum(hole[0] for hole in holes) == sum(hole[1] for hole in holes) == dropped
        assert (holes[0][2], holes[-1][3]) == (0, dropped - 1)
        async with collecting(tmp_path, port):
            await until(lambda: not one.unacknowledged)
            await one.close(20.0)
        assert sorted(one_id.number for one_id in logged(tmp_path)) == list(range(dropped, 100))
        away, counters, _ = reporter(f"127.0.0.1:{port}")
        feed(away, 0)
        await away.close(0.01)
        assert (away.unacknowledged, counters["report not acknowledged at the end"]) == (1, 1)

    run(main())


def test_a_refused_report_is_a_hole(tmp_path: Path) -> None:
    async def main() -> None:
        async with collecting(tmp_path) as (collecting_one, _):
            one, counters, holes = reporter(collecting_one.collector.address)
            one._host = "h" * 99
            feed(one, 0)
            await until(lambda: bool(holes))
            one._host = "h"
            feed(one, 1)
            await one.close(20.0)
            assert holes == [(1, 1, 0, 0)]
            assert one.unacknowledged == 0
            assert [reason.partition(":")[2].split(":")[0].strip() for reason in counters] == ["bad host"]
        assert [one_id.number for one_id in logged(tmp_path)] == [1]

    run(main())
