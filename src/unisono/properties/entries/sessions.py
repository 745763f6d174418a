"""Properties of virtual synchrony sessions alone: how views change, and what is sent for a view to come."""

from __future__ import annotations

from unisono.properties import oracles
from unisono.properties.damages import DAMAGES
from unisono.properties.entries.property import Property
from unisono.properties.monitors.optimistic import OptimisticOnce
from unisono.properties.monitors.sessions import BlockDiscipline, StartChangeDiscipline

BLOCKING = Property(
    id="M8",
    name="block discipline",
    statement=(
        "Of rows under strong sessions (VS). Of a process in a group: (1) no SEND has its `view` as `agreed` if of the "
        "BLOCK_OK, VIEW, JOIN, LEAVE and EXCLUDED before it the last is a BLOCK_OK. (2) A VIEW with a `previous` has a "
        "START_CHANGE since the last VIEW, JOIN, LEAVE or EXCLUDED before it; and where it has one, previous or not, "
        "its members are all in the `members` of the last such START_CHANGE. There is one violation for each SEND and "
        "VIEW, at it."
    ),
    report="a session sent while it was blocked, or its view changed without a start-change or beyond it",
    oracle=oracles.block_discipline,
    monitor=BlockDiscipline,
    spark="unisono.pipeline.audits.sessions:block_discipline",
    counter_example=DAMAGES["sent_after_block_ok"],
)

START_CHANGES = Property(
    id="M10",
    name="start-change discipline",
    statement=(
        "Of rows under strong sessions (VS). Of a process in a group: (1) a START_CHANGE has a higher `number` than "
        "the one before it, in its whole life. (2) A CUT comes after a VIEW, which it has as its `view`, and a "
        "START_CHANGE after that, the last of which it has as `peer`, with no JOIN, LEAVE or EXCLUDED since the VIEW. "
        "(3) The `change` of a VIEW is the number of the last START_CHANGE before it, null without one. (4) Where that "
        "is so and the VIEW has a `previous`, every other process in its `transitional` that has a CUT with that view "
        "in the group has one whose `peer` is the `change`. There is one violation for each START_CHANGE, CUT and "
        "VIEW, at it."
    ),
    report="the numbers of start-changes, views and cuts do not fit together",
    oracle=oracles.start_change_discipline,
    monitor=StartChangeDiscipline,
    spark="unisono.pipeline.audits.sessions:start_change_discipline",
    counter_example=DAMAGES["view_of_another_change"],
)

OPTIMISM = Property(
    id="D12",
    name="optimistic once",
    statement=(
        "Of rows under strong sessions (VS). A message is optimistic if the first SEND of its number has an `agreed` "
        "that is not its `view`. (1) A DELIVER of it is in the view `agreed`. (2) A RETURNED has the number of an "
        "optimistic message of its process, sent before it, of which there is no RETURNED before it and no DELIVER at "
        "any process. (3) Let W be the first VIEW of its sender in the group after the SEND, and X the next VIEW, or, "
        "without one, an END at least 2 s after W, with no JOIN, LEAVE or EXCLUDED before X. If W is the view "
        "`agreed`, its sender has a DELIVER of it between W and X, otherwise a RETURNED before X. Without W or X "
        "nothing is asked. The violation is at the DELIVER, the RETURNED, or the SEND."
    ),
    report="an optimistic message was lost, returned and delivered, or delivered in another view",
    oracle=oracles.optimistic_once,
    monitor=OptimisticOnce,
    spark="unisono.pipeline.audits.sessions:optimistic_once",
    counter_example=DAMAGES["optimistic_lost"],
)
