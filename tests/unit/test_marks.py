"""The table of marks is the code's: none without its sentence, none that nobody notes."""

from __future__ import annotations

import re
from pathlib import Path

import unisono
from unisono.marks import ALL_MARKS

SOURCE = Path(unisono.__file__).parent


def test_every_mark_that_the_code_notes_has_a_sentence_and_none_is_left_over() -> None:
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py")) if path.name != "marks.py"
    )
    called = set(re.findall(r'\.mark\(\s*"([a-z-]+)"', text))
    assert called - set(ALL_MARKS) == set()
    assert {mark for mark in ALL_MARKS if f'"{mark}"' not in text} == set()
