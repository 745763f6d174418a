"""Promises to those who stay, in SQL: what leavers had sent, and that everybody goes on."""

from __future__ import annotations

from tests.pipeline.duckdb_membership import MESSAGE, same_group, same_member

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

AUDITS = {"D13": D13}
