"""`unisono gateway` among real members: killed while it sends, it goes on, and everybody has every row once."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.gateways import logged, until
from tests.network.processes import Talker
from unisono.cli.main import run
from unisono.trace.sink_client import SinkClient

BATCH = 3000
PATIENT = {"suspicion": "30s", "patience": "60s"}
"""Nobody is taken for dead because this machine is busy."""


def gateway(directory: Path, realm: str, listen: str = "127.0.0.1:0") -> Talker:
    command = ["-m", "unisono", "gateway", "g", "--data", str(directory), "--realm", realm, "--listen", listen]
    patient = [word for name, value in PATIENT.items() for word in ("--set", f"{name}={value}")]
    return Talker("gateway", [*command, *patient, "--settle", "200ms", "--json"])


def member(**options: str) -> Talker:
    about = {"group": "g", "service": "timestamp", **PATIENT, **options}
    return Talker(options["name"], ["-m", "tests.network.row_member", json.dumps(about)])


def told(talker: Talker) -> dict[str, Any]:
    """The newest that a gateway said of itself."""
    talker.wait(lambda lines: any(line.startswith("{") for line in lines), "how it stands")
    newest: dict[str, Any] = json.loads([line for line in talker.lines if line.startswith("{")][-1])
    return newest


def rows(talker: Talker) -> list[tuple[int, int]]:
    return [(int(line.split()[1]), int(line.split()[2])) for line in list(talker.lines) if line.startswith("row ")]


@pytest.mark.slow
def test_a_gateway_that_is_killed_while_it_sends_goes_on_and_nobody_has_a_row_twice(tmp_path: Path, realm: str) -> None:
    with ExitStack() as stack:
        members = [
            stack.enter_context(closing(member(name="ada", realm=realm))),
            stack.enter_context(closing(member(name="bob", realm=realm, role="receiver"))),
        ]
        first = stack.enter_context(closing(gateway(tmp_path / "data", realm)))
        known = told(first)
        for one in members:
            one.wait(lambda lines: any(known["name"] in line for line in lines), "that the gateway is here")
        with SinkClient(known["address"], "g") as sink:
            for batch in range(2):
                sink.publish("q", "", batch, [sink.stage([b"row %d" % place for place in range(BATCH)])])
            stages = [sink.stage([b"row %d" % place for place in range(BATCH)])]
        until(lambda: len(rows(members[0])) > BATCH)
        first.kill()
        first.process.wait()
        second = stack.enter_context(closing(gateway(tmp_path / "data", realm, known["address"])))
        with SinkClient(known["address"], "g") as sink:
            assert sink.publish("q", "", 1, []).already is False, "it is being sent again, and is waited for"
            assert sink.publish("q", "", 2, stages).count == BATCH
        wanted = [(batch, place) for batch in range(3) for place in range(BATCH)]
        for one in members:
            one.wait(lambda lines: sum(line.startswith("row ") for line in lines) >= len(wanted), "all rows")
            one.tell("quit")
            one.wait(lambda lines: any(line.startswith("had ") for line in lines), "what it had")
            assert rows(one) == wanted
        until(lambda: sum(entry.query == "q" for entry in logged(known["address"])) == len(wanted))
        entries = logged(known["address"])
        assert [(entry.batch, entry.row) for entry in entries if entry.query == "q"] == wanted
        assert [entry.kind for entry in entries].count("started") == 2
        second.process.terminate()
        assert second.process.wait(60) == 0
        second.wait(lambda lines: '"state": "ended"' in lines[-1], "that it ended")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--listen", "nowhere"], "expected host:port"),
        (["--retain", "much"], "retain: expected a number with a unit"),
        (["--set", "window"], "set: expected NAME=VALUE, got 'window'"),
        (["--set", "windows_bytes=1"], 'windows_bytes: unknown setting; did you mean "window_bytes"?'),
        (["--settle", "soon"], "settle: expected a number with a unit"),
    ],
)
def test_a_wrong_call_is_told(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["gateway", "g", "--data", str(tmp_path / "data"), *arguments])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
