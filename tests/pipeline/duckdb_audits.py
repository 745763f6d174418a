"""The properties once more, in SQL for another engine, over the same Parquet files.

Written from the statements, by other means than the Spark forms wherever SQL offers some: as-of joins, lists that are
folded, and plain comparisons of everything with everything.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb

from tests.pipeline import duckdb_membership, duckdb_promises, duckdb_sessions, duckdb_wellformed
from unisono.trace.schema import FAMILIES

Place = tuple[str, str, str, str, int, int, str | None]
"""Run, property, group, process, incarnation, position, message."""

_MESSAGE = "format('{}~{:x}/{}', %s, %s, %s)"
DELIVERED = _MESSAGE % ("d.source", "d.source_incarnation", "d.number")

_VIEWS = """
create macro reliable(service) as service is null or service not in ('UU', 'USO', 'UTO', 'ALF');
create macro session(service) as coalesce(service in ('VS', 'VS-weak'), false);
create macro timed(service) as service is null or service not in ('UU', 'USO', 'RSO', 'ALF', 'VS', 'VS-weak');
create macro common(service) as service is null or service not in ('UU', 'USO', 'UTO', 'RSO', 'ALF');
create macro gapless(service) as common(service) and service is distinct from 'VS-weak';
create macro in_order(service) as common(service) and not session(service);
create macro in_line(service) as service is null or service not in ('UU', 'ALF');
create macro clock(truth, host) as case when truth is null then 'on ' || host else 'truth' end;
create macro came_along(service, transitional, process, incarnation, source, source_incarnation) as
    not gapless(service) or transitional is null or (source = process and source_incarnation = incarnation)
    or list_contains(transitional, {'process': source, 'incarnation': source_incarnation});
create macro role_at(told, latest) as list_max(list_filter(told, lambda one: one.moment <= latest)).role;
create macro key(stamp, source, incarnation) as {'t': stamp, 's': source, 'i': incarnation};
create table deliveries as select * from deliver where kind = 'DELIVER';
create table sends as select *, coalesce(truth, "at") as moment from send where kind = 'SEND';
create table views as select *, coalesce(truth, "at") as moment from view where kind = 'VIEW';
create table moves as select *, coalesce(truth, "at") as moment from membership;
create table joins as select * from moves where kind = 'JOIN';
create table servers as
    select distinct run, process as name, split_part(process, ':', 1) as sort from moves s
    where kind = 'START' and contains(process, ':')
        and not exists (from joins j where j.run = s.run and j.process = s.process)
        and exists (from joins j where j.run = s.run and session(j.service));
create table fresh as select * from moves where kind in ('SELF_FAIL', 'BOOTSTRAP');
create table ordered as select * from deliveries where reliable(service) and not session(service);
create table once as select *, case when reliable(service) then -1 else stretch end as lane from deliveries
    where service is distinct from 'UU';
create table first_sends as select * from sends
    qualify row_number() over (partition by run, "group", process, incarnation, number order by position) = 1;
"""

_SAME_MEMBER = 'x.run = y.run and x."group" = y."group" and x.process = y.process and x.incarnation = y.incarnation'


def _same_pair(one: str, other: str) -> str:
    source = f"{one}.source = {other}.source and {one}.source_incarnation = {other}.source_incarnation"
    return f"{_same_member(one, other)} and {source}"


def _same_member(one: str, other: str) -> str:
    return _SAME_MEMBER.replace("x.", f"{one}.").replace("y.", f"{other}.")


D1 = f"""
select d.run, 'D1', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from deliveries d left join first_sends s
on d.run = s.run and d."group" = s."group" and d.source = s.process
    and d.source_incarnation = s.incarnation and d.number = s.number
where s.run is null or s.truth > d.truth or s.origin is distinct from d.origin
    or (s.truth is null and d.truth is null and s.host = d.host and s."at" > d."at")
    or (s.sequence, s.size, s.body, s.timestamp) <> (d.sequence, d.size, d.body, d.timestamp)
"""

D2 = f"""
select d.run, 'D2', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from once d
where exists (
    from once e where {_same_member("d", "e")} and d.lane = e.lane and d.source = e.source
        and d.source_incarnation = e.source_incarnation and d.number = e.number and e.position < d.position
)
"""

M3 = f"""
with written as (
    select run, "group", process, incarnation, position, view, service, process as source,
        incarnation as source_incarnation, number from sends
    union all
    select run, "group", process, incarnation, position, view, service, source, source_incarnation, number
    from deliveries
)
select d.run, 'M3', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from written d asof left join views v on {_same_member("d", "v")} and d.position > v.position
where reliable(d.service) and (d.view is null or v.view is distinct from d.view)
"""

O1 = f"""
select d.run, 'O1', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from once d where in_line(service)
qualify d.number <= lag(d.number) over (
    partition by d.run, d."group", d.process, d.incarnation, d.source, d.source_incarnation, d.lane
    order by d.position
)
"""


def _with_view(rows: str, condition: str) -> str:
    """Rows with the view before them, or without one where the process joined since or the condition fails."""
    return f"""
        select d.*, v.start as view_start, case when (j.position is null or j.position < v.position)
            and {condition} then v.position end as view_position
        from {rows} d
        asof left join views v on {_same_member("d", "v")} and d.position > v.position
        asof left join joins j on {_same_member("d", "j")} and d.position > j.position
    """


def _start_of(starts: str, source: str, incarnation: str) -> str:
    return f"list_filter({starts}, lambda item: item.source = {source} and item.incarnation = {incarnation})[-1].number"


O2 = f"""
with placed as ({_with_view("ordered", "v.stretch = d.stretch")}),
due as (
    select *, {_start_of("view_start", "source", "source_incarnation")} as began, lag(number) over (
        partition by run, "group", process, incarnation, source, source_incarnation, view_position order by position
    ) + 1 as following from placed
),
later as ({_with_view("views", "d.stretch - v.stretch in (0, 1) and reliable(v.service)")}),
begun as (
    select * from (select * exclude (start), unnest(start) as point from later) l
    where view_position is not null and reliable(service) and not session(service)
        and came_along(service, transitional, process, incarnation, point.source, point.incarnation)
        and not exists (from fresh f where {_same_member("f", "l")}
            and f.position between l.view_position and l.position)
),
continued as (
    select b.*, coalesce(
        (select max_by(o.number, o.position) + 1 from ordered o
         where {_same_member("o", "b")} and o.source = b.point.source
            and o.source_incarnation = b.point.incarnation and o.position between b.view_position and b.position),
        {_start_of("b.view_start", "b.point.source", "b.point.incarnation")}
    ) as expected, {_start_of("b.view_start", "b.point.source", "b.point.incarnation")} as before
    from begun b
)
select d.run, 'O2', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from due d where view_position is null or began is null or number <> coalesce(following, began)
union all
select run, 'O2', "group", process, incarnation, position,
    {_MESSAGE % ("point.source", "point.incarnation", "point.number")}
from continued where before is not null and expected <> point.number
"""

L2 = f"""
with ends as (
    select run, process, incarnation, position, moment - 2000000000 as last_due,
        case when truth is null then 'on ' || host else 'truth' end as clock
    from moves where kind = 'END'
),
taking as (
    select run, "group", process, incarnation,
        max_by(service, position) filter (service is not null and kind <> 'LEAVE') as service,
        max(position) filter (kind = 'JOIN') as join_position,
        max_by(kind, position) filter (kind in ('JOIN', 'LEAVE')) as moved,
        count(*) filter (kind in ('JOIN', 'VIEW')) as there
    from (
        select run, "group", process, incarnation, position, kind, service from moves where kind in ('JOIN', 'LEAVE')
        union all select run, "group", process, incarnation, position, kind, service from views
        union all select run, "group", process, incarnation, position, kind, service from sends
        union all select run, "group", process, incarnation, position, kind, service from deliveries
        union all select run, "group", process, incarnation, position, kind, service from gauge where kind = 'GAUGE'
    ) group by all
),
listeners as (
    select e.*, t."group", t.join_position from ends e
    join taking t on t.run = e.run and t.process = e.process and t.incarnation = e.incarnation
    where t.there > 0 and t.moved is distinct from 'LEAVE' and reliable(t.service) and not session(t.service)
),
current as (
    select v.*, coalesce(v.stretch - lag(v.stretch) over w not in (0, 1) or not lag(reliable(v.service)) over w
            or exists (from fresh f where {_same_member("f", "v")} and f.position < v.position and f.position > (
                select max(e.position) from views e where {_same_member("e", "v")} and e.position < v.position)), false)
        as breaks, coalesce(v.stretch - lag(v.stretch) over w = 1, false) as turned
    from views v join listeners l on {_same_member("v", "l")}
    where l.join_position is null or v.position > l.join_position
    window w as (partition by v.run, v."group", v.process, v.incarnation order by v.position)
),
pairs as (
    select l.*, o.process as source, o.incarnation as source_incarnation
    from listeners l join ends o on l.run = o.run and l.clock = o.clock
),
heard as (
    select p.process as process, p.incarnation as incarnation, p.source, p.source_incarnation, c.run, c."group",
        c.position, c.era, c.breaks, c.turned, {_start_of("c.start", "p.source", "p.source_incarnation")} as begin,
        came_along(c.service, c.transitional, c.process, c.incarnation, p.source, p.source_incarnation) as came
    from pairs p join current c on {_same_member("c", "p")}
),
spells as (
    select p.*, coalesce((select max(h.position) from heard h where {_same_pair("h", "p")}
            and h.begin is null and (h.era is null or h.turned)), -1) as absent,
        coalesce((select max(h.position) from heard h where {_same_pair("h", "p")}
            and (h.breaks or (h.begin is not null and not h.came))), -1) as broken
    from pairs p
),
firsts as (
    select s.*, (
        select min_by(h.begin, h.position) from heard h
        where {_same_pair("h", "s")} and h.position > s.absent and h.position >= s.broken and h.begin is not null
    ) as first_number from spells s
),
rifts as (
    select row_number() over () as rift, * from (
        select run, fault, sides from fault
        where kind = 'FAULT' and fault in ('partition', 'isolate') and len(sides) > 0
        group by all having count(*) filter (edge = 'begin') > count(*) filter (edge = 'end')
    )
),
on_side as (
    select run, rift, side, unnest(side) as name from (select run, rift, unnest(sides) as side from rifts)
),
within_reach as (
    select a.rift, a.name as one, b.name as other from on_side a join on_side b on a.rift = b.rift
    where list_has_any(a.side, b.side)
),
missing as (
    select f.run, f."group", f.process, f.incarnation, f.position, f.source, f.source_incarnation,
        min(s.number) as number
    from (from firsts g where g.process = g.source or not exists (
        from rifts r where r.run = g.run and not exists (
            from within_reach w where w.rift = r.rift and w.one = g.process and w.other = g.source
        ))) f join sends s on s.run = f.run and s."group" = f."group" and s.process = f.source
        and s.incarnation = f.source_incarnation
    where s.moment <= f.last_due and s.number >= f.first_number and not exists (
        from ordered o where {_same_member("o", "f")} and o.source = f.source
            and o.source_incarnation = f.source_incarnation and o.number = s.number
    ) group by all
),
cut_off as (
    select run, name from (
        select run, unnest(members) as name, edge from fault where kind = 'FAULT' and fault not in ('load', 'heal')
    ) group by all having count(*) filter (edge = 'begin') > count(*) filter (edge = 'end')
),
shut_out as (
    select p.* from firsts p
    join joins mine on {_same_member("mine", "p")} and mine.position = p.join_position
    join taking theirs on theirs.run = p.run and theirs."group" = p."group" and theirs.process = p.source
        and theirs.incarnation = p.source_incarnation
    join joins other on {_same_member("other", "theirs")} and other.position = theirs.join_position
    where p.first_number is null and theirs.moved = 'JOIN' and not session(theirs.service)
        and coalesce((select max_by(a.role, a.position) from roles a where {_same_member("a", "theirs")}
            and a.position > theirs.join_position), other.role, 'sender') <> 'receiver'
        and coalesce((select max_by(a.role, a.position) from roles a where {_same_member("a", "theirs")}
            and a.position > theirs.join_position and a.moment <= p.last_due), other.role, 'sender') <> 'receiver'
        and mine.moment <= p.last_due and other.moment <= p.last_due
        and coalesce((select min(c.moment) from current c where {_same_member("c", "p")} and c.stretch = (
            select max_by(e.stretch, e.position) from current e where {_same_member("e", "p")})), 0) <= p.last_due
        and (mine.reason = 'all' or (mine.reason <> 'once' and p.source in (
            select trim(unnest(string_split(mine.reason, ','))))))
        and exists (from sends s where s.run = p.run and s."group" = p."group" and s.process = p.source
            and s.incarnation = p.source_incarnation and s.moment <= p.last_due)
        and exists (from fault f where f.run = p.run and f.kind = 'FAULT' and f.fault = 'heal')
        and not exists (from cut_off c where c.run = p.run and c.name in (p.process, p.source))
)
select run, 'L2', "group", process, incarnation, position, {_MESSAGE % ("source", "source_incarnation", "number")}
from missing
union all select run, 'L2', "group", process, incarnation, position, null from shut_out
"""

_SENT = _MESSAGE % ("d.process", "d.incarnation", "d.number")

O3 = f"""
with known as (
    select run, process, incarnation, position, timestamp, 'SEND' as kind from sends
    union all select run, process, incarnation, position, timestamp, 'DELIVER' from deliveries
)
select d.run, 'O3', d."group", d.process, d.incarnation, d.position, {_SENT}
from sends d where not session(d.service) and exists (
    from known k where k.run = d.run and k.process = d.process and k.incarnation = d.incarnation
        and k.position < d.position and k.timestamp >= d.timestamp and (k.kind = 'SEND' or not exists (
            from gauge g where g.run = d.run and g.process = d.process and g.incarnation = d.incarnation
                and g.kind = 'MARK' and g.name = 'clock-held' and g.position < d.position))
)
union all
select d.run, 'O3', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from deliveries d where timed(service)
qualify key(timestamp, source, source_incarnation) <= lag(key(timestamp, source, source_incarnation)) over (
    partition by run, "group", process, incarnation, stretch order by position
)
"""

O6 = f"""
with rows as (
    select run, "group", process, incarnation, position, stretch, source, source_incarnation, number, timestamp
    from deliveries where timed(service)
    union all
    select run, "group", process, incarnation, position, stretch, null, null, null, null from views where timed(service)
),
placed as (
    select d.*, coalesce('across ' || j.across, 'alone ' || d."group") as domain
    from rows d asof left join joins j on {_same_member("d", "j")} and d.position > j.position
),
begun as (
    select *, stretch is distinct from lag(stretch) over (
        partition by run, process, incarnation, domain, "group" order by position) as begins from placed
),
runs as (
    select *, count(*) filter (begins) over (
        partition by run, process, incarnation, domain order by position) as ordinal from begun
)
select d.run, 'O6', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from runs d where d.number is not null and exists (
    from runs e where e.run = d.run and e.process = d.process and e.incarnation = d.incarnation
        and e.domain = d.domain and e.ordinal = d.ordinal and e.position < d.position and e.number is not null
        and key(e.timestamp, e.source, e.source_incarnation) >= key(d.timestamp, d.source, d.source_incarnation)
)
"""

O8 = f"""
select d.run, 'O8', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from deliveries d join first_sends s on d.run = s.run and d."group" = s."group" and d.source = s.process
    and d.source_incarnation = s.incarnation and d.number = s.number
where in_line(d.service) and not session(d.service) and d.timestamp <> s.timestamp
union all
(select d.run, 'O8', d."group", d.process, d.incarnation, d.position, {_SENT}
from sends d where not session(d.service)
window w as (partition by run, "group", process, incarnation order by position)
qualify sign(number - lag(number) over w) <> sign(timestamp - lag(timestamp) over w))
union all
select d.run, 'O8', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from deliveries d where timed(d.service) and exists (
    from deliveries e where {_same_member("d", "e")} and e.stretch = d.stretch and e.position < d.position
        and timed(e.service) and e.timestamp > d.timestamp
)
"""


def _gaps(property_id: str, together: str) -> str:
    """What is left out of consecutive spans: `together` says which span of a stretch begins a new line."""
    return f"""
with placed as ({_with_view("deliveries", "v.stretch = d.stretch")}),
firsts as (
    select *, row_number() over w as ordinal, lead(start) over w as following,
        lead(transitional) over w as next_transitional, lead(fresh) over w as next_afresh,
        exists (from repair c where c.kind = 'CUT' and {_same_member("c", "spans")} and c.stretch = spans.stretch
            and c.position > (select max(v.position) from spans v
                where {_same_member("v", "spans")} and v.stretch = spans.stretch)) as answered
    from spans where position = span and in_order(service)
    window w as (partition by run, "group", process, incarnation, stretch order by position)
),
points as (
    select run, "group", process, incarnation, stretch, span, position, unnest(start) as point from spans
),
begun as (
    select run, "group", process, incarnation, stretch, span, point.source as source,
        point.incarnation as source_incarnation, min_by(point.number, position) as begin
    from points group by all
),
inside as (
    select b.*, f.ordinal, f.following, f.next_transitional, f.next_afresh, f.answered, f.service,
        f.transitional, f.fresh as afresh, list_contains(f.members,
            {{'process': b.source, 'incarnation': b.source_incarnation}}) as at_once
    from begun b join firsts f on {_same_member("f", "b")} and f.stretch = b.stretch and f.span = b.span
),
chained as (
    select *, {together} as fresh from inside
    window w as (partition by run, "group", process, incarnation, stretch, source, source_incarnation order by ordinal)
),
lines as (
    select *, count(*) filter (fresh) over (
        partition by run, "group", process, incarnation, stretch, source, source_incarnation order by ordinal) as line
    from chained
),
ended as (
    select run, "group", process, incarnation, stretch, source, source_incarnation, line,
        min(span) as position, min_by(begin, ordinal) as begin, list(span) as spans,
        max_by(if(following is null, answered, len(list_filter(following, lambda item: item.source = lines.source
            and item.incarnation = lines.source_incarnation)) = 0 or not came_along(service, next_transitional,
                process, incarnation, source, source_incarnation) or next_afresh), ordinal) as ended
    from lines group by all
),
whole as (
    select e.*, list(v.position) as places, list(v.view) || list(v.era_word) as words
    from ended e join spans v on {_same_member("v", "e")} and v.stretch = e.stretch and list_contains(e.spans, v.span)
    group by all
),
judged as (
    select w.*, (select max(key(p.timestamp, p.source, p.source_incarnation)) from placed p
            where {_same_member("p", "w")} and in_order(p.service)
                and list_contains(w.places, p.view_position)) as most,
        (select max(p.number) from placed p where {_same_member("p", "w")} and in_order(p.service)
            and list_contains(w.places, p.view_position) and p.source = w.source
            and p.source_incarnation = w.source_incarnation) as top
    from whole w
),
missing as (
    select j.*, s.number, s.timestamp from judged j
    join first_sends s on s.run = j.run and s."group" = j."group" and s.process = j.source
        and s.incarnation = j.source_incarnation and s.number >= j.begin and list_contains(j.words, s.agreed)
    where j.most is not null and not exists (
        from placed p where {_same_member("p", "j")} and in_order(p.service)
            and list_contains(j.places, p.view_position)
            and p.source = j.source and p.source_incarnation = j.source_incarnation and p.number = s.number)
    qualify row_number() over (partition by j.run, j."group", j.process, j.incarnation, j.stretch, j.source,
        j.source_incarnation, j.line order by s.number) = 1
)
select d.run, '{property_id}', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from missing d where key(timestamp, source, source_incarnation) < most and not (ended and number > coalesce(top, 0))
"""


O4 = _gaps(
    "O4",
    "ordinal is distinct from lag(ordinal) over w + 1 or not at_once"
    " or afresh or not came_along(service, transitional, process, incarnation, source, source_incarnation)",
)
O7 = _gaps("O7", "true")

D8 = f"""
with asked as (
    select r.*, coalesce(r.truth, r."at") as moment, v.start as view_start, v.stretch as view_stretch
    from repair r asof left join views v on {_same_member("r", "v")} and r.position > v.position
    where r.kind = 'RTR' and reliable(r.service)
),
counted as (
    select a.run, a."group", a.process, a.incarnation, a.position, a.source, a.source_incarnation, a.first, a.last,
        a.moment, clock(a.truth, a.host) as clock, arg_max({{'kind': g.kind, 'position': g.position,
            'sequence': coalesce(g.sequence, -1)}}, g.position) as granted
    from asked a join moves g on g.run = a.run and g."group" = a."group" and g.process = a.source
        and g.incarnation = a.source_incarnation and g.moment <= a.moment and (g.kind = 'LEAVE'
            or (g.kind in ('GRANT', 'SUSPECT') and g.peer = a.process and g.peer_incarnation = a.incarnation))
        and clock(g.truth, g.host) = clock(a.truth, a.host)
    where a.view_stretch is distinct from a.stretch or len(list_filter(a.view_start,
        lambda item: item.source = a.source and item.incarnation = a.source_incarnation)) > 0
    group by all
)
select c.run, 'D8', c."group", c.process, c.incarnation, c.position, null from counted c
where c.granted.kind = 'GRANT' and c.granted.sequence >= 0 and exists (
    from repair g where g.kind = 'GC' and g.run = c.run and g."group" = c."group" and g.process = c.source
        and g.incarnation = c.source_incarnation and g.source = g.process and g.source_incarnation = g.incarnation
        and g.position > c.granted.position and coalesce(g.truth, g."at") < c.moment
        and clock(g.truth, g.host) = c.clock and least(g.last, c.last) >= greatest(c.first, c.granted.sequence)
)
"""

L4 = f"""
with cut_off as (
    select run, name from (
        select run, unnest(members) as name, edge from fault where kind = 'FAULT' and fault not in ('load', 'heal')
    ) group by all having count(*) filter (edge = 'begin') > count(*) filter (edge = 'end')
),
heals as (
    select run, clock(truth, host) as clock, max(coalesce(truth, "at")) as healed from fault
    where kind = 'FAULT' and fault = 'heal' group by all
),
taking as (
    select run, "group", process, incarnation, max(position) filter (kind = 'JOIN') as joined,
        max_by(kind, position) as moved, max_by(moment, position) as moved_at,
        max_by(clock(truth, host), position) as moved_clock
    from moves where kind in ('JOIN', 'LEAVE') and not session(service) group by all
),
ends as (select *, clock(truth, host) as clock from moves where kind = 'END'),
sources as (
    select t.*, e.position as position, e.moment as ended, e.clock from taking t
    join ends e on e.run = t.run and e.process = t.process and e.incarnation = t.incarnation
    join heals h on h.run = t.run and h.clock = e.clock and h.healed <= e.moment - 2000000000
    where t.joined is not null and t.moved = 'JOIN'
        and not exists (from cut_off c where c.run = t.run and c.name = t.process)
),
counted as (
    select s.run, s."group", s.process, s.incarnation, s.ended, s.clock, g.peer, g.peer_incarnation
    from sources s join moves g on {_same_member("g", "s")} and g.kind in ('GRANT', 'SUSPECT') and g.position > s.joined
    group by all having max_by(g.kind, g.position) = 'GRANT'
),
away as (
    select distinct c.run, c."group", c.process, c.incarnation from counted c
    left join taking t on t.run = c.run and t."group" = c."group" and t.process = c.peer
        and t.incarnation = c.peer_incarnation
    where case when t.moved = 'LEAVE' then t.moved_clock <> c.clock or t.moved_at > c.ended - 10000000000
        else exists (from cut_off o where o.run = c.run and o.name = c.peer)
            or not exists (from ends e where e.run = c.run and e.process = c.peer and e.incarnation = c.peer_incarnation
                and e.clock = c.clock and e.moment >= c.ended - 1000000000)
            or coalesce((select max_by(len(list_filter(v.start, lambda item: item.source = c.process
                and item.incarnation = c.incarnation)), v.position) from views v where v.run = c.run
                and v."group" = c."group" and v.process = c.peer and v.incarnation = c.peer_incarnation), 0) = 0 end
),
missing as (
    select s.run, s."group", s.process, s.incarnation, s.position, min(d.number) as number
    from sources s join sends d on {_same_member("d", "s")} and d.position > s.joined
        and d.moment <= s.ended - 2000000000
    where d.sequence > coalesce((select max(g.last) from repair g where {_same_member("g", "s")} and g.kind = 'GC'
        and g.source = g.process and g.source_incarnation = g.incarnation and g.position > s.joined), 0)
    group by all
)
select d.run, 'L4', d."group", d.process, d.incarnation, d.position, {_SENT}
from missing d where not exists (from away a where {_same_member("a", "d")})
"""

L8 = """
with told as (
    select run, "group", kind, coalesce(truth, "at") as moment, clock(truth, host) as clock, source, source_incarnation,
        case when service = 'VS' then view end as stream, first, last from repair where kind in ('RTR', 'RTX')
    union all
    select run, "group", kind, moment, clock(truth, host), null, null, null, null, null from sends
),
spans as (
    select run, "group", (min(moment) filter (kind = 'SEND') + max(moment) filter (kind = 'SEND')) // 2 as middle
    from told group by all having count(distinct clock) = 1 and count(*) filter (kind = 'SEND') > 0
),
late as (
    select t.* from told t join spans s on s.run = t.run and s."group" = t."group" and t.moment > s.middle
    where t.kind <> 'SEND' and not exists (
        from fault f where f.run = t.run and f.kind = 'FAULT' and f.fault not in ('load', 'heal'))
),
begun as (  -- a range begins where none with a lower first reaches
    select distinct l.run, l."group", l.kind, l.source, l.source_incarnation, l.stream, l.first from late l
    where not exists (
        from late e where e.kind = l.kind and e.run = l.run and e."group" = l."group" and e.source = l.source
            and e.source_incarnation = l.source_incarnation and e.stream is not distinct from l.stream
            and e.first < l.first and e.last >= l.first)
),
counts as (
    select l.run, l."group", l.kind, count(*) as rows, (
        select count(*) from begun b where b.run = l.run and b."group" = l."group" and b.kind = l.kind) as ranges
    from late l group by l.run, l."group", l.kind
)
select run, 'L8', "group", '', 0, 0, null from counts where ranges >= 50 and rows > 3 * ranges
"""

L6 = """
with turns as (
    select run, moment, (moment, process, incarnation, position) as place, kind, process as name, "group", 0 as step
    from moves where kind in ('START', 'JOIN', 'LEAVE', 'CRASH', 'END')
    union all
    select run, coalesce(truth, "at"), (coalesce(truth, "at"), process, incarnation, position), fault, '', '',
        case edge when 'begin' then 1 else -1 end
    from fault where kind = 'FAULT'
),
taken as (
    select run, coalesce(truth, "at") as moment, (coalesce(truth, "at"), process, incarnation, position) as place,
        unnest(members) as name, case edge when 'begin' then 1 else -1 end as step
    from fault where kind = 'FAULT' and fault not in ('load', 'heal')
),
times as (select distinct run, moment from turns),
names as (select run, name, min(moment) as started from turns where kind = 'START' group by all),
members as (  -- of runs with sessions, only those who join
    select n.run, n.name from names n where exists (from joins j where j.run = n.run and j.process = n.name)
        or not exists (from joins j where j.run = n.run and session(j.service))
),
known as (select t.run, t.moment, n.name from times t join names n on t.run = n.run and n.started <= t.moment),
alive as (
    select k.run, k.moment, k.name from known k
    join turns m on m.run = k.run and m.name = k.name and m.moment <= k.moment and m.kind in ('START', 'CRASH')
    group by all having max_by(m.kind, m.place) = 'START'
),
emptied as (  -- a LEAVE after which no group is left
    select l.run, l.name, l.place from turns l where l.kind = 'LEAVE' and not exists (
        from turns j where j.run = l.run and j.name = l.name and j.kind = 'JOIN' and j.place < l.place
            and not exists (from turns e where e.run = l.run and e.name = l.name and e.place > j.place
                and e.place <= l.place and (e.kind = 'CRASH' or (e.kind = 'LEAVE' and e."group" = j."group")))
    )
),
gone as (
    select k.run, k.moment, k.name from known k
    join turns m on m.run = k.run and m.name = k.name and m.moment <= k.moment and m.kind in ('JOIN', 'LEAVE')
    left join emptied e on e.run = m.run and e.name = m.name and e.place = m.place
    group by all having max_by(e.place is not null, m.place)
),
away as (
    select k.run, k.moment, k.name from known k
    join taken f on f.run = k.run and f.name = k.name and f.moment <= k.moment
    group by all
    having list_reduce(list_prepend(0, list(f.step order by f.place)), lambda a, b: greatest(0, a + b)) > 0
),
present as (
    select * from alive except select * from gone except select * from away
),
loaded as (
    select t.run, t.moment from times t join turns l on l.run = t.run and l.kind = 'load' and l.moment <= t.moment
    group by all
    having list_reduce(list_prepend(0, list(l.step order by l.place)), lambda a, b: greatest(0, a + b)) > 0
),
due as (
    select l.run, l.moment from loaded l
    where (select count(*) from present p semi join members using (run, name)
            where p.run = l.run and p.moment = l.moment) >= 2
        and 2 * (select count(*) from present p semi join members using (run, name)
                where p.run = l.run and p.moment = l.moment)
            > (select count(*) from known k semi join members using (run, name)
                where k.run = l.run and k.moment = l.moment)
        and not exists (
            from known k join servers s using (run, name) where k.run = l.run and k.moment = l.moment and not exists (
                from present p join servers o using (run, name)
                where p.run = l.run and p.moment = l.moment and o.sort = s.sort))
),
progress as (
    select run, moment from views
    union select run, coalesce(truth, "at") from deliveries where source <> process
),
ticks as (
    select run, moment from times union select run, moment from progress
    union select run, coalesce(truth, "at") from deliveries
),
states as (
    select k.run, k.moment, d.moment is not null and t.moment is not null as due, p.moment is not null as progress
    from ticks k
    asof left join times t on t.run = k.run and k.moment >= t.moment
    left join due d on d.run = t.run and d.moment = t.moment
    left join progress p on p.run = k.run and p.moment = k.moment
),
steps as (
    select *, lead(moment) over w as following, lead(due) over w as still_due, lead(progress) over w as then_progress,
        lead(moment, 2) over w is null as ends, coalesce(lag(due) over w, false) as was_due
    from states window w as (partition by run order by moment)
),
quiet as (
    select *, max(moment) filter (due and (progress or not was_due)) over (
        partition by run order by moment rows between unbounded preceding and current row
    ) as since from steps
)
select run, 'L6', '', '', 0, 0, null from quiet
where due and following is not null and (then_progress or not still_due or ends) and following - since > 10000000000
"""

L7 = """
select run, 'L7', "group", process, incarnation, position, null from gauge where kind = 'GAUGE' and value > cap
"""

D10 = """
with told as (
    select *, first_value(number) over (partition by run, "group", view, sequence, reason
        order by process, incarnation, position) as first
    from membership where kind in ('STATE', 'SAVED', 'LOADED') and in_order(service))
select run, 'D10', "group", process, incarnation, position, null from told where number is distinct from first
"""

D11 = f"""
with asked as (
    select run, "group", process, incarnation, number, arg_min({{'size': size, 'body': body, 'truth': truth}}, position)
        as first from proxy where kind = 'ASKED' group by all),
handed as (from proxy where kind = 'HANDED')
select h.run, 'D11', h."group", h.process, h.incarnation, h.position,
    {_MESSAGE % ("h.origin", "h.origin_incarnation", "h.number")}
from handed h left join asked a
on h.run = a.run and h."group" = a."group" and h.origin = a.process and h.origin_incarnation = a.incarnation
    and h.number = a.number
where a.run is null or a.first.size <> h.size or a.first.body <> h.body or a.first.truth > h.truth
    or exists (
        from handed e where {_same_member("h", "e")} and h.origin = e.origin
            and h.origin_incarnation = e.origin_incarnation and e.position < h.position
            and (e.number = h.number or (in_line(h.service) and e.number > h.number)))
"""

AUDITS = {
    "D11": D11,
    "D10": D10,
    "D1": D1,
    "D2": D2,
    "D8": D8,
    "M3": M3,
    "O1": O1,
    "O2": O2,
    "O3": O3,
    "O4": O4,
    "O6": O6,
    "O7": O7,
    "O8": O8,
    "L2": L2,
    "L4": L4,
    "L6": L6,
    "L7": L7,
    "L8": L8,
    **duckdb_wellformed.AUDITS,
    **duckdb_membership.AUDITS,
    **duckdb_promises.AUDITS,
    **duckdb_sessions.AUDITS,
}


def places(directory: Path) -> Counter[Place]:
    """Where each property is violated in the tables of a folder."""
    found: Counter[Place] = Counter()
    with duckdb.connect() as database:
        for family in FAMILIES:
            database.execute(f"create view {family} as from read_parquet('{directory / family}.parquet')")
        database.execute(_VIEWS + duckdb_membership.VIEWS)
        database.execute(duckdb_sessions.VIEWS)
        database.execute(duckdb_wellformed.VIEWS)
        for query in (*AUDITS.values(), *duckdb_sessions.PARTS):
            found.update(database.execute(query).fetchall())
    return found
