"""The commands and the example, as a person runs them."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from examples.orders import ORDERS
from examples.orders import main as orders
from examples.pages import PAGES
from examples.pages import main as pages
from examples.prices import PRICES
from examples.prices import main as prices
from examples.roster import main as roster
from tests.network.meeting import run, together
from tests.network.processes import PATIENCE_SECONDS, ROOT, Talker
from unisono.cli.chat import _WHY, _lines
from unisono.cli.main import app
from unisono.events import DroppedOut, Excluded, ViewReason
from unisono.identity import ProcessId, ViewId
from unisono.settings import SERVICE_CODES


def chat(name: str, realm: str, *options: str) -> Talker:
    return Talker(name, ["-m", "unisono", "chat", "lobby", "--name", name, "--realm", realm, *options])


@pytest.mark.parametrize("transport", ["multicast", "mesh"])
def test_two_chats_find_each_other(realm: str, transport: str) -> None:
    with closing(chat("ada", realm, "--transport", transport)) as ada:
        with closing(chat("bob", realm, "--transport", transport)) as bob:
            ada.wait_line("* bob is here")
            bob.wait_line("* ada is here")
            ada.tell("hello \x1b[2J bob")
            bob.wait_line("ada: hello \N{REPLACEMENT CHARACTER}[2J bob")
            bob.tell("hello ada")
            ada.wait_line("bob: hello ada")
            assert bob.process.stdin is not None
            bob.process.stdin.close()
            assert bob.process.wait(PATIENCE_SECONDS) == 0
        ada.wait_line("* bob left")
        assert "ada: hello ada" not in ada.lines


@pytest.mark.parametrize("service", ["timestamp", "source-latest", "timestamp-latest", "framed", "unordered"])
def test_two_chats_may_receive_by_different_services(realm: str, service: str) -> None:
    with closing(chat("ada", realm)) as ada, closing(chat("bob", realm, "--service", service)) as bob:
        ada.wait_line("* bob is here")
        bob.wait_line("* ada is here")
        ada.tell("hello bob")
        bob.wait_line("ada: hello bob")
        bob.tell("hello ada")
        ada.wait_line("bob: hello ada")


def test_the_help_of_chat_says_what_each_service_means() -> None:
    result = CliRunner().invoke(app, ["chat", "--help"])
    assert result.exit_code == 0
    for service in SERVICE_CODES:
        assert re.search(rf"^ +{service} +\w+ \w+", result.output, re.MULTILINE), service


def test_chat_refuses_a_bad_call(realm: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unisono", "chat", "lobby", "--realm", realm, "--interface", "nowhere"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no interface 'nowhere' is up here" in done.stderr


def test_doctor_says_what_this_machine_allows(realm: str) -> None:
    result = CliRunner().invoke(app, ["doctor", "--realm", realm])
    assert result.exit_code == 0, result.output
    assert "ok    multicast on lo (127.0.0.1): sent and heard on this machine" in result.output
    assert re.search(r"^(ok  |warn)  receive buffer: \d+ KiB of 4096 KiB$", result.output, re.MULTILINE)
    told = CliRunner().invoke(app, ["doctor", "--realm", realm, "--json"])
    report = json.loads(told.output)
    assert report["exit"] == 0
    assert {check["status"] for check in report["checks"]} <= {"ok", "warn"}
    assert all(check["advice"] for check in report["checks"] if check["status"] == "warn")


def test_doctor_says_why_nothing_works() -> None:
    result = CliRunner().invoke(app, ["doctor", "--interface", "nowhere"])
    assert result.exit_code == 1
    assert "bad   interface: no interface 'nowhere' is up here; there are lo (127.0.0.1)" in result.output


def test_doctor_hears_the_members_of_a_group(realm: str) -> None:
    async def main() -> None:
        async with together(["ada", "bob"], realm):
            command = [sys.executable, "-m", "unisono", "doctor", "g", "--realm", realm, "--json"]
            doctor = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
            output, _ = await doctor.communicate()
        heard = json.loads(output)["checks"][-1]
        assert (heard["status"], heard["says"]) == ("ok", "heard ada, bob")

    run(main())


def test_doctor_says_when_nobody_is_heard(realm: str) -> None:
    result = CliRunner().invoke(app, ["doctor", "nobody", "--realm", realm])
    assert result.exit_code == 0
    assert "warn  group 'nobody': nobody was heard on 239." in result.output
    assert "same realm and the same interface" in result.output


def test_the_example_runs_as_the_docs_show(realm: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        assert await orders(realm=realm) == list(ORDERS)

    run(main())
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert re.findall(r"```text\n(.*?)```", page, re.DOTALL)[0] == capsys.readouterr().out


def shown_in(page: str) -> list[str]:
    return re.findall(r"```text\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


def test_members_that_were_apart_have_the_same_notes_after_they_met(
    realm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        notes = await roster(realm=realm)
        assert notes == [{"bread": "rye", "cheese": "blue", "soup": "pumpkin", "wine": "red"}] * 3

    run(main())
    assert capsys.readouterr().out in shown_in("views.md")


def test_chat_has_words_for_whatever_happens_to_a_view() -> None:
    assert set(_WHY) == set(ViewReason)
    excluded = Excluded(ViewId(1, ProcessId("bob", 1), 1))
    assert _lines(excluded, "ada") == ["* the others went on without you; you come back by yourself"]
    assert _lines(DroppedOut("a view was missed"), "ada") == ["* some lines may be missing here: a view was missed"]


def test_one_group_is_received_by_two_services(realm: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        lines, copied, shown = await prices(realm=realm)
        assert lines == copied
        for name, sent in PRICES.items():
            assert tuple(price for source, price in lines if source == name) == sent
            assert shown[name] == sent[-1]

    run(main())
    assert capsys.readouterr().out in shown_in("delivery.md")


def test_a_late_reader_asks_for_a_page(realm: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        assert await pages(realm=realm) == [PAGES["page/2"], "nobody has page/9 any more"]

    run(main())
    assert capsys.readouterr().out in shown_in("delivery.md")


def test_the_first_lines_of_the_docs_run(realm: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNISONO_REALM", realm)
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 2
    for number, text in enumerate(programs):
        program = tmp_path / f"program{number}.py"
        program.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "b'one more'\n"), done.stderr
