"""A step that does not end is ended with an error that names it, for the simulator and the driver."""

from __future__ import annotations

import time

import pytest

from unisono.step_watch import StepOverrun, StepWatch

LIMIT_SECONDS = 0.05


def turn_for_ever() -> None:
    while True:
        pass


def test_a_step_that_does_not_end_is_named() -> None:
    with StepWatch(LIMIT_SECONDS) as watch:
        watch.begin("p2", "Leave(group='g')")
        try:
            with pytest.raises(StepOverrun) as caught:
                turn_for_ever()
        finally:
            watch.end()
    assert "'p2'" in str(caught.value)
    assert "turn_for_ever (test_step_watch.py:" in str(caught.value)
    assert "Leave(group='g')" in str(caught.value)
    assert (caught.value.process, caught.value.fact) == ("p2", "Leave(group='g')")


def test_many_steps_that_end_are_let_be() -> None:
    with StepWatch(LIMIT_SECONDS) as watch:
        until = time.process_time() + 4 * LIMIT_SECONDS
        while time.process_time() < until:
            watch.begin("p2", "fact")
            watch.end()
