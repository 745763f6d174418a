"""Promises to those who stay, in SQL: what leavers had sent, and that everybody goes on."""

from __future__ import annotations

from tests.pipeline.duckdb_membership import MESSAGE, same_group, same_life, same_member

D13 = f"""
with told as (
    select w.*, v.view as v_view, v.era as v_era, v.start as v_start, v.service as v_service, gone.process as source,
        gone.incarnation as source_incarnation,
        list_filter(v.start, lambda one: one.source = gone.process and one.incarnation = gone.incarnation)[-1].number
            as begin
    from (select *, unnest(reasons) as gone from views where reliable(service) and service is distinct from 'VS-weak') w
    asof join views v on {same_member("w", "v")} and w.position > v.position
    where gone.reason = 'left' and v.stretch = w.stretch and reliable(v.service)
        and v.service is distinct from 'VS-weak' and (gone.process, gone.incarnation) <> (w.process, w.incarnation)
        and not exists (from (from joins union all by name from fresh) f where {same_member("f", "w")}
            and f.position between v.position and w.position)
),
farewells as (
    select run, "group", process, incarnation, max(position) as position from moves where kind = 'LEAVE'
    group by all having count(*) = 1 and count(reason) = 0
),
owed as (
    select t.run, t."group", t.process, t.incarnation, t.position, t.stretch, t.source, t.source_incarnation, s.number
    from told t join farewells f on {same_group("f", "t")} and f.process = t.source
        and f.incarnation = t.source_incarnation
    join first_sends s on {same_member("s", "f")} and s.position < f.position
    where clock(s.truth, s.host) = clock(t.truth, t.host) and s.moment <= t.moment
        and t.begin is not null and (session(t.v_service) or s.number >= t.begin)
        and (not gapless(t.v_service) or (s.agreed is not distinct from coalesce(t.v_era, t.v_view)
            and not exists (from views m where {same_member("m", "s")} and gapless(m.service) and m.era is null
                and m.position between s.position and f.position)
            and not exists (from moves m where {same_member("m", "s")} and m.kind = 'AGREED'
                and m.position between s.position and f.position)))
)
select o.run, 'D13', o."group", o.process, o.incarnation, o.position,
    {MESSAGE % ("o.source", "o.source_incarnation", "min(o.number)")}
from owed o where not exists (
    from deliveries d where {same_member("d", "o")} and d.stretch = o.stretch and d.position < o.position
        and d.source = o.source and d.source_incarnation = o.source_incarnation and d.number = o.number)
group by o.run, o."group", o.process, o.incarnation, o.position, o.source, o.source_incarnation
"""

_TURNS = """
stops as (from moves where kind in ('CRASH', 'END')),
turns as (
    select run, "group", process, incarnation, position, stretch, moment, clock(truth, host) as clock, false as held,
        null as start from moves where kind in ('JOIN', 'LEAVE', 'SELF_FAIL', 'BOOTSTRAP')
    union all
    select run, "group", process, incarnation, position, stretch, moment, clock(truth, host),
        reliable(service) and not session(service), start from views
    union all
    select run, "group", process, incarnation, position, stretch, coalesce(truth, "at"), clock(truth, host), false, null
    from gauge where kind = 'GAUGE' and (not reliable(service) or session(service))
)
"""


def _placed(sent: str) -> str:
    """What was sent, for each other member of the group, with the turn that this one was in."""
    turn = "{'position': t.position, 'stretch': t.stretch, 'held': t.held, 'start': coalesce(t.start, [])}"
    return f"""
placed as (
    select s.run, s."group", s.process as source, s.incarnation as source_incarnation, s.number, s.moment,
        s.moment + 10000000000 as until, clock(s.truth, s.host) as clock, t.process, t.incarnation,
        arg_max({turn}, t.position) as turn
    from {sent} s join turns t on {same_group("s", "t")} and t.process <> s.process and t.moment <= s.moment
        and t.clock = clock(s.truth, s.host)
    group by s.run, s."group", s.process, s.incarnation, s.number, s.moment, s.truth, s.host, t.process, t.incarnation
),
named as (
    select run, unnest(list_distinct(members)) as name, coalesce(truth, "at") as moment,
        case edge when 'begin' then 1 else -1 end as step
    from fault where kind = 'FAULT' and fault not in ('load', 'heal')
)
"""


_CONNECTED = f"""
        not exists (from moves m where {same_group("m", "p")} and m.kind in ('JOIN', 'LEAVE')
            and m.moment between p.moment and p.until and ({same_life("m", "p")}
                or (m.process = p.source and m.incarnation = p.source_incarnation)))
        and not exists (from gauge g where {same_member("g", "p")} and g.kind = 'GAUGE'
            and (not reliable(g.service) or session(g.service))
            and coalesce(g.truth, g."at") between p.moment and p.until)
        and not exists (from stops m where m.run = p.run and clock(m.truth, m.host) = p.clock
            and m.moment between p.moment and p.until and ({same_life("m", "p")}
                or (m.process = p.source and m.incarnation = p.source_incarnation)))
        and exists (from stops m where m.run = p.run and clock(m.truth, m.host) = p.clock and m.moment > p.until
            and {same_life("m", "p")})
        and exists (from stops m where m.run = p.run and clock(m.truth, m.host) = p.clock and m.moment > p.until
            and m.process = p.source and m.incarnation = p.source_incarnation)
        and not exists (from named n where n.run = p.run and n.name in (p.process, p.source)
            and n.moment between p.moment and p.until)
        and coalesce((select sum(n.step) from named n where n.run = p.run and n.name = p.process
            and n.moment < p.moment), 0) <= 0
        and coalesce((select sum(n.step) from named n where n.run = p.run and n.name = p.source
            and n.moment < p.moment), 0) <= 0
"""
"""Where both stay, with no fault of either, as long as that takes."""

L9 = f"""
with {_TURNS}, {_placed("sends")},
waiting as (
    select * from placed p where turn.held
        and len(list_filter(turn.start,
            lambda one: one.source = p.source and one.incarnation = p.source_incarnation)) > 0
        and not exists (from deliveries d where {same_member("d", "p")} and d.source <> d.process
            and coalesce(d.truth, d."at") between p.moment and p.until)
        and not exists (from views v where {same_member("v", "p")} and v.moment between p.moment and p.until)
        and {_CONNECTED}
),
firsts as (
    select run, "group", process, incarnation, turn.position as position,
        min({{'t': moment, 's': source, 'i': source_incarnation, 'n': number}}) as first from waiting group by all
)
select run, 'L9', "group", process, incarnation, position, {MESSAGE % ("first.s", "first.i", "first.n")} from firsts
"""

D7 = f"""
with passed as (
    select w.run, w."group", w.process, w.incarnation, w.position, w.stretch, w.moment, clock(w.truth, w.host) as clock,
        v.source, v.source_incarnation, v.begin, gapless(v.service) as agreed, coalesce(v.era, v.view) as era
    from views w join (
        select p.* exclude (start), point.source as source, point.incarnation as source_incarnation,
            list_filter(start, lambda one: one.source = point.source and one.incarnation = point.incarnation)[-1].number
                as begin
        from (select *, unnest(list_distinct(list_transform(start, lambda one:
            {{'source': one.source, 'incarnation': one.incarnation}}))) as point from views) p
    ) v on {same_member("w", "v")} and v.stretch = w.stretch and v.position = (
        select max(b.position) from views b where {same_member("b", "w")} and b.position < w.position)
    where reliable(w.service) and reliable(v.service) and not session(w.service) and not session(v.service)
        and (v.source, v.source_incarnation) <> (w.process, w.incarnation)
        and case when gapless(v.service) then v.role = 'sender' and w.era is null else len(list_filter(w.start,
            lambda one: one.source = v.source and one.incarnation = v.source_incarnation)) = 0 end
        and not exists (from (from joins union all by name from fresh) f where {same_member("f", "w")}
            and f.position between v.position and w.position)
),
releases as (
    select run, "group", process, incarnation, position, first, last, coalesce(truth, "at") as moment,
        clock(truth, host) as clock
    from repair where kind = 'GC' and source = process and source_incarnation = incarnation
),
received as (
    select distinct p.*, s.number
    from passed p join first_sends s on {same_group("s", "p")} and s.process = p.source
        and s.incarnation = p.source_incarnation and s.number >= p.begin
    join releases r on {same_member("r", "s")} and s.sequence between r.first and r.last and r.position > s.position
        and r.clock = p.clock and r.moment <= p.moment
    where s.sequence >= (
            select arg_max(case when c.kind = 'GRANT' then coalesce(c.sequence, {2**62}) else {2**62} end, c.position)
            from moves c where {same_member("c", "s")} and c.position < r.position and (c.kind = 'LEAVE'
                or (c.kind in ('GRANT', 'SUSPECT') and c.peer = p.process and c.peer_incarnation = p.incarnation)))
        and (not p.agreed or (s.agreed is not distinct from p.era
            and not exists (from views m where {same_member("m", "s")} and gapless(m.service) and m.era is null
                and m.position between s.position and r.position)
            and not exists (from moves m where {same_member("m", "s")} and m.kind = 'AGREED'
                and m.position between s.position and r.position)))
)
select o.run, 'D7', o."group", o.process, o.incarnation, o.position,
    {MESSAGE % ("o.source", "o.source_incarnation", "min(o.number)")}
from received o where not exists (
    from deliveries d where {same_member("d", "o")} and d.stretch = o.stretch and d.position < o.position
        and d.source = o.source and d.source_incarnation = o.source_incarnation and d.number = o.number)
group by o.run, o."group", o.process, o.incarnation, o.position, o.source, o.source_incarnation
"""

L11 = f"""
with {_TURNS},
lives as (
    from sends qualify row_number() over (partition by run, "group", process, incarnation order by position) = 1
),
{_placed("lives")}
select p.run, 'L11', p."group", p.process, p.incarnation, p.turn.position,
    {MESSAGE % ("p.source", "p.source_incarnation", "p.number")}
from placed p where p.turn.held
    and exists (from views v where {same_member("v", "p")} and v.stretch = p.turn.stretch
        and v.position <= p.turn.position and reliable(v.service) and not session(v.service)
        and len(list_filter(v.start,
            lambda one: one.source = p.source and one.incarnation <> p.source_incarnation)) > 0)
    and not exists (from views v where {same_member("v", "p")} and v.moment <= p.until
        and len(list_filter(v.start,
            lambda one: one.source = p.source and one.incarnation = p.source_incarnation)) > 0)
    and not exists (from deliveries d where {same_member("d", "p")} and d.source = p.source
        and d.source_incarnation = p.source_incarnation and coalesce(d.truth, d."at") <= p.until)
    and {_CONNECTED}
"""

L10 = f"""
with told as (
    select run, "group", process, incarnation, position, stretch, truth, kind, coalesce(era, view) as era, role,
        era is null as agreed, in_order(service) as held,
        list_distinct([{{'process': s.source, 'incarnation': s.incarnation}} for s in coalesce(start, [])]) as members
    from views where truth is not null
    union all by name
    select run, "group", process, incarnation, position, stretch, truth, kind
    from moves where kind in ('JOIN', 'LEAVE') and truth is not null
),
successions as (
    select w.run, w."group", w.process, w.incarnation, w.position, w.truth as moment, v.era, w.members,
        v.role is not distinct from 'receiver' and w.role is not distinct from 'receiver' as only_receives,
        v.members as before, v.position as before_position, w.truth - 10000000000 as since,
        w.truth + 10000000000 as until, w.stretch - v.stretch as step
    from told w join told v on {same_member("v", "w")} and v.position < w.position
    where w.kind = 'VIEW' and w.held and w.agreed and v.kind = 'VIEW' and v.held
        and not exists (from told b where {same_member("b", "w")} and b.position > v.position
            and b.position < w.position)
),
partings as (
    select s.*, behind,
        exists (from moves m where {same_member("m", "s")} and m.kind = 'SELF_FAIL' and m.truth is not null
            and m.position between s.before_position and s.position) as failed
    from successions s, lateral (
        select coalesce(list(m.peer), []) as behind from moves m
        where {same_member("m", "s")} and m.kind = 'LEFT_BEHIND' and m.truth is not null and m.peer is not null
            and m.position between s.before_position and s.position)
    where step = 0 or (step = 1 and failed)
),
there as (
    select p.*, p.gone.process as name from (select *, unnest(before) as gone from partings) p
    where p.gone <> {{'process': p.process, 'incarnation': p.incarnation}}
        and not list_contains(p.members, p.gone)
        and not exists (from moves m where m.run = p.run and m.process = p.gone.process
            and m.incarnation = p.gone.incarnation
            and (m.kind = 'END' and m.truth <= p.moment or m.kind = 'CRASH' and m.truth <= p.until))
        and not exists (from moves m where {same_group("m", "p")} and m.process = p.gone.process
            and m.incarnation = p.gone.incarnation and m.truth between p.since and p.until
            and (m.kind in ('LEAVE', 'SELF_FAIL')
                or (m.truth <= p.moment and (m.kind = 'PLEAVE' or (m.kind = 'ROLE' and m.role = 'receiver')))))
        and not (
            exists (from moves m where {same_member("m", "p")} and m.kind = 'EXCLUDED' and m.truth is not null
                and m.position between p.before_position and p.position)
            and exists (
                from (select run, "group", process, incarnation, truth, coalesce(era, view) as era from views
                    union all
                    select run, "group", process, incarnation, truth, reason from moves where kind = 'AGREED') m
                where {same_group("m", "p")} and m.process = p.gone.process and m.incarnation = p.gone.incarnation
                    and m.truth is not null and m.era is not distinct from p.era))
),
left_out as (
    select *, list(name) over (partition by run, "group", process, incarnation, position) as names,
        len(list_filter(before, lambda one: list_contains(members, one))) as together
    from there
),
beside as (
    select run, "group", process, incarnation, position, list(distinct theirs) as beside
    from (select l.run, l."group", l.process, l.incarnation, l.position, unnest((
            select max({{'p': t.position, 'm': list_transform(t.members, lambda one: one.process)}}) from told t
            where {same_group("t", "l")} and t.process = l.gone.process and t.incarnation = l.gone.incarnation
                and t.kind = 'VIEW' and t.held and t.truth <= l.moment).m) as theirs from left_out l)
    group by all
),
companies as (
    select * exclude (beside), list_concat(behind, [process], case when smaller
        then list_concat(names, list_filter(coalesce(beside, []), lambda one:
            not list_contains(list_transform(members, lambda other: other.process), one)))
        else list_append(list_transform(members, lambda one: one.process), name) end) as company
    from (select *, only_receives and len(names) > together as smaller from left_out)
        left join beside using (run, "group", process, incarnation, position)
    where smaller or not failed
),
felt as (
    select p.run, p.moment, f.fault, f.sides
    from (select distinct run, moment, since from companies) p join fault f on f.run = p.run
    where f.kind = 'FAULT' and f.fault not in ('load', 'heal') and len(f.sides) > 0
    group by all
    having count(*) filter (f.edge = 'begin' and f.truth <= p.moment)
        > count(*) filter (f.edge = 'end' and f.truth < p.since)
)
select distinct c.run, 'L10', c."group", c.process, c.incarnation, c.position, null from companies c
where not exists (from felt f where f.run = c.run and f.moment = c.moment
    and len(list_filter(f.sides, lambda side: list_has_all(side, c.company))) = 0)
"""

AUDITS = {"D7": D7, "D13": D13, "L9": L9, "L10": L10, "L11": L11}
