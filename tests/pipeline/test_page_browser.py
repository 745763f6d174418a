"""Pages in a browser, light and dark, wide and narrow: nothing overflows or is pale, and what is wrong stands out."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.pipeline.browser import INSTALL, Scheme, find_browser, look
from tests.pipeline.session_traces import session_rows
from tests.pipeline.traces import counter_example
from unisono.pipeline.monitor_audit import audit_rows, audit_with_monitors
from unisono.pipeline.pages.comparison import write_comparison
from unisono.pipeline.pages.page import render_page
from unisono.pipeline.pages.session_story import QUANTITIES
from unisono.properties.damages import DAMAGES
from unisono.simulation.scenario import Fault, Network, Scenario, Workload
from unisono.simulation.world import World
from unisono.trace.run_directory import write_run
from unisono.trace.schema import AnyRow
from unisono.units import MILLISECOND, SECOND

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

WIDTHS = (1280, 390)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SCENARIO = Scenario(
    name="parted",
    seed=5,
    members=4,
    duration=6 * SECOND,
    settle=4 * SECOND,
    options={"service": "timestamp"},
    network=Network(latency=MILLISECOND, loss=0.02),
    workloads=(Workload(group="g", rate=10.0, size=100),),
    faults=(
        Fault(kind="partition", at=2 * SECOND, lasts=SECOND, groups=((0, 1), (2, 3))),
        Fault(kind="crash", at=4 * SECOND, members=(3,), restart=SECOND),
    ),
)

WRONG = "wrong"
GOOD = ("good", "sessions")
"""Pages of runs that break no promise."""
_BAD_PARTS = """<div style="width:3000px">wide</div><p style="color:#888;background:#999">pale</p>
<a href="#nowhere">loose</a><i id="verdicts">twice</i><img src="missing.png" alt=""><script>undefined.name</script>
<figure><svg width="1" height="1"></svg></figure>"""
"""What the checks must notice."""

Findings = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture(scope="module")
def browser() -> Path:
    found = find_browser()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A good run, a damaged copy, both compared, counter-examples of other kinds, and a run of sessions."""
    world = World(SCENARIO, keep_rows=True)
    world.run()
    damaged = DAMAGES["removed_delivery"].apply(world.rows, Random(1))
    assert damaged is not None
    folder = tmp_path_factory.mktemp("compared")
    for name, rows in (("good", world.rows), ("damaged", damaged)):
        write_run(folder / name, rows, scenario_text="", summary={})
    both = [folder / "good", folder / "damaged"]
    write_comparison(both, audit_with_monitors(both), folder / "both.html")
    found = {name: _page(rows) for name, rows in (("good", world.rows), ("damaged", damaged))}
    found["both"] = (folder / "both.html").read_text(encoding="utf-8")
    found |= {name: _page(counter_example(name)) for name in ("M4", "L6")}
    found["sessions"] = _page(session_rows())
    return found | {WRONG: found["M4"].replace("</main>", f"{_BAD_PARTS}</main>").replace("offending", "")}


def _page(rows: list[AnyRow]) -> str:
    (report,) = audit_rows(rows)
    return render_page(rows, report, "monitor")


@pytest.fixture(scope="module", params=SCHEMES)
def findings(
    request: pytest.FixtureRequest, browser: Path, pages: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Findings:
    """Every page at every width in one light; one start of the browser for all."""
    found = look(browser, pages, WIDTHS, request.param, tmp_path_factory.mktemp("browser"))
    wrong = {width: found.pop((WRONG, width)) for width in WIDTHS}
    assert all(_is_noticed(one) for one in wrong.values())
    assert {one["dark"] for one in found.values()} == {request.param == "dark"}
    assert all(one["inner"] == width for (_, width), one in found.items())
    return found


def _is_noticed(one: dict[str, Any]) -> bool:
    """Whether the checks find what is wrong in a page: they would be worth nothing otherwise."""
    assert any("pale" in text for text in one["pale"])
    assert any("wide" in text for text in one["wide"])
    assert one["overflow"] > 1000
    assert one["loose"] == ["#nowhere"]
    assert one["twice"] == ["verdicts"]
    assert one["loaded"]
    assert any("undefined" in error for error in one["errors"])
    assert any(not figure["title"] for figure in one["figures"])
    assert not any(diagram["offending"] for diagram in one["diagrams"])
    return True


def test_nothing_goes_wrong_and_nothing_is_loaded(findings: Findings) -> None:
    assert {place: (one["errors"], one["loaded"]) for place, one in findings.items()} == dict.fromkeys(
        findings, ([], [])
    )


def test_nothing_is_wider_than_the_screen(findings: Findings) -> None:
    assert {place: one["wide"] for place, one in findings.items()} == {key: [] for key in findings}
    assert all(one["overflow"] <= 0 for one in findings.values())


def test_every_text_stands_out_from_what_is_behind_it(findings: Findings) -> None:
    assert {place: one["pale"] for place, one in findings.items()} == {key: [] for key in findings}
    assert all(one["texts"] > 100 for one in findings.values())


def test_every_figure_has_a_size_a_title_and_a_caption(findings: Findings) -> None:
    for (name, _), one in findings.items():
        assert one["figures"], name
        for figure in one["figures"]:
            assert figure["title"]
            assert figure["caption"]
            assert figure["role"] == "img"
            if figure["shown"]:
                assert min(figure["size"]) > 50


def test_sessions_have_a_figure_for_each_of_the_six_quantities(findings: Findings) -> None:
    signs = [quantity.sign for quantity in QUANTITIES]
    for width in WIDTHS:
        figures = findings["sessions", width]["figures"]
        assert [sign for figure in figures for sign in signs if figure["title"].startswith(f"{sign},")] == signs
    assert not any(figure["title"].startswith("δ1,") for figure in findings["good", WIDTHS[0]]["figures"])


def test_every_link_leads_somewhere_in_the_page(findings: Findings) -> None:
    assert {place: (one["loose"], one["twice"]) for place, one in findings.items()} == dict.fromkeys(findings, ([], []))


def test_every_diagram_highlights_what_is_wrong(findings: Findings) -> None:
    for (name, width), one in findings.items():
        assert bool(one["diagrams"]) == (name not in GOOD), (name, width)
        for diagram in one["diagrams"]:
            assert diagram["offending"] or diagram["silence"]
            assert diagram["thick"]
            assert diagram["differs"]
            assert diagram["labelled"]


def test_messages_are_picked_out_and_processes_put_aside(findings: Findings) -> None:
    for (name, _), one in findings.items():
        assert all(one["picked"])
        assert all(one["aside"])
        assert bool(one["picked"]) == (name not in GOOD)


def test_without_a_browser_it_is_said_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.delenv(INSTALL, raising=False)
    why = find_browser()
    assert isinstance(why, str)
    assert INSTALL in why
    assert "chromium" in why
