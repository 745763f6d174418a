"""A member joins a group with a large state while messages go on, and who gives it the state is killed half way.

`make state` runs it with 500 MB and 5,000 messages of 1,000 B a second, until the newcomer has the state and has caught
up with the messages, which go on. It prints the memory of every process, the chunks that came and came again, the
messages of every second at who sends and who receives, who was left behind, and whether the states are identical in the
end. A smaller one: `python -m tests.campaigns.state --size 20 --rate 500`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from tests.network.processes import Talker
from unisono import SettingError
from unisono.settings import read_setting

MEMORY_GOAL_MB = 64
LEAST_SHARE = 0.95
"""So much of the load must go on meanwhile, the second of suspicion after the kill included."""
CHUNK_BYTES = 256 * 1024
NEAR = 1000
"""With fewer messages waiting a newcomer has caught up."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=500, help="the state, in MB")
    parser.add_argument("--hot", type=int, default=16, help="how much of it the messages change, in MB")
    parser.add_argument("--rate", type=int, default=5000, help="messages a second")
    parser.add_argument("--bytes", type=int, default=1000, help="the size of a message")
    parser.add_argument("--datagram", default="60000B", help="the largest datagram")
    options = parser.parse_args()
    try:
        read_setting("datagram_bytes", options.datagram)
    except SettingError as error:
        parser.error(str(error))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, datagrams of {options.datagram}", flush=True)
    shared = {"hot": options.hot * 10**6, "datagram_bytes": options.datagram}
    with TemporaryDirectory(prefix="unisono-state-") as directory:
        complaints = run(Path(directory), options.size * 10**6, options.rate, options.bytes, shared)
    print("\n".join(complaints) if complaints else "as demanded")
    return 1 if complaints else 0


def run(directory: Path, size: int, rate: int, message_bytes: int, shared: dict[str, object]) -> list[str]:
    """What was not as demanded."""
    realm = f"state-{os.getpid()}"
    os.environ["UNISONO_INTERFACE"] = "lo"
    with ExitStack() as stack:

        def member(name: str, size: int) -> Talker:
            settings = {"name": name, "realm": realm, "directory": str(directory / name), "size": size, **shared}
            return stack.enter_context(
                closing(Talker(name, ["-m", "tests.network.state_member", json.dumps(settings)]))
            )

        began = monotonic()
        old = {"ada": member("ada", size)}
        wait_for(old["ada"], "received")
        old["bob"] = member("bob", size)
        wait_for(old["bob"], "received")
        source = member("source", 0)
        wait_for(source, "ready")
        print(f"two members have {size / 1e6:.0f} MB after {monotonic() - began:.1f} s", flush=True)
        source.tell(f"load {rate} {message_bytes}")
        for one in (source, *old.values()):
            one.tell("base")
        sleep(5)  # the load comes to its pace; nothing is waited for here
        before = {one.name: len(seconds_of(one)) for one in (source, *old.values())}
        used = {one.name: cpu_seconds(one) for one in (source, *old.values())}
        new = member("new", size)
        wait_for(new, "ready")
        began = monotonic()
        halfway(new)
        provider = next(line.split()[3] for line in new.lines if line.startswith("progress"))
        survivor = next(one for name, one in old.items() if name != provider)
        killed_memory = ask(old[provider], "memory")
        print(f"{provider} is killed {monotonic() - began:.1f} s after the join, half way", flush=True)
        old[provider].kill()
        wait_for(new, "received")
        received = next(line.split() for line in new.lines if line.startswith("received"))
        print(
            f"{received[2]} bytes are here {monotonic() - began:.1f} s after the join, from {received[1]}", flush=True
        )
        complaints = catches_up(new)
        seconds = monotonic() - began
        print(f"the newcomer has caught up {seconds:.1f} s after the join", flush=True)
        for one in (source, survivor, new):
            spent = cpu_seconds(one) - used.get(one.name, 0.0)
            print(f"{one.name} used {spent / seconds:.2f} of a core meanwhile")
        sent, took = rates(source, before), rates(survivor, before)
        waiting = [row[2] for row in seconds_of(new)]
        source.tell("halt")
        wait_for(source, "halted")
        complaints += until_equal(new, survivor)
        print(f"source sent a second: {[row[0] for row in sent]}")
        print(f"{provider} took a second, until it was killed: {[row[1] for row in rates(old[provider], before)]}")
        print(f"{survivor.name} took a second: {[row[1] for row in took]}")
        print(f"new had waiting on disk after each second: {waiting}")
        complaints += [
            f"{mean:.0f} messages a second {what}, not {rate}"
            for what, mean in (("sent", mean_of(sent, 0)), (f"taken by {survivor.name}", mean_of(took, 1)))
            if mean < LEAST_SHARE * rate
        ]
        print(f"mean of these: {mean_of(sent, 0):.0f} sent, {mean_of(took, 1):.0f} taken by {survivor.name}")
        for one in (source, survivor, new):
            complaints += [f"{one.name}: {line}" for line in one.lines if line.startswith("trouble")]
        complaints += judge_chunks(new, size)
        for one, words in (
            (old[provider], killed_memory),
            *((one, ask(one, "memory")) for one in (survivor, new, source)),
        ):
            base, peak = int(words[1]) / 1024, int(words[2]) / 1024
            print(f"memory of {one.name}: {base:.1f} MB before, at most {peak:.1f} MB: {peak - base:.1f} MB more")
            if peak - base > MEMORY_GOAL_MB:
                complaints.append(f"{one.name} took {peak - base:.1f} MB more")
    return complaints


def judge_chunks(new: Talker, size: int) -> list[str]:
    counters = json.loads(" ".join(ask(new, "counters")[1:]))
    came, again = counters["transfer: chunks received"], counters.get("transfer: a chunk came again", 0)
    print(f"chunks: {-(-(size + 8) // CHUNK_BYTES)} in the state, {came} came, {again} of them came again")
    return [f"{again} chunks came again"] if again else []


def seconds_of(one: Talker) -> list[tuple[int, ...]]:
    """What a member sent and took in each second, and what waited."""
    return [tuple(map(int, line.split()[1:])) for line in one.lines if line.startswith("second")]


def rates(one: Talker, before: dict[str, int]) -> list[tuple[int, ...]]:
    """The seconds since the newcomer was started."""
    return seconds_of(one)[before[one.name] :]


def mean_of(seconds: list[tuple[int, ...]], place: int) -> float:
    return sum(row[place] for row in seconds) / max(len(seconds), 1)


def cpu_seconds(one: Talker) -> float:
    fields = Path(f"/proc/{one.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def catches_up(new: Talker) -> list[str]:
    """Wait until next to nothing waits for the newcomer's application, while messages go on."""

    def near(lines: list[str]) -> bool:
        after = lines[next(place for place, line in enumerate(lines) if line.startswith("received")) :]
        told = [line for line in after if line.startswith("second")]
        return bool(told) and int(told[-1].split()[3]) < NEAR

    for _ in range(5):
        try:
            new.wait(near, "that it has caught up")
        except AssertionError:
            print(f"not yet: {seconds_of(new)[-1:]}", flush=True)
            continue
        return []
    return ["the newcomer never caught up"]


def wait_for(one: Talker, word: str) -> None:
    for _ in range(10):  # a large state takes its time
        try:
            one.wait(lambda lines: any(line.startswith(word) for line in lines), word)
        except AssertionError:
            continue
        return
    raise AssertionError(f"{one.name} never said {word}: {one.lines[-20:]}")


def halfway(new: Talker) -> None:
    def half(lines: list[str]) -> bool:
        told = [line.split() for line in lines if line.startswith("progress")]
        return bool(told) and int(told[-1][1]) * 2 >= int(told[-1][2]) > 0

    for _ in range(10):
        try:
            new.wait(half, "that half has come")
        except AssertionError:
            print(f"not half way yet: {new.lines[-1:]}", flush=True)
            continue
        return
    raise AssertionError(f"half never came: {new.lines[-40:]}")


def until_equal(one: Talker, other: Talker) -> list[str]:
    digests: list[list[str]] = []
    for _ in range(60):
        digests = [ask(talker, "digest") for talker in (one, other)]
        if digests[0] == digests[1]:
            print(f"identical: {digests[0][1]} messages, {digests[0][2]} bytes, {digests[0][3]}", flush=True)
            return []
        sleep(1)
    return [f"the states differ: {digests}"]


def ask(one: Talker, word: str) -> list[str]:
    asked = sum(line.startswith(word) for line in one.lines)
    one.tell(word)
    one.wait(lambda lines: sum(line.startswith(word) for line in lines) > asked, word)
    return [line for line in one.lines if line.startswith(word)][-1].split()


if __name__ == "__main__":
    sys.exit(main())
