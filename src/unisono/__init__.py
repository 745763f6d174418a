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
    Block,
    DroppedOut,
    Event,
    Excluded,
    Gap,
    Left,
    LeftBehind,
    Message,
    Returned,
    SendAccepted,
    SendRefused,
    ServerChanged,
    SourceUnavailable,
    StateProgress,
    StateReceived,
    Unblocked,
    Unrecovered,
    View,
    ViewReason,
)
from unisono.group import Group, GroupEvent, join
from unisono.identity import MessageId, Point, ProcessId, StartPoint, ViewId
from unisono.reconciliation import Reconciliation
from unisono.runtime.process import Process
from unisono.runtime.state.keeper import State
from unisono.serving import Controller, MembershipServer
from unisono.session import Session
from unisono.session_group import Copied, SessionEvent, SessionGroup
from unisono.settings import Role, Service, Settings

try:
    __version__ = version("unisono")
except PackageNotFoundError:  # imported from a source tree that was not installed
    __version__ = "0+source"

__all__ = [
    "AudienceEstimate",
    "Block",
    "Controller",
    "Copied",
    "DroppedOut",
    "Event",
    "Excluded",
    "Gap",
    "Group",
    "GroupError",
    "GroupEvent",
    "Left",
    "LeftBehind",
    "MembershipServer",
    "Message",
    "MessageId",
    "MessageTooLarge",
    "NetworkError",
    "NotMember",
    "Point",
    "Process",
    "ProcessId",
    "Reconciliation",
    "Returned",
    "Role",
    "ScenarioError",
    "SendAccepted",
    "SendRefused",
    "SendRejected",
    "ServerChanged",
    "Service",
    "Session",
    "SessionEvent",
    "SessionGroup",
    "SettingError",
    "Settings",
    "SourceUnavailable",
    "StartPoint",
    "State",
    "StateProgress",
    "StateReceived",
    "StorageError",
    "TraceError",
    "Unblocked",
    "UnisonoError",
    "Unrecovered",
    "View",
    "ViewId",
    "ViewReason",
    "__version__",
    "join",
]
