"""Properties of the trace itself: rows that contradict one another are a broken trace, whatever wrote it."""

from __future__ import annotations

from unisono.properties import oracles
from unisono.properties.damages import DAMAGES
from unisono.properties.entries.property import Property
from unisono.properties.monitors.accounts import DenseCounts, OneAccount
from unisono.properties.monitors.lives import Lives, NamedHaveRows, OwnOrder

WELL_FORMED = (
    Property(
        id="W1",
        name="own order",
        statement=(
            "The rows of a life, of all families, have the positions 0, 1, 2 and so on, each once. The violation is at "
            "a row whose position is not one more than the one before, and at a position that two rows have; of these "
            "the one with the least `at`, then global time, then host stands for both in what follows. From a row to "
            "the next one neither the global time goes back, nor, on one host, `at`; where it does, the first of the "
            "two is wrong if the row before it, on the same clock, is not later than the second, else the second. All "
            "rows of a life have one host, and either all or none a global time: of each such clock but that of most "
            "rows (of two with as many, that which begins first) the first row is wrong. A row that is wrong in "
            "several ways is one violation, of no group."
        ),
        report="the rows of a process are not in one order: the trace is broken",
        oracle=oracles.own_order,
        monitor=OwnOrder,
        spark="unisono.pipeline.audits.lives:own_order",
        counter_example=DAMAGES["missing_position"],
    ),
    Property(
        id="W2",
        name="lives",
        statement=(
            "Of every life that wrote more than FAULT rows: its first row is START and no other is; no row comes after "
            "its first END or CRASH; and it does not begin, by its first row, before another life of the process "
            "ended, by its last row, that began earlier (at the same time: that has the lower incarnation), where "
            "these three rows have a global time or are on one host without. These violations are of no group. In each "
            "group, every row but those of gauges, statistics and faults comes after a JOIN with no LEAVE since, and a "
            "JOIN after no JOIN since the last LEAVE or EXCLUDED. The violation is at the row that cannot be."
        ),
        report="a process does something before it began or joined, or after it left or ended: the trace is broken",
        oracle=oracles.lives,
        monitor=Lives,
        spark="unisono.pipeline.audits.lives:lives",
        counter_example=DAMAGES["delivery_after_leave"],
    ),
    Property(
        id="W3",
        name="who is named has rows",
        statement=(
            "Every life that a row names has a row in the trace: a member of a VIEW (`start`), the peer and the "
            "members of a membership row, the source of a repair row, the sender (`by`) of a HANDED. The origin of a "
            "SEND has an ASKED in the group. A row that names nobody's life is one violation."
        ),
        report="somebody is named who left no rows: the trace is broken, or a part of it is missing",
        oracle=oracles.named_have_rows,
        monitor=NamedHaveRows,
        spark="unisono.pipeline.audits.lives:named_have_rows",
        counter_example=DAMAGES["member_without_rows"],
    ),
    Property(
        id="W4",
        name="dense counts",
        statement=(
            "The `index` of a DELIVER is one more than that of the DELIVER before it of its member (of several at one "
            "position the highest) where both have the same `view` and `stretch` and no VIEW of the member is between, "
            "else 0. The number of a SEND is one more than that of the SEND before it, the first 1; in one stretch, "
            "but for strong sessions, its sequence is higher."
        ),
        report="messages are not counted one by one: the trace is broken",
        oracle=oracles.dense_counts,
        monitor=DenseCounts,
        spark="unisono.pipeline.audits.accounts:dense_counts",
        counter_example=DAMAGES["wrong_index"],
    ),
    Property(
        id="W5",
        name="one account",
        statement=(
            "Of all rows of a group but statistics, faults, and the state that applications tell (STATE, SAVED, "
            "LOADED). (1) The `view` of a row, of a VIEW its `previous`, is the last view that its process installed "
            "in the group before, or none where it installed none, or began a new stretch, joined or began anew (by a "
            "SELF_FAIL or BOOTSTRAP) since. (2) From one row of a member to the next (of several at one position the "
            "one with the highest stretch, then service) the `stretch` stays, with the same service, or grows by one. "
            "(3) The identifier of a VIEW is that of its parts; nobody is twice in its `start` or `transitional`; in "
            "one that is common to all (M2) and follows another one, no member is a receiver. (4) A ROLE in a view "
            "that is common says the role that its process has there. The violation is at the row."
        ),
        report="a process contradicts itself about its view, service or role: the trace is broken",
        oracle=oracles.one_account,
        monitor=OneAccount,
        spark="unisono.pipeline.audits.accounts:one_account",
        counter_example=DAMAGES["other_view_column"],
    ),
)
