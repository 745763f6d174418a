"""Statistics of a live group: every event, or all but messages, to a collector and into a spool."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import unisono.sync
from tests.network.meeting import run, together, until
from tests.network.processes import judge
from tests.network.test_collector import collecting, free_port
from unisono import Message, Process, join
from unisono.errors import SettingError
from unisono.runtime import reporter
from unisono.trace.run_directory import read_run
from unisono.trace.schema import AnyRow, StatisticRow, Value
from unisono.trace.spool import read_spool

NAMES = ("ada", "bob", "cat")


async def talk(realm: str, **options: Any) -> None:
    """Three members, each of which sends ten messages; all hear all."""
    async with together(NAMES, realm, interface="127.0.0.1", service="timestamp", **options) as groups:
        for group in groups:
            await group.send_many([b"%d" % number for number in range(10)])
            group.report("orders", open=3, state="busy")

        async def hear(group: Any) -> None:
            heard = 0
            async for event in group:
                heard += isinstance(event, Message)
                if heard == 30:
                    return

        await asyncio.gather(*map(hear, groups))


async def collected(tmp_path: Path, **options: Any) -> list[AnyRow]:
    async with collecting(tmp_path / "data", settle_seconds=0.3) as (one, events):
        await talk(str(tmp_path), collector=one.collector.address, run="r", **options)
        await until(lambda: bool(events.named("run complete")))
        assert one.facts()["refused"] == {}
    return read_run(tmp_path / "data" / "runs" / "r")


def by_process(rows: list[AnyRow]) -> dict[str, list[AnyRow]]:
    return {name: [row for row in rows if row.process == name] for name in NAMES}


def test_every_event_reaches_the_collector(tmp_path: Path) -> None:
    async def main() -> None:
        rows = await collected(tmp_path, statistics="all", trace=tmp_path / "spools")
        spooled = [row for path in (tmp_path / "spools").glob("*.spool") for row in read_spool(path)]
        kinds = Counter(row.kind for row in rows)
        assert (kinds["SEND"], kinds["DELIVER"], kinds["END"]) == (30, 90, 3)
        for name, found in by_process(rows).items():
            assert [row.position for row in found] == list(range(len(found)))
            assert found == by_process(spooled)[name]
        assert judge(by_process(rows)) == []
        orders = [row for row in rows if row.kind == "orders"]
        assert len(orders) == 3
        assert isinstance(orders[0], StatisticRow)
        assert orders[0].values == [Value("open", 3.0), Value("state", text="busy")]
        assert orders[0].group == "g"
        assert orders[0].view is not None

    run(main())


def test_events_are_everything_but_messages(tmp_path: Path) -> None:
    async def main() -> None:
        kinds = Counter(row.kind for row in await collected(tmp_path, gauge_interval="1ms"))
        assert (kinds["SEND"], kinds["DELIVER"]) == (0, 0)
        assert (kinds["START"], kinds["JOIN"], kinds["END"], kinds["orders"], kinds["P_INIT"]) == (3, 3, 3, 3, 3)
        assert kinds["VIEW"] >= 3
        assert kinds["GAUGE"] > 0

    run(main())


def test_off_means_that_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNISONO_COLLECTOR", "127.0.0.1:1")

    async def main() -> None:
        async with Process("ada", realm=str(tmp_path), storage="memory", statistics="off") as process:
            assert not process.traced
            process.report("orders", open=3)
            with pytest.raises(SettingError, match="reserved"):
                process.report("MRA")
            async with join("g", process=process) as group:
                await group.send(b"quiet")
        assert process.counters["report dropped"] == 0

    run(main())


def test_an_application_without_a_loop_reports_too(tmp_path: Path) -> None:
    options = {"realm": str(tmp_path), "interface": "127.0.0.1", "storage": "memory", "trace": tmp_path / "t"}
    with unisono.sync.join("g", name="ada", **options) as group:
        group.report("orders", open=3)
        with pytest.raises(SettingError, match="open"):
            group.report("orders", open=None)  # type: ignore[arg-type]  # what an untyped caller may do
    (path,) = (tmp_path / "t").glob("*.spool")
    assert [row.kind for row in read_spool(path) if isinstance(row, StatisticRow)].count("orders") == 1


def test_a_trace_with_a_hole_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "REPORT_SECONDS", 0.001)
    monkeypatch.setattr(reporter.Reporter.__init__, "__defaults__", (3000,))

    async def main() -> None:
        port = free_port()
        options: dict[str, Any] = {"realm": str(tmp_path), "interface": "127.0.0.1", "storage": "memory"}
        process = Process("ada", collector=f"127.0.0.1:{port}", statistics="all", run="r", **options)
        async with process, join("g", process=process) as group:
            while process.counters["report dropped"] < 3:
                await group.send(b"x" * 10)
                await asyncio.sleep(0)
            async with collecting(tmp_path / "data", port, gone_seconds=0.3) as (_, events):
                await group.leave()
                await process.close()
                await until(lambda: bool(events.named("run complete")))
        rows = read_run(tmp_path / "data" / "runs" / "r")
        holes = [row for row in rows if isinstance(row, StatisticRow) and row.kind == "HOLE"]
        lost = max(value.number or 0 for row in holes for value in row.values if value.name == "rows")
        assert lost > 0
        assert rows[-1].position + 1 == len(rows) + lost

    run(main())
