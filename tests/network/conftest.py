"""Every test here stays on loopback, in a realm of its own, with a state directory of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _on_loopback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNISONO_INTERFACE", "lo")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("UNISONO_REALM", raising=False)


@pytest.fixture
def realm() -> str:
    return f"test-{os.getpid()}-{os.urandom(6).hex()}"
