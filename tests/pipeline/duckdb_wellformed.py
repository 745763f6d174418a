"""The properties of the trace itself once more, in SQL: whether rows contradict one another."""

from __future__ import annotations

from tests.pipeline.duckdb_membership import MESSAGE, same_group, same_life, same_member
from unisono.trace.schema import FAMILIES

_SENT = MESSAGE % ("d.process", "d.incarnation", "d.number")
_HEARD = MESSAGE % ("d.source", "d.source_incarnation", "d.number")
_NAME = "format('{}~{:x}', %s, %s)"


def _rows_of(family: str) -> str:
    previous = "previous" if family == "view" else "null"
    role = "role" if family in ("view", "membership") else "null"
    return f"""select run, "group", process, incarnation, position, kind, "at", truth, host, view, service, stretch,
        '{family}' as family, {previous} as previous, {role} as role from {family}"""


VIEWS = f"""
create table written as {" union all ".join(_rows_of(family) for family in FAMILIES)};
create table spots as
    select run, process, incarnation, position, count(*) as many,
        min({{'a': "at", 't': coalesce(truth, -1), 'h': host}}) as v
    from written group by all;
create table neighbours as
    select *, row_number() over w as place, lag(position) over w as a_position, lag(v) over w as a,
        lag(v, 2) over w as b, lead(v) over w as z
    from spots window w as (partition by run, process, incarnation order by position);
create table clocks as
    select run, process, incarnation, host, truth is null as blind, count(*) as many,
        min({{'p': position, 'a': "at", 't': coalesce(truth, -1), 'h': host}}) as first from written group by all;
create table real_lives as
    select run, process, incarnation,
        min({{'p': position, 'm': coalesce(truth, "at"), 'c': clock(truth, host)}}) as a,
        max({{'p': position, 'm': coalesce(truth, "at"), 'c': clock(truth, host)}}) as b,
        min(position) filter (kind in ('END', 'CRASH')) as over
    from written group by all having count(*) filter (family <> 'fault') > 0;
create table placed as from written where "group" <> '' and family not in ('statistic', 'fault')
    and kind not in ('STATE', 'SAVED', 'LOADED');
create table staying as from written where "group" <> '' and family not in ('statistic', 'fault', 'gauge');
"""

_BACK = "(a.h = v.h and v.a < a.a and not coalesce(b.h = v.h and b.a <= v.a, false))"
_AHEAD = "(z.h = v.h and z.a < v.a and a.h = z.h and a.a <= z.a)"
_TRUTH_BACK = "(v.t >= 0 and v.t < a.t and not coalesce(b.t >= 0 and b.t <= v.t, false))"
_TRUTH_AHEAD = "(z.t >= 0 and z.t < v.t and a.t >= 0 and a.t <= z.t)"

W1 = f"""
select run, 'W1', '', process, incarnation, position, null from neighbours
where many > 1 or position <> coalesce(a_position, -1) + 1
    or {_BACK} or {_AHEAD} or {_TRUTH_BACK} or {_TRUTH_AHEAD}
union
select run, 'W1', '', process, incarnation, first.p, null from clocks
qualify row_number() over (partition by run, process, incarnation order by many desc, first) > 1
"""


def _last_move(kinds: str) -> str:
    return f"""(select arg_max(m.kind, m.position) from moves m where {same_member("m", "d")}
        and m.position < d.position and m.kind in ({kinds}))"""


W2 = f"""
select d.run, 'W2', '', d.process, d.incarnation, d.position, null
from written d join real_lives l on d.run = l.run and {same_life("d", "l")}
where (d.kind = 'START') <> (d.position = l.a.p) or d.position > l.over
union
select l.run, 'W2', '', l.process, l.incarnation, l.a.p, null from real_lives l join real_lives o
on l.run = o.run and l.process = o.process and l.a.c = o.a.c and l.a.c = o.b.c
where (o.a.m < l.a.m or (o.a.m = l.a.m and o.incarnation < l.incarnation)) and l.a.m < o.b.m
union
select d.run, 'W2', d."group", d.process, d.incarnation, d.position, null from staying d
where case when d.kind = 'JOIN' then {_last_move("'JOIN', 'LEAVE', 'EXCLUDED'")} = 'JOIN'
    else {_last_move("'JOIN', 'LEAVE'")} is distinct from 'JOIN' end
"""

W3 = f"""
with naming as (
    select run, "group", process, incarnation, position, s.source as name, s.incarnation as life
    from (select *, unnest(start) as s from views)
    union all select run, "group", process, incarnation, position, peer, peer_incarnation from membership
    union all select run, "group", process, incarnation, position, one.process, one.incarnation
    from (select *, unnest(members) as one from membership)
    union all select run, "group", process, incarnation, position, source, source_incarnation from repair
    union all select run, "group", process, incarnation, position, "by", by_incarnation from proxy
)
select n.run, 'W3', n."group", n.process, n.incarnation, n.position, null from naming n
where n.name is not null and n.life is not null and not exists (
    from spots o where o.run = n.run and o.process = n.name and o.incarnation = n.life)
union
select d.run, 'W3', d."group", d.process, d.incarnation, d.position, null from sends d
where d.origin is not null and not exists (
    from proxy p where p.kind = 'ASKED' and {same_group("p", "d")}
        and {_NAME % ("p.process", "p.incarnation")} = d.origin)
"""

W4 = f"""
with heard as (
    select d.*, (select max({{'p': e.position, 'i': e.index, 'v': e.view, 's': e.stretch}}) from deliveries e
        where {same_member("e", "d")} and e.position < d.position) as last from deliveries d
)
select d.run, 'W4', d."group", d.process, d.incarnation, d.position, {_HEARD} from heard d
where d.index <> case when last is not null and last.v is not distinct from d.view and last.s = d.stretch
    and not exists (from views w where {same_member("w", "d")} and w.position > last.p and w.position < d.position)
    then last.i + 1 else 0 end
union all
select d.run, 'W4', d."group", d.process, d.incarnation, d.position, {_SENT}
from sends d left join lateral (
    select max({{'p': e.position, 'n': e.number, 's': e.sequence, 't': e.stretch}}) as last from sends e
    where {same_member("e", "d")} and e.position < d.position) on true
where d.number <> coalesce(last.n, 0) + 1
    or (d.sequence <= case when last.t = d.stretch then last.s else 0 end and d.service is distinct from 'VS')
"""

W5 = f"""
with told as (
    select d.*, case when d.family = 'view' then d.previous else d.view end as tells,
        v.position as v_position, v.view as v_view, v.stretch as v_stretch, v.role as v_role,
        (select max(m.position) from moves m where {same_member("m", "d")} and m.position <= d.position
            and m.kind in ('JOIN', 'SELF_FAIL', 'BOOTSTRAP')) as anew,
        (select max({{'p': e.position, 's': e.stretch, 'w': coalesce(e.service, '')}}) from placed e
            where {same_member("e", "d")} and e.position < d.position) as last
    from placed d asof left join views v on {same_member("d", "v")} and d.position > v.position
)
select run, 'W5', "group", process, incarnation, position, null from told
where (tells is not null and v_view is distinct from tells)
    or (tells is null and v_view is not null and v_stretch >= stretch and not coalesce(anew > v_position, false))
    or (last is not null and stretch not in (last.s, last.s + 1))
    or (last is not null and stretch = last.s and coalesce(service, '') <> last.w)
    or (kind = 'ROLE' and common(service) and view is not null and v_role <> role)
union
select run, 'W5', "group", process, incarnation, position, null from views
where view is distinct from format('{{}}/{{}}~{{:x}}/{{}}', start_time, leader, leader_incarnation, leader_sequence)
    or len(list_distinct([{{'n': s.source, 'i': s.incarnation}} for s in start])) < len(start)
    or len(list_distinct(transitional)) < len(transitional)
    or (common(service) and previous is not null and role = 'receiver'
        and list_contains([{{'n': s.source, 'i': s.incarnation}} for s in start], {{'n': process, 'i': incarnation}}))
"""

AUDITS = {"W1": W1, "W2": W2, "W3": W3, "W4": W4, "W5": W5}
