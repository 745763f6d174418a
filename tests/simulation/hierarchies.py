"""Worlds that run the control hierarchy and little else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unisono.engine import Effect, Engine
from unisono.intergroup.hierarchy import ControlProcess, State
from unisono.node import Node
from unisono.reliable.step import Step
from unisono.settings import Settings
from unisono.simulation.hierarchy import Figures, HierarchyObserver
from unisono.simulation.scenario import Fault, GroupPlan, Network, Scenario
from unisono.simulation.world import World
from unisono.units import MICROSECOND, SECOND


def regions(count: int, **more: Any) -> Network:
    return Network(shape="regions", regions=count, latency=100 * MICROSECOND, jitter=200 * MICROSECOND, **more)


TARGET = Settings().local_bandwidth
LAN = Network(latency=100 * MICROSECOND, jitter=50 * MICROSECOND)


def hierarchy(
    sites: int,
    network: Network = LAN,
    seconds: int = 60,
    seed: int = 1,
    faults: tuple[Fault, ...] = (),
    node: Callable[..., Engine] = Node,
    keep_rows: bool = True,
    **options: Any,
) -> World:
    """A world of so many sites; only the first is in a group."""
    drawn = Scenario(
        name="hierarchy",
        seed=seed,
        members=sites,
        duration=seconds * SECOND,
        settle=0,
        options={"control": True, **options},
        network=network,
        groups=(GroupPlan(name="g", members=(0,)),),
        faults=faults,
    )
    return World(drawn, keep_rows=keep_rows, node=node)


def accept(figures: Figures, within: int = 60) -> None:
    """What is demanded of a hierarchy of any size; `within` is in seconds."""
    assert figures.settled_at is not None, "it never settled"
    assert figures.settled_at <= within * SECOND, f"it settled at {figures.settled_at / SECOND:.0f} s"
    assert figures.low <= figures.coordinators <= figures.high
    assert figures.homeless == 0
    assert figures.bytes_sent <= TARGET
    assert figures.bytes_received <= TARGET
    assert figures.distances_known > 0.99
    assert figures.distance_error is not None
    assert figures.distance_error <= 0.15


def accept_growth(figures: Sequence[Figures]) -> None:
    """From the smallest to the largest, a site's traffic grows by half at the most."""
    for cost in ("bytes_sent", "bytes_received"):
        values = [getattr(one, cost) for one in figures]
        assert max(values) <= 1.5 * values[0], f"{cost}: {values}"


def observer(world: World) -> HierarchyObserver:
    assert world.hierarchy is not None, "these worlds run control processes"
    return world.hierarchy


def control(world: World, index: int) -> ControlProcess:
    return observer(world).processes()[index]


def in_state(world: World, *states: State) -> list[int]:
    return [index for index, process in observer(world).processes().items() if process.state in states]


def crash_a_third(world: World, at: int) -> list[int]:
    """Crash every third coordinator at that time; the list is filled when it happens."""
    crashed: list[int] = []

    def crash(now: int) -> None:
        crashed.extend(observer(world).coordinators()[::3])
        for index in crashed:
            world.crash(world.machines[index])

    world.schedule(at * SECOND, crash)
    return crashed


def carry_out(world: World, index: int, call: Callable[[ControlProcess, int], list[Effect]]) -> None:
    """Call a control process from outside, as its site would, and carry out what follows."""
    machine = world.machines[index]
    now = machine.monotonic.read(world.now)
    for effect in call(control(world, index), now):
        machine._carry_out(effect, now)
    machine._arrange_wake()


def step_down(world: World, index: int) -> None:
    """Let a coordinator step down now, whatever its tables say."""

    def call(process: ControlProcess, now: int) -> list[Effect]:
        step = Step(process._place, now, now)
        process._maintenance.become_to_child(step)
        return step.finish()

    carry_out(world, index, call)
