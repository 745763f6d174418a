"""A Spark session from packages of PyPI alone: Java, Python and addresses are set so that it starts anywhere.

Profiles: `test` is for little data and starts quickly, `local` takes the cores of this machine, `cluster` leaves sizes
to the cluster whose address is given.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from unisono.errors import UnisonoError
from unisono.pipeline.spark import cluster, shipping
from unisono.pipeline.spark.java import JavaFrom, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Profile = Literal["test", "local", "cluster"]

LOOPBACK = "127.0.0.1"

_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
"""
"""Why a task failed comes with the error of the query: a second time, in Java's words, it would hide what is said."""

_ALWAYS = {
    "spark.app.name": "unisono",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Otherwise every call notes its line of Python in Java, for messages that nobody here reads.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_ON_THIS_MACHINE = {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
_FORGETFUL = {
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
}
"""Nothing is remembered of jobs that are over."""
_LITTLE = {
    **_FORGETFUL,
    "spark.broadcast.blockSize": "64k",
    "spark.broadcast.compress": "false",
    "spark.buffer.pageSize": "256k",
    "spark.shuffle.compress": "false",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
"""For many jobs over little data: small buffers, and nothing compressed."""
_PROFILES: dict[Profile, dict[str, str]] = {
    "test": {
        **_ON_THIS_MACHINE,
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "1",
        **_LITTLE,
    },
    "local": {
        **_ON_THIS_MACHINE,
        "spark.master": "local[*]",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "16",
        **_FORGETFUL,
    },
    "cluster": {},
}
# An audit is many short jobs, and what is long runs in Python: the second compiler would take more than it gives. By
# default the code cache of one compiler is so small that code is thrown away and compiled again.
_ONE_COMPILER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
_JAVA_OPTIONS: dict[Profile, str] = {
    "test": f"{_ONE_COMPILER} -Xms1g",
    "local": f"{_ONE_COMPILER} -Xms1g",
    "cluster": "",
}


def profile_of(master: str | None) -> Profile:
    """The profile for work of any size under this master."""
    return "cluster" if cluster.is_cluster(master) else "local"


def start(
    profile: Profile = "local",
    master: str | None = None,
    java: JavaFrom = "any",
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session of this profile; one that runs in this process already is returned as it is, but never for a cluster's.

    A cluster needs the address of its master; its workers are given the code and looked at before this returns.
    `java` forces where Java comes from, `more` are settings of Spark that come before those of the profile.
    """
    if profile == "cluster" and master is None:
        raise UnisonoError("a cluster needs the address of its master, such as spark://host:7077")
    already = _running_session()
    if already is not None and (profile != "cluster" or already.sparkContext.master == master):
        return already
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    on_cluster = cluster.settings(master) if profile == "cluster" and master is not None else {}
    if already is not None:
        raise UnisonoError(f"this process runs Spark at {already.sparkContext.master} already; stop that session first")
    os.environ["JAVA_HOME"] = str(java_home(java))
    if profile == "cluster" and master is not None:
        os.environ["PYSPARK_PYTHON"] = cluster.python_of_workers(master)
    else:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    builder = SparkSession.builder
    with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
        chosen = {**settings(profile, master, _logging_file(folder)), **on_cluster, **(more or {})}
        for key, value in chosen.items():
            builder = builder.config(key, value)
        try:
            session = builder.getOrCreate()
        except (PySparkException, Py4JError, OSError) as error:
            if profile == "cluster" and master is not None:
                raise UnisonoError(cluster.why_not_started(master, error)) from error
            raise UnisonoError(f"Spark does not start: {error}") from error
    if profile != "cluster" or master is None:
        return session
    try:
        cluster.check(session, master)
    except BaseException:
        session.stop()
        raise
    return session


@contextmanager
def running(
    profile: Profile = "local",
    master: str | None = None,
    java: JavaFrom = "any",
    more: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session for a while: what was started is stopped at the end, what ran before goes on."""
    from_before = _running_session()
    session = start(profile, master, java, more)
    try:
        yield session
    finally:
        if from_before is None:
            session.stop()


def _running_session() -> SparkSession | None:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UnisonoError("Spark is not installed; install it with: pip install 'unisono[lab]'") from None
    return SparkSession.getActiveSession()


def is_on_this_machine(master: str | None) -> bool:
    """Whether this master is Spark within one process, not a cluster."""
    return not cluster.is_cluster(master)


def settings(profile: Profile, master: str | None, logging_file: Path) -> dict[str, str]:
    """What a profile asks of Spark."""
    options = f"{_JAVA_OPTIONS[profile]} -Dlog4j2.configurationFile={logging_file.as_uri()}".strip()
    chosen = {**_ALWAYS, **_PROFILES[profile], "spark.driver.extraJavaOptions": options}
    if profile != "cluster":
        # However this package came to be imported here, workers import the same one.
        chosen["spark.executorEnv.PYTHONPATH"] = shipping.worker_path()
    return chosen if master is None else {**chosen, "spark.master": master}


def _logging_file(folder: str) -> Path:
    """Errors only, from the first moment on: Spark reads its own choice of level too late."""
    path = Path(folder) / "log4j2.properties"
    path.write_text(_LOGGING, encoding="utf-8")
    return path
