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
    AudienceEstimate,
    DroppedOut,
    Event,
    Excluded,
    Gap,
    Left,
    LeftBehind,
    Message,
    SendAccepted,
    SendRefused,
    SourceUnavailable,
    StateProgress,
    StateReceived,
    Unrecovered,
    View,
    ViewReason,
)
from unisono.group import Group, GroupEvent, join
from unisono.identity import MessageId, Point, ProcessId, StartPoint, ViewId
from unisono.reconciliation import Reconciliation
from unisono.runtime.process import Process
from unisono.runtime.state_keeper import State
from unisono.settings import Role, Service, Settings

try:
    __version__ = version("unisono")
except PackageNotFoundError:  # imported from a source tree that was not installed
    __version__ = "0+source"

__all__ = [
    "AudienceEstimate",
    "DroppedOut",
    "Event",
    "Excluded",
    "Gap",
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
    "Point",
    "Process",
    "ProcessId",
    "Reconciliation",
    "Role",
    "ScenarioError",
    "SendAccepted",
    "SendRefused",
    "SendRejected",
    "Service",
    "SettingError",
    "Settings",
    "SourceUnavailable",
    "StartPoint",
    "State",
    "StateProgress",
    "StateReceived",
    "StorageError",
    "TraceError",
    "UnisonoError",
    "Unrecovered",
    "View",
    "ViewId",
    "ViewReason",
    "__version__",
    "join",
]
