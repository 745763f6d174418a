"""Builds of a lake from several machines: nobody removes what may be the work of another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from unisono.pipeline.workplace import Workplace


def test_only_what_ended_processes_of_this_machine_left_is_removed(tmp_path: Path) -> None:
    with Workplace(tmp_path) as own:
        machine, process, started = own.name.split("~")
    assert list(tmp_path.iterdir()) == []
    host, boot, processes = machine.rsplit("_", 2)
    assert int(process) == os.getpid()
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    gone = int(ended.stdout)
    left = [
        f"{machine}~{gone}~1",
        f"{machine}~{process}~{int(started) - 1}",  # the number was given to this process since
    ]
    others = [
        f"elsewhere_{boot}_{processes}~{gone}~1",
        f"{host}_00000000-0000-0000-0000-000000000000_{processes}~{gone}~1",  # a machine of the same name
        f"{host}_{boot}_1~{gone}~1",  # a container of the same kernel
        f"{gone}",
        "of-somebody-else",
    ]
    for name in left + others:
        (tmp_path / ".work" / name / "half").mkdir(parents=True)
    with Workplace(tmp_path) as work:
        assert sorted(path.name for path in work.parent.iterdir()) == sorted([work.name, *others])
        beside = (
            "import sys, pathlib, unisono.pipeline.workplace as w\nwith w.Workplace(pathlib.Path(sys.argv[1])): pass"
        )
        subprocess.run([sys.executable, "-c", beside, str(tmp_path)], check=True)
        assert work.exists()  # another process of this machine sees that this one lives
    assert sorted(path.name for path in (tmp_path / ".work").iterdir()) == sorted(others)
