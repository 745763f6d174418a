"""Clusters: what is sent, what goes wrong and how it is said, and a real one of two workers that know nothing."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

import pytest

from tests.pipeline.conftest import Call
from tests.pipeline.standalone import Standalone
from unisono.cli.main import run
from unisono.errors import TraceError, UnisonoError
from unisono.pipeline.monitor_audit import audit_with_monitors
from unisono.pipeline.spark import cluster, shipping
from unisono.pipeline.spark.session import profile_of, settings
from unisono.simulation.campaign import SeedJob, run_seeds
from unisono.simulation.library import load
from unisono.sweeps.store import RESULTS, read_piece
from unisono.trace.run_directory import is_run_directory

PROPERTIES = "D2,O1,L2"
SWEEP = ("quiet-lan", "--seeds", "0:4", "--set", "duration=500ms", "--set", "settle=2500ms", "--set", "loss=0,0.45")


def test_the_archive_has_the_code_its_files_and_what_is_compiled(tmp_path: Path) -> None:
    with ZipFile(shipping.archive(tmp_path)) as file:
        names = set(file.namelist())
    assert {
        "unisono/__init__.py",
        "unisono/simulation/scenarios/chaos.toml",
        "unisono/pipeline/pages/templates/base.html.jinja",
        "msgspec/__init__.py",
        "xxhash/__init__.py",
    } <= names
    assert any(name.startswith("msgspec/") and name.endswith(".so") for name in names)
    assert not any("__pycache__" in name for name in names)


def test_the_code_alone_for_workers_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shipping.ENVIRONMENT, "code")
    with ZipFile(shipping.archive(tmp_path)) as file:
        assert {name.partition("/")[0] for name in file.namelist()} == {"unisono"}
    monkeypatch.setenv(shipping.ENVIRONMENT, "nothing")
    with pytest.raises(UnisonoError, match="is all or code"):
        shipping.shipped()


def test_workers_of_this_machine_have_the_code_of_this_process(tmp_path: Path) -> None:
    path = settings("local", None, tmp_path / "log")["spark.executorEnv.PYTHONPATH"]
    assert (Path(path) / "unisono" / "pipeline" / "spark" / "session.py").samefile(
        sys.modules["unisono.pipeline.spark.session"].__file__ or ""
    )


@pytest.mark.parametrize(
    ("master", "profile"),
    [
        (None, "local"),
        ("local[4]", "local"),
        ("local", "local"),
        ("local[2,1]", "local"),
        ("local-cluster[2,1,512]", "cluster"),
        ("spark://head:7077", "cluster"),
        ("yarn", "cluster"),
    ],
)
def test_which_masters_are_clusters(master: str | None, profile: str) -> None:
    assert profile_of(master) == profile


@pytest.mark.parametrize(
    "master", ["spark://head", "spark://head:port", "spark://:7077", "spark://head:99999", "spark://"]
)
def test_an_address_that_is_none_is_refused(master: str) -> None:
    with pytest.raises(UnisonoError, match="spark://HOST:7077"):
        cluster.reach(master)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_master_that_does_not_answer_is_said_at_once(call: Call, free_port: int, tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{free_port}"
    code, _, err = call("sweep", "quiet-lan", "--seeds", "0:1", "--out", tmp_path / "sweep", "--master", master)
    assert code == 2
    assert f"no Spark master answers at {master}" in err
    assert "check the address and that the master runs" in err


def test_any_of_several_masters_will_do(free_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert cluster.reach(f"spark://127.0.0.1:{free_port},{address}") == "127.0.0.1"
    assert cluster.reach("yarn") is None


def test_the_address_that_workers_see_is_the_one_towards_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cluster, "reach", lambda master: "10.0.0.7")
    assert cluster.settings("spark://head:7077")["spark.driver.host"] == "10.0.0.7"
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.8")
    assert "spark.driver.host" not in cluster.settings("spark://head:7077")


def test_the_python_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert cluster.python_of_workers("spark://127.0.0.1:7077") == sys.executable
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert cluster.python_of_workers("spark://head:7077") == version
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert cluster.python_of_workers("spark://head:7077") == "/opt/python"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, ...",
            r"another Python \(3.9\) .* PYSPARK_PYTHON=",
        ),
        ('java.io.IOException: Cannot run program "python3.11": error=2', "no python3.11; install Python"),
        ("...\nModuleNotFoundError: No module named 'pyarrow'\n", r"lacks something \(No module named 'pyarrow'\)"),
        ("[PACKAGE_NOT_INSTALLED] PyArrow >= 18 must be installed", "lacks a package"),
    ],
)
def test_errors_of_workers_say_what_to_do(text: str, words: str) -> None:
    told = cluster.why_workers_fail(text)
    assert told is not None
    assert re.search(words, told)


def test_a_session_that_no_master_takes_says_what_to_check() -> None:
    java = "An error occurred while calling None.X.\n: java.lang.A: outer\nCaused by: java.lang.B: inner\n\tat Y"
    told = cluster.why_not_started("spark://head:7077", java)
    assert re.search(r"not taken by spark://head:7077.*port of a master.*version.*: java\.lang\.B: inner$", told)
    assert cluster.why_not_started("yarn", "no\nyarn") == "Spark does not start on yarn: no"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("sweep", "quiet-lan", "--seeds", "4:4", "--out", "x"), "A below B"),
        (("sweep", "quiet-lan", "--out", "x"), "Missing option"),
        (("sweep", "quiet-lan", "--seeds", "0:4"), "Missing option"),
        (("sweep", "quite-lan", "--seeds", "0:4", "--out", "x"), "quiet-lan"),
        (("sweep", "quiet-lan", "--seeds", "0:4", "--out", "x", "--set", "loss=0,2"), "loss"),
        (("sweep", "quiet-lan", "--seeds", "0:4", "--out", "x", "--jobs", "2", "--master", "local"), "--jobs"),
        (("report", "x", "--master", "local", "--engine", "monitor"), "only Spark has a master"),
    ],
)
def test_misuse_is_refused(
    call: Call, arguments: tuple[str, ...], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = call(*arguments)
    assert code == 2
    assert complaint in err
    assert not list(tmp_path.iterdir())


def test_a_worker_that_crashed_is_no_fault_of_its_python() -> None:
    assert cluster.why_workers_fail("Python worker exited unexpectedly (crashed)") is None


def test_what_to_install_on_workers() -> None:
    worker = cluster.Worker("node-3", "3.11.7", ".so", "", ("pyarrow (No module named 'pyarrow')",))
    assert "node-3 lacks pyarrow" in cluster._what_to_install(worker)
    assert cluster._what_to_install(worker).endswith("on every worker: pip install pyarrow")
    other = cluster.Worker("node-4", "3.11.7", ".cpython-311-aarch64.so", "", ("msgspec (no)", "unisono (no)"))
    assert "install msgspec and xxhash there and set UNISONO_SHIP=code" in cluster._what_to_install(other)


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the commands of one driver came to on a cluster of two workers."""
    pytest.importorskip("pyspark")
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.raises(SystemExit):
        run(["simulate", "quiet-lan", "--seed", "0", *SWEEP[3:7], "--set", "loss=0.45", "--out", str(folder / "run")])
    with Standalone(folder / "spark") as spark:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYSPARK_PYTHON": str(spark.python),
        }
        environment.pop("SPARK_LOCAL_IP", None)
        program = [sys.executable, "-m", "tests.pipeline.on_cluster", spark.master, str(folder / "found.json")]
        commands = [
            "sweep",
            *SWEEP,
            "--out",
            str(folder / "sweep"),
            "--json",
            "--",
            "audit",
            str(folder / "run"),
            "--json",
        ]
        done = subprocess.run(
            [*program, PROPERTIES, *commands], env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return {"folder": folder, **json.loads((folder / "found.json").read_text(encoding="utf-8"))}


slow = pytest.mark.slow
together = pytest.mark.xdist_group("cluster")


@slow
@together
def test_workers_run_what_was_sent_to_them(found: dict[str, Any]) -> None:
    codes = [Path(code) for _, _, code, _ in found["workers"]]
    assert len(codes) == 2, "both workers answered"
    for code in codes:
        assert code.is_relative_to(found["folder"] / "spark")
        assert shipping.FOLDER in code.parts
    assert [missing for *_, missing in found["workers"]] == [[], []]


@slow
@together
def test_a_sweep_on_a_cluster_gives_the_verdicts_of_this_machine(found: dict[str, Any]) -> None:
    code, out, err = found["commands"][0]
    assert code == 1, err
    told = json.loads(out)
    rows = [row for path in (found["folder"] / "sweep" / RESULTS).iterdir() for row in read_piece(path)]
    there = {(row.point, row.seed): (row.verdict, row.violations, row.counters, row.marks) for row in rows}
    here = {}
    for point, loss in enumerate(("0", "0.45")):
        scenario = load("quiet-lan", ["duration=500ms", "settle=2500ms", f"loss={loss}"])
        for result in run_seeds([SeedJob(scenario, seed) for seed in range(4)], 1):
            outcome = result.outcome
            assert outcome is not None
            verdict = "violated" if outcome.violated else "held"
            here[point, result.seed] = (verdict, outcome.verdicts, outcome.counters, outcome.marks)
    assert there == here
    traces = [failure["trace"] for failure in told["failures"]]
    assert len(traces) == sum(verdict == "violated" for verdict, *_ in here.values()) > 0
    assert all(is_run_directory(found["folder"] / "sweep" / "traces" / trace) for trace in traces)


@slow
@together
def test_an_audit_on_a_cluster_gives_the_verdicts_of_this_machine(found: dict[str, Any]) -> None:
    code, out, err = found["commands"][1]
    assert code == 1, err
    there = {one["id"]: one["violations"] for one in json.loads(out)["properties"]}
    (report,) = audit_with_monitors([found["folder"] / "run"]).runs
    assert there == {name: report.counts.get(name, 0) for name in PROPERTIES.split(",")}
    assert there["L2"] > 0


def test_files_that_workers_do_not_see_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The workers of the tests share this machine; a context that stands for others has nothing of it."""

    class Elsewhere:
        master = "spark://head:7077"
        defaultParallelism = 1  # noqa: N815  # as Spark calls it

        def __init__(self, there: bool) -> None:
            self._there = there

        @property
        def sparkContext(self) -> Elsewhere:  # noqa: N802  # as Spark calls it
            return self

        def parallelize(self, numbers: range, parts: int) -> Elsewhere:
            return self

        def mapPartitions(self, look: Callable[[range], Iterator[tuple[str, str]]]) -> Elsewhere:  # noqa: N802  # as Spark calls it
            monkeypatch.setattr(os.path, "exists", lambda name: self._there)
            self._told = list(look(range(1)))
            monkeypatch.undo()
            return self

        def take(self, count: int) -> list[tuple[str, str]]:
            return self._told[:count]

    cluster.refuse_unseen(cast(Any, Elsewhere(True)), [tmp_path])
    with pytest.raises(TraceError, match=f"does not see {tmp_path}; on a cluster, runs must lie"):
        cluster.refuse_unseen(cast(Any, Elsewhere(False)), [tmp_path])
