"""Finds a scenario: one that comes with the library, by its name, or a file."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from unisono.errors import ScenarioError
from unisono.simulation.scenario import Scenario
from unisono.simulation.scenario_file import read_scenario
from unisono.spelling import did_you_mean

_SUFFIX = ".toml"
_FOLDER = files("unisono.simulation") / "scenarios"


def builtin_names() -> tuple[str, ...]:
    """The scenarios that come with the library, in alphabetical order."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


def scenario_text(name_or_path: str) -> tuple[str, str]:
    """The text of a scenario, and what to call it in errors."""
    if name_or_path in builtin_names():
        file = name_or_path + _SUFFIX
        return (_FOLDER / file).read_text(encoding="utf-8"), file
    path = Path(name_or_path)
    if not path.exists() and "/" not in name_or_path and path.suffix != _SUFFIX:
        raise ScenarioError(
            "", f"no such scenario or file; {did_you_mean(name_or_path, builtin_names())}", None, name_or_path
        )
    try:
        return path.read_text(encoding="utf-8"), name_or_path
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ScenarioError("", "not UTF-8 text", line, name_or_path) from None
    except OSError as error:
        raise ScenarioError("", f"cannot be read: {error.strerror}", None, name_or_path) from None


def load(name_or_path: str, overrides: Sequence[str] = ()) -> Scenario:
    """The scenario of that name or file, after the overrides of `--set`."""
    text, file = scenario_text(name_or_path)
    return read_scenario(text, file, overrides)
