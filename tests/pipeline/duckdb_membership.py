"""The properties of agreed views once more, in SQL: everything against everything, straight from the statements."""

from __future__ import annotations

MESSAGE = "format('{}~{:x}/{}', %s, %s, %s)"
_DELIVERED = MESSAGE % ("d.source", "d.source_incarnation", "d.number")
_SENT = MESSAGE % ("d.process", "d.incarnation", "d.number")
_GROUP = 'x.run = y.run and x."group" = y."group"'
_LIFE = "x.process = y.process and x.incarnation = y.incarnation"


def same_group(one: str, other: str) -> str:
    return _GROUP.replace("x.", f"{one}.").replace("y.", f"{other}.")


def same_life(one: str, other: str) -> str:
    return _LIFE.replace("x.", f"{one}.").replace("y.", f"{other}.")


def same_member(one: str, other: str) -> str:
    return f"{same_group(one, other)} and {same_life(one, other)}"


def _start_of(starts: str, source: str, incarnation: str) -> str:
    return f"list_filter({starts}, lambda item: item.source = {source} and item.incarnation = {incarnation})[-1].number"


VIEWS = f"""
create table common_views as select *,
    {{'process': process, 'incarnation': incarnation, 'position': position}} as place,
    {{'process': process, 'incarnation': incarnation}} as itself,
    {{'t': start_time, 'l': leader, 'i': leader_incarnation, 's': leader_sequence}} as identifier,
    coalesce(era, view) as era_word,
    list_sort(list_distinct([{{'process': s.source, 'incarnation': s.incarnation}} for s in start])) as members
    from views where common(service);
create table agreed as from common_views where gapless(service);
create table common_steps as
    select b.*, a.position as a_position, a.view as a_view, a.role as a_role, a.whole as a_whole, a.start as a_start,
        a.identifier as a_identifier, a.era_word as a_era,
        a.position is not null and exists (from fresh f where {same_member("f", "b")}
            and f.position between a.position and b.position) as fresh
    from common_views b asof left join common_views a on {same_member("a", "b")} and a.stretch = b.stretch
        and b.position > a.position;
create table steps as from common_steps where gapless(service);
create table roles as
    select run, "group", process, incarnation, position, moment, role from common_views
    union all select run, "group", process, incarnation, position, moment, role from moves where kind = 'ROLE';
create table spans as  -- where the views of one era in a row begin
    select s.*, (select max(b.position) from steps b where {same_member("b", "s")} and b.stretch = s.stretch
        and b.position <= s.position
        and (b.era is null or b.fresh or b.a_era is distinct from b.era)) as span
    from steps s;
create table transitions as select * from spans where a_view = previous and not fresh;
create table eras as
    select d.run, d."group", d.process, d.incarnation, d.position,
        case when v.view = d.view and v.era is not null then v.era else d.view end as era
    from deliveries d asof left join views v on {same_member("d", "v")} and d.position > v.position;
create table heard as
    select d.run, d."group", d.process, d.incarnation, d.stretch, d.view, e.era, d.source, d.source_incarnation,
        d.number, min(d.position) as position
    from deliveries d join eras e on {same_member("d", "e")} and d.position = e.position
    where gapless(d.service) group by all;
create table ends as
    select run, process, incarnation, max(position) as position, max_by(moment, position) as moment,
        max_by(clock(truth, host), position) as clock
    from moves where kind = 'END' group by all;
create table telling as
    select run, "group", process, incarnation, position, stretch, service from joins
    union all select run, "group", process, incarnation, position, stretch, service from views
    union all select run, "group", process, incarnation, position, stretch, service from sends
    union all select run, "group", process, incarnation, position, stretch, service from deliveries
    union all select run, "group", process, incarnation, position, stretch, service from gauge where kind = 'GAUGE';
create table cut_names as
    select run, name, list({{'moment': moment, 'clock': clock}}) filter (edge = 'begin') as begins from (
        select run, unnest(members) as name, edge, coalesce(truth, "at") as moment, clock(truth, host) as clock
        from fault where kind = 'FAULT' and fault not in ('load', 'heal')
    ) group by all having count(*) filter (edge = 'begin') > count(*) filter (edge = 'end');
create table standing as
    select e.run, t."group", e.process, e.incarnation, e.position, e.moment as ended, e.clock,
        e.moment - 10000000000 as due,
        max_by(t.service, t.position) filter (t.service is not null) as service, max(t.stretch) as stretch,
        (select max_by(m.kind, m.position) from moves m where m.run = e.run and m."group" = t."group"
            and {same_life("m", "e")} and m.kind in ('JOIN', 'LEAVE')) as moved,
        exists (from cut_names c where c.run = e.run and c.name = e.process) as lost,
        coalesce((select max(coalesce(f.truth, f."at")) from fault f where f.run = e.run and f.kind = 'FAULT'
            and f.fault = 'heal' and clock(f.truth, f.host) = e.clock) <= e.moment - 10000000000, false) as healed
    from ends e join telling t on e.run = t.run and {same_life("e", "t")}
    group by e.run, t."group", e.process, e.incarnation, e.position, e.moment, e.clock;
"""


def _at_view(property_id: str, table: str, condition: str) -> str:
    return f"""
select d.run, '{property_id}', d."group", d.process, d.incarnation, d.position, null from {table} d where {condition}
"""


M1 = _at_view("M1", "common_views", "d.role = 'sender' and not list_contains(d.members, d.itself)")

M2 = _at_view(
    "M2",
    "common_steps",
    "d.identifier < d.a_identifier or (d.identifier = d.a_identifier and not d.fresh)",
)

M4 = _at_view(
    "M4",
    """(
    select *, first_value(identifier) over w as first_identifier, first_value(members) over w as first_members,
        first_value(era_word) over w as first_era,
        first_value(place) over (partition by run, "group", view order by not whole, place) as whole_place
    from common_views window w as (partition by run, "group", view order by place)
)""",
    """d.identifier <> d.first_identifier or d.members <> d.first_members
        or d.era_word is distinct from d.first_era or (d.whole and exists (
    from common_views o where o.run = d.run and o."group" = d."group" and o.view is not distinct from d.view
        and o.place = d.whole_place and (list_sort(o.start) <> list_sort(d.start)
            or list_sort(o.merged) <> list_sort(d.merged) or o.primary is distinct from d.primary)))""",
)

M5 = f"""
with whole as (
    select *, position = max(position) over (partition by run, "group", process, incarnation, view, role) as latest
    from agreed where whole
),
known as (
    select w.*, coalesce((select max_by(e.members, e.position) || w.became from agreed e
        where {same_member("e", "w")} and e.stretch = w.stretch and e.position < w.position and e.view = w.previous
        having count(*) > 0), [w.itself]) as possible
    from (select *, [{{'process': r.process, 'incarnation': r.incarnation}} for r in reasons if r.reason = 'sends now']
        as became from whole) w
)
select d.run, 'M5', d."group", d.process, d.incarnation, d.position, null from known d
where d.transitional is null
    or len(list_filter(d.transitional, lambda one: not list_contains(d.members, one)
        or not list_contains(d.possible, one))) > 0
    or (d.latest and exists (
        from whole q where {same_group("q", "d")} and q.view = d.view and q.role = 'sender' and q.latest
            and case when d.role = 'sender' then list_contains(d.transitional, q.itself)
                <> (q.itself = d.itself or coalesce(q.previous = d.previous, false))
            else q.previous = d.previous and list_sort(list_distinct(coalesce(q.transitional, [])))
                    <> list_sort(list_distinct(d.transitional)) end))
"""

M7 = _at_view(
    "M7",
    "ranked",
    f"""exists (
    from ranked o where {same_group("o", "d")} and o.ordinal < d.ordinal
        and (o.ordinal = d.ordinal - 1 or o.start_time = d.start_time) and not list_has_any(o.names, d.names))""",
).replace(
    "\nselect",
    """
with firsts as (
    select *, [one.process for one in members] as names from agreed a where a.primary
    qualify row_number() over (partition by run, "group", view order by place) = 1
),
ranked as (
    select *, row_number() over (partition by run, "group" order by identifier, coalesce(view, '')) as ordinal
    from firsts
)
select""",
    1,
)

M9 = _at_view(
    "M9",
    "steps",
    f"""d.role = 'receiver' and d.era is null
    and in_order(d.service) and not exists (from telling t where {same_group("t", "d")} and not in_order(t.service)
        and list_contains(d.members, {{'process': t.process, 'incarnation': t.incarnation}}))
    and not exists (
        from steps s where {same_group("s", "d")} and s.role = 'sender' and s.view = d.view
            and (d.a_role is distinct from 'receiver' or d.fresh
                or (s.a_role = 'sender' and not s.fresh and s.a_view = d.a_view)))""",
)

D3 = f"""
select d.run, 'D3', d."group", d.process, d.incarnation, d.position, {_DELIVERED}
from deliveries d join first_sends s on {same_group("s", "d")} and d.source = s.process
    and d.source_incarnation = s.incarnation and d.number = s.number
join eras e on {same_member("e", "d")} and e.position = d.position
where gapless(d.service) and e.era is distinct from s.agreed
"""

D4 = f"""
select d.run, 'D4', d."group", '', 0, 0, {_DELIVERED} from heard d
group by d.run, d."group", d.source, d.source_incarnation, d.number
having min(coalesce(era, '')) <> max(coalesce(era, ''))
"""

_LEFT_BEHIND = f"""{same_member("m", "t")} and m.stretch = t.stretch and m.view = t.previous"""


def _parties(transitions: str, order: str) -> str:
    """Steps with the one that they are held against: one of those that are alike most, the first of them."""
    return f"""
looked as (
    select t.*, (
            select string_agg(format('{{}}~{{}}/{{}}', m.source, m.source_incarnation, m.number), ' ' order by {order})
            from heard m where {_LEFT_BEHIND}
        ) as digest,
        t.a_whole or not bool_or(t.a_whole) over (partition by t.run, t."group", t.previous, t.view) as counted
    from {transitions} t
),
alike as (
    select *, count(*) filter (counted) over (partition by run, "group", previous, view, digest) as many from looked
),
parties as (
    select *, first_value(place) over w as first_place, first_value(stretch) over w as first_stretch,
        first_value(a_whole) over w as judged
    from alike window w as (partition by run, "group", previous, view order by not counted, many desc, place)
)"""


D5 = f"""
with {_parties("transitions", "m.source, m.source_incarnation, m.number")},
sets as (
    select t.run, t."group", t.place, t.a_whole, t.a_start, 'mine' as side, m.source, m.source_incarnation, m.number
    from parties t join heard m on {_LEFT_BEHIND} where t.judged
    union
    select t.run, t."group", t.place, t.a_whole, t.a_start, 'theirs', m.source, m.source_incarnation, m.number
    from parties t join heard m on {same_group("m", "t")} and m.process = t.first_place.process
        and m.incarnation = t.first_place.incarnation and m.stretch = t.first_stretch and m.view = t.previous
    where t.judged
),
differing as (
    select run, "group", place, source, source_incarnation, number from sets
    where a_whole or number >= {_start_of("a_start", "source", "source_incarnation")}
    group by all having count(distinct side) = 1
)
select distinct run, 'D5', "group", place.process, place.incarnation, place.position, null::varchar from differing
"""

O5 = f"""
with {_parties("(from transitions where in_order(service))", "m.position")},
common as (
    select t.run, t."group", t.place, m.position as here, o.position as there
    from parties t join heard m on {_LEFT_BEHIND}
    join heard o on {same_group("o", "t")} and o.process = t.first_place.process
        and o.incarnation = t.first_place.incarnation and o.stretch = t.first_stretch and o.view = m.view
        and o.source = m.source and o.source_incarnation = m.source_incarnation and o.number = m.number
)
select distinct c.run, 'O5', c."group", c.place.process, c.place.incarnation, c.place.position, null::varchar
from common c join common e on {same_group("c", "e")} and c.place = e.place and c.here < e.here and c.there > e.there
"""

D9 = f"""
with latest as (
    select *, coalesce((select max(v.position) from views v where {same_member("v", "a")}
        and v.era is null and v.position < a.position), -1) as since
    from agreed a where role = 'sender' and era is null
    qualify row_number() over (partition by run, "group", process, incarnation, view order by position desc) = 1
),
batches as (
    select l.run, l."group", l.view, l.itself, c.source, c.source_incarnation, c.last, c.peer,
        first_value(c.peer) over (partition by l.run, l."group", l.itself, l.view order by c.position desc) as last_peer
    from latest l join repair c on {same_member("c", "l")} and c.kind = 'CUT'
        and c.position > l.since and c.position < l.position
),
bounds as (
    select t.run, t."group", t.process, t.incarnation, t.position, t.a_position, t.stretch, t.a_era, b.source,
        b.source_incarnation, max(b.last) as bound
    from transitions t join batches b on {same_group("b", "t")} and b.view = t.view
        and list_contains(t.transitional, b.itself) and b.peer is not distinct from b.last_peer
    where t.role = 'sender' and t.a_whole and t.era is null group by all
),
begun as (
    select b.*, f.whole as from_its_start, (
        select min_by({_start_of("v.start", "b.source", "b.source_incarnation")}, v.position) from spans v
        where {same_member("v", "b")} and v.stretch = b.stretch and v.span = s.span and v.position <= b.a_position
            and {_start_of("v.start", "b.source", "b.source_incarnation")} is not null) as first
    from bounds b join spans s on {same_member("s", "b")} and s.position = b.a_position
    join spans f on {same_member("f", "b")} and f.position = s.span
)
select t.run, 'D9', t."group", t.process, t.incarnation, t.position,
    {MESSAGE % ("t.source", "t.source_incarnation", "min(s.number)")}
from begun t join first_sends s on {same_group("s", "t")} and s.process = t.source
    and s.incarnation = t.source_incarnation and s.agreed = t.a_era and s.sequence <= t.bound
where (t.from_its_start or s.number >= t.first)
    and (s.service is distinct from 'VS' or s.agreed is not distinct from s.view
        or exists (from agreed v where {same_member("v", "s")} and v.view = s.agreed))
    and not exists (from heard m where {same_member("m", "t")} and m.stretch = t.stretch and m.era = t.a_era
    and m.source = t.source and m.source_incarnation = t.source_incarnation and m.number = s.number)
group by t.run, t."group", t.process, t.incarnation, t.position, t.source, t.source_incarnation
"""

_OWN_SENDS = f"""
with mine as (
    select s.*, j.reason, case when gapless(s.service) then (
        select min(v.position) from agreed v where {same_member("v", "s")} and v.stretch = s.stretch
            and v.era is null and v.position > s.position) end as following
    from first_sends s asof left join joins j on {same_member("j", "s")} and s.position > j.position
    where (gapless(s.service) or s.service = 'RSO')
        and (s.service is distinct from 'VS' or s.agreed is not distinct from s.view)
),
held as (
    select * from mine where gapless(service) or reason = 'all'
        or list_contains([trim(name) for name in string_split(reason, ',')], process)
),
turns as (from moves where kind in ('LEAVE', 'SELF_FAIL', 'BOOTSTRAP') or (kind = 'EXCLUDED' and service = 'VS')),
lacking as (  -- not heard before a view, or at all
    select h.*, h.following is not null as in_view from held h where not exists (
        from deliveries o where {same_member("o", "h")} and o.stretch = h.stretch and o.source = h.process
            and o.source_incarnation = h.incarnation and o.number = h.number
            and (h.following is null or o.position < h.following))
),
judged as (
    select l.* from lacking l where not exists (from turns t where {same_member("t", "l")}
        and t.position > l.position and (not l.in_view or t.position < l.following))
    and (l.in_view or (
        exists (from ends e where e.run = l.run and {same_life("e", "l")} and e.clock = clock(l.truth, l.host)
            and l.moment <= e.moment - 2000000000)
        and not exists (from telling t where {same_member("t", "l")} and t.position > l.position
            and t.stretch > l.stretch)))
)
"""

D6 = f"""{_OWN_SENDS}
select d.run, 'D6', d."group", d.process, d.incarnation, d.position, {_SENT} from judged d
"""

L3 = f"""{_OWN_SENDS}
select d.run, 'L3', d."group", d.process, d.incarnation, d.position, {_SENT} from judged d where not d.in_view
"""

L1 = f"""
with members as (
    select s.*, j.position as joined_position, j.moment as joined, j.role,
        (select max_by({{'view': a.view, 'era': a.era_word, 'since': a.moment}}, a.position) from common_views a
            where {same_member("a", "s")} and a.position > j.position) as word,
        coalesce((select max_by(a.members, a.position) from common_views a where {same_member("a", "s")}
            and a.position > j.position), []) as members,
        (select list({{'position': a.position, 'moment': a.moment, 'role': a.role}}) from roles a
            where {same_member("a", "s")} and a.position > j.position) as told,
        (select min_by(a.moment, a.position) from common_views a
            where {same_member("a", "s")} and a.position > j.position
            and a.stretch = (select max_by(b.stretch, b.position) from common_views b where {same_member("b", "s")}
                and b.position > j.position)) as entered
    from standing s join joins j on {same_member("j", "s")}
    where s.moved = 'JOIN' and not s.lost
    qualify row_number() over (partition by s.run, s."group", s.process, s.incarnation order by j.position desc) = 1
),
demanded as (
    select d.run, d."group", d.process, d.incarnation,
        list_contains(d.members, {{'process': s.process, 'incarnation': s.incarnation}}) as there
    from members d join members s on {same_group("s", "d")} and s.clock = d.clock
        and s.ended >= d.ended - 1000000000 and s.joined <= d.due
    where list_max(s.told).role is distinct from 'receiver' and role_at(s.told, d.due) is distinct from 'receiver'
        and ((coalesce(role_at(s.told, d.due), s.role) = 'sender' and s.entered <= d.due
        and common(s.service)) or exists (
        from sends o where {same_member("o", "s")} and o.position > s.joined_position and o.agreed is not null
            and o.moment <= d.due))
),
judged as (
    select * from members m where common(service) and healed and joined <= due and coalesce(entered <= due, true)
        and exists (from demanded o where {same_member("o", "m")})
        and not (session(service) and exists (from servers s where s.run = m.run and not exists (
            from servers o join ends e on e.run = o.run and e.process = o.name
            where o.run = s.run and o.sort = s.sort
                and not exists (from cut_names c where c.run = o.run and c.name = o.name))))
),
firsts as (
    select * from judged
    qualify row_number() over (partition by run, "group" order by process, incarnation) = 1
)
select d.run, 'L1', d."group", d.process, d.incarnation, d.position, null from judged d
where exists (from demanded o where {same_member("o", "d")} and not o.there) or exists (
    from moves c where c.run = d.run
        and list_contains(d.members, {{'process': c.process, 'incarnation': c.incarnation}})
        and clock(c.truth, c.host) = d.clock and c.moment <= d.due
        and (c.kind = 'CRASH' or (c.kind = 'LEAVE' and c."group" = d."group" and not exists (
            from joins j where {same_member("j", "c")} and j.position > c.position) and not exists (
            from moves l where {same_member("l", "c")} and l.kind = 'LEAVE' and l.position > c.position)))
) or exists (
    from cut_names c where c.run = d.run and list_contains([one.process for one in d.members], c.name)
        and len(list_filter(c.begins, lambda one: one.clock <> d.clock or one.moment > d.due)) = 0
) or exists (
    from firsts f where {same_group("f", "d")} and f.clock = d.clock and abs(f.ended - d.ended) <= 1000000000
        and (f.word.era is distinct from d.word.era
            or (f.word.view <> d.word.view and greatest(f.word.since, d.word.since) <= d.due))
)
"""

L5 = f"""
with waiting as (
    select s.* from first_sends s join ends e on e.run = s.run and {same_life("e", "s")}
    where in_order(s.service) and s.agreed is not null
        and not exists (from moves m where m.run = s.run and {same_life("m", "s")} and m.kind = 'CRASH')
        and not exists (from moves m where {same_member("m", "s")} and m.position > s.position
            and m.kind in ('LEAVE', 'SELF_FAIL', 'BOOTSTRAP'))
        and not exists (from views v where {same_member("v", "s")} and v.era is null and v.position > s.position)
        and not exists (from telling t where {same_member("t", "s")} and t.position > s.position
            and t.stretch > s.stretch)
        and not exists (from cut_names c where c.run = s.run and c.name = s.process)
),
latest as (
    select * from spans
    qualify row_number() over (partition by run, "group", process, incarnation, era_word order by position desc) = 1
),
owed as (
    select q.run, q."group", q.process, q.incarnation, q.position, v.view, s.process as source,
        s.incarnation as source_incarnation, s.number
    from standing q join latest v on {same_member("v", "q")} and v.stretch = q.stretch
    join waiting s on {same_group("s", "q")} and s.agreed = v.era_word and s.moment <= q.due
        and clock(s.truth, s.host) = q.clock and (s.process, s.incarnation) <> (q.process, q.incarnation)
    where q.moved is distinct from 'LEAVE' and in_order(q.service) and q.healed and not q.lost
        and list_contains(v.members, v.itself) and s.number >= (
            select min_by({_start_of("f.start", "s.process", "s.incarnation")}, f.position) from spans f
            where {same_member("f", "v")} and f.stretch = v.stretch and f.span = v.span
                and {_start_of("f.start", "s.process", "s.incarnation")} is not null)
)
select d.run, 'L5', d."group", d.process, d.incarnation, d.position,
    {MESSAGE % ("d.source", "d.source_incarnation", "min(d.number)")}
from owed d where not exists (from deliveries o where {same_member("o", "d")} and o.source = d.source
    and o.source_incarnation = d.source_incarnation and o.number = d.number)
group by d.run, d."group", d.process, d.incarnation, d.position, d.source, d.source_incarnation
"""

AUDITS = {
    "M1": M1,
    "M2": M2,
    "M4": M4,
    "M5": M5,
    "M7": M7,
    "M9": M9,
    "D3": D3,
    "D4": D4,
    "D5": D5,
    "D6": D6,
    "D9": D9,
    "O5": O5,
    "L1": L1,
    "L3": L3,
    "L5": L5,
}
