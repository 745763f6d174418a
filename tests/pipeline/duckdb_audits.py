"""The first properties once more, in SQL for another engine, over the same Parquet files.

Written from the statements, by other means than the Spark forms wherever SQL offers some: as-of joins, lists that are
folded, and plain comparisons of everything with everything.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb

from unisono.trace.schema import FAMILIES

Place = tuple[str, str, str, str, int, int, str | None]
"""Run, property, group, process, incarnation, position, message."""

_MESSAGE = "format('{}~{:x}/{}', %s, %s, %s)"
DELIVERED = _MESSAGE % ("d.source", "d.source_incarnation", "d.number")

_VIEWS = """
create table deliveries as select * from deliver where kind = 'DELIVER';
create table sends as select *, coalesce(truth, "at") as moment from send where kind = 'SEND';
create table views as select *, coalesce(truth, "at") as moment from view where kind = 'VIEW';
create table moves as select *, coalesce(truth, "at") as moment from membership;
create table joins as select * from moves where kind = 'JOIN';
create table ordered as select * from deliveries where service is distinct from 'UU';
"""

_SAME_MEMBER = 'x.run = y.run and x."group" = y."group" and x.process = y.process and x.incarnation = y.incarnation'


def _same_member(one: str, other: str) -> str:
    return _SAME_MEMBER.replace("x.", f"{one}.").replace("y.", f"{other}.")


D1 = f"""
with first_sends as (
    select * from sends
    qualify row_number() over (partition by run, "group", process, incarnation, number order by position) = 1
)
select d.run, 'D1', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from deliveries d left join first_sends s
on d.run = s.run and d."group" = s."group" and d.source = s.process
    and d.source_incarnation = s.incarnation and d.number = s.number
where s.run is null or s.truth > d.truth
    or (s.sequence, s.size, s.body, s.timestamp) <> (d.sequence, d.size, d.body, d.timestamp)
"""

D2 = f"""
select d.run, 'D2', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from ordered d
where exists (
    from ordered e where {_same_member("d", "e")} and d.source = e.source
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
where d.service is distinct from 'UU' and (d.view is null or v.view is distinct from d.view)
"""

O1 = f"""
select d.run, 'O1', d."group", d.process, d.incarnation, d.position, {DELIVERED}
from ordered d
qualify d.number <= lag(d.number) over (
    partition by d.run, d."group", d.process, d.incarnation, d.source, d.source_incarnation order by d.position
)
"""


def _with_view(rows: str) -> str:
    """Rows with the view before them, or without one where the process joined since."""
    return f"""
        select d.*, case when j.position is null or j.position < v.position then v.position end as view_position,
            v.start as view_start
        from {rows} d
        asof left join views v on {_same_member("d", "v")} and d.position > v.position
        asof left join joins j on {_same_member("d", "j")} and d.position > j.position
    """


def _start_of(starts: str, source: str, incarnation: str) -> str:
    return f"list_filter({starts}, lambda item: item.source = {source} and item.incarnation = {incarnation})[-1].number"


O2 = f"""
with placed as ({_with_view("ordered")}),
due as (
    select *, {_start_of("view_start", "source", "source_incarnation")} as began, lag(number) over (
        partition by run, "group", process, incarnation, source, source_incarnation, view_position order by position
    ) + 1 as following from placed
),
later as ({_with_view("views")}),
begun as (
    select * exclude (start), unnest(start) as point from later
    where view_position is not null and service is distinct from 'UU'
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
        max_by(kind, position) filter (kind <> 'VIEW') as moved,
        count(*) filter (kind <> 'LEAVE') as there
    from (
        select run, "group", process, incarnation, position, kind, service from moves where kind in ('JOIN', 'LEAVE')
        union all select run, "group", process, incarnation, position, kind, service from views
    ) group by all
),
listeners as (
    select e.*, t."group", t.join_position from ends e
    join taking t on t.run = e.run and t.process = e.process and t.incarnation = e.incarnation
    where t.there > 0 and t.moved is distinct from 'LEAVE' and t.service is distinct from 'UU'
),
current as (
    select v.* from views v join listeners l on {_same_member("v", "l")}
    where l.join_position is null or v.position > l.join_position
),
pairs as (
    select l.*, o.process as source, o.incarnation as source_incarnation,
        (select max_by(list_filter(c.start, lambda item: item.source = o.process and item.incarnation = o.incarnation),
            c.position) from current c where {_same_member("c", "l")})[-1].number as last_start
    from listeners l join ends o on l.run = o.run and l.clock = o.clock
),
spells as (
    select p.*, coalesce((select max(c.position) from current c where {_same_member("c", "p")} and len(list_filter(
        c.start, lambda item: item.source = p.source and item.incarnation = p.source_incarnation)) = 0), -1) as absent
    from pairs p where last_start is not null
),
firsts as (
    select s.*, (
        select min_by({_start_of("c.start", "s.source", "s.source_incarnation")}, c.position)
        from current c where {_same_member("c", "s")} and c.position > s.absent
    ) as first_number from spells s
),
missing as (
    select f.run, f."group", f.process, f.incarnation, f.position, f.source, f.source_incarnation,
        min(s.number) as number
    from firsts f join sends s on s.run = f.run and s."group" = f."group" and s.process = f.source
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
    select p.* from pairs p
    join joins mine on {_same_member("mine", "p")} and mine.position = p.join_position
    join taking theirs on theirs.run = p.run and theirs."group" = p."group" and theirs.process = p.source
        and theirs.incarnation = p.source_incarnation
    join joins other on {_same_member("other", "theirs")} and other.position = theirs.join_position
    where p.last_start is null and theirs.moved = 'JOIN'
        and mine.moment <= p.last_due and other.moment <= p.last_due
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
    where (select count(*) from present p where p.run = l.run and p.moment = l.moment) >= 2
        and 2 * (select count(*) from present p where p.run = l.run and p.moment = l.moment)
            > (select count(*) from known k where k.run = l.run and k.moment = l.moment)
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

AUDITS = {"D1": D1, "D2": D2, "M3": M3, "O1": O1, "O2": O2, "L2": L2, "L6": L6, "L7": L7}


def places(directory: Path) -> Counter[Place]:
    """Where each property is violated in the tables of a folder."""
    found: Counter[Place] = Counter()
    with duckdb.connect() as database:
        for family in FAMILIES:
            database.execute(f"create view {family} as from read_parquet('{directory / family}.parquet')")
        database.execute(_VIEWS)
        for query in AUDITS.values():
            found.update(database.execute(query).fetchall())
    return found
