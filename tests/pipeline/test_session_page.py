"""What a page tells of sessions: the six quantities of document 002, as the measures have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline import naive_measures as naive
from tests.pipeline.session_traces import OVERHEADS, session_rows
from unisono.pipeline.monitor_audit import audit_rows, audit_with_monitors
from unisono.pipeline.pages.comparison import write_comparison
from unisono.pipeline.pages.page import render_page
from unisono.pipeline.pages.session_story import QUANTITIES, session_changes, session_story
from unisono.pipeline.pages.view_story import why_words
from unisono.trace.run_directory import write_run
from unisono.trace.schema import AnyRow, MembershipRow, StatisticRow, ViewRow

MEASURES = {
    "overhead": "session overhead",
    "membership": "session change: membership",
    "synchronisation": "session change: synchronisation",
    "change": "session change",
    "membership after synchronisation": "session change: membership after synchronisation",
    "view after membership": "session change: view after membership",
}


@pytest.fixture(scope="module")
def rows() -> list[AnyRow]:
    return session_rows()


def test_the_story_has_what_the_measures_have(rows: list[AnyRow]) -> None:
    views = [row for row in rows if isinstance(row, ViewRow)]
    told = session_story(
        session_changes(views, [row for row in rows if isinstance(row, MembershipRow)]),
        [row for row in rows if isinstance(row, StatisticRow)],
    )
    assert told is not None
    assert list(told.spreads) == [quantity.name for quantity in QUANTITIES]
    measured = naive.measures(rows)
    run, group = rows[0].run, "g"
    for name, spread in told.spreads.items():
        expected = {key: measured[run, group, MEASURES[name], key] for key in ("count", "mean", "max")}
        assert {"count": spread.count, "mean": spread.mean, "max": spread.most} == pytest.approx(expected)
        assert sum(spread.bins) + spread.outside == spread.count
        assert spread.edges[0] <= spread.mean <= spread.edges[-1]
    came_along = sum(view.previous is not None for view in views)
    assert told.compared == came_along > 10
    assert 0 <= told.synchronised_first <= told.compared


def test_a_page_shows_each_quantity_beside_that_of_the_document(rows: list[AnyRow]) -> None:
    (report,) = audit_rows(rows)
    page = render_page(rows, report, "monitor")
    assert page.count('class="picture half"') == 6
    for quantity in QUANTITIES:
        assert f"<td>{quantity.sign}</td><td>{quantity.says.replace(chr(39), '&#39;')}</td>" in page
        assert f"(figure {quantity.figure} of document 002)" in page
    assert f'<td class="n">{len(OVERHEADS)}</td><td class="n">7.45 µs</td><td class="n">7.45 µs</td>' in page
    assert '<td class="n">98.5 µs</td><td class="n">94 µs</td>' in page
    assert '<td class="n">52 ms</td><td class="n">41 ms</td>' in page


def test_to_whom_comes_everybody_is_new_and_the_others_say_who_came(rows: list[AnyRow]) -> None:
    views = [row for row in rows if isinstance(row, ViewRow)]
    met = [row for row in views if row.previous is None and len(row.start) > 1]
    assert met
    for newcomer in met:
        everybody = [row for row in views if row.view == newcomer.view]
        came = {reason.process for row in everybody if row.previous for reason in row.reasons}
        assert why_words([newcomer]) == f"{', '.join(start.source for start in newcomer.start)} joined"
        assert why_words(everybody) == f"{', '.join(sorted(came))} joined"
        assert len(came) < len(newcomer.start)


def test_runs_with_sessions_are_compared_by_their_medians(rows: list[AnyRow], tmp_path: Path) -> None:
    both = [tmp_path / name for name in ("one", "two")]
    for path in both:
        write_run(path, rows, scenario_text="", summary={})
    write_comparison(both, audit_with_monitors(both), tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert '<th scope="row">overhead of a session for a message, p50</th><td class="n">7.45 µs</td>' in page
    assert "change of a session&#39;s view, p50" in page
