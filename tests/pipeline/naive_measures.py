"""The joined tables and every measure once more, in plain Python over the rows of a small trace, unlike Spark.

Slow and short: for each thing that is measured all rows are gone through again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from unisono.properties.promises import exempt_services
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    GaugeRow,
    MembershipRow,
    RepairRow,
    SendRow,
    StatisticRow,
    ViewRow,
)

Key = tuple[str, str, str, str]
"""Run, group, measure and key of a value."""
GAUGES = {
    "datagrams sent": ("datagrams a second", 1e9),
    "datagram bytes sent": ("bytes a second", 1e9),
    "control bytes sent": ("control sent", 1e9),
    "control bytes received": ("control received", 1e9),
    "blocked by window nanoseconds": ("blocked by window", 1),
    "blocked by view nanoseconds": ("blocked by view", 1),
}
NOT_AGREED = exempt_services("M5", None)


def name(process: str, incarnation: int) -> str:
    return f"{process}~{incarnation:x}"


def moment(row: AnyRow) -> int:
    return row.at if row.truth is None else row.truth


def clock(row: AnyRow) -> str | None:
    return row.host if row.truth is None else None


def stream(row: SendRow | RepairRow) -> str | None:
    """Where sequences are counted anew in every view, that view."""
    if row.service != "VS":
        return None
    return row.agreed if isinstance(row, SendRow) else row.view


def one(values: Iterable[Any]) -> bool:
    return len(set(values)) == 1


def messages(rows: Sequence[AnyRow]) -> list[dict[str, Any]]:
    sends: dict[tuple[Any, ...], SendRow] = {}
    for send in sorted((row for row in rows if isinstance(row, SendRow)), key=lambda row: row.position):
        sends.setdefault((send.run, send.group, send.process, send.incarnation, send.number), send)
    heard: dict[tuple[Any, ...], list[DeliverRow]] = defaultdict(list)
    for row in rows:
        if isinstance(row, DeliverRow):
            heard[row.run, row.group, row.source, row.source_incarnation, row.number].append(row)
    repaired: dict[tuple[Any, ...], list[RepairRow]] = defaultdict(list)
    for row in rows:
        if isinstance(row, RepairRow):
            repaired[row.run, row.group, row.source, row.source_incarnation].append(row)
    found = []
    for key in {**sends, **heard}:
        sent, got = sends.get(key), heard.get(key, [])
        same = bool(got) and one(clock(row) for row in got)
        compares = same and sent is not None and clock(sent) == clock(got[0])

        asked = [
            row
            for row in repaired[key[:4]]
            if sent and row.first <= sent.sequence <= row.last and stream(row) == stream(sent)
        ]
        found.append(
            {
                **dict(zip(("run", "group", "source", "source_incarnation", "number"), key, strict=True)),
                "sent": None if sent is None else moment(sent),
                "size": sent.size if sent else None,
                "service": sent.service if sent else None,
                "view": sent.view if sent else None,
                "era": sent.agreed if sent else None,
                "deliveries": len(got),
                "receivers": sorted({name(row.process, row.incarnation) for row in got}),
                "first_delivered": min(map(moment, got)) if same else None,
                "last_delivered": max(map(moment, got)) if same else None,
                "latency": max(map(moment, got)) - moment(sent) if compares and sent else None,
                "requests": sum(row.kind == "RTR" for row in asked),
                "repairs": sum(row.kind == "RTX" for row in asked),
            }
        )
    return found


def views(rows: Sequence[AnyRow]) -> list[dict[str, Any]]:
    installs: dict[tuple[str, str, str], list[ViewRow]] = defaultdict(list)
    for row in rows:
        if isinstance(row, ViewRow) and row.view is not None:
            installs[row.run, row.group, row.view].append(row)
    return [_view(rows, key, found) for key, found in installs.items()]


def _view(rows: Sequence[AnyRow], key: tuple[str, str, str], installs: list[ViewRow]) -> dict[str, Any]:
    run, group, view = key
    here = [row for row in rows if row.run == run]
    members = max(sorted(name(start.source, start.incarnation) for start in row.start) for row in installs)
    came: set[tuple[str, str]] = set()
    went: set[tuple[str, str]] = set()
    for install in installs:
        inside = {name(start.source, start.incarnation) for start in install.start}
        for why in install.reasons:
            who = name(why.process, why.incarnation)
            (came if who in inside else went).add((who, why.reason))
    before = [row for life in _lives(here, group) for row in _towards(life, view)]
    agreed = [row for row in before if row.kind == "AGREED"]
    cuts: dict[str, int] = {}
    for row in before:
        if row.kind == "CUT":
            who = name(row.process, row.incarnation)
            cuts[who] = max(cuts.get(who, 0), moment(row))
    began = [moment(row) for row in before if row.kind in ("MRA", "SUSPECT")]
    compares = one(clock(row) for row in [*installs, *before])
    first = min(map(moment, [*installs, *agreed]))
    last = max(map(moment, [*installs, *agreed]))

    def cause(who: str, kinds: tuple[str, ...]) -> list[int]:
        times = [
            moment(row)
            for row in here
            if row.kind in kinds
            and name(row.process, row.incarnation) == who
            and (row.kind == "CRASH" or row.group == group)
            and clock(row) == clock(installs[0])
            and moment(row) <= last
        ]
        return [max(times)] if times else []

    joined = [time for who, reason in came if reason == "joined" for time in cause(who, ("JOIN",))]
    ended = [time for who, _ in went for time in cause(who, ("LEAVE", "CRASH"))]
    return {
        "run": run,
        "group": group,
        "view": view,
        "members": members,
        "installers": sorted({name(row.process, row.incarnation) for row in installs}),
        "agreers": sorted({name(row.process, row.incarnation) for row in agreed}),
        "came": sorted(came),
        "went": sorted(went),
        "joined": min(joined) if joined and compares else None,
        "ended": min(ended) if ended and compares else None,
        "began": min(began) if began and compares else None,
        "cut": min(cuts.values()) if cuts and compares else None,
        "first_installed": first if compares else None,
        "last_installed": last if compares else None,
    }


def _lives(rows: Sequence[AnyRow], group: str) -> list[list[AnyRow]]:
    found: dict[str, list[AnyRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.position):
        if row.group == group:
            found[name(row.process, row.incarnation)].append(row)
    return list(found.values())


def _towards(life: Sequence[AnyRow], view: str) -> list[AnyRow]:
    """The rows of a change that ends with this view."""
    waiting: list[AnyRow] = []
    found: list[AnyRow] = []
    for row in life:
        ends = isinstance(row, ViewRow) and row.era is None and row.service not in NOT_AGREED
        if isinstance(row, MembershipRow) and row.kind == "AGREED":
            waiting.append(row)
            found += waiting if row.reason == view else []
            waiting = []
        elif ends:
            found += waiting if row.view == view else []
            waiting = []
        elif row.kind in ("JOIN", "SELF_FAIL", "BOOTSTRAP"):
            waiting = []
        elif row.kind in ("MRA", "CUT") or (isinstance(row, MembershipRow) and row.reason == "accused"):
            waiting.append(row)
    return found


def measures(rows: Sequence[AnyRow]) -> dict[Key, float]:
    """Every value that a trace has."""
    found: dict[Key, float] = {}
    spread: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    told = messages(rows)
    for run, group in {(one["run"], one["group"]) for one in told}:
        mine = [one for one in told if (one["run"], one["group"]) == (run, group)]
        sent = [one for one in mine if one["sent"] is not None]
        found[run, group, "messages", ""] = len(sent)
        found[run, group, "deliveries", ""] = sum(one["deliveries"] for one in mine)
        found[run, group, "payload", ""] = sum(one["size"] for one in sent)
        spread[run, group, "latency"] = [one["latency"] for one in mine if one["latency"] is not None]
        if sent:
            found.update(_repairs(rows, run, group, len(sent)))
    found.update(_throughput(rows))
    found.update(_overhead(rows, found))
    for view in views(rows):
        run, group = view["run"], view["group"]
        changes = found.get((run, group, "view changes", ""), 0)
        found[run, group, "view changes", ""] = changes + (view["began"] is not None)
        for measure, (late, early) in {
            "view change": ("last_installed", "began"),
            "view change: consensus": ("cut", "began"),
            "view change: recovery": ("first_installed", "cut"),
            "detection": ("began", "ended"),
            "end to view": ("last_installed", "ended"),
        }.items():
            if view[late] is not None and view[early] is not None:
                spread[run, group, measure].append(view[late] - view[early])
        if view["began"] is not None:
            spread[run, group, "view change: installation"].append(view["last_installed"] - view["first_installed"])
        if view["joined"] is not None and len(view["members"]) > 1:
            spread[run, group, "join to view"].append(view["last_installed"] - view["joined"])
    for key, values in [*_silences(rows).items(), *_rates(rows).items(), *_sessions(rows).items()]:
        spread[key] += values
    for (run, group, measure), values in spread.items():
        if values:
            found.update({(run, group, measure, key): value for key, value in summary(values).items()})
    return found


def summary(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    ranks = {f"p{percent}": ordered[-(-len(ordered) * percent // 100) - 1] for percent in (50, 90, 99)}
    return {"count": len(ordered), "mean": sum(ordered) / len(ordered), **ranks, "max": ordered[-1]}


def _throughput(rows: Sequence[AnyRow]) -> dict[Key, float]:
    heard: dict[tuple[str, str, str], dict[str, list[DeliverRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if isinstance(row, DeliverRow):
            power = 1
            while power < row.size:
                power *= 2
            for key in ("all", f"up to {power}"):
                heard[row.run, row.group, key][name(row.process, row.incarnation)].append(row)
    found: dict[Key, float] = {}
    for (run, group, key), members in heard.items():
        for got in members.values():
            seconds = (max(map(moment, got)) - min(map(moment, got))) / 1e9
            if not seconds:
                continue
            rate = (len(got) - 1) / seconds
            size = sum(row.size for row in got) / len(got)
            for measure, value in (("throughput", rate), ("throughput in bytes", rate * size)):
                found[run, group, measure, key] = min(value, found.get((run, group, measure, key), value))
    return found


def _overhead(rows: Sequence[AnyRow], counts: dict[Key, float]) -> dict[Key, float]:
    found: dict[Key, float] = {}
    totals: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for row in rows:
        if isinstance(row, GaugeRow) and row.name in ("datagrams sent", "datagram bytes sent"):
            here = totals[row.run, row.group]
            here[row.name] = here.get(row.name, 0) + row.value
    for (run, group), total in totals.items():
        datagrams, size = total.get("datagrams sent"), total.get("datagram bytes sent")
        sent, payload = counts.get((run, group, "messages", ""), 0), counts.get((run, group, "payload", ""), 0)
        for measure, over, below in (
            ("datagrams", datagrams, 1),
            ("datagram bytes", size, 1),
            ("datagrams per message", datagrams, sent),
            ("bytes per message", size, sent),
            ("bytes per payload byte", size, payload),
        ):
            if over is not None and below:
                found[run, group, measure, ""] = over / below
    return found


def _repairs(rows: Sequence[AnyRow], run: str, group: str, sent: int) -> dict[Key, float]:
    mine = [row for row in rows if isinstance(row, RepairRow) and (row.run, row.group) == (run, group)]
    requests = [row for row in mine if row.kind == "RTR"]
    repairs = sum(row.kind == "RTX" for row in mine)
    losses = 0
    for source in {_counted(row) for row in requests}:
        reached: int | None = None
        for row in sorted((row for row in requests if _counted(row) == source), key=_range):
            losses += reached is None or row.first > reached
            reached = row.last if reached is None else max(reached, row.last)
    found = {"losses": losses, "requests": len(requests), "repairs": repairs, "repairs per message": repairs / sent}
    if losses:
        found |= {"requests per loss": len(requests) / losses, "repairs per loss": repairs / losses}
    return {(run, group, measure, ""): value for measure, value in found.items()}


def _counted(row: RepairRow) -> tuple[str, int, str | None]:
    return row.source, row.source_incarnation, stream(row)


def _range(row: RepairRow) -> tuple[int, int]:
    return row.first, row.last


def _silences(rows: Sequence[AnyRow]) -> dict[tuple[str, str, str], list[float]]:
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    installs = {
        (row.run, row.group, row.process, row.incarnation, row.previous, row.view)
        for row in rows
        if isinstance(row, ViewRow) and row.previous is not None and row.service not in NOT_AGREED
    }
    for *member, previous, view in installs:
        mine = [
            row
            for row in rows
            if isinstance(row, DeliverRow) and [row.run, row.group, row.process, row.incarnation] == member
        ]
        before = [moment(row) for row in mine if row.view == previous]
        after = [moment(row) for row in mine if row.view == view]
        if before and after and min(after) >= max(before):
            found[str(member[0]), str(member[1]), "silence around a view"].append(min(after) - max(before))
    return found


def _rates(rows: Sequence[AnyRow]) -> dict[tuple[str, str, str], list[float]]:
    members: dict[tuple[str, str, str], list[AnyRow]] = defaultdict(list)
    for row in rows:
        if isinstance(row, MembershipRow) or (isinstance(row, GaugeRow) and row.kind == "GAUGE"):
            members[row.run, row.group, name(row.process, row.incarnation)].append(row)
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for (run, group, _), mine in members.items():
        gauges = [row for row in mine if isinstance(row, GaugeRow)]
        if not gauges:
            continue
        time = max(map(moment, gauges)) - min(map(moment, mine))
        there = {row.name for row in gauges}
        if "datagrams sent" in there:
            there |= {"blocked by window nanoseconds", "blocked by view nanoseconds"}
        for gauge in there & set(GAUGES) if time > 0 else ():
            measure, factor = GAUGES[gauge]
            total = sum(row.value for row in gauges if row.name == gauge)
            found[run, group, measure].append(total * factor / time)
    return found


def _sessions(rows: Sequence[AnyRow]) -> dict[tuple[str, str, str], list[float]]:
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        if isinstance(row, StatisticRow) and row.kind == "SESSION_OVERHEAD":
            told = [value.number for value in row.values if value.name == "nanoseconds" and value.number is not None]
            found[row.run, row.group, "session overhead"] += told
    for run, group in {(row.run, row.group) for row in rows if row.service == "VS"}:
        for life in _lives([row for row in rows if row.run == run and row.service == "VS"], group):
            since: list[MembershipRow] = []
            for row in life:
                if isinstance(row, MembershipRow):
                    since.append(row)
                elif isinstance(row, ViewRow) and row.change is not None:
                    if row.previous is not None:
                        for measure, value in _session_change(row, since).items():
                            found[run, group, f"session change{measure}"].append(value)
                    since = []
    return found


def _session_change(view: ViewRow, since: Sequence[MembershipRow]) -> dict[str, float]:
    def time_of(kind: str, change: int | None = None) -> int | None:
        return next((moment(row) for row in since if row.kind == kind and change in (None, row.number)), None)

    began, blocked = time_of("START_CHANGE"), time_of("BLOCK_OK")
    start, agreed = time_of("START_CHANGE", view.change), time_of("NEW_VIEW", view.change)
    synchronized = time_of("SYNCHRONIZED", view.change)
    found: dict[str, float] = {}
    if began is not None:
        found[""] = moment(view) - began
    if start is not None and agreed is not None:
        found[": membership"] = agreed - start
    if began is not None and synchronized is not None:
        found[": synchronisation"] = synchronized - began
    if ": membership" in found and ": synchronisation" in found:
        found[": membership after synchronisation"] = found[": membership"] - found[": synchronisation"]
    if ": membership" in found and "" in found:
        found[": view after membership"] = found[""] - found[": membership"]
    if blocked is not None:
        found[": blocked"] = moment(view) - blocked
    return found
