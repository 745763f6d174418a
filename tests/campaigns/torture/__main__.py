"""A minute of torture for real processes on this machine, seed by seed, judged by what the applications logged.

`make torture` runs twenty seeds of groups and of sessions: members are killed, stopped, leave, come and come again,
talk, burst and send 5 MB, and one membership server of three is killed. Then all is quiet, one view with all must
come, and everybody leaves. `SEEDS=3:5 KIND=groups make torture` chooses. Traces are recorded beside for diagnosis;
the checks do not read them.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic

from tests.campaigns.torture.checker import SHOWN, Verdict, check
from tests.campaigns.torture.driver import drive
from tests.campaigns.torture.plan import KINDS, Plan, make_plan

COLUMNS = "{:<10}{:>5}  {:<10}{:>6}{:>6}{:>6}{:>7}{:>6}{:>12}{:>9}{:>7}{:>7}  {}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.torture", description=__doc__)
    parser.add_argument("--kind", choices=[*KINDS, "both"], default="both")
    parser.add_argument("--seeds", default="0:20", help="one, or from:to without the last")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the torture of one seed lasts")
    parser.add_argument("--transport", choices=["multicast", "mesh"], help="drawn by default")
    parser.add_argument("--keep", action="store_true", help="keep the logs of every seed, not of failing ones only")
    parser.add_argument("--out", type=Path, help="where logs go; a new folder by default")
    chosen = parser.parse_args()
    first, _, end = chosen.seeds.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    kinds = KINDS if chosen.kind == "both" else (chosen.kind,)
    out = (chosen.out or Path(mkdtemp(prefix="unisono-torture-"))).resolve()
    failed: list[str] = []
    print(
        COLUMNS.format(
            "kind",
            "seed",
            "transport",
            "lives",
            "kills",
            "stops",
            "leaves",
            "views",
            "deliveries",
            "one view",
            "load",
            "time",
            "verdict",
        )
    )
    for seed in seeds:
        for kind in kinds:
            failed += torture(make_plan(kind, seed, chosen.seconds, chosen.transport), out, chosen.keep)
    if failed:
        print("\nnot as demanded; each may be tried again:", *failed, sep="\n  ")
        return 1
    if not any(out.iterdir()):
        out.rmdir()
    print("as demanded")
    return 0


def torture(plan: Plan, out: Path, keep: bool) -> list[str]:
    """One seed; the command that repeats it, and where its logs are, if not all was as demanded."""
    folder = out / f"{plan.kind}-{plan.seed}"
    began = monotonic()
    drive(plan, folder)
    verdict = check(folder)
    done = [deed.action for deed in plan.deeds]
    meeting = "never" if verdict.meeting_seconds is None else f"{verdict.meeting_seconds:.1f} s"
    print(
        COLUMNS.format(
            plan.kind,
            plan.seed,
            plan.transport,
            len(plan.casts),
            done.count("kill"),
            done.count("stop"),
            done.count("leave"),
            verdict.counts["views"],
            verdict.counts["deliveries"],
            meeting,
            f"{verdict.load:.1f}",
            f"{monotonic() - began:.0f} s",
            "not as demanded: " + ", ".join(verdict.complaints) if verdict.complaints else "as demanded",
        ),
        flush=True,
    )
    show(verdict)
    if verdict.complaints:
        return [f"{command(plan)}; its logs, and traces, are in {folder}"]
    if not keep:
        rmtree(folder)
    return []


def show(verdict: Verdict) -> None:
    for name, complaints in verdict.complaints.items():
        for complaint in complaints[:SHOWN]:
            print(f"    {name}: {complaint}")
        if len(complaints) > SHOWN:
            print(f"    {name}: and {len(complaints) - SHOWN} more")
    sys.stdout.flush()


def command(plan: Plan) -> str:
    """The command that tries a seed again."""
    return (
        f"python -m tests.campaigns.torture --kind {plan.kind} --seeds {plan.seed} --seconds {plan.seconds:g}"
        f" --transport {plan.transport} --keep"
    )


if __name__ == "__main__":
    os.environ.pop("UNISONO_REALM", None)
    sys.exit(main())
