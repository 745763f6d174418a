"""What an application may report, and how much is traced where."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from unisono import Process, join
from unisono.errors import NetworkError, SettingError
from unisono.runtime.trace_options import COLLECTOR_VARIABLE, RUN_VARIABLE, STATISTICS_VARIABLE, trace_options
from unisono.trace.schema import Value
from unisono.trace.statistics import DOCUMENT_TYPES, OWN_TYPES, RESERVED_TYPES, check_type, check_values, values_of


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (COLLECTOR_VARIABLE, RUN_VARIABLE, STATISTICS_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("kind", [*sorted(RESERVED_TYPES), "Sent RTR", "to sender", "coord memb"])
def test_reserved_types_are_refused_however_they_are_spelled(kind: str) -> None:
    with pytest.raises(SettingError, match="reserved for the protocols"):
        check_type(kind)


def test_the_types_of_the_document_are_reserved() -> None:
    assert len(DOCUMENT_TYPES) == 13
    assert set(DOCUMENT_TYPES) < RESERVED_TYPES
    assert check_type("orders") == "orders"


@pytest.mark.parametrize(
    ("kind", "values", "word"),
    [
        ("", {}, "cannot be empty"),
        ("a\nb", {}, "printable"),
        ("x" * 65, {}, "at most 64"),
        (7, {}, "is text, got int"),
        ("orders", {"open": None}, "open: expected a number or a text, got NoneType"),
        ("orders", {"open": b"3"}, "got bytes"),
        ("orders", {"open": [3]}, "got list"),
        ("orders", {"open": float("nan")}, "is finite"),
        ("orders", {"open": float("inf")}, "is finite"),
        ("orders", {"open": 10**400}, "is finite"),
        ("orders", {"state": "x" * 1025}, "at most 1024"),
        ("orders", {"state": "\udc80"}, "whole characters"),
        ("orders", {"": 3}, "name of a value"),
        ("orders", {f"v{number}": 1 for number in range(65)}, "at most 64 values"),
    ],
)
def test_what_a_statistic_cannot_hold_is_refused_also_without_a_trace(kind: Any, values: Any, word: str) -> None:
    process = Process("ada", storage="memory")
    with pytest.raises(SettingError, match=word):
        process.report(kind, **values)


def test_the_page_has_every_reserved_type_with_its_family() -> None:
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| ([\w ]+) \| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE)
    assert {kind: family for _, kind, family in table} == DOCUMENT_TYPES
    assert all(name.upper().replace(" ", "_") == kind for name, kind, _ in table)
    assert all(f"`{name}`" in page for name in (COLLECTOR_VARIABLE, RUN_VARIABLE, STATISTICS_VARIABLE, *OWN_TYPES))


def test_values_are_numbers_or_texts() -> None:
    values: dict[str, float | str] = {"open": 3, "share": 0.5, "state": "busy", "late": True}
    check_values(values)
    assert values_of(values) == [
        Value("open", 3.0),
        Value("share", 0.5),
        Value("state", text="busy"),
        Value("late", 1.0),
    ]


def test_a_trace_is_wanted_where_somebody_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "lab-7", "127.0.0.1:7464"
    assert trace_options(None, None, None, None, "") is None
    plain = trace_options(here, None, None, None, "")
    assert plain is not None
    assert (plain.directory, plain.collector, plain.run, plain.messages) == (here, None, "lab-7", True)
    remote = trace_options(None, None, there, None, "lab")
    assert remote is not None
    assert (remote.directory, remote.collector, remote.run, remote.messages) == (None, there, "lab", False)
    both = trace_options(here, "events", there, "mine", "lab")
    assert both is not None
    assert (both.directory, both.collector, both.run, both.messages) == (here, there, "mine", False)
    assert trace_options(here, "off", there, None, "") is None
    monkeypatch.setenv(COLLECTOR_VARIABLE, there)
    monkeypatch.setenv(RUN_VARIABLE, "tonight")
    named = trace_options(None, None, None, None, "")
    assert named is not None
    assert (named.collector, named.run, named.messages) == (there, "tonight", False)
    monkeypatch.setenv(STATISTICS_VARIABLE, "all")
    loud = trace_options(None, None, None, None, "")
    assert loud is not None
    assert loud.messages
    assert trace_options(None, "off", None, None, "") is None
    monkeypatch.setenv(STATISTICS_VARIABLE, "loud")
    with pytest.raises(SettingError, match="expected one of off, events, all, got 'loud'"):
        trace_options(None, None, None, None, "")


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="say where they go"):
        Process("ada", statistics="all")
    with pytest.raises(NetworkError, match="expected host:port"):
        Process(collector="somewhere")
    with pytest.raises(SettingError, match="run"):
        Process(trace=tmp_path, run="a\nb")
    with pytest.raises(SettingError, match='say statistics="events"'):
        join("g", trace_messages=False)
