"""Properties of what must happen in the end, and of what it may cost."""

from __future__ import annotations

from unisono.properties import oracles
from unisono.properties.damages import DAMAGES
from unisono.properties.entries.property import Property
from unisono.properties.monitors.liveness import MulticastLiveness
from unisono.properties.monitors.own import SelfDeliveryLiveness
from unisono.properties.monitors.partings import KeptTogether
from unisono.properties.monitors.precision import MembershipPrecision
from unisono.properties.monitors.progress import BoundedResources, NoDeadlock
from unisono.properties.monitors.repair import RepairEfficiency
from unisono.properties.monitors.restarts import HeardAgain
from unisono.properties.monitors.stability import Stability
from unisono.properties.monitors.standstill import ProgressOfEach
from unisono.properties.monitors.termination import Termination

LIVENESS = (
    Property(
        id="L1",
        name="membership precision",
        statement=(
            "A process p with an END is judged in a group where its last JOIN or LEAVE is a JOIN, where the service "
            "of its last JOIN, VIEW, SEND, DELIVER or GAUGE has agreed views, whose last `heal`, that JOIN and the "
            "first VIEW of the stretch of its last VIEW since then (VIEWs here under agreed views only) are at least "
            "10 s older than its END, and whose name is in no fault that never ended. Its last VIEW since that JOIN "
            "has every sender: who has an END at most 1 s earlier, is in no fault that never ended, whose last JOIN "
            "or LEAVE in the group is a JOIN 10 s before the END of p or more, and who either was a sender 10 s "
            "before (by its last VIEW or ROLE since that JOIN until then, or else by that JOIN), has a last service "
            "with agreed views and is as long in its stretch, or has a SEND with `agreed` since that JOIN and 10 s "
            "before; but not who is a receiver in its own last VIEW or ROLE since that JOIN, or in the last one 10 s "
            "before. Where there is no such sender at all, p is not judged: nobody makes a view any more. It has "
            "nobody who crashed, or left for good, 10 s before, or whose name is in a fault that never ended, where "
            "its last begin is as old. And it is of the same era as that of the judged process with the lowest (name, "
            "incarnation), and the same VIEW if both are 10 s old, if their ENDs are at most 1 s apart. Without a "
            "VIEW it has nobody. Agreed views are here those of weak sessions, too. Servers (L6) are no members; who "
            "has a session at last is judged only if of the servers of each kind one has an END and is in no fault "
            "that never ended. Times that do not compare are not judged. There is one violation for each p and "
            "group, at its END."
        ),
        report="long after the last fault a last view is not that of all living senders",
        oracle=oracles.membership_precision,
        monitor=MembershipPrecision,
        spark="unisono.pipeline.audits.membership:membership_precision",
        counter_example=DAMAGES["different_last_view"],
    ),
    Property(
        id="L2",
        name="multicast liveness",
        statement=(
            "For a process that reached END in the group: (1) of every source in its last view, or in an earlier VIEW "
            "of the era, that reached END too it delivered all numbers from the start of the current spell on, "
            "except those sent less than 2 s before its END, unless a partition or an isolation that never ended "
            "keeps the two apart and nobody is on a side with each of them; (2) every source that reached END in the "
            "group and sent something is among these, if its JOIN asked for `all` or for a list with that name, if "
            "both JOINs, the first VIEW of the stretch of its last one and a SEND of the source are at least 2 s "
            "older than its END, if the trace has a `heal`, if neither name is in a fault that never ended, and if "
            "the source is not a receiver in its own last VIEW under agreed views or ROLE since its JOIN, or else in "
            "that JOIN, nor in the last of these 2 s before. The service of its last JOIN, VIEW, SEND, DELIVER or "
            "GAUGE there must promise this. Rows under sessions play no part in that. (3) Of sessions: a process is "
            "there if its last JOIN or LEAVE is a JOIN, and its views are the VIEWs after that and after its last "
            "EXCLUDED. Take two with an END that are there, p and a source in the last view of p, neither name in a "
            "fault that never ended, and their SENDs and VIEWs that are 2 s older than both ENDs. If both have the "
            "same last view, strong or weak, p delivered what the source sent for it (`agreed` of the first SEND). "
            "The violation is at the END of p, with the lowest number. Times on clocks that cannot be compared are "
            "not judged."
        ),
        report="a living process lacks what a living source sent, or the source itself",
        oracle=oracles.multicast_liveness,
        monitor=MulticastLiveness,
        spark="unisono.pipeline.audits.liveness:multicast_liveness",
        counter_example=DAMAGES["removed_last_delivery"],
    ),
    Property(
        id="L3",
        name="self delivery at the end",
        statement=(
            "What D6 asks for at END alone: of a SEND under reliable source order with its own messages asked for, "
            "or under agreed views with no later VIEW of its stretch under agreed views without an `era`."
        ),
        report="a living sender never heard its own message",
        oracle=oracles.self_delivery_liveness,
        monitor=SelfDeliveryLiveness,
        spark="unisono.pipeline.audits.membership:self_delivery_liveness",
        counter_example=DAMAGES["own_message_unheard_at_the_end"],
    ),
    Property(
        id="L4",
        name="stability",
        statement=(
            "A source that reached END as a member has released everything that it sent since its last JOIN, except "
            "in the last 2 s: the highest `last` of its GCs is not below the sequence of such a SEND. This is "
            "judged where the last `heal` is at least 2 s older than the END, where no fault with its name never "
            "ended, and where each receiver with a GRANT and no SUSPECT after it since then either left 10 s before "
            "or more, or reached its own END at most 1 s earlier, with the source in its last VIEW and in no fault "
            "that never ended. Rows under sessions play no part in that. A strong session (VS) that is there (L2) has "
            "released all that it sent for its last view (`agreed` of the first SEND), except in the last 2 s, by the "
            "GCs of its own under that view. This is judged where the last `heal` and that VIEW are 2 s older than its "
            "END, where it has no START_CHANGE after the VIEW, where no fault with its name never ended, and where "
            "every other member of the view is there, with this as its last view since 2 s before, an END at most 1 s "
            "earlier, and in no fault that never ended. Times that do not compare are not judged."
        ),
        report="a living source did not release what everybody has",
        oracle=oracles.stability,
        monitor=Stability,
        spark="unisono.pipeline.audits.repair:stability",
        counter_example=DAMAGES["never_released"],
    ),
    Property(
        id="L5",
        name="termination of delivery",
        statement=(
            "Let p send a message (first SEND of its number) under agreed views in the era V, its `agreed`, and reach "
            "END without a CRASH, and after the SEND in that group without a VIEW without an `era` under any service, "
            "LEAVE, fresh start (D5) or JOIN, SEND, DELIVER or GAUGE with a higher stretch. Then every q whose last "
            "VIEW of that era (D3) under agreed views is of its last stretch in the group (the highest of its JOINs, "
            "VIEWs, SENDs, DELIVERs and GAUGEs) and has q as a member, and of whose span (D9) there the first "
            "VIEW that has p does not begin after the message, has delivered it, if q reached END, did not leave, has "
            "agreed views at last (L1), if the last `heal` and the SEND are at least 10 s older than the END of q, and "
            "neither name is in a fault that never ended. Times that do not compare are not judged. There is one "
            "violation for each q and p, at the END of q, with the lowest number."
        ),
        report="a living member never delivered what was sent in its era",
        oracle=oracles.termination,
        monitor=Termination,
        spark="unisono.pipeline.audits.membership:termination",
        counter_example=DAMAGES["never_delivered_in_the_view"],
    ),
    Property(
        id="L6",
        name="no deadlock",
        statement=(
            "Progress is a VIEW, or a DELIVER from another name. It is due while a `load` is active and at least "
            "two, and more than half, of the names with a START so far are present: not in an active fault, not "
            "between CRASH and START, not between the LEAVE of their last group and a JOIN. While it is due there "
            "is never more than 10 s without it, counted from the beginning and to the end of each such stretch of "
            "time; the trace ends with its last START, JOIN, LEAVE, CRASH, END, VIEW, DELIVER or FAULT. In a run that "
            "has a JOIN under sessions, only names with a JOIN count, and a name with a START, without a JOIN and with "
            "a colon is a server, its kind what stands before the colon: progress is due only while of each kind of "
            "servers that started one is present."
        ),
        report="under load nothing was delivered or installed for longer than 10 s",
        oracle=oracles.no_deadlock,
        monitor=NoDeadlock,
        spark="unisono.pipeline.audits.progress:no_deadlock",
        counter_example=DAMAGES["silenced"],
    ),
    Property(
        id="L7",
        name="bounded resources",
        statement="A GAUGE with a cap has a value of at most its cap.",
        report="a buffer grew above its cap",
        oracle=oracles.bounded_resources,
        monitor=BoundedResources,
        spark="unisono.pipeline.audits.progress:bounded_resources",
        counter_example=DAMAGES["gauge_above_cap"],
    ),
    Property(
        id="L8",
        name="repair efficiency",
        statement=(
            "In a run without a FAULT other than `load` and `heal`, take the RTRs of a group later than the middle "
            "between its first and its last SEND. A loss is a range of sequences of one source, where RTRs that share "
            "a sequence are one; under strong sessions (VS) only those of one view are. With at least 50 losses there "
            "are at most 3 RTRs for each on average. The same holds for the RTXs and the ranges that they repair, "
            "which are counted by themselves, since one loss may be many datagrams. A group whose SENDs, RTRs and RTXs "
            "are not all told by one clock is not judged."
        ),
        report="losses were asked for, or repaired, too often",
        oracle=oracles.repair_efficiency,
        monitor=RepairEfficiency,
        spark="unisono.pipeline.audits.repair:repair_efficiency",
        counter_example=DAMAGES["too_many_requests"],
    ),
    Property(
        id="L9",
        name="progress of each",
        statement=(
            "Let p send a message at the time t, and let a process q of another name be in the view of the group "
            "then: the last of its VIEWs, JOINs, LEAVEs, fresh starts (D5) and GAUGEs of a service that does not "
            "promise this, of those that are not later than t, is a VIEW of one that does, with p as a member. Then q "
            "has a DELIVER from another name, or a VIEW, in that group from t to t + 10 s, whatever message it is. "
            "This is judged where q has no such GAUGE, neither has a JOIN or LEAVE in the group, nor a CRASH or END, "
            "in that time, and both have a CRASH or END after it; and where no fault (other than `load` and `heal`) "
            "has one of the two names in its members then: no such row is in that time, and no more begins than ends "
            "are before it. (10 s are twice the `patience` that a member has by default with one that does not "
            "answer.) Times that do not compare are not judged, those of faults compare. The violation is at the "
            "VIEW, one for each, with the first message by time, source, incarnation and number."
        ),
        report="a connected member got nothing for longer than 10 s while another one sent",
        oracle=oracles.progress_of_each,
        monitor=ProgressOfEach,
        spark="unisono.pipeline.audits.standstill:progress_of_each",
        counter_example=DAMAGES["one_kept_waiting"],
    ),
    Property(
        id="L10",
        name="kept together",
        statement=(
            "Of the VIEWs, JOINs and LEAVEs of a process p in a group, let one be a VIEW V of a service that promises "
            "this, and the next such a VIEW W without an `era`, of the same stretch or, after a SELF_FAIL between "
            "them, of the next one. Left out is a member q of V, other than p, that is not in W and is there: without "
            "an END by then, a CRASH by then or at most 10 s after (it may have been leaving), a LEAVE or SELF_FAIL "
            "in the group at most 10 s before or after, a PLEAVE or a ROLE `receiver` there at most 10 s before; and, "
            "if p has an EXCLUDED between V and W, without a VIEW of the era of V (D3) or an AGREED to that of its "
            "own (it is judged there who left p out). The company of q is p, q, the members of W and each peer of a "
            "LEFT_BEHIND of p between V and W; where p is a receiver in V and in W, and leaves out more members of V "
            "than go with it, p, these peers, all that are left out and, without those of the names in W, the members "
            "of the last such VIEW that each of them has by then (who follows one of a view follows all). Only the "
            "latter are judged if p has a SELF_FAIL between V and W. A fault is felt if it has `sides` and, of the "
            "FAULTs with the same name and sides, more begin by then than end more than 10 s before. Then for each q "
            "some fault that is felt has no side with all of its company. Only rows with `truth` count: nobody knows "
            "of a real run why somebody was slow. There is one violation for each W, without a message."
        ),
        report="a member was left out, or left the others, though they hear each other",
        oracle=oracles.kept_together,
        monitor=KeptTogether,
        spark="unisono.pipeline.audits.partings:kept_together",
        counter_example=DAMAGES["parted_without_fault"],
    ),
    Property(
        id="L11",
        name="heard again",
        statement=(
            "Let a life of p send its first message to a group at the time t, and let a process q of another name be "
            "in a view of the group then (as L9 says it), and have had another life of p as a member of one of the "
            "VIEWs of that stretch that promise this, up to that view. Then q has the new life of p as a member of a "
            "VIEW, or delivers something from it, in that group and not later than t + 10 s. This is judged where both "
            "stay from t to t + 10 s and no fault has one of the two names in its members, as L9 says it: a clock that "
            "is set back takes nobody away. (A view without the earlier life may take as long as the `patience`, of "
            "5 s by default, and so may the one with the new life.) The violation is at the view that q had at t, with "
            "that first message."
        ),
        report="a process that started again was not heard for longer than 10 s by one that knew it before",
        oracle=oracles.heard_again,
        monitor=HeardAgain,
        spark="unisono.pipeline.audits.restarts:heard_again",
        counter_example=DAMAGES["unheard_life"],
    ),
)
