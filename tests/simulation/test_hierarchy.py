"""The control hierarchy organizes itself, measures true, costs little, and heals."""

from __future__ import annotations

import pytest

from tests.simulation.hierarchies import (
    accept,
    accept_growth,
    carry_out,
    control,
    crash_a_third,
    hierarchy,
    in_state,
    observer,
    regions,
    step_down,
)
from unisono.intergroup.hierarchy import ControlProcess, State
from unisono.simulation.draw import draw
from unisono.simulation.hierarchy import Figures
from unisono.simulation.scenario import Fault, GroupPlan, RandomFaults, Scenario
from unisono.simulation.world import World
from unisono.trace.schema import MembershipRow
from unisono.units import SECOND


def run(world: World) -> Figures:
    world.run()
    return observer(world).figures()


@pytest.mark.parametrize("seed", [1, 2])
def test_twenty_and_sixty_sites_settle_and_measure_true(seed: int) -> None:
    twenty = run(hierarchy(20, regions(4, loss=0.01), seed=seed))
    sixty = run(hierarchy(60, regions(5, loss=0.01), seed=seed))
    for figures in (twenty, sixty):
        accept(figures)
    accept_growth([twenty, sixty])


def test_a_third_of_the_coordinators_crash_and_it_heals() -> None:
    world = hierarchy(60, regions(5, loss=0.01), seconds=70, seed=3)
    crashed = crash_a_third(world, at=30)
    figures = run(world)
    assert crashed
    assert figures.sites == 60 - len(crashed)
    accept(figures, within=65)
    healed = observer(world).settled_at(after=30 * SECOND)
    assert healed is not None
    assert world.marks["coordinator-lost"] > 0


def test_children_of_a_coordinator_that_crashed_find_another_in_seconds() -> None:
    world = hierarchy(20, regions(4), seconds=50, seed=5)
    before: list[int] = []

    def crash(now: int) -> None:
        leading = in_state(world, State.COORDINATOR)
        before.append(len(leading))
        world.crash(world.machines[leading[0]])

    world.schedule(30 * SECOND, crash)
    world.run()
    samples = [sample for sample in observer(world).samples if sample.at > 30 * SECOND]
    found = next(sample.at for sample in samples if not sample.homeless and sample.at > 31 * SECOND)
    assert found <= 40 * SECOND
    assert (
        max(sample.coordinators for sample in samples) <= before[0] + 2
    )  # its children do not all become coordinators


def test_all_coordinators_crash_and_the_children_start_again() -> None:
    world = hierarchy(30, regions(4), seconds=70, seed=2)

    def crash(now: int) -> None:
        for index in observer(world).coordinators():
            world.crash(world.machines[index])

    world.schedule(25 * SECOND, crash)
    figures = run(world)
    accept(figures, within=70)
    later = [sample for sample in observer(world).samples if sample.at > 25 * SECOND]
    assert max(sample.coordinators for sample in later) <= figures.high, "they do not all become coordinators"


def test_a_coordinator_that_says_farewell_is_not_waited_for() -> None:
    world = hierarchy(20, regions(4), seconds=40, seed=2)

    def leave(now: int) -> None:
        gone = largest(world)
        carry_out(world, gone, ControlProcess.leave)
        world.crash(world.machines[gone])

    world.schedule(25 * SECOND, leave)
    world.run()
    assert world.marks["coordinator-lost"] == 0
    assert observer(world).sample().homeless == 0
    after = [sample for sample in observer(world).samples if sample.at > 25 * SECOND]
    assert next(sample.at for sample in after if not sample.homeless) <= 29 * SECOND


def test_one_site_alone_is_its_own_coordinator() -> None:
    world = hierarchy(1, seconds=5)
    world.run()
    process = control(world, 0)
    assert process.state is State.COORDINATOR
    assert process.whereabouts.coordinator == process.whereabouts.control
    assert process.whereabouts.leg == 0
    assert process.table.distance(process.whereabouts) == 0


def test_every_change_of_state_is_in_the_trace() -> None:
    world = hierarchy(8, seconds=20)
    world.run()
    rows = [row for row in world.rows if row.kind in ("COORDINATOR", "CHILD") and isinstance(row, MembershipRow)]
    last = {row.process: (row.kind, row.reason) for row in rows}
    for index, process in observer(world).processes().items():
        kind = "COORDINATOR" if process.state.among_coordinators else "CHILD"
        assert last[f"p{index}"] == (kind, process.state.value)


def largest(world: World) -> int:
    """The coordinator with the most children."""
    processes = observer(world).processes()
    short = [process.whereabouts.coordinator for process in processes.values()]
    most = max(sorted(set(short)), key=short.count)
    return next(index for index, process in processes.items() if process.whereabouts.control == most)


@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(3))
def test_children_are_handed_over_before_their_coordinator_leaves(seed: int, loss: float) -> None:
    world = hierarchy(20, regions(4, loss=loss), seed=seed, seconds=50)
    gone: list[int] = []

    def leave(now: int) -> None:
        gone.append(largest(world))
        step_down(world, gone[0])

    world.schedule(25 * SECOND, leave)
    world.run()
    assert world.marks["handed-over"] > 0
    assert world.marks["coordinator-lost"] == 0
    reasons = [row.reason for row in world.rows if isinstance(row, MembershipRow) and row.process == f"p{gone[0]}"]
    after = reasons[reasons.index("to child") + 1 :]
    assert after[0] == "child"
    assert all(sample.homeless == 0 for sample in observer(world).samples if sample.at > 25 * SECOND)


def test_a_coordinator_that_finds_no_other_stays_one() -> None:
    deaf = Fault(kind="lose", at=20 * SECOND, rate=1.0, message="search_response", lasts="forever")
    world = hierarchy(20, regions(4), seconds=50, faults=(deaf,))
    leaving: list[int] = []

    def leave(now: int) -> None:
        leaving.append(largest(world))
        step_down(world, leaving[0])

    world.schedule(25 * SECOND, leave)
    world.run()
    assert world.marks["to-child-abandoned"] > 0
    assert control(world, leaving[0]).state is State.COORDINATOR
    assert observer(world).sample().homeless == 0


def test_the_only_coordinator_cannot_step_down() -> None:
    world = hierarchy(1, seconds=20)
    world.schedule(10 * SECOND, lambda now: step_down(world, 0))
    world.run()
    assert control(world, 0).state is State.COORDINATOR


def test_a_child_that_is_cut_off_becomes_a_coordinator_and_comes_back() -> None:
    world = hierarchy(20, regions(4), seconds=30, seed=2)
    world.run()
    child = in_state(world, State.CHILD)[0]
    away = Fault(kind="isolate", at=30 * SECOND, members=(child,), lasts=40 * SECOND)
    world = hierarchy(20, regions(4), seconds=110, seed=2, faults=(away,))
    alone: list[State] = []
    world.schedule(69 * SECOND, lambda now: alone.append(control(world, child).state))
    figures = run(world)
    assert alone == [State.COORDINATOR]
    assert world.marks["ring-search-failed"] > 0
    assert world.marks["coordinator-lost"] == 1
    accept(figures, within=110)


def test_both_sides_of_a_partition_go_on_and_meet_again() -> None:
    halves = (tuple(range(0, 20, 2)), tuple(range(1, 20, 2)))
    split = Fault(kind="partition", at=20 * SECOND, groups=halves, lasts=30 * SECOND)
    world = hierarchy(20, regions(4), seconds=100, seed=4, faults=(split,))
    apart: list[set[int]] = []

    def look(now: int) -> None:
        apart.extend({control(world, index).whereabouts.coordinator for index in half} for half in halves)

    world.schedule(49 * SECOND, look)
    figures = run(world)
    assert apart[0]
    assert apart[0].isdisjoint(apart[1])
    accept(figures, within=100)


def test_a_site_that_restarts_is_counted_once() -> None:
    again = Fault(kind="crash", at=20 * SECOND, members=(3, 7), restart=SECOND)
    world = hierarchy(12, seconds=40, faults=(again,))
    accept_sites = run(world)
    assert accept_sites.sites == 12
    assert accept_sites.homeless == 0
    assert {process.members for process in observer(world).processes().values()} == {12}


def test_a_paused_site_blames_nobody() -> None:
    pause = Fault(kind="pause", at=20 * SECOND, members=(2,), lasts=15 * SECOND)
    world = hierarchy(12, seconds=50, faults=(pause,))
    world.run()
    assert world.marks["woke-up"] > 0
    assert observer(world).sample().homeless == 0


@pytest.mark.parametrize("seed", range(8))
def test_it_settles_again_after_whatever_faults_a_seed_draws(seed: int) -> None:
    drawn = draw(
        Scenario(
            name="hierarchy-chaos",
            members=14,
            duration=30 * SECOND,
            settle=45 * SECOND,
            options={"control": True},
            network=regions(3, loss=0.01),
            groups=(GroupPlan(name="g", members=(0, 1)),),
            random=RandomFaults(),
        ),
        seed,
    )
    world = World(drawn, keep_rows=False)
    world.run()
    assert observer(world).sample().settled
    assert world.monitors.violations == []


def test_equal_seeds_give_equal_rows() -> None:
    first, second = (hierarchy(20, regions(4, loss=0.02), seconds=15, seed=9) for _ in range(2))
    first.run()
    second.run()
    assert first.rows == second.rows
    assert len(first.rows) > 300
