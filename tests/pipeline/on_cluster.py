"""A program that the tests run as the driver of a cluster: several commands in one session, since each start costs.

Arguments: the master, a file for what it found, the properties to audit (few, or `all`), then the arguments of each
command, with `--` between two.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from itertools import groupby
from pathlib import Path

from unisono.cli.main import run
from unisono.pipeline.spark import cluster
from unisono.pipeline.spark.session import running
from unisono.pipeline.spark.waves import QUICK

SMALL = {
    **QUICK,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


def main() -> None:
    master, target, properties, *rest = sys.argv[1:]
    with running("cluster", master, more=SMALL) as session:
        found: dict[str, object] = {"workers": [list(vars_of(one)) for one in cluster.look_at_workers(session)]}
        if properties != "all":
            keep_only(properties.split(","))
        commands = [list(group) for between, group in groupby(rest, lambda word: word == "--") if not between]
        found["commands"] = [call(command) for command in commands]
    Path(target).write_text(json.dumps(found), encoding="utf-8")


def vars_of(worker: cluster.Worker) -> tuple[object, ...]:
    return worker.host, worker.python, worker.code, worker.missing


def keep_only(wanted: list[str]) -> None:
    """An audit looks at every property; on a busy machine that takes minutes."""
    from unisono.properties.registry import PROPERTIES

    for name in list(PROPERTIES):
        if name not in wanted:
            del PROPERTIES[name]


def call(command: list[str]) -> list[object]:
    """Exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            run(command)
        except SystemExit as ended:
            code = ended.code or 0
    return [code, out.getvalue(), err.getvalue()]


if __name__ == "__main__":
    main()
