"""Why something of a transfer was refused, dropped or given up: named once, counted by the driver."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """What is counted."""

    BAD_NEWCOMER_FRAME = "transfer: a bad frame of a newcomer"
    BAD_PROVIDER_FRAME = "transfer: a bad frame of a provider"
    BAD_CHUNK = "transfer: a chunk does not have its digest"
    NO_ROOM = "transfer: no room for another newcomer"
    SILENT_NEWCOMER = "transfer: a newcomer is silent"
    SILENT_PROVIDER = "transfer: a provider is silent"
    LOST_PROVIDER = "transfer: a provider is gone"
    TOO_LARGE = "transfer: a state is larger than the limit"
    UNUSABLE = "transfer: a state is of a point that was never reached here"
    NOT_SAVED = "transfer: a state could not be written"
    NOT_READ = "transfer: a state could not be read"
    NOT_STORED = "transfer: a chunk could not be written"
    NOT_LOADED = "transfer: a state was not taken"
    CHUNK = "transfer: chunks received"
    AGAIN = "transfer: a chunk came again"
    SERVED = "transfer: chunks given"
    FOUNDED = "transfer: nobody has a state"
    CAME_TO_NOTHING = "transfer: a command that came to nothing"
