"""What a caller can get wrong, and what to do about it.

UnisonoError
 ├─ SettingError     a setting has an unknown name or an impossible value
 ├─ ScenarioError    a scenario file cannot be run as it stands
 ├─ TraceError       a trace cannot be read or written
 │   └─ BadReport         a report of trace rows is refused
 ├─ LogError         a retained log cannot be read or written
 │   └─ LogGone           what was asked for is no longer kept
 ├─ NetworkError     a socket, an interface or a seed cannot be used
 ├─ StorageError     the directory of a process cannot be used
 └─ GroupError       a group cannot be used as asked
     ├─ MessageTooLarge   a message is larger than the group takes
     ├─ NotMember         the group was left, or not joined yet
     └─ SendRejected      the group did not take a message
"""

from __future__ import annotations


class UnisonoError(Exception):
    """The base of every error this library raises on purpose."""


class SettingError(UnisonoError, ValueError):
    """A setting has an unknown name or an impossible value."""

    def __init__(self, name: str, expected: str) -> None:
        super().__init__(name, expected)
        self.name = name
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.name}: {self.expected}"


class ScenarioError(UnisonoError, ValueError):
    """A scenario cannot be run as it stands: the key, the line where it is known, and what was expected."""

    def __init__(self, path: str, expected: str, line: int | None = None, file: str | None = None) -> None:
        super().__init__(path, expected, line, file)
        self.path = path
        self.expected = expected
        self.line = line
        self.file = file

    def __str__(self) -> str:
        place = self.file or "scenario"
        if self.line is not None:
            place += f":{self.line}"
        return f"{place}: {self.path}: {self.expected}" if self.path else f"{place}: {self.expected}"


class TraceError(UnisonoError):
    """A trace cannot be read or written."""


class BadReport(TraceError):
    """A report of trace rows is refused, for a named reason."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class LogError(UnisonoError):
    """A retained log cannot be read or written."""


class LogGone(LogError):
    """What was asked for is no longer kept: the oldest payload that is left has the offset `begin`."""

    def __init__(self, offset: int, begin: int) -> None:
        super().__init__(offset, begin)
        self.offset = offset
        self.begin = begin

    def __str__(self) -> str:
        return f"offsets {self.offset} to {self.begin - 1} are no longer kept; the log begins at {self.begin}"


class NetworkError(UnisonoError, OSError):
    """A socket, an interface or a seed cannot be used."""


class StorageError(UnisonoError, OSError):
    """The directory of a process cannot be used."""


class GroupError(UnisonoError):
    """A group cannot be used as asked."""


class MessageTooLarge(GroupError, ValueError):
    """A message is larger than the group takes; nothing of it was sent."""


class NotMember(GroupError):
    """The group was left, or not joined yet."""


class SendRejected(GroupError):
    """The group did not take a message; nothing of it was sent."""
