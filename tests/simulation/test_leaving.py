"""Who leaves keeps its word: counted from the trace by hand, message by message, and not by the properties alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.simulation.planted_bugs import PlantedBug
from tests.simulation.planted_leaving_bugs import PLANTED_LEAVING
from tests.simulation.worlds import run_world, scenario
from unisono import step_watch
from unisono.intergroup.sending import Sending
from unisono.simulation.draw import draw
from unisono.simulation.scenario import Fault, MemberPlan, Network, Scenario, Workload
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import World
from unisono.step_watch import StepOverrun
from unisono.trace.schema import DeliverRow, MembershipRow, SendRow, ViewRow
from unisono.units import MICROSECOND, MILLISECOND, SECOND

KEPT = Path(__file__).parent / "kept"


def kept(name: str, seed: int) -> Scenario:
    return draw(read_scenario((KEPT / f"{name}.toml").read_text(), name), seed)


def left(world: World, leaver: str) -> MembershipRow:
    """How a process went."""
    (row,) = (
        row for row in world.rows if isinstance(row, MembershipRow) and row.kind == "LEAVE" and row.process == leaver
    )
    return row


def missing(world: World, leaver: str, since: int = 0) -> dict[str, list[int]]:
    """Of what a process sent after that time, what those who were there in the end did not deliver, nor itself."""
    sent = {
        row.number
        for row in world.rows
        if isinstance(row, SendRow) and row.process == leaver and (row.truth or 0) >= since
    }
    assert sent
    found = {}
    moves = [(row.kind, row.process) for row in world.rows if isinstance(row, MembershipRow)]
    stay = {process for kind, process in moves if kind == "END" and ("LEAVE", process) not in moves}
    for process in sorted(stay | {leaver}):
        theirs = [row for row in world.rows if isinstance(row, DeliverRow) and row.process == process]
        got = {row.number for row in theirs if row.source == leaver}
        if sent - got:
            found[process] = sorted(sent - got)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_last_of_a_thousand_messages_reach_who_stays(seed: int) -> None:
    world = run_world(kept("leave-now", seed))
    assert world.monitors.violations == []
    assert left(world, "p0").reason is None
    lost = missing(world, "p0")
    assert set(lost) <= {"p1"}  # both begin alone
    merged = [row for row in world.rows if isinstance(row, ViewRow) and row.process == "p1" and len(row.start) == 2]
    start = next(start for start in merged[0].start if start.source == "p0")
    assert all(number < start.number for number in lost.get("p1", []))


@pytest.mark.parametrize("seed", range(4))
def test_a_large_message_before_a_leave_reaches_who_stays(seed: int) -> None:
    world = run_world(kept("leave-loses", seed))
    assert world.monitors.violations == []
    assert missing(world, "p0") == {}


NEAR = Network(latency=(10 * MILLISECOND, 20 * MILLISECOND), jitter=MILLISECOND)
WIDE = Network(latency=(30 * MILLISECOND, 90 * MILLISECOND), jitter=5 * MILLISECOND)
AT = 5 * SECOND
BURST = (
    Fault(kind="lose", at=AT - SECOND, rate=0.1),
    Fault(kind="send", at=AT, members=(0,), size=3000, count=20),
    Fault(kind="leave", at=AT + 1, members=(0,)),
)
CASES: dict[str, dict[str, object]] = {
    "five senders": {},
    "far from one another": {"network": WIDE},
    "one of four, the others receive": {
        "member_plans": tuple(MemberPlan(index=index, options={"role": "receiver"}) for index in (1, 2, 3)),
        "workloads": (Workload(group="g", senders=(0,), rate=5.0, stop=4 * SECOND),),
    },
    "a receiver that becomes a sender for it": {
        "member_plans": (MemberPlan(index=0, options={"role": "auto"}),),
        "workloads": (Workload(group="g", senders=(1, 2), rate=5.0),),
    },
    "source order": {"service": "source"},
    "a receiver that becomes a source for one large message": {
        "service": "source",
        "member_plans": (MemberPlan(index=0, options={"role": "auto"}),),
        "workloads": (Workload(group="g", senders=(1, 2), rate=5.0),),
        "faults": (
            Fault(kind="lose", at=AT - SECOND, rate=0.1),
            Fault(kind="send", at=AT, members=(0,), size=100_000, count=1),
            Fault(kind="leave", at=AT + 1, members=(0,)),
        ),
    },
    "another sender is stopped": {
        "faults": (Fault(kind="pause", at=AT - 200 * MILLISECOND, members=(2,), lasts=20 * SECOND), *BURST),
    },
    "another dies": {"faults": (Fault(kind="crash", at=AT - 900 * MILLISECOND, members=(2,)), *BURST)},
    "a newcomer is being merged": {"member_plans": (MemberPlan(index=3, joins=AT - 150 * MILLISECOND),)},
    "another leaves at the same time": {"faults": (*BURST, Fault(kind="leave", at=AT, members=(1,)))},
}

APART = {"another sender is stopped": ("p2",), "a newcomer is being merged": ("p3",)}
"""Who is in no view with the leaver then."""


@pytest.mark.parametrize("name", CASES)
def test_all_that_was_sent_before_a_leave_reaches_all_who_stay(name: str) -> None:
    parts: dict[str, object] = {
        "members": 5,
        "duration": 12 * SECOND,
        "settle": 10 * SECOND,
        "network": NEAR,
        "workloads": (Workload(group="g", rate=5.0),),
        "faults": BURST,
        "service": "timestamp",
        "control": False,
        **CASES[name],
    }
    for seed in range(3):
        world = run_world(scenario(seed=seed, **parts))  # type: ignore[arg-type]
        assert world.monitors.violations == []
        lost = missing(world, "p0", AT)
        for apart in APART.get(name, ()):
            lost.pop(apart, None)
        assert lost == {}, f"seed {seed}"


@pytest.mark.parametrize("seed", range(3))
def test_a_last_word_that_cannot_be_delivered_delays_a_leave_no_longer_than_its_timeout(seed: int) -> None:
    """`p1` is stopped, so `p2` cannot deliver its last word until a view without `p1` stands."""
    drawn = kept("leave-after-last-word", seed)
    world = run_world(drawn)
    assert world.monitors.violations == []
    assert missing(world, "p2") == {}
    whole = left(world, "p2")
    assert whole.reason is None
    hasty = run_world(replace(drawn, options={**drawn.options, "leave_timeout": 300 * MILLISECOND}))
    assert hasty.monitors.violations == []
    cut_short = left(hasty, "p2")
    assert cut_short.reason == "timeout"
    called = next(fault.at for fault in drawn.faults if fault.kind == "leave")
    assert called is not None
    assert called + 300 * MILLISECOND <= (cut_short.truth or 0) <= called + 310 * MILLISECOND
    assert (cut_short.truth or 0) < (whole.truth or 0)


COUNTED = [bug for bug in PLANTED_LEAVING if "D13" in bug.properties]


@pytest.mark.parametrize("bug", COUNTED, ids=lambda bug: bug.name)
def test_with_a_bug_planted_the_count_shows_what_is_lost(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a property names it, where the others are told that it left."""
    bug.plant(monkeypatch)
    worlds = [run_world(kept(bug.scenario, seed)) for seed in range(8)]
    assert any("p1" in missing(world, "p0", 4 * SECOND) for world in worlds)
    assert set().union(*(world.monitors.counts for world in worlds)) & bug.properties


def standstill(world: World, process: str) -> int:
    """The longest time in which a process delivered nothing, while there was load."""
    at = [row.truth or 0 for row in world.rows if isinstance(row, DeliverRow) and row.process == process]
    return max(later - earlier for earlier, later in pairwise(at))


@pytest.mark.parametrize("latency", [100 * MICROSECOND, 20 * MILLISECOND])
@pytest.mark.parametrize("seed", range(2))
def test_a_last_word_that_one_acted_on_parts_nobody(seed: int, latency: int) -> None:
    """`p0` has acted on the last word of `p2`; `p1` and `p2` cannot before they agree that `p3` is gone."""
    drawn = kept("last-word", seed)
    world = run_world(replace(drawn, network=replace(drawn.network, latency=latency)))
    assert world.monitors.violations == []
    assert world.marks["let-go"] == 1

    for process in ("p0", "p1", "p2"):
        assert standstill(world, process) < 3 * SECOND // 2  # 1 s of it is suspicion
    views = {
        process: [row for row in world.rows if isinstance(row, ViewRow) and row.process == process][-1]
        for process in ("p0", "p1", "p2")
    }
    assert len({view.view for view in views.values()}) == 1
    assert [views[process].role for process in views] == ["sender", "sender", "receiver"]


def test_with_the_last_word_forgotten_members_that_hear_each_other_part(monkeypatch: pytest.MonkeyPatch) -> None:
    (bug,) = (bug for bug in PLANTED_LEAVING if bug.scenario == "last-word")
    bug.plant(monkeypatch)
    world = run_world(kept("last-word", 0))
    assert bug.properties & set(world.monitors.counts)


def test_a_step_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_watch, "STEP_LIMIT_SECONDS", 0.2)
    monkeypatch.setattr(Sending, "flush", lambda self, step: [])
    with pytest.raises(StepOverrun) as caught:
        run_world(scenario())
    assert caught.value.process in {"p0", "p1", "p2"}
    assert "Speaking.advance" in str(caught.value)


def test_steps_without_time_between_them_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unisono.simulation.machine.FACTS_LIMIT", 1000)
    monkeypatch.setattr("unisono.node.Node.deadline", lambda self: 0)
    with pytest.raises(StepOverrun, match="1000 steps at one moment; it was given TimePassed"):
        run_world(scenario())
