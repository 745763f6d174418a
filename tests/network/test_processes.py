"""Real processes on loopback exchange messages, leave, are killed; their traces keep every promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.network.processes import judge, members, read_spools
from unisono.trace.schema import DeliverRow, MembershipRow, SendRow
from unisono.trace.spool import read_spool

COUNT = 40


@pytest.mark.parametrize(("transport", "size"), [("multicast", 2), ("multicast", 5), ("mesh", 2), ("mesh", 5)])
def test_everyone_gets_everything_in_source_order(tmp_path: Path, realm: str, transport: str, size: int) -> None:
    names = [f"m{index}" for index in range(size)]
    trace = tmp_path / "run"
    with members(names, realm=realm, transport=transport, trace=str(trace)) as talkers:
        for talker in talkers:
            talker.tell(f"burst {COUNT}")
        for talker in talkers:
            talker.wait(lambda lines: sum(line.startswith("got ") for line in lines) == COUNT * size, "every message")
        assert [talker.finish() for talker in talkers] == [0] * size
        expected = [f"message {number}" for number in range(COUNT)]
        assert all(talker.got(name) == expected for talker in talkers for name in names)
    spools = read_spools(trace)
    assert sorted(spools) == names
    assert judge(spools) == []
    for rows in spools.values():
        assert [row.position for row in rows] == list(range(len(rows)))
        assert (rows[0].kind, rows[-1].kind) == ("START", "END")
        assert {row.run for row in rows} == {"run"}
        assert len({row.host for row in rows}) == 1
        assert sum(isinstance(row, DeliverRow) for row in rows) == COUNT * size


def test_a_clean_leave_is_seen_as_one(realm: str) -> None:
    with members(["ada", "bob"], realm=realm) as (ada, bob):
        bob.tell("send so long")
        bob.wait_line("done")
        assert bob.finish() == 0
        ada.wait_line("gone bob left")
        assert ada.got("bob") == ["so long"]
        assert ada.lines.index("got bob so long") < ada.lines.index("gone bob left")
        assert ada.finish() == 0


def test_what_a_killed_process_sent_is_in_its_trace(tmp_path: Path, realm: str) -> None:
    trace = tmp_path / "run"
    with members(["ada", "bob", "victim"], realm=realm, trace=str(trace), source_timeout="2s", patience="2s") as three:
        ada, bob, victim = three
        victim.tell("flood")
        for talker in (ada, bob):
            talker.wait(lambda lines: sum(line.startswith("got victim") for line in lines) >= 300, "300 messages")
        victim.kill()
        for talker in (ada, bob):
            talker.wait_line("gone victim silent")
        assert [ada.finish(), bob.finish()] == [0, 0]
    spools = read_spools(trace)
    sent = {(row.number, row.sequence, row.body) for row in spools["victim"] if isinstance(row, SendRow)}
    for name in ("ada", "bob"):
        delivered = {
            (row.number, row.sequence, row.body)
            for row in spools[name]
            if isinstance(row, DeliverRow) and row.source == "victim"
        }
        assert len(delivered) >= 300
        assert delivered <= sent
    ends = {name: any(isinstance(row, MembershipRow) and row.kind == "END" for row in spools[name]) for name in spools}
    assert ends == {"ada": True, "bob": True, "victim": False}
    spool = read_spool(next(trace.glob("victim~*.spool")))
    assert spool.header is not None
    assert judge(spools) == []


def test_a_restart_is_another_life_of_the_same_process(tmp_path: Path, realm: str) -> None:
    trace = tmp_path / "run"
    options = {"realm": realm, "trace": str(trace)}
    with members(["ada", "bob"], **options) as (ada, bob):
        bob.kill()
        bob.process.wait()
        with members(["bob"], **options) as (again,):
            again.wait_line("view ada bob")
            ada.wait_line("gone bob restarted")
            again.tell("send back")
            ada.wait_line("got bob back")
            assert [again.finish(), ada.finish()] == [0, 0]
    lives = [list(read_spool(path)) for path in sorted(trace.glob("bob~*.spool"))]
    assert len({rows[0].incarnation for rows in lives}) == 2
    assert any(getattr(row, "name", "") == "incarnation-kept" for row in lives[1])
