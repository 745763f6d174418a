"""The registry is complete, and the table of promises speaks only of what is in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Literal

import pytest

from unisono.properties.promises import PROMISES, exempt_services, promised
from unisono.properties.registry import PROPERTIES


def test_every_property_is_whole() -> None:
    for property_id, item in PROPERTIES.items():
        assert item.id == property_id == item.monitor.property_id
        assert item.name
        assert item.statement.endswith(".")
        assert item.report
        assert property_id in item.counter_example.breaks
        assert callable(item.oracle)
        assert item.oracle([]) == []
        monitor = item.monitor()
        assert monitor.handlers()
        monitor.finish()
        assert monitor.violations == []


def test_the_spark_forms_are_named_and_not_imported() -> None:
    names = [item.spark for item in PROPERTIES.values()]
    assert all(re.fullmatch(r"unisono\.pipeline\.audits\.\w+:\w+", name) for name in names)
    assert len(set(names)) == len(names)
    program = "import sys, unisono.properties.registry; assert not {'pyspark', 'unisono.pipeline'} & set(sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 0


def test_no_two_properties_share_a_check() -> None:
    assert len({item.oracle for item in PROPERTIES.values()}) == len(PROPERTIES)
    assert len({item.monitor for item in PROPERTIES.values()}) == len(PROPERTIES)


def test_every_promised_property_exists_and_is_promised_by_somebody() -> None:
    ids = {property_id for promise in PROMISES.values() for property_id in promise.properties}
    assert ids == set(PROPERTIES)


def test_every_promise_says_what_it_leaves_out() -> None:
    assert all(promise.weakening.endswith(".") for promise in PROMISES.values())


EVERY_TRACE = {"W1", "W2", "W3", "W4", "W5"}


@pytest.mark.parametrize(
    ("service", "ids"),
    [
        ("UU", {"D1", "D11"}),
        ("ALF", {"D1", "D2", "D11"}),
        ("USO", {"D1", "D2", "D11", "O1", "O8"}),
        ("UTO", {"D1", "D2", "D11", "O1", "O3", "O6", "O8"}),
        ("RSO", {"D1", "D2", "D7", "D8", "D11", "D13", "M3", "O1", "O2", "O8", "L2", "L9", "L11"}),
        (
            "RTO",
            {"D1", "D2", "D7", "D8", "D11", "D13", "M3", "O1", "O2", "O3", "O4", "O6", "O7", "O8", "L2", "L9", "L11"}
            | {"M2", "M4", "M5", "M7", "M9", "D3", "D4", "D5", "D9", "D10", "O5", "L1", "L5", "L10"},
        ),
    ],
)
def test_what_a_service_promises(service: str, ids: set[str]) -> None:
    def kept(role: Literal["sender", "receiver"] | None) -> set[str]:
        found = {property_id for property_id in PROPERTIES if promised(service, property_id, role)}
        assert found >= EVERY_TRACE
        return found - EVERY_TRACE

    assert kept("receiver") == ids | {"L6", "L7"}
    views = {"M3"} & ids
    if service in ("RSO", "RTO"):
        views |= {"D6", "L3"}
    if service == "RTO":
        views |= {"M1", "M2", "M4", "M5", "M7", "L1", "L10"}
    assert kept("sender") == views | {"O3", "O8", "L4", "L6", "L7", "L8"}
    assert kept(None) == kept("receiver") | kept("sender")


def test_what_sessions_promise() -> None:
    def kept(service: str, role: Literal["sender", "receiver"] | None) -> set[str]:
        found = {property_id for property_id in PROPERTIES if promised(service, property_id, role)}
        assert found >= EVERY_TRACE
        return found - EVERY_TRACE

    weak = {"M1", "M2", "M3", "M4", "D1", "D2", "O1", "O2", "L1", "L2", "L6", "L7", "L8"}
    strong = weak | {"M5", "M8", "M10", "D3", "D4", "D5", "D6", "D9", "D12", "D13", "L3", "L4"}
    for role in ("sender", "receiver", None):
        assert kept("VS-weak", role) == weak
        assert kept("VS", role) == strong


def test_a_service_that_is_not_in_the_table_is_held_to_everything() -> None:
    for property_id in PROPERTIES:
        assert promised(None, property_id)
        assert promised("RT0", property_id)
        assert promised("RT0", property_id, "sender")


def test_the_exempt_services_are_those_without_the_promise() -> None:
    assert exempt_services("D2") == {"UU"}
    assert exempt_services("D1") == frozenset()
    assert exempt_services("O3") == {"VS", "VS-weak"}
    assert exempt_services("O3", "receiver") == {"UU", "USO", "RSO", "ALF", "VS", "VS-weak"}
