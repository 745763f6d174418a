"""What cannot be true together in a scenario: members that do not exist, times that do not fit, unknown names.

The reader applies it to every file; a scenario built in code may be checked as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from unisono.errors import ScenarioError
from unisono.marks import ALL_MARKS
from unisono.simulation.cast import is_member, kind_of, largest_cast, name_of
from unisono.simulation.churn import AWAY, churned, joins
from unisono.simulation.scenario import DEFAULT_GROUP, Churn, Fault, Scenario
from unisono.simulation.scenario_keys import OF_APPLICATIONS, ONLY_INTERGROUP, ONLY_SESSIONS
from unisono.simulation.scenario_values import write_duration, write_number
from unisono.spelling import did_you_mean
from unisono.units import SECOND


def check(scenario: Scenario) -> None:
    """Raise ScenarioError for the first thing that cannot be."""
    _check_expectations(scenario)
    _check_protocol(scenario)
    _check_groups(scenario)
    _check_workloads(scenario)
    _check_members(scenario)
    _check_primary(scenario)
    for index, churn in enumerate(scenario.churns):
        _check_churn(scenario, churn, f"churn[{index}]")
    for index, fault in enumerate(scenario.faults):
        _check_fault(scenario, fault, f"fault[{index}]")


def most_members(scenario: Scenario) -> int:
    return largest_cast(scenario).members


def group_names(scenario: Scenario) -> tuple[str, ...]:
    return tuple(group.name for group in scenario.groups) or (DEFAULT_GROUP,)


def _check_expectations(scenario: Scenario) -> None:
    if scenario.expect != "held":
        from unisono.properties.registry import PROPERTIES

        if scenario.expect not in PROPERTIES:
            raise ScenarioError("expect", f'expected "held" or one of {", ".join(PROPERTIES)}, got {scenario.expect!r}')
    if scenario.marks != "all":
        for mark in scenario.marks:
            if mark not in ALL_MARKS:
                raise ScenarioError("marks", f"unknown mark {mark!r}; {did_you_mean(mark, tuple(ALL_MARKS))}")


def _check_protocol(scenario: Scenario) -> None:
    """What one protocol has and the other has not."""
    sessions = scenario.protocol == "virtual_synchrony"
    if not sessions:
        for key, count in (("servers", scenario.servers), ("controllers", scenario.controllers)):
            if count != 0:
                raise ScenarioError(key, f'only protocol = "virtual_synchrony" has {key}')
    else:
        fewest = scenario.servers if isinstance(scenario.servers, int) else scenario.servers[0]
        if fewest < 1:
            raise ScenarioError("servers", "expected at least one membership server")
        if scenario.state is not None:
            raise ScenarioError("state", 'only protocol = "intergroup" hands states over')
        for index, workload in enumerate(scenario.workloads):
            if workload.proxy:
                raise ScenarioError(f"workload[{index}].proxy", 'only protocol = "intergroup" sends for others')
        for index, churn in enumerate(scenario.churns):
            if churn.of == "roles":
                raise ScenarioError(f"churn[{index}].of", 'only protocol = "intergroup" has roles')
    strange, where = (ONLY_INTERGROUP, "intergroup") if sessions else (ONLY_SESSIONS, "virtual_synchrony")
    for index, fault in enumerate(scenario.faults):
        if fault.kind in strange:
            raise ScenarioError(f"fault[{index}].kind", f'only protocol = "{where}" has {fault.kind!r}')
    if scenario.random is not None and scenario.random.kinds != "all":
        for kind in scenario.random.kinds:
            if kind in strange:
                raise ScenarioError("random.kinds", f'only protocol = "{where}" has {kind!r}')


def _check_groups(scenario: Scenario) -> None:
    seen: list[str] = []
    fewest = scenario.members if isinstance(scenario.members, int) else scenario.members[0]
    for index, group in enumerate(scenario.groups):
        if group.name in seen:
            raise ScenarioError(f"group[{index}].name", f"another group is called {group.name!r}")
        seen.append(group.name)
        _members_exist(scenario, f"group[{index}].members", group.members)
        if min(group.members) >= fewest:
            raise ScenarioError(
                f"group[{index}].members", f"expected someone who is there when only {fewest} members are drawn"
            )


def _check_workloads(scenario: Scenario) -> None:
    groups = {group.name: group.members for group in scenario.groups}
    for index, workload in enumerate(scenario.workloads):
        path = f"workload[{index}]"
        _group_exists(scenario, f"{path}.group", workload.group)
        if workload.senders != "all":
            _members_exist(scenario, f"{path}.senders", workload.senders)
            for sender in workload.senders:
                if groups and sender not in groups[workload.group]:
                    raise ScenarioError(f"{path}.senders", f"member {sender} is not in group {workload.group!r}")
        _within_duration(scenario, f"{path}.start", workload.start)
        if workload.stop is not None:
            _within_duration(scenario, f"{path}.stop", workload.stop)
            if workload.stop < workload.start:
                raise ScenarioError(
                    f"{path}.stop", f"expected a time after the start, {write_duration(workload.start)}"
                )


def _check_members(scenario: Scenario) -> None:
    seen: list[int] = []
    for index, plan in enumerate(scenario.member_plans):
        path = f"member[{index}]"
        _members_exist(scenario, f"{path}.index", (plan.index,))
        if plan.index in seen:
            raise ScenarioError(f"{path}.index", f"member {plan.index} has a table already")
        seen.append(plan.index)
        _within_duration(scenario, f"{path}.joins", plan.joins)
        if plan.leaves is not None:
            _within_duration(scenario, f"{path}.leaves", plan.leaves)
            if plan.leaves <= plan.joins:
                raise ScenarioError(f"{path}.leaves", f"expected a time after it joins, {write_duration(plan.joins)}")


def _check_primary(scenario: Scenario) -> None:
    """With fewer than may send, two sides could each have a majority of them."""
    roles = {plan.index: plan.options.get("role") for plan in scenario.member_plans}
    everywhere = scenario.options.get("role")
    senders = sum((roles.get(index) or everywhere) != "receiver" for index in range(most_members(scenario)))
    value = scenario.options.get("primary", 0)
    for chosen in value if isinstance(value, list) else [value]:
        if isinstance(chosen, int) and 0 < chosen < senders:
            raise ScenarioError(
                "options.primary", f"{chosen} is less than the {senders} members that may send; expected {senders} or 0"
            )


def _check_churn(scenario: Scenario, churn: Churn, path: str) -> None:
    """Everybody has a turn: who never joined would be there from the beginning."""
    _within_duration(scenario, f"{path}.start", churn.start)
    if churn.stop is not None:
        _within_duration(scenario, f"{path}.stop", churn.stop)
        if churn.stop <= churn.start:
            raise ScenarioError(f"{path}.stop", f"expected a time after the start, {write_duration(churn.start)}")
    members = churned(replace(scenario, members=most_members(scenario)), churn)
    if isinstance(churn.members, tuple):
        _members_exist(scenario, f"{path}.members", members)
    elif not members:
        does = "only receives" if churn.of == "members" else "sends"
        raise ScenarioError(f"{path}.members", f"nobody {does} here; name those who come and go")
    many = joins(scenario, churn)
    if churn.of == "members" and many < len(members):
        raise ScenarioError(f"{path}.rate", f"{len(members)} members come and go, and only {many} ever join")
    longest = churn.stay[1] if isinstance(churn.stay, tuple) else churn.stay
    if churn.rate * (longest + AWAY) > len(members) * SECOND:
        raise ScenarioError(
            f"{path}.members", f"{len(members)} are too few for {write_number(churn.rate)} that join in a second"
        )


def _check_fault(scenario: Scenario, fault: Fault, path: str) -> None:
    if fault.at is None and fault.when is None:
        raise ScenarioError(f"{path}.at", 'missing; expected either "at" or "when"')
    if fault.at is not None and fault.when is not None:
        raise ScenarioError(f"{path}.when", 'expected either "at" or "when", not both')
    if fault.at is not None:
        _within_duration(scenario, f"{path}.at", fault.at)
    if fault.when is not None and fault.when.member is not None:
        _everybody_exists(scenario, f"{path}.when.member", (fault.when.member,))
    _everybody_exists(scenario, f"{path}.groups", (who for group in fault.groups for who in group))
    _everybody_exists(scenario, f"{path}.from", fault.sources)
    _everybody_exists(scenario, f"{path}.to", fault.targets)
    _everybody_exists(scenario, f"{path}.member", fault.members)
    if fault.kind in OF_APPLICATIONS:
        for who in fault.members:
            if not is_member(who):
                raise ScenarioError(f"{path}.member", f"{name_of(who)} has no application that could {fault.kind}")
    if fault.group is not None:
        _group_exists(scenario, f"{path}.group", fault.group)


def _members_exist(scenario: Scenario, path: str, members: Iterable[int]) -> None:
    most = most_members(scenario)
    for member in members:
        if not 0 <= member < most:
            there = f"members are 0 to {most - 1}" if most > 1 else "the only member is 0"
            raise ScenarioError(path, f"there is no member {member}; {there}")


def _everybody_exists(scenario: Scenario, path: str, named: Iterable[int]) -> None:
    cast = largest_cast(scenario)
    for who in named:
        if is_member(who):
            _members_exist(scenario, path, (who,))
        elif not cast.has(who):
            kind = kind_of(who)
            count = cast.servers if kind == "server" else cast.controllers
            there = f"{kind}s are {kind}:0 to {kind}:{count - 1}" if count > 1 else f"the only {kind} is {kind}:0"
            raise ScenarioError(path, f"there is no {name_of(who)}; {there if count else f'there are no {kind}s'}")


def _group_exists(scenario: Scenario, path: str, name: str) -> None:
    names = group_names(scenario)
    if name not in names:
        raise ScenarioError(path, f"unknown group {name!r}; {did_you_mean(name, names)}")


def _within_duration(scenario: Scenario, path: str, moment: int) -> None:
    if not 0 <= moment <= scenario.duration:
        raise ScenarioError(
            path,
            f"expected a time within the duration, {write_duration(scenario.duration)}, got {write_duration(moment)}",
        )
