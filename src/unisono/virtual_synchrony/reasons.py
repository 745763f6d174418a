"""Named reasons for which a session or a server ignores something or gives it up."""

from __future__ import annotations

from enum import StrEnum

from unisono.wire.server_frames import NEWER_LIFE

NAME_TAKEN = f"{NEWER_LIFE}; give each process a name of its own"
"""Why a member drops out of its groups."""


class Reason(StrEnum):
    """Counted by the driver, and shown by `--json` and in traces."""

    NOT_OURS = "session: a message of another protocol"
    NOT_MEMBER = "this process is not in the group, or is leaving it"
    OLD_VIEW = "session: data of a view that is over"
    UNKNOWN_VIEW = "session: data of a view that is not announced yet"
    NOT_A_MEMBER = "session: data of a process that is not in the view"
    BAD_CUT = "session: a cut that does not fit its view"
    OLD_CUT = "session: a cut for a change that is over"
    DUPLICATE = "session: data that came before"
    NO_ROOM = "session: no room for data that came early"
    TOO_LARGE = "session: a message larger than message_limit_bytes"
    NOT_HELD = "session: asked for data that is not held"
    OTHER_TARGET = "session: meant for another"
    BAD_SERVER = "session: a server that does not keep to the protocol, or refuses this client"
    SERVER_SILENT = "session: the server is silent"
    SERVER_LOST = "session: the channel to the server ended"
    BAD_RELAY = "session: a relayed message that says not whose it is"
    BAD_CHARGE = "session: a client that does not keep to the protocol"
    SILENT_CHARGE = "session: a client is silent"
    SLOW_CHARGE = "session: a client that does not take what it is sent, or does not answer"
    TOO_MANY_CHARGES = "session: no room for another client"
    TOO_LATE = "the view ended before this was sent in it"
    LATE_BLOCK_OK = "session: an answer to no block"
