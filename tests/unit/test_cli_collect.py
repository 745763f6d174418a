"""`unisono collect` says what is wrong with a call before it does anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unisono.cli.collect import LISTEN, _in_words
from unisono.cli.main import run


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--listen", "here"], "expected host:port"),
        (["--listen", "127.0.0.1:99999"], "expected host:port"),
        (["--retain", "much"], "--retain: expected a number with a unit"),
        (["--retain", "0B"], "--retain: expected more than nothing"),
        (["--gone", "5"], "--gone: expected a number with a unit"),
        (["--settle", "-1s"], "--settle: expected more than nothing"),
        (["--listen", "203.0.113.1:7464"], "cannot listen on 203.0.113.1:7464"),
    ],
)
def test_misuse_is_named(options: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run(["collect", "--data", str(tmp_path / "data"), *options])
    assert left.value.code == 2
    assert word in capsys.readouterr().err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run(["collect", "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert "unisono collect --data traces" in shown


def test_the_help_of_watch_names_the_port_that_a_collector_has(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["watch", "--help"])
    assert set(re.findall(r"unisono watch (\S+:\d+)", capsys.readouterr().out)) == {LISTEN}


def test_a_line_says_how_it_goes() -> None:
    facts = {
        "connections": 2,
        "reports": 9,
        "duplicates": 1,
        "refused": {"bad run": 2, "too large": 1},
        "log": {"begin": 0, "end": 9, "bytes": 100},
        "open": ["r"],
    }
    assert _in_words({**facts, "open": []}).endswith(", 0 runs go on")
    assert _in_words({**facts, "open": ["r", "s"]}).endswith(", 2 runs go on")
    assert _in_words(facts) == (
        "2 connected, 9 reports stored, 1 came twice, 3 refused; the log has offsets 0 to 9, 1 run goes on"
    )
