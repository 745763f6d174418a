"""Every damage to a large trace is named by Spark as the monitors name it, place by place.

`make large-damages` runs it; it takes long, since damages look for their place row by row. For less:
`python -m tests.campaigns.large_damages --deliveries 20000 --names removed_delivery changed_body`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.pipeline.traces import of_run
from unisono.pipeline.audit import audit
from unisono.pipeline.large import LargeTrace, write_large_run
from unisono.pipeline.monitor_audit import audit_rows
from unisono.pipeline.spark.session import running
from unisono.properties.damages import DAMAGES, SESSION_DAMAGES
from unisono.trace.run_directory import read_run, write_run

SLOW = {
    "deaf_at_the_end",
    "never_delivered_in_the_view",
    "own_message_unheard_at_the_end",
    "own_message_unheard_before_a_view",
    "sent_in_another_view",
    "delivered_in_the_next_view",
    "cross_group_inversion",
}
"""These take a time that grows with the square of the trace: only by name."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=int, default=200_000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--names", nargs="+", default=[name for name in DAMAGES if name not in SLOW | SESSION_DAMAGES])
    parser.add_argument("--at-once", type=int, default=8, help="copies in one audit")
    arguments = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="unisono-") as folder, running("local") as session:
        write_large_run(Path(folder) / "good", LargeTrace(arguments.deliveries, processes=arguments.processes))
        rows = read_run(Path(folder) / "good")
        for begin in range(0, len(arguments.names), arguments.at_once):
            names = arguments.names[begin : begin + arguments.at_once]
            copies = {name: DAMAGES[name].apply(list(rows), Random(1)) for name in names}
            print("does not fit:", [name for name, changed in copies.items() if changed is None], flush=True)
            everything = [row for name, changed in copies.items() for row in of_run(changed or [], name)]
            if not everything:
                continue
            target = Path(folder) / "damaged"
            write_run(target, everything, scenario_text="", summary={})
            by_monitors = {one.run: one for one in audit_rows(everything)}
            for one in audit(session, [target]).runs:
                expected = by_monitors[one.run]
                places = [item.place() for item in one.violations] == [item.place() for item in expected.violations]
                good = one.counts == expected.counts and places and set(DAMAGES[one.run].breaks) <= set(one.counts)
                missed += not good
                print("ok" if good else "WRONG", one.run, one.counts, "" if good else expected.counts, flush=True)
    print(f"{missed} damages are not named as they should be")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
