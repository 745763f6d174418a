"""The properties of sessions once more, in SQL: those of their own, and what others ask of sessions alone."""

from __future__ import annotations

from tests.pipeline.duckdb_membership import MESSAGE, same_group, same_life, same_member

_SENT = MESSAGE % ("d.process", "d.incarnation", "d.number")
_HEARD = MESSAGE % ("d.source", "d.source_incarnation", "d.number")

VIEWS = f"""
create table turned as  -- where strong sessions have a view, or none any more
    select run, "group", process, incarnation, position, 'VIEW' as kind, view, moment, clock(truth, host) as clock
    from views where service = 'VS'
    union all select run, "group", process, incarnation, position, kind, null, moment, clock(truth, host) from moves
    where service = 'VS' and kind in ('JOIN', 'LEAVE', 'EXCLUDED');
create table announced as select *, coalesce(number, 0) as change from moves
    where service = 'VS' and kind = 'START_CHANGE';
create table session_sends as select *, service = 'VS' and agreed is not null and agreed is distinct from view as hopes
    from first_sends where session(service);
create table session_heard as select *, service = 'VS' as strong from deliveries where session(service);
create table given_back as select *, coalesce(number, 0) as what from moves
    where service = 'VS' and kind = 'RETURNED';
create table seats as  -- who is there at its end, with its last view
    with moved as (
        select run, "group", process, incarnation, max(position) as turned,
            max_by({{'kind': kind, 'service': service}}, position) filter (kind <> 'EXCLUDED') as last
        from moves where session(service) and kind in ('JOIN', 'LEAVE', 'EXCLUDED') group by all
    )
    select m.run, m."group", m.process, m.incarnation, m.last.service = 'VS' as strong, v.view,
        v.position, v.moment, [{{'process': s.source, 'incarnation': s.incarnation}} for s in v.start] as members,
        e.position as end_position, e.moment as ended, e.clock
    from moved m join views v on {same_member("v", "m")} and session(v.service) and v.position > m.turned
    join ends e on e.run = m.run and {same_life("e", "m")}
    where m.last.kind = 'JOIN' and not exists (from cut_names c where c.run = m.run and c.name = m.process)
    qualify row_number() over (partition by m.run, m."group", m.process, m.incarnation order by v.position desc) = 1;
"""

M8 = f"""
select d.run, 'M8', d."group", d.process, d.incarnation, d.position, {_SENT} from sends d
where d.service = 'VS' and d.agreed is not distinct from d.view and (
    select max_by(t.kind, t.position) from (
        select run, "group", process, incarnation, position, kind from turned
        union all select run, "group", process, incarnation, position, kind from moves
        where kind = 'BLOCK_OK' and service = 'VS'
    ) t where {same_member("t", "d")} and t.position < d.position) = 'BLOCK_OK'
union all
select d.run, 'M8', d."group", d.process, d.incarnation, d.position, null from (
    select v.*, (select max_by(coalesce(a.members, []), a.position) from announced a where {same_member("a", "v")}
        and a.position < v.position and a.position > coalesce((select max(t.position) from turned t
            where {same_member("t", "v")} and t.position < v.position), -1)) as expected
    from views v where v.service = 'VS'
) d where case when expected is null then previous is not null else len(list_filter(start, lambda one:
    not list_contains(expected, {{'process': one.source, 'incarnation': one.incarnation}}))) > 0 end
"""

M10 = f"""
with views_with as (
    select v.*, (select max_by(a.change, a.position) from announced a where {same_member("a", "v")}
        and a.position < v.position) as last_change from views v where v.service = 'VS'
),
cuts as (from repair where kind = 'CUT' and service = 'VS')
select run, 'M10', "group", process, incarnation, position, null from announced
qualify change <= lag(change) over (partition by run, "group", process, incarnation order by position)
union all
select d.run, 'M10', d."group", d.process, d.incarnation, d.position, null from cuts d
where not exists (
    from turned t where {same_member("t", "d")} and t.kind = 'VIEW' and t.view = d.view and t.position < d.position
        and not exists (from turned o where {same_member("o", "t")} and o.position > t.position
            and o.position < d.position)
        and d.peer = (select max_by(a.change, a.position)::varchar from announced a where {same_member("a", "d")}
            and a.position > t.position and a.position < d.position))
union all
select d.run, 'M10', d."group", d.process, d.incarnation, d.position, null from views_with d
where d.change is distinct from d.last_change or (d.previous is not null and exists (
    from (select unnest(d.transitional) as one) q
    where q.one <> {{'process': d.process, 'incarnation': d.incarnation}}
        and exists (from cuts c where {same_group("c", "d")} and c.view = d.previous and c.process = q.one.process
            and c.incarnation = q.one.incarnation)
        and not exists (from cuts c where {same_group("c", "d")} and c.view = d.previous
            and c.process = q.one.process and c.incarnation = q.one.incarnation and c.peer = d.change::varchar)))
"""

D12 = f"""
with following as (
    select s.*, (select list({{'at': t.position, 'kind': t.kind, 'view': t.view, 'moment': t.moment, 'clock': t.clock}}
        order by t.position) from turned t where {same_member("t", "s")} and t.position > s.position)[1:2] as turns
    from session_sends s where s.hopes
),
judged as (
    select f.*, f.turns[1].at as entered, coalesce(f.turns[2].at, e.position) as until,
        f.turns[1].view is not distinct from f.agreed as fulfilled
    from following f left join ends e on e.run = f.run and {same_life("e", "f")}
    where len(list_filter(f.turns, lambda one: one.kind <> 'VIEW')) = 0 and len(f.turns) > 0
        and (len(f.turns) = 2 or (e.clock = f.turns[1].clock and f.turns[1].moment <= e.moment - 2000000000))
)
select d.run, 'D12', d."group", d.process, d.incarnation, d.position, {_HEARD}
from session_heard d join session_sends s on {same_group("s", "d")} and s.process = d.source
    and s.incarnation = d.source_incarnation and s.number = d.number
where d.strong and s.hopes and d.view is distinct from s.agreed
union all
select d.run, 'D12', d."group", d.process, d.incarnation, d.position,
    {MESSAGE % ("d.process", "d.incarnation", "d.what")}
from given_back d where not exists (from session_sends s where {same_member("s", "d")} and s.hopes
        and s.number = d.what and s.position < d.position)
    or exists (from given_back o where {same_member("o", "d")} and o.what = d.what and o.position < d.position)
    or exists (from session_heard h where {same_group("h", "d")} and h.strong and h.source = d.process
        and h.source_incarnation = d.incarnation and h.number = d.what)
union all
select d.run, 'D12', d."group", d.process, d.incarnation, d.position, {_SENT} from judged d
where case when fulfilled then not exists (
        from session_heard h where {same_member("h", "d")} and h.strong and h.source = d.process
            and h.source_incarnation = d.incarnation and h.number = d.number and h.position > d.entered
            and h.position < d.until)
    else not exists (from given_back b where {same_member("b", "d")} and b.what = d.number
        and b.position > d.position and b.position < d.until) end
"""

O2 = f"""
with numbered as (
    select v.*, row_number() over (partition by v.run, v."group", v.process, v.incarnation order by v.position)
        as ordinal, (select count(*) from joins j where {same_member("j", "v")} and j.position < v.position) as stay
    from views v where session(v.service)
),
holding as (
    select distinct run, "group", process, incarnation, position, stretch, stay, ordinal,
        one.source as source, one.incarnation as source_incarnation
    from (select *, unnest(start) as one from numbered)
),
spells as (
    select *, min(position) over (partition by run, "group", process, incarnation, source, source_incarnation, stay,
        stretch, island) as begin from (
        select *, ordinal - row_number() over (partition by run, "group", process, incarnation, source,
            source_incarnation, stay, stretch order by position) as island from holding)
),
placed as (
    select d.*, s.begin as spell from session_heard d
    asof left join views v on {same_member("v", "d")} and d.position > v.position
    asof left join joins j on {same_member("j", "d")} and d.position > j.position
    left join spells s on {same_member("s", "d")} and s.position = v.position and s.source = d.source
        and s.source_incarnation = d.source_incarnation and v.stretch = d.stretch
        and (j.position is null or j.position < v.position)
),
lines as (
    select *, case when strong then coalesce(view, '') else 'spell ' || spell end as line from placed
    where strong or spell is not null
),
firsts as (
    select run, "group", process, incarnation, source, source_incarnation, strong, line, min(position) as position
    from lines group by all
),
streams as (  -- what was sent for one view, beside every line
    select f.*, s.number, coalesce(s.agreed, '') as stream, exists (
        from lines l where {same_member("l", "f")} and l.source = f.source
            and l.source_incarnation = f.source_incarnation and l.strong = f.strong and l.line = f.line
            and l.number = s.number) as got
    from firsts f join session_sends s on {same_group("s", "f")} and s.process = f.source
        and s.incarnation = f.source_incarnation and (not f.strong or coalesce(s.agreed, '') = f.line)
    where not (f.strong and exists (from given_back b where {same_member("b", "s")} and b.number = s.number))
),
bounded as (
    select *, max(number) filter (got) over w as top, min(number) filter (got) over w as low from streams
    window w as (partition by run, "group", process, incarnation, source, source_incarnation, strong, line, stream)
)
select d.run, 'O2', d."group", d.process, d.incarnation, d.position, {_HEARD} from placed d where d.spell is null
union all
select run, 'O2', "group", process, incarnation, position,
    {MESSAGE % ("source", "source_incarnation", "min(number)")}
from bounded where not got and number < top and (strong or number > low)
group by run, "group", process, incarnation, position, source, source_incarnation, strong, line, stream
"""

L2 = f"""
with pairs as (
    select p.*, q.process as source, q.incarnation as source_incarnation, q.moment as other_moment,
        least(p.ended, q.ended) - 2000000000 as due
    from seats p join seats q on {same_group("q", "p")} and q.clock = p.clock and q.view = p.view
        and list_contains(p.members, {{'process': q.process, 'incarnation': q.incarnation}})
),
owing as (
    select p.*, s.number from pairs p join session_sends s on {same_group("s", "p")} and s.process = p.source
        and s.incarnation = p.source_incarnation and s.moment <= p.due and clock(s.truth, s.host) = p.clock
    where greatest(p.moment, p.other_moment) <= p.due and s.agreed = p.view
)
select d.run, 'L2', d."group", d.process, d.incarnation, d.end_position,
    {MESSAGE % ("d.source", "d.source_incarnation", "min(d.number)")}
from owing d where not exists (from session_heard h where {same_member("h", "d")} and h.source = d.source
    and h.source_incarnation = d.source_incarnation and h.number = d.number)
group by d.run, d."group", d.process, d.incarnation, d.end_position, d.source, d.source_incarnation
"""

L4 = f"""
with judged as (
    select p.* from seats p where p.strong and p.moment <= p.ended - 2000000000
        and (select max(coalesce(f.truth, f."at")) from fault f where f.run = p.run and f.kind = 'FAULT'
            and f.fault = 'heal' and clock(f.truth, f.host) = p.clock) <= p.ended - 2000000000
        and not exists (from moves c where {same_member("c", "p")} and c.kind = 'START_CHANGE'
            and session(c.service) and c.position > p.position)
        and not exists (
            from (select unnest(p.members) as one) m
            where m.one <> {{'process': p.process, 'incarnation': p.incarnation}} and not exists (
                from seats q where {same_group("q", "p")} and q.process = m.one.process
                    and q.incarnation = m.one.incarnation and q.view = p.view and q.clock = p.clock
                    and q.moment <= p.ended - 2000000000 and q.ended >= p.ended - 1000000000))
)
select d.run, 'L4', d."group", d.process, d.incarnation, d.end_position,
    {MESSAGE % ("d.process", "d.incarnation", "min(s.number)")}
from judged d join session_sends s on {same_member("s", "d")} and s.agreed = d.view
    and s.moment <= d.ended - 2000000000
where s.sequence > coalesce((select max(g.last) from repair g where {same_member("g", "d")} and g.kind = 'GC'
    and session(g.service) and g.view = d.view and g.source = g.process and g.source_incarnation = g.incarnation), 0)
group by d.run, d."group", d.process, d.incarnation, d.end_position
"""

AUDITS = {"M8": M8, "M10": M10, "D12": D12}

PARTS = (O2, L2, L4)
"""What properties that others promise, too, ask of sessions alone."""
