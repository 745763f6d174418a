"""The page of a run: its verdicts, its lanes, its counter-examples, and nothing that it would have to load."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import Call
from unisono.errors import TraceError, UnisonoError
from unisono.pipeline.monitor_audit import audit_rows, audit_with_monitors
from unisono.pipeline.pages.page import render_page, write_page
from unisono.pipeline.pages.row_words import row_words
from unisono.pipeline.pages.story import Story, story
from unisono.pipeline.pages.templating import duration_words
from unisono.pipeline.pages.trace_columns import TraceTables
from unisono.pipeline.report import RunFacts, run_report
from unisono.properties.damages import DAMAGES
from unisono.properties.promises import promised
from unisono.properties.registry import PROPERTIES
from unisono.simulation.scenario import Fault, Network, Scenario, Workload
from unisono.simulation.scenario_text import write_scenario
from unisono.simulation.world import World
from unisono.trace.parquet import write_tables
from unisono.trace.run_directory import write_run
from unisono.trace.schema import AnyRow, DeliverRow, SendRow, Start, StatisticRow, Value, ViewRow
from unisono.units import MILLISECOND, SECOND

SCENARIO = Scenario(
    name="small",
    seed=3,
    members=3,
    duration=4 * SECOND,
    settle=4 * SECOND,
    options={"patience": SECOND},
    network=Network(latency=MILLISECOND, loss=0.05),
    workloads=(Workload(group="g", rate=20.0, size=100),),
    faults=(
        Fault(kind="crash", at=SECOND, members=(0,), restart=SECOND),
        Fault(kind="isolate", at=2 * SECOND, members=(2,), lasts=SECOND + SECOND // 2),
    ),
)


class Loads(HTMLParser):
    """What a page would ask for: every address in an attribute, and the tags that load by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("link", "img", "iframe", "object", "embed"):
            self.found.append(tag)
        self.found += [
            f"{tag} {name}={value}"
            for name, value in attributes
            if name in ("src", "href", "srcset") and not (value or "").startswith("#")
        ]


@pytest.fixture(scope="module")
def rows() -> list[AnyRow]:
    world = World(SCENARIO, keep_rows=True)
    world.run()
    return world.rows


@pytest.fixture
def run(rows: list[AnyRow], tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    write_run(directory, rows, scenario_text=write_scenario(SCENARIO), summary={})
    return directory


def told(rows: list[AnyRow]) -> Story:
    with TemporaryDirectory() as folder:
        write_tables(folder, rows)
        return story(TraceTables(folder))


def page_of(rows: list[AnyRow]) -> str:
    (report,) = audit_rows(rows)
    return render_page(rows, report, "monitor")


def test_a_page_has_a_verdict_for_each_property_and_a_lane_for_each_life(rows: list[AnyRow]) -> None:
    page = page_of(rows)
    assert "Every promise held." in page
    kept = [property_id for property_id in PROPERTIES if promised("RSO", property_id)]
    assert page.count('<span class="badge held">held</span>') == len(kept) + 1
    assert page.count("No service in this run promises it.") == len(PROPERTIES) - len(kept)
    for item in PROPERTIES.values():
        assert f"{item.id} {item.name}." in page
    assert re.findall(r'<text class="name"[^>]*>([^<]*)<title>', page) == ["p0, life 1", "p0, life 2", "p1", "p2"]
    assert page.count('class="mark crash"') == 1
    assert page.count('class="mark start"') == 4
    assert 'class="view tint0"' in page
    assert '<rect class="fault"' in page
    assert "Latency to the last member" in page
    assert "p99 " in page
    assert "repairs a message" in page
    assert re.search(r"losses were asked for, \d+\.\d\d times each", page)
    assert re.search(r"ranges were repaired, \d+\.\d\d times each", page)


def test_a_page_shows_agreed_views_and_where_they_merged() -> None:
    scenario = Scenario(
        name="parted",
        seed=5,
        members=4,
        duration=8 * SECOND,
        settle=4 * SECOND,
        options={"service": "timestamp"},
        network=Network(latency=MILLISECOND),
        workloads=(Workload(group="g", rate=10.0, size=100),),
        faults=(
            Fault(kind="partition", at=2 * SECOND, lasts=2 * SECOND, groups=((0, 1), (2, 3))),
            Fault(kind="crash", at=6 * SECOND, members=(3,)),
        ),
    )
    world = World(scenario, keep_rows=True)
    world.run()
    (group,) = told(world.rows).groups
    members = [view.members for view in group.views]
    everybody = ("p0", "p1", "p2", "p3")
    sides = [members.index(("p0", "p1")), members.index(("p2", "p3"))]
    assert members.index(everybody) < min(sides)
    merged = [view for view in group.views if "merged" in view.why]
    assert [(view.members, view.merged, view.installed) for view in merged] == [(everybody, 2, 4)]
    assert (members[-1], group.views[-1].why) == (("p0", "p1", "p2"), "p3 suspected by p0, p1, p2")
    page = page_of(world.rows)
    assert page.count('class="mark merge"') == 4
    assert page.count('class="mark crash"') == 1
    assert page.count('<polyline class="install"') == sum(view.installed > 1 for view in group.views)
    assert "p3 suspected by p0, p1, p2" in page


def test_a_page_loads_nothing(rows: list[AnyRow]) -> None:
    page = page_of(rows)
    reader = Loads()
    reader.feed(page)
    assert reader.found == []
    for word in ("://", "url(", "@import", "<script ", "fetch(", "XMLHttpRequest"):
        assert word not in page


@pytest.mark.parametrize("damage", ["changed_body", "gauge_above_cap"])
def test_a_damaged_run_shows_its_counter_example(rows: list[AnyRow], damage: str) -> None:
    damaged = DAMAGES[damage].apply(rows, Random(1))
    assert damaged is not None
    (report,) = audit_rows(damaged)
    first = report.violations[0]
    page = render_page(damaged, report, "monitor")
    assert "A promise was broken" in page
    assert '<span class="badge violated">violated</span>' in page
    assert f"At {first.process}~{first.incarnation:x}, position {first.position}" in page
    assert page.count('class="event offending') == len(report.violations)
    assert first.message is None or f"<code>{first.message}</code>" in page


def test_names_from_a_trace_are_text() -> None:
    """A process may be called anything; its name does not become part of the page's markup."""
    renamed: list[AnyRow] = [
        SendRow(
            kind="SEND", group="<b>", process="<i>", incarnation=1, sequence=1, number=1, timestamp=0, size=1, body=0
        ),
        DeliverRow(
            kind="DELIVER",
            group="<b>",
            process="<i>",
            incarnation=1,
            position=1,
            at=5,
            source="<i>",
            source_incarnation=1,
            sequence=1,
            number=1,
            timestamp=0,
            size=1,
            body=0,
            index=0,
        ),
    ]
    page = page_of(renamed)
    assert "<i>" not in page
    assert "&lt;i&gt;" in page


def test_the_story_agrees_with_the_rows(rows: list[AnyRow]) -> None:
    run = told(rows)
    (group,) = run.groups
    assert sum(group.rates.sent) == group.sent == sum(row.kind == "SEND" for row in rows)
    assert sum(map(sum, group.rates.delivered.values())) == group.delivered
    assert [lane.ending for lane in group.lanes] == ["crashed", "lived on", "lived on", "lived on"]
    assert group.latencies is not None
    assert list(group.latencies.percentiles) == [50, 90, 99]
    assert group.latencies.curve == sorted(group.latencies.curve)
    assert (group.latencies.curve[0], group.latencies.curve[-1]) == (group.latencies.least, group.latencies.most)
    assert sum(group.latencies.bins) == group.latencies.count
    assert ("isolate", 2 * SECOND, ("p2",)) in [(one.fault, one.begin, one.members) for one in run.faults]
    for lane in group.lanes:
        for earlier, later in zip(lane.bars, lane.bars[1:], strict=False):
            assert earlier.begin <= earlier.end <= later.begin


def test_a_page_counts_statistics(rows: list[AnyRow]) -> None:
    told_twice: list[AnyRow] = [
        StatisticRow(kind="cache", run=rows[0].run, process=name, incarnation=1, values=[Value("hits", 3.0)])
        for name in ("p1", "p2", "p2")
    ]
    (found,) = [one for one in told([*rows, *told_twice]).statistics if one.kind == "cache"]
    assert (found.rows, found.processes) == (3, {"p1", "p2"})
    assert row_words(told_twice[0]) == "tells cache: hits 3"
    page = page_of([*rows, *told_twice])
    assert '<a href="#statistics">' in page
    assert "<td>cache</td>" in page
    assert "<td>cache</td>" not in page_of(rows)


def test_a_page_of_many_lives_and_views_stays_small() -> None:
    """Fifty processes go through more than a hundred views each: what is not drawn is said."""
    everybody = [Start(f"p{member:02d}", 1, 0, 0) for member in range(50)]
    first = ViewRow(
        kind="VIEW",
        run="many",
        group="g",
        incarnation=1,
        start_time=0,
        leader="p00",
        leader_incarnation=1,
        leader_sequence=0,
        previous=None,
        role="sender",
        start=everybody,
        transitional=[],
    )
    many: list[AnyRow] = [
        replace(first, process=one.source, position=turn, truth=turn**2 * MILLISECOND, view=f"{turn}")
        for one in everybody
        for turn in range(120)
    ]
    report = run_report("many", RunFacts({"view": len(many)}, ("RTO",)), {}, [])
    page = render_page(many, report, "monitor")
    assert len(page.encode()) < 1_500_000
    assert "The first 48 of 50 lives are drawn." in page
    assert re.search(r"The 3.?\d\d\d shortest views are not drawn.", page)
    assert "The first 100 of 120." in page
    assert "<summary>The next 88 views</summary>" in page
    assert page.count("and 38 more") <= 2000


def test_only_one_run_has_a_page(run: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "second", story_rows(), scenario_text="", summary={})
    with pytest.raises(TraceError, match="holds 2 runs; name one of them"):
        write_page(tmp_path, audit_with_monitors([tmp_path]), tmp_path / "page.html")


def story_rows() -> list[AnyRow]:
    return [SendRow(kind="SEND", group="g", process="a", sequence=1, number=1, timestamp=0, size=1, body=0)]


def test_the_command_falls_back_to_the_monitors(run: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java(*_: object) -> None:
        raise UnisonoError("Spark needs Java")

    monkeypatch.setattr("unisono.pipeline.spark.session._running_session", no_java)
    code, output, complaint = call("report", run, "--json")
    assert code == 0
    assert complaint == "Spark needs Java; the monitors audit instead\n"
    answer = json.loads(output)
    assert answer["engine"] == "monitor"
    assert answer["page"] == str(run / "page.html")
    assert "Every promise held." in (run / "page.html").read_text(encoding="utf-8")


def test_the_command_refuses_what_is_no_run(tmp_path: Path, call: Call) -> None:
    code, output, complaint = call("report", tmp_path)
    assert (code, output) == (2, "")
    assert "is empty: there is no run in it" in complaint


@pytest.mark.parametrize(
    ("nanoseconds", "words"),
    [(0, "0 s"), (999, "999 ns"), (1500, "1.5 µs"), (2_340_000, "2.34 ms"), (12_300_000_000, "12.3 s")],
)
def test_numbers_carry_units(nanoseconds: int, words: str) -> None:
    assert duration_words(nanoseconds) == words
