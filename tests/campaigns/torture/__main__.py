"""A minute of torture for real processes on this machine, seed by seed, judged by what the applications logged.

`make torture` runs twenty seeds of groups and of sessions: members are killed, stopped, leave, come and come again,
talk, burst and send 5 MB, and one membership server of three is killed. Then all is quiet, one view with all must
come, and everybody leaves. `make torture KIND=groups SEEDS=3:5` chooses; `KIND=leaves SEEDS=0:50` has two members leave
beside a stopped one. Traces are recorded beside for diagnosis; the checks do not read them.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic

from tests.campaigns.torture.checker import SHOWN, Verdict, check
from tests.campaigns.torture.driver import drive
from tests.campaigns.torture.leaves import make_leaves
from tests.campaigns.torture.plan import Kind, Plan, make_plan

KINDS: dict[str, tuple[Kind, ...]] = {
    "groups": ("groups",),
    "sessions": ("sessions",),
    "both": ("groups", "sessions"),
    "leaves": ("leaves",),
}
COLUMNS = {
    "kind": "<9",
    "seed": ">4",
    "transport": "<10",
    "lives": ">5",
    "kills": ">5",
    "stops": ">5",
    "leaves": ">6",
    "owed": ">5",
    "views": ">5",
    "deliveries": ">10",
    "one view": ">8",
    "load": ">5",
    "others": ">6",
    "time": ">6",
    "verdict": "",
}
"""Of the table: `owed` counts leavers' last messages times those who stay; `load` is that of the machine when all was
quiet, `others` how many cores were busy with other things."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.torture", description=__doc__)
    parser.add_argument("--kind", choices=list(KINDS), default="both")
    parser.add_argument("--seeds", default="0:20", help="one, or from:to without the last")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long groups and sessions are tortured")
    parser.add_argument("--transport", choices=["multicast", "mesh"], help="drawn by default")
    parser.add_argument("--keep", action="store_true", help="keep the logs of every seed, not of failing ones only")
    parser.add_argument("--out", type=Path, help="where logs go; a new folder by default")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that all processes are ended
    first, _, end = chosen.seeds.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    out = (chosen.out or Path(mkdtemp(prefix="unisono-torture-"))).resolve()
    plans = [plan_of(kind, seed, chosen) for seed in seeds for kind in KINDS[chosen.kind]]
    row({name: name for name in COLUMNS})
    failed = [again for plan in plans for again in torture(plan, out, chosen.keep)]
    if failed:
        print(f"\n{len(failed)} of {len(plans)} not as demanded; each may be tried again:", *failed, sep="\n  ")
        return 1
    if not chosen.keep:
        out.rmdir()
    print(f"all {len(plans)} as demanded")
    return 0


def plan_of(kind: Kind, seed: int, chosen: argparse.Namespace) -> Plan:
    if kind == "leaves":
        return make_leaves(seed, chosen.transport)
    return make_plan(kind, seed, chosen.seconds, chosen.transport)


def torture(plan: Plan, out: Path, keep: bool) -> list[str]:
    """One seed; the command that repeats it, and where its logs are, if not all was as demanded."""
    folder = out / f"{plan.kind}-{plan.seed}"
    began = monotonic()
    drive(plan, folder)
    verdict = check(folder)
    done = [deed.action for deed in plan.deeds]
    row(
        {
            "kind": plan.kind,
            "seed": str(plan.seed),
            "transport": plan.transport,
            "lives": str(len(plan.casts)),
            "kills": str(done.count("kill")),
            "stops": str(done.count("stop")),
            "leaves": str(verdict.counts["leaves"]),
            "owed": str(verdict.counts["owed"]),
            "views": str(verdict.counts["views"]),
            "deliveries": str(verdict.counts["deliveries"]),
            "one view": "never" if verdict.meeting_seconds is None else f"{verdict.meeting_seconds:.1f} s",
            "load": f"{verdict.load:.1f}",
            "others": f"{verdict.others:.1f}",
            "time": f"{monotonic() - began:.0f} s",
            "verdict": "not as demanded: " + ", ".join(verdict.complaints) if verdict.complaints else "as demanded",
        }
    )
    show(verdict)
    if verdict.complaints:
        return [f"{command(plan)}\n    its logs, and traces, are in {folder}"]
    if not keep:
        rmtree(folder)
    return []


def row(cells: dict[str, str]) -> None:
    print(*(f"{cells[name]:{shape}}" for name, shape in COLUMNS.items()), sep="  ", flush=True)


def show(verdict: Verdict) -> None:
    for name, complaints in verdict.complaints.items():
        for complaint in complaints[:SHOWN]:
            print(f"    {name}: {complaint}")
        if len(complaints) > SHOWN:
            print(f"    {name}: and {len(complaints) - SHOWN} more")
    sys.stdout.flush()


def command(plan: Plan) -> str:
    """The command that tries a seed again."""
    length = "" if plan.kind == "leaves" else f" --seconds {plan.seconds:g}"
    return (
        f"python -m tests.campaigns.torture --kind {plan.kind} --seeds {plan.seed}{length}"
        f" --transport {plan.transport} --keep"
    )


if __name__ == "__main__":
    sys.exit(main())
