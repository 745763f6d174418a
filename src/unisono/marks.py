"""Coverage marks: hard situations by name. A campaign counts them and fails when one it lists was never reached."""

from __future__ import annotations

MARKS: dict[str, str] = {
    "gap": "a receiver sees that a message is missing",
    "gap-at-the-end": "a keep-alive shows that the last message was lost",
    "gap-filled": "a repair closes a gap",
    "repair-asked-again": "a repair or its request was lost and is asked for again",
    "request-heard": "a receiver hears another ask for what it lacks too",
    "repair-spared": "a holder hears another's repair and need not send its own",
    "repaired-for-another": "a holder repairs what another source sent",
    "repair-unneeded": "a repair brings only what had come meanwhile",
    "repair-too-late": "a receiver asks for what was already released and is told",
    "activation-asked-again": "an activation request or its grant was lost",
    "activation-renewed": "a source hears a new attempt of a receiver it still counts",
    "activation-given-up": "a source does not answer and is reported as unavailable",
    "left-behind-silent": "a source stops waiting for a silent receiver",
    "left-behind-slow": "a source stops waiting for a receiver that holds a full window back",
    "told-left-behind": "a receiver learns that it was left behind",
    "source-silent": "a receiver drops a source that fell silent",
    "source-restarted": "a receiver meets the next incarnation of a source it follows",
    "source-left": "a source says farewell and leaves the view after its last message",
    "source-back": "a source that had left joins again in the same life",
    "old-incarnation": "a packet of an earlier life comes late and is dropped",
    "woke-up": "a process finds that it was stopped and forgives the others' silence",
    "paced": "a sender slows down because much is lost",
    "window-full": "a sender waits for its receivers",
    "application-full": "delivery waits for the application",
    "receive-buffer-full": "a receiver refuses what came too early",
    "fragmented": "a message larger than a datagram is put together again",
    "fragments-given-up": "an unordered message is given up because a fragment is missing",
    "early-keep-alive": "a sender that a timestamp order waits for says the time early",
    "service-changed": "a member changes its service while joined",
    "overtaken": "an unreliable message comes after what it belongs before and is dropped",
    "gap-told": "a framed receiver is told what did not come",
    "unrecovered": "what a framed receiver asked for did not come",
    "incarnation-kept": "a process restarts with its disk and counts on",
    "storage-failed": "the disk refuses the incarnation and the process starts all the same",
    "sender-suspected": "a sender of the view has been silent for too long and is accused",
    "sender-gone": "a sender is out of the view for certain: it restarted, went ahead, or holds everybody up",
    "accusation-withdrawn": "a sender that was accused is heard again in time",
    "merge-begun": "a sender of another view is heard and the two are merged",
    "consensus-reached": "all who are to be in the next view want the same one",
    "rolled-back": "a proposal fails after everybody halted, and sending and delivery go on in the view as it was",
    "excluded": "a sender learns that the others went on without it",
    "stepped-out": "a sender cannot go on in its view and ends it for itself",
    "drawn-in": "a sender under another service is drawn into the agreement of those in timestamp order",
    "receiver-halted": "a mere receiver hears that its view is about to end and waits for the next",
    "dropped-out": "a mere receiver cannot follow the views of the senders and starts anew",
    "repair-stalled": "an agreement on a view does not move for twice the time of suspicion, and names who holds it up",
    "stayed-alone": "a sender wanted to merge and nobody came along",
    "sender-awaited": "somebody became a sender whom this process does not follow yet, and everything waits for it",
    "proxy-changed": "a receiver looks for another to send for it: the one it had is gone, refuses or is silent",
    "proxy-asked-again": "a request to send for a receiver, or its answer, was lost",
    "proxied-copy": "what was sent for a receiver comes a second time, by another sender, and no application gets it",
    "change-without-effect": "somebody was made a sender twice, or the last sender said that it only receives",
    "let-go": "the others agree on a view without a sender that has just said its last word, and it goes at once",
}
"""Every mark of a group by name, with the situation it stands for."""

HIERARCHY_MARKS: dict[str, str] = {
    "ring-search-failed": "a control process looked for a coordinator everywhere and nobody answered",
    "coordinator-lost": "a child finds that its coordinator is silent",
    "child-lost": "a coordinator drops a silent child",
    "handed-over": "a child leaves one coordinator after another one counts it",
    "to-child-abandoned": "a coordinator that steps down finds no other and stays",
    "gathered-report": "a source hears of many receivers at once, through the control hierarchy",
    "sum-of-others": "a sum of reports is not of exactly those who count, and counts for nothing",
    "receivers-polled": "a source misses receivers in the sum and asks each for itself",
}
"""Those of the control hierarchy, and of what goes through it."""

SESSION_MARKS: dict[str, str] = {
    "vs-forwarded": "a message of a member that is gone is sent on by another",
    "vs-take-over": "the next who has a message is asked for it because the first did not answer",
    "vs-cascaded-change": "a start-change comes while another is under way",
    "vs-view-skipped": "a view that was announced never comes to a client because a newer change began",
    "vs-cut-asked": "a cut was lost and is asked for",
    "vs-server-changed": "a client moves to another server",
    "vs-block-forced": "an application did not answer its block in time and is not waited for",
    "vs-accused": "a client accuses a member that it does not hear, or that holds it up",
    "vs-withdrawn": "an accusation is withdrawn because the member is heard again",
    "vs-early-message": "a message of a view comes before the view is installed",
    "vs-optimistic-delivered": "a message that was sent before its view was installed is delivered in it",
    "vs-optimistic-returned": "an optimistic message goes back to its application: its view never came",
    "vs-optimistic-resent": "an optimistic message whose view never came is sent again in the next one",
    "vs-partial-message": "a view ends in the middle of a message of several fragments",
    "vs-split": "a start-change expects fewer than live, because of accusations or servers that are lost",
    "vs-window-full": "a sender of a session waits for the members of its view",
    "vs-merged": "the members of a view come from two views",
}
"""Those of virtual synchrony sessions."""

RARE_MARKS: dict[str, str] = {
    "clock-held": "a timestamp was too far ahead to be believed",
    "member-lost-in-repair": "a member of the proposed view cannot be followed any more before the view stands",
    "cut-lowered": "a message that nobody left can bring ends the view before it",
    "proxy-refused": "a sender does not send for a receiver: too much waits already, or it is no sender",
    "lacks-what-was-delivered": "a member cannot get what another has delivered, and the next view is without it",
}
"""Those to which drawn faults lead seldom or never; scenarios of their own, or tests, do."""

ALL_MARKS = MARKS | HIERARCHY_MARKS | SESSION_MARKS | RARE_MARKS
