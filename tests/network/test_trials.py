"""Scenarios on real processes in namespaces of this machine, judged by the same monitors as the simulator's runs."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from unisono.errors import ScenarioError, UnisonoError
from unisono.properties.registry import monitor_violations
from unisono.simulation.cast import Cast, controller, server
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.scenario import Fault, MemberPlan, Network, Scenario, When, Workload
from unisono.simulation.scenario_keys import FAULTS
from unisono.trace.run_directory import read_run
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, SendRow
from unisono.trials.hosts import why_not_here
from unisono.trials.loopback import MADE, MOST, fit, refuse_what_needs_a_network, run_on_loopback
from unisono.trials.packets import read_packet, with_payload
from unisono.trials.process import MemberProcess
from unisono.trials.trial import NOT_REAL, refuse_what_cannot_be_made, run_trial
from unisono.trials.wiring import charges
from unisono.units import MILLISECOND, SECOND

WHY_NOT = why_not_here()
real = pytest.mark.skipif(WHY_NOT is not None, reason=f"no trials on real processes here: {WHY_NOT}")


def trial(
    *faults: Fault, members: int = 3, network: Network | None = None, rate: float = 20.0, size: int = 200
) -> Scenario:
    return Scenario(
        name="trial",
        seed=1,
        members=members,
        duration=4 * SECOND,
        settle=6 * SECOND,
        options={"patience": 2 * SECOND},
        network=network or Network(latency=MILLISECOND),
        workloads=(Workload(group="g", rate=rate, size=size, stop=3 * SECOND),),
        faults=faults,
    )


@real
@pytest.mark.slow
def test_a_crash_a_pause_and_a_partition_pass_the_same_audits(tmp_path: Path) -> None:
    outcome = run_trial(draw(load("rough-ride"), 1), tmp_path / "run")
    assert outcome.violations == []
    assert outcome.marks["source-restarted"] > 0
    assert outcome.marks["told-left-behind"] > 0
    rows = list(read_run(tmp_path / "run"))
    assert monitor_violations(rows) == []
    assert sum(row.kind == "CRASH" for row in rows) == 1
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"unisono-{os.getpid()}-" not in left


@real
@pytest.mark.slow
def test_ten_thousand_messages_each_are_complete_and_in_order_under_twenty_percent_loss(tmp_path: Path) -> None:
    scenario = Scenario(
        name="twenty-percent",
        seed=1,
        members=3,
        duration=11 * SECOND,
        settle=30 * SECOND,
        network=Network(latency=MILLISECOND, loss=0.2),
        workloads=(Workload(group="g", rate=1000.0, size=100, stop=10 * SECOND),),
    )
    outcome = run_trial(scenario, tmp_path / "run")
    assert outcome.violations == []
    rows = list(read_run(tmp_path / "run"))
    sent = [row for row in rows if isinstance(row, SendRow)]
    assert {name: sum(row.process == name for row in sent) for name in ("p0", "p1", "p2")} == dict.fromkeys(
        ("p0", "p1", "p2"), 10_000
    )
    for receiver in ("p0", "p1", "p2"):
        for source in ("p0", "p1", "p2"):
            got = [
                row.number
                for row in rows
                if isinstance(row, DeliverRow) and row.process == receiver and row.source == source
            ]
            assert got == list(range(got[0], 10_001))


@real
def test_damaged_and_repeated_datagrams_change_nothing(tmp_path: Path) -> None:
    network = Network(latency=MILLISECOND, corrupt=0.1, duplicate=0.1, reorder=0.05)
    outcome = run_trial(trial(network=network))
    assert outcome.violations == []
    assert outcome.counters["wire: seal does not open"] > 0


@real
def test_a_member_that_leaves_and_one_that_does_not_read() -> None:
    outcome = run_trial(
        trial(
            Fault(kind="leave", at=SECOND, members=(0,)),
            Fault(kind="join", at=2 * SECOND, members=(0,)),
            Fault(kind="stop_reading", at=SECOND, members=(1,), lasts=SECOND),
            Fault(kind="send", at=SECOND, members=(2,), size=100_000),
        )
    )
    assert outcome.violations == []
    assert outcome.marks["source-left"] > 0
    assert outcome.marks["source-back"] > 0
    assert outcome.marks["fragmented"] > 0


@real
def test_a_process_that_lost_its_disk_is_another_one(tmp_path: Path) -> None:
    fault = Fault(kind="crash", at=SECOND, members=(0,), restart=200 * MILLISECOND, disk=False)
    outcome = run_trial(trial(fault), tmp_path / "run")
    assert outcome.violations == []
    rows = read_run(tmp_path / "run")
    starts = [row for row in rows if isinstance(row, MembershipRow) and row.kind == "START"]
    assert len({(row.process, row.incarnation) for row in starts}) == 4
    assert "incarnation-kept" not in outcome.marks


def session(*faults: Fault, controllers: int = 0, options: dict[str, Any] | None = None) -> Scenario:
    """Three clients of two servers; the last one comes after half a second."""
    return Scenario(
        name="session",
        protocol="virtual_synchrony",
        seed=1,
        members=3,
        servers=2,
        controllers=controllers,
        duration=3 * SECOND,
        settle=2 * SECOND,
        options={"server_timeout": SECOND, **(options or {})},
        network=Network(latency=MILLISECOND, loss=0.01),
        workloads=(Workload(group="g", rate=20.0, size=(50, 3000), stop=2500 * MILLISECOND),),
        member_plans=(MemberPlan(index=2, joins=500 * MILLISECOND),),
        faults=faults,
    )


def lives(rows: list[AnyRow], kind: str, name: str) -> set[int]:
    """In which lives a process has a row of that kind."""
    return {row.incarnation for row in rows if row.kind == kind and row.process == name}


@real
def test_a_structured_session_that_loses_a_server_a_controller_and_a_client_for_a_while(tmp_path: Path) -> None:
    outcome = run_trial(
        session(
            Fault(kind="crash", at=SECOND, members=(server(0), controller(0)), restart=500 * MILLISECOND),
            Fault(kind="isolate", at=1500 * MILLISECOND, members=(1,), lasts=700 * MILLISECOND),
            controllers=2,
        ),
        tmp_path / "run",
    )
    assert outcome.violations == []
    assert outcome.counters["cut off"] > 0
    rows = list(read_run(tmp_path / "run"))
    assert monitor_violations(rows) == []
    for name in ("server:0", "controller:0"):
        assert len(lives(rows, "START", name)) == 2
        assert len(lives(rows, "CRASH", name)) == len(lives(rows, "END", name)) == 1
    for name in ("p0", "p1", "p2"):
        assert len(lives(rows, "END", name)) == 1
        assert lives(rows, "SEND", name)
        assert lives(rows, "DELIVER", name)


@pytest.mark.slow
def test_a_session_on_the_loopback_with_a_client_that_does_not_answer_and_one_that_comes_again(
    tmp_path: Path, realm: str
) -> None:
    """Member 1 leaves the block before the coming of member 2 unanswered, which later crashes and joins anew."""
    scenario = session(
        Fault(kind="stop_answering", at=0, members=(1,)),
        Fault(kind="crash", at=1500 * MILLISECOND, members=(2,), restart=200 * MILLISECOND),
        Fault(kind="crash", at=1600 * MILLISECOND, members=(2,), restart=50 * MILLISECOND),  # it is away already
        Fault(kind="pause", at=2 * SECOND, members=(server(1),), lasts=300 * MILLISECOND),
        options={"block": "ask", "block_timeout": 200 * MILLISECOND},
    )
    outcome = run_on_loopback(scenario, tmp_path / "run", lambda part, phase: None, realm)
    assert outcome.violations == []
    assert outcome.marks["vs-block-forced"] > 0
    rows = list(read_run(tmp_path / "run"))
    assert len(lives(rows, "START", "p2")) == len(lives(rows, "JOIN", "p2")) == 2
    assert lives(rows, "BLOCK_OK", "p0")
    assert lives(rows, "DELIVER", "p2")


def test_a_process_that_ends_before_it_is_ready_is_no_member_that_is_away(tmp_path: Path) -> None:
    charge = charges(session(), Cast(3, 2), "realm", tmp_path, namespaces=False)[3]
    charge.settings = {"block": "sometimes"}
    process = MemberProcess(3, charge, [], tmp_path / "log")

    async def start() -> None:
        with pytest.raises(UnisonoError, match=r"(?s)server:0 did not start.*block: "):
            await process.start()
        await process.gone()

    asyncio.run(start())


@pytest.mark.parametrize("kind", NOT_REAL)
def test_what_cannot_be_made_is_refused_with_a_word(kind: str) -> None:
    with pytest.raises(ScenarioError, match=r"fault\[0\]\.kind.*real processes"):
        refuse_what_cannot_be_made(trial(Fault(kind=kind, at=SECOND, members=(0,))))


def test_a_fault_that_waits_for_a_row_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"fault\[0\]\.when"):
        refuse_what_cannot_be_made(trial(Fault(kind="crash", when=When(kind="SEND"), members=(0,))))


@pytest.mark.parametrize("kind", sorted(set(FAULTS) - set(MADE)))
def test_what_needs_a_hub_is_refused_on_the_loopback(kind: str) -> None:
    with pytest.raises(ScenarioError, match=r"fault\[0\]\.kind"):
        refuse_what_needs_a_network(trial(Fault(kind=kind, at=SECOND, members=(0,))))


def test_a_scenario_is_made_smaller_for_the_loopback_with_fewer_who_come_and_go() -> None:
    """Sixteen of two hundred receivers are left, and eight joins of a hundred."""
    whole = load("receiver-churn")
    small = fit(whole)
    assert small.members == MOST == 24
    assert [churn.rate for churn in small.churns] == [8.0]
    drawn = draw(small, 0)
    refuse_what_needs_a_network(drawn)
    assert {plan.index for plan in drawn.member_plans} == set(range(24))
    assert fit(small) == small


def test_a_packet_keeps_its_addresses_when_its_datagram_changes() -> None:
    head = bytes.fromhex("45000021000040002011ffff0a4d00010a4d0002") + bytes.fromhex("125c125c000d1234")
    packet = read_packet(head + b"hello")
    assert packet is not None
    assert (str(packet.source), str(packet.destination), packet.payload) == ("10.77.0.1", "10.77.0.2", b"hello")
    changed = read_packet(with_payload(packet, b"another one"))
    assert changed is not None
    assert changed.payload == b"another one"
    assert changed[:3] == packet[:3]
    assert sum(int.from_bytes(changed.raw[at : at + 2], "big") for at in range(0, 20, 2)) % 0xFFFF == 0
    assert read_packet(b"\x60" + bytes(60)) is None
