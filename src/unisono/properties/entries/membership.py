"""Properties of views: own ones, and those that all members agree on."""

from __future__ import annotations

from unisono.properties import oracles
from unisono.properties.damages import DAMAGES
from unisono.properties.entries.property import Property
from unisono.properties.entries.sessions import BLOCKING, START_CHANGES
from unisono.properties.monitors.delivery import InView
from unisono.properties.monitors.followers import ReceiverChain, TransitionalSet
from unisono.properties.monitors.views import MonotoneViews, PrimaryComponent, SelfInclusion, ViewIdentity

MEMBERSHIP = (
    Property(
        id="M1",
        name="self inclusion",
        statement=(
            "A VIEW under agreed views or weak sessions (VS-weak), with the role sender, has its process among its "
            "members, the sources of `start`."
        ),
        report="a sender installed a view without itself",
        oracle=oracles.self_inclusion,
        monitor=SelfInclusion,
        spark="unisono.pipeline.audits.membership:self_inclusion",
        counter_example=DAMAGES["without_itself"],
    ),
    Property(
        id="M2",
        name="monotone views",
        statement=(
            "Of two consecutive VIEWs of one process, group and stretch under agreed views or weak sessions (VS-weak) "
            "the later one has the higher identifier: start time, leader, its incarnation and sequence, compared in "
            "that order. It may be the same if a fresh start (D5) stands between them. The violation is at the later "
            "one."
        ),
        report="views were installed in another order than that of their identifiers",
        oracle=oracles.monotone_views,
        monitor=MonotoneViews,
        spark="unisono.pipeline.audits.membership:monotone_views",
        counter_example=DAMAGES["lower_view"],
    ),
    Property(
        id="M3",
        name="in a view",
        statement=(
            "Every SEND and DELIVER names a view: the one that the process's last VIEW in that group installed."
        ),
        report="something was sent or delivered outside the installed view",
        oracle=oracles.in_a_view,
        monitor=InView,
        spark="unisono.pipeline.audits.delivery:in_a_view",
        counter_example=DAMAGES["wrong_view"],
    ),
    Property(
        id="M4",
        name="view identity",
        statement=(
            "All VIEWs of a group under agreed views or weak sessions (VS-weak) with the same `view` have the same "
            "four parts of the identifier, the same members and the same `era`; and those of them that are whole have "
            "the same start (sequences and numbers), the same `merged` and the same `primary`. The order in lists does "
            "not matter. A VIEW is wrong if it differs from the one with the lowest (process, incarnation, position), "
            "or is whole and differs from the lowest whole one."
        ),
        report="one view is not the same at all who installed it",
        oracle=oracles.view_identity,
        monitor=ViewIdentity,
        spark="unisono.pipeline.audits.membership:view_identity",
        counter_example=DAMAGES["reused_identifier"],
    ),
    Property(
        id="M5",
        name="transitional set",
        statement=(
            "Of whole VIEWs under agreed views: (1) `transitional` is given and has only members of the view that "
            "are also members of the last VIEW before it of the same process, group and stretch whose view is its "
            "`previous`, or are in `reasons` with `sends now`: these were receivers; without such a VIEW only the "
            "process itself. (2) For two senders p and q with a VIEW of V "
            "in one group as sender, each with its last whole one: q is in the set of p exactly if both have the "
            "same `previous` (a missing one is like no other), and p is in its own set. (3) The set of a receiver, "
            "in its last whole VIEW of V, is that of every sender with the same `previous`, if it has one. There is "
            "one violation a VIEW, at the VIEW."
        ),
        report="a view is wrong about who came along",
        oracle=oracles.transitional_set,
        monitor=TransitionalSet,
        spark="unisono.pipeline.audits.membership:transitional_set",
        counter_example=DAMAGES["one_too_many_came_along"],
    ),
    Property(
        id="M7",
        name="primary component",
        statement=(
            "Take the views with `primary` of one group under agreed views, each as its VIEW with the lowest "
            "(process, incarnation, position) has it, in the order of their identifiers (M2). Each has a name among "
            "its members that the one before has too, and so with every earlier one of the same start time. The "
            "violation is at that VIEW."
        ),
        report="two primary views have nobody in common",
        oracle=oracles.primary_component,
        monitor=PrimaryComponent,
        spark="unisono.pipeline.audits.membership:primary_component",
        counter_example=DAMAGES["disjoint_primary"],
    ),
    BLOCKING,
    Property(
        id="M9",
        name="receiver chain",
        statement=(
            "A VIEW without an `era` and with the role receiver under agreed views, whose VIEW before it in the "
            "stretch has that role too and without a fresh start (D5) between them, makes a step that some sender of "
            "the group made: two consecutive VIEWs of one stretch, both with the role sender, without a fresh start "
            "between them. Any other such VIEW is of a view that has a VIEW with the role sender in the group. "
            "Nothing is asked where a member of the view has, in the group, a JOIN, VIEW, SEND, DELIVER or GAUGE "
            "under a service without agreed views: such senders write no VIEWs of agreed views. A VIEW with an `era` "
            "follows from the order of messages."
        ),
        report="a receiver installed views that no sender did",
        oracle=oracles.receiver_chain,
        monitor=ReceiverChain,
        spark="unisono.pipeline.audits.membership:receiver_chain",
        counter_example=DAMAGES["skipped_view"],
    ),
    START_CHANGES,
)
