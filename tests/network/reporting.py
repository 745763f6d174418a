"""A process that reports made-up rows to a collector until it is told to end, and notes what was acknowledged.

Arguments: the collector, the run, its name, and the file for the numbers that were acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from unisono.engine import Record
from unisono.runtime import reporter
from unisono.runtime.tracing import Tracer
from unisono.trace.schema import GaugeRow, MembershipRow

TURN_SECONDS = 0.002
ROWS = 20


async def main(address: str, run: str, name: str, noted: str) -> None:
    reporter.REPORT_SECONDS = 0.005
    tracer = Tracer(None, name, run, collector=address)
    assert tracer._reporter is not None
    done = tracer._reporter._done

    with Path(noted).open("a", encoding="ascii", buffering=1) as file:

        def note(number: int) -> reporter.Sealed | None:
            sealed = done(number)
            if sealed is not None:
                file.write(f"{number}\n")
            return sealed

        tracer._reporter._done = note  # type: ignore[method-assign]  # to see acknowledgements from outside
        loop = asyncio.get_running_loop()
        tracer.start(loop, lambda reason: print(reason, flush=True))
        tracer.observe(Record(MembershipRow(kind="START", process=name, incarnation=time.time_ns())), 1)
        told = loop.run_in_executor(None, sys.stdin.readline)
        rows = 1
        print("reports", flush=True)
        while not told.done():
            for _ in range(ROWS):
                tracer.observe(Record(GaugeRow(kind="GAUGE", name="window", value=rows)), time.monotonic_ns())
                rows += 1
            tracer.flush()
            await asyncio.sleep(TURN_SECONDS)
        tracer.close(time.monotonic_ns(), ended=True)
        await tracer.drain(60.0)
        print(f"rows {rows + 1} unacknowledged {tracer._reporter.unacknowledged}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
