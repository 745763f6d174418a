"""Spark on a cluster: its master is reached or an error says so, code is shipped, and workers are looked at first.

What would otherwise be silence for a minute, or a long trace from a worker, becomes one sentence that says what to do.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from unisono.errors import TraceError, UnisonoError
from unisono.pipeline.spark import shipping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_SECONDS = 5.0
WORKERS_SECONDS = 180.0
"""So long a cluster has to give the first core; on a busy machine an executor alone takes a minute to start."""

NEEDED = ("pyarrow", "numpy", *shipping.COMPILED, shipping.PACKAGE)
_PYTHON = "PYSPARK_PYTHON"
_LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([^\s:/\[\]]+)):(\d{1,5})")


class Worker(Struct, frozen=True, order=True):
    """A Python on a worker, as a task there sees it: `suffix` is that of compiled modules, `missing` what it lacks."""

    host: str
    python: str
    suffix: str
    code: str
    missing: tuple[str, ...]


def is_cluster(master: str | None) -> bool:
    """Whether work goes to other processes than this one and its children."""
    return master is not None and not re.fullmatch(r"local(\[.*\])?", master)


def reach(master: str) -> str | None:
    """The address of this machine that the master of a standalone cluster sees; None for clusters of other kinds."""
    if not master.startswith("spark://"):
        return None
    addresses = master.removeprefix("spark://").split(",")
    failures = []
    for address in addresses:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match[3]) < 65536:
            raise UnisonoError(f"{master!r} is not the address of a master; write it as spark://HOST:7077")
        try:
            with socket.create_connection((match[1] or match[2], int(match[3])), CONNECT_SECONDS) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            failures.append(f"{address}: {error.strerror or error}")
    raise UnisonoError(
        f"no Spark master answers at {master} ({'; '.join(failures)}); check the address and that the master runs,"
        " or leave --master out to use this machine"
    )


def settings(master: str) -> dict[str, str]:
    """What Spark is to be told for this cluster; raises where its master cannot be reached."""
    mine = reach(master)
    chosen = shipping.settings()
    if mine is not None and not (os.environ.get("SPARK_LOCAL_IP") or os.environ.get("SPARK_LOCAL_HOSTNAME")):
        chosen |= {"spark.driver.host": mine, "spark.driver.bindAddress": mine}
    return chosen


def why_not_started(master: str, error: object) -> str:
    """A sentence for a session that did not start although something answers at the address of its master."""
    text = str(error)
    if not master.startswith("spark://"):
        return f"Spark does not start on {master}: {first_line(text)}"
    return (
        f"Spark was not taken by {master}, although something answers there; check that it is the port of a master"
        f" (7077 by default, not that of its web page) and that Spark there has the version of this one: {_cause(text)}"
    )


def python_of_workers(master: str) -> str:
    """The Python that workers run: that of $PYSPARK_PYTHON, this one where they are here, else one of its version."""
    named = os.environ.get(_PYTHON)
    if named:
        return named
    here = master.startswith((f"spark://{_LOOPBACK}:", "spark://localhost:", "local-cluster"))
    return sys.executable if here else f"python{sys.version_info.major}.{sys.version_info.minor}"


def check(session: SparkSession, master: str) -> list[Worker]:
    """The workers that answered first. Raises where there are none, or where they lack what the work needs."""
    found: list[Worker] = []
    failure: list[BaseException] = []
    context = session.sparkContext

    def look() -> None:
        try:
            found.extend(look_at_workers(session))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(WORKERS_SECONDS)
    if thread.is_alive():
        context.cancelAllJobs()
        raise UnisonoError(
            f"{master} gave no worker within {WORKERS_SECONDS:.0f} s; start workers, or wait until other applications"
            " end, and check that workers can reach this machine"
            f" at {context.getConf().get('spark.driver.host')} (SPARK_LOCAL_IP chooses another address)"
        )
    if failure:
        told = why_workers_fail(str(failure[0]))
        raise UnisonoError(told or f"workers of {master} fail: {first_line(failure[0])}") from failure[0]
    for worker in found:
        if worker.missing:
            raise UnisonoError(_what_to_install(worker))
    return found


def look_at_workers(session: SparkSession) -> list[Worker]:
    """What tasks see of Python where they run, each once. It needs nothing of what it looks for."""
    needed = NEEDED

    # A function within a function travels by value: the workers may lack the module that it is written in.
    def look(numbers: Iterable[int]) -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
        import importlib
        import platform
        import socket
        import sysconfig

        for _ in numbers:
            missing = []
            code = ""
            for name in needed:
                try:
                    module = importlib.import_module(name)
                except ImportError as error:
                    missing.append(f"{name} ({error})")
                else:
                    code = str(module.__file__)
            suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
            yield socket.gethostname(), platform.python_version(), suffix, code, tuple(missing)

    context = session.sparkContext
    tasks = max(2, context.defaultParallelism)
    told = context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    return sorted({Worker(*one) for one in told})


def why_workers_fail(text: str) -> str | None:
    """A sentence for an error of a task that has to do with the worker's Python and not with the work."""
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    if "PYTHON_VERSION_MISMATCH" in text:
        match = re.search(r"[Pp]ython in worker has different version:? ?\(?([\d., ]+)", text)
        theirs = f" ({match[1].strip(' .').replace(', ', '.')})" if match else ""
        return (
            f"the workers have another Python{theirs} than this machine ({mine}); install Python {mine} there and name"
            f" it: {_PYTHON}=/path/on/the/workers/python{mine}"
        )
    if (match := re.search(r'Cannot run program "([^"]+)"', text)) is not None:
        return (
            f"the workers have no {match[1]}; install Python {mine} there, or name the one they have:"
            f" {_PYTHON}=/path/on/the/workers/python{mine}"
        )
    if (match := re.search(r"(?:ModuleNotFoundError|ImportError): (.+)", text)) is not None:
        return f"Python on the workers lacks something ({match[1].strip()}); docs/clusters.md says what must be there"
    if "PACKAGE_NOT_INSTALLED" in text or "UNSUPPORTED_PACKAGE_VERSION" in text:
        return f"Python on the workers lacks a package: {first_line(text)}; docs/clusters.md says what must be there"
    return None


def _what_to_install(worker: Worker) -> str:
    names = [one.partition(" ")[0] for one in worker.missing]
    told = f"Python {worker.python} on worker {worker.host} lacks {', '.join(worker.missing)}"
    if worker.suffix != sysconfig.get_config_var("EXT_SUFFIX") and set(names) & {*shipping.COMPILED, shipping.PACKAGE}:
        return (
            f"{told}: it is of another kind than this machine ({worker.suffix}), so that compiled packages cannot be"
            f" sent; install {' and '.join(shipping.COMPILED)} there and set {shipping.ENVIRONMENT}=code"
        )
    wanted = [name for name in names if name != shipping.PACKAGE] or names
    return f"{told}; on every worker: pip install {' '.join(wanted)}"


def refuse_unseen(session: SparkSession, paths: Sequence[Path]) -> None:
    """Raise where workers of a cluster do not see these folders of this machine."""
    if not is_cluster(session.sparkContext.master):
        return
    names = [str(path.resolve()) for path in paths]

    def look(numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
        import os
        import socket

        for _ in numbers:
            unseen = next((name for name in names if not os.path.exists(name)), None)
            if unseen is not None:
                yield socket.gethostname(), unseen

    context = session.sparkContext
    tasks = max(2, context.defaultParallelism)
    for host, name in context.parallelize(range(tasks), tasks).mapPartitions(look).take(1):
        raise TraceError(
            f"worker {host} does not see {name}; on a cluster, runs must lie in a folder that every machine has under"
            " the same name, as Parquet and not as spools; or leave --master out to audit on this machine"
        )


def _cause(text: str) -> str:
    """The innermost reason in what Java says."""
    causes = re.findall(r"(?:Caused by: |^: )(.+)", text, re.MULTILINE)
    return causes[-1].strip() if causes else first_line(text)


def first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]
