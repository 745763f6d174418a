"""The demonstration end to end, as a person runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.network.processes import ROOT
from unisono.properties.promises import promised
from unisono.properties.registry import PROPERTIES, monitor_violations
from unisono.settings import SERVICE_CODES
from unisono.trace.run_directory import read_run
from unisono.trace.schema import ViewRow

pytest.importorskip("jinja2", reason="the page of the demonstration needs the lab extra")

MINUTES_SECONDS = 300.0
LIVING = ["p0", "p1", "p2", "p4"]


@pytest.mark.slow
def test_the_demo_holds_its_promises_and_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-m", "unisono", "demo", "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=MINUTES_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for phase in ("p3 was killed; the others go on", "p2 and p4 are cut off; both sides go on"):
        assert phase in done.stderr
    assert f"page: {out / 'page.html'}" in done.stdout
    page = (out / "page.html").read_text(encoding="utf-8")
    held = '<span class="badge held">held</span><b>'
    codes = SERVICE_CODES.values()
    promises = [promise for promise in PROPERTIES.values() if any(promised(code, promise.id) for code in codes)]
    for promise in promises:
        assert f"{held}{promise.id} {promise.name}.</b>" in page
    assert f"{held}{len(promises)}</b>" in page
    rows = read_run(out)
    assert monitor_violations(rows) == []
    assert [(row.process, row.kind) for row in rows if row.kind == "CRASH"] == [("p3", "CRASH")]
    assert sorted(row.process for row in rows if row.kind == "END") == LIVING
    views = {name: [row for row in rows if isinstance(row, ViewRow) and row.process == name] for name in LIVING}
    sides = {name: ["p0", "p1"] if name in ("p0", "p1") else ["p2", "p4"] for name in LIVING}
    for name in LIVING:
        members = [[start.source for start in view.start] for view in views[name]]
        assert members.index(sides[name]) < len(members) - 1
        assert members[-1] == LIVING
    assert len({views[name][-1].view for name in LIVING}) == 1
    assert len(views["p0"][-1].merged) == 2
    merges = [row for row in rows if isinstance(row, ViewRow) and any(one.reason == "merged" for one in row.reasons)]
    assert {row.process for row in merges} == set(LIVING)
    assert page.count('class="mark merge"') == len(merges)


@pytest.mark.slow
def test_an_interrupt_ends_every_process(tmp_path: Path) -> None:
    out = tmp_path / "run"
    # A test run that was itself put into the background ignores interrupts, and its children would too.
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from unisono.cli.main import run; run(sys.argv[1:])"
    command = [sys.executable, "-c", program, "demo", "--out", str(out)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "send to one another" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(MINUTES_SECONDS) == 130
    assert not out.exists()
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_the_demo_leaves_other_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("mine", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "unisono", "demo", "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "holds something that is not a run" in done.stderr
