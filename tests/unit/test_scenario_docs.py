"""The page on scenarios: its examples read, and its tables say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unisono.simulation.packet_rules import MESSAGE_NAMES
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.scenario_keys import (
    CHURN_KEYS,
    DISK_FAULTS,
    FAULT_KEYS,
    FAULTS,
    LATER_FAULTS,
    MEMBER_KEYS,
    MESSAGES,
    NETWORK_KEYS,
    SCENARIO_KEYS,
    SHAPES,
    WORKLOAD_KEYS,
)

PAGE = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_example_reads(block: str) -> None:
    read_scenario(block)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 4


def test_the_table_of_faults_is_the_table_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| ?(.*?) ?\| (yes|no) \|$", PAGE, re.MULTILINE)
    written = {kind: (re.findall(r"`(\w+)`", keys), re.findall(r"`(\w+)`", more), on) for kind, keys, more, on in rows}
    assert written == {
        name: (list(kind.required), list(kind.optional), "yes" if kind.lasting else "no")
        for name, kind in FAULTS.items()
    }


def test_every_key_is_named() -> None:
    words = set(re.findall(r"\w+", PAGE))
    keys = {*SCENARIO_KEYS, *NETWORK_KEYS, *WORKLOAD_KEYS, *MEMBER_KEYS, *CHURN_KEYS, *FAULT_KEYS, *SHAPES}
    assert {*keys, *MESSAGES, *DISK_FAULTS, *LATER_FAULTS} <= words


def test_a_fault_may_single_out_every_message_that_there_is() -> None:
    assert {*MESSAGE_NAMES.values(), "data", "repair"} == set(MESSAGES)
