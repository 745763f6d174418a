"""Why the data path ignored, refused or gave up something: each is counted under its name."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A named reason."""

    OWN_PACKET = "own packet came back"
    OWN_NAME = "another process uses this name"
    OLD_INCARNATION = "from an earlier life of its sender"
    OTHER_LIFE = "meant for another life of this process"
    NOT_ACTIVE = "data of a source that is not active"
    NOT_MEMBER = "this process is leaving"
    ONLY_RECEIVES = "asks a mere receiver to be a source"
    BAD_CHANGE = "a word about who sends that cannot be understood"
    ATTEMPT_STALE = "belongs to an earlier activation"
    GRANT_UNASKED = "a grant that was not asked for"
    KEYS_REFUSED = "key agreement refused the extension"
    REPORT_AHEAD = "reports what was never sent"
    REQUEST_AHEAD = "asks for what was never sent"
    TOO_MANY_ASKERS = "too many count the group"
    ANSWER_LATE = "an answer to a count that is over"
    REQUEST_STALE = "asks for what it has reported"
    BUFFER_FULL = "came too early for the receive buffer"
    APPLICATION_SLOW = "unreliable message dropped: the application is slow"
    TOO_MANY_LISTENERS = "no room for another receiver"
    TOO_MANY_PEERS = "no room for another peer"
    CLOCK_AHEAD = "timestamp too far ahead to be true"
    OVERTAKEN = "came after what it belongs before"
    REPEATED = "came already"
    NOT_FRAMED = "only a framed receiver asks for repairs itself"
    TOO_MANY_REQUESTS = "too many open requests of the application"
    NAME_UNKNOWN = "asks for a name that is not kept"
    VIEW_STALE = "a view that does not follow the current one"
    NOT_OURS = "a message of the control hierarchy in a group"
    TOO_MANY_PROBES = "too many probes"
    ANSWER_STALE = "belongs to an earlier session of sending for others"
    BAD_REQUEST = "asks to send what cannot be put together"
    NOT_ASKED = "beside a probe, or an answer to one that nobody here made"
