"""Agreed views among real processes: one is killed, one is stopped and comes back, and nobody waits or disagrees."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.network.processes import everybody_hears_everybody, finish_load, judge, members, read_spools
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, ViewRow

NAMES = ["p0", "p1", "p2", "p3", "p4"]
RATE = 60


def sources(view: ViewRow) -> list[str]:
    return [start.source for start in view.start]


def suspected(view: ViewRow) -> list[str]:
    return [reason.process for reason in view.reasons if reason.reason == "suspected"]


def delivered_in(rows: list[AnyRow], view: str | None) -> list[tuple[str, int]]:
    return [(row.source, row.number) for row in rows if isinstance(row, DeliverRow) and row.view == view]


@pytest.mark.parametrize("who", ["p4", "p0"])
def test_the_survivors_of_a_kill_go_on_together(tmp_path: Path, realm: str, who: str) -> None:
    trace = tmp_path / "run"
    rest = [name for name in NAMES if name != who]
    options = {"realm": realm, "trace": str(trace), "service": "timestamp", "suspicion": "2s"}
    with members(NAMES, **options) as talkers:
        for talker in talkers:
            talker.tell(f"load {RATE}")
        everybody_hears_everybody(talkers)
        survivors = [talker for talker in talkers if talker.name != who]
        talkers[NAMES.index(who)].kill()
        for talker in survivors:
            talker.wait_line(f"gone {who} suspected")
        everybody_hears_everybody(survivors)
        assert all("excluded" not in talker.lines for talker in survivors)
        finish_load(survivors)
    spools = read_spools(trace)
    assert judge(spools) == []
    changes = {}
    for name in rest:
        views = [row for row in spools[name] if isinstance(row, ViewRow)]
        index = next(number for number, row in enumerate(views) if who in suspected(row))
        before, after = views[index - 1 : index + 1]
        assert (sources(before), sources(after)) == (NAMES, rest)
        changes[name] = before.view, after.view, delivered_in(spools[name], before.view)
    assert len({(before, after) for before, after, _ in changes.values()}) == 1
    first = changes[rest[0]][2]
    assert {source for source, _ in first} == set(NAMES)
    assert all(delivered == first for _, _, delivered in changes.values())


@pytest.mark.parametrize("who", ["p4", "p0"])
def test_a_stopped_process_learns_it_and_comes_back(tmp_path: Path, realm: str, who: str) -> None:
    trace = tmp_path / "run"
    rest = [name for name in NAMES if name != who]
    options = {"realm": realm, "trace": str(trace), "service": "timestamp", "suspicion": "2s"}
    with members(NAMES, **options) as talkers:
        for talker in talkers:
            talker.tell(f"load {RATE}")
        everybody_hears_everybody(talkers)
        others = [talker for talker in talkers if talker.name != who]
        stopped = talkers[NAMES.index(who)]
        stopped.process.send_signal(signal.SIGSTOP)
        for talker in others:
            talker.wait_line(f"gone {who} suspected")
        everybody_hears_everybody(others)
        stopped.process.send_signal(signal.SIGCONT)
        stopped.wait(lambda lines: any(line.startswith(("excluded", "dropped ")) for line in lines), "that it was out")
        everybody_hears_everybody(talkers)
        finish_load(talkers)
    spools = read_spools(trace)
    assert judge(spools) == []
    told = [row for row in spools[who] if isinstance(row, MembershipRow) and row.kind in ("EXCLUDED", "SELF_FAIL")]
    assert told
    back = {
        row.view for row in spools[who] if isinstance(row, ViewRow) and sources(row) == NAMES and row.at > told[0].at
    }
    assert back
    for name in rest:
        assert back & {row.view for row in spools[name] if isinstance(row, ViewRow)}
