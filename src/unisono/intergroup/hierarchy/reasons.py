"""Why the hierarchy ignored or refused something: each is counted under its name."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A named reason."""

    OWN_PACKET = "control: own packet came back"
    OWN_NAME = "control: another process uses this name"
    NOT_CONTROL = "control: not a message of the hierarchy"
    NOT_COORDINATOR = "control: not a coordinator here"
    NOT_MY_CHILD = "control: from a child of another"
    NOT_MY_COORDINATOR = "control: from a coordinator of others"
    OLD_SEARCH = "control: answers a search that is over"
    UNKNOWN_ECHO = "control: gives back a time that was never sent"
    NO_ROOM = "control: no room for another peer"
    NO_CHILDREN_NOW = "control: takes no children now"
    OLD_SERIAL = "control: an earlier contribution"
    UNKNOWN_TOPIC = "control: a topic nobody knows"
    NO_ADDRESS = "control: not an address to send to"
    TOO_MANY_ENTRIES = "control: no room for another entry"
