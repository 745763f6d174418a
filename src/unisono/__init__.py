"""Reliable, ordered communication in groups of processes."""

from importlib.metadata import PackageNotFoundError, version

from unisono.errors import ScenarioError, SettingError, TraceError, UnisonoError
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
from unisono.identity import MessageId, ProcessId, StartPoint, ViewId
from unisono.settings import Settings

try:
    __version__ = version("unisono")
except PackageNotFoundError:  # imported from a source tree that was not installed
    __version__ = "0+source"

__all__ = [
    "Event",
    "Left",
    "LeftBehind",
    "Message",
    "MessageId",
    "ProcessId",
    "ScenarioError",
    "SendAccepted",
    "SendRefused",
    "SettingError",
    "Settings",
    "SourceUnavailable",
    "StartPoint",
    "TraceError",
    "UnisonoError",
    "View",
    "ViewId",
    "ViewReason",
    "__version__",
]
