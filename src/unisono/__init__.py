"""Reliable, ordered communication in groups of processes."""

from importlib.metadata import PackageNotFoundError, version

from unisono.errors import (
    GroupError,
    MessageTooLarge,
    NetworkError,
    NotMember,
    ScenarioError,
    SendRejected,
    SettingError,
    StorageError,
    TraceError,
    UnisonoError,
)
from unisono.events import (
    Event,
    Left,
    LeftBehind,
    Message,
    SendAccepted,
    SendRefused,
    SourceUnavailable,
    View,
    ViewReason,
)
from unisono.group import Group, GroupEvent, join
from unisono.identity import MessageId, ProcessId, StartPoint, ViewId
from unisono.runtime.process import Process
from unisono.settings import Settings

try:
    __version__ = version("unisono")
except PackageNotFoundError:  # imported from a source tree that was not installed
    __version__ = "0+source"

__all__ = [
    "Event",
    "Group",
    "GroupError",
    "GroupEvent",
    "Left",
    "LeftBehind",
    "Message",
    "MessageId",
    "MessageTooLarge",
    "NetworkError",
    "NotMember",
    "Process",
    "ProcessId",
    "ScenarioError",
    "SendAccepted",
    "SendRefused",
    "SendRejected",
    "SettingError",
    "Settings",
    "SourceUnavailable",
    "StartPoint",
    "StorageError",
    "TraceError",
    "UnisonoError",
    "View",
    "ViewId",
    "ViewReason",
    "__version__",
    "join",
]
