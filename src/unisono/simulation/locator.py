"""Where each key of a TOML text stands: the path as errors name it (`fault[2].groups`) and its line.

The text is known to be valid TOML, so the scanner only has to find its way past values.
"""

from __future__ import annotations

import re

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")


def locate(text: str) -> dict[str, int]:
    """The line, from 1, of every table, key and list element that the text has."""
    return _Scanner(text).scan()


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


class _Scanner:
    """One pass over the text; `_lengths` counts the tables of each array of tables."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[str, int] = {}
        self._lengths: dict[str, int] = {}

    def scan(self) -> dict[str, int]:
        table = ""
        self._skip_blank()
        while self._at < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
            self._skip_blank()
        return self._lines

    def _header(self) -> str:
        line = self._line()
        repeated = self._text.startswith("[[", self._at)
        self._at += 2 if repeated else 1
        keys = self._dotted()
        self._at += 2 if repeated else 1
        path = ""
        for key in keys[:-1]:
            path = self._last(join(path, key))
        path = join(path, keys[-1])
        if repeated:
            self._lengths[path] = self._lengths.get(path, 0) + 1
            self._note(path, line)
        path = self._last(path)
        self._note(path, line)
        return path

    def _pair(self, table: str) -> None:
        line = self._line()
        path = table
        for key in self._dotted():
            path = join(path, key)
            self._note(path, line)
        self._at += 1
        self._value(path)

    def _value(self, path: str) -> None:
        self._skip_blank()
        first = self._text[self._at]
        if first in "\"'":
            self._string()
        elif first == "[":
            self._items(path, "]")
        elif first == "{":
            self._items(path, "}")
        else:
            match = _SCALAR.match(self._text, self._at)
            assert match is not None, "a value follows the equals sign of valid TOML"
            self._at = match.end()

    def _items(self, path: str, end: str) -> None:
        self._at += 1
        index = 0
        self._skip_blank()
        while self._text[self._at] != end:
            if end == "]":
                self._note(f"{path}[{index}]", self._line())
                self._value(f"{path}[{index}]")
            else:
                self._pair(path)
            index += 1
            self._skip_blank()
            if self._text[self._at] == ",":
                self._at += 1
                self._skip_blank()
        self._at += 1

    def _dotted(self) -> list[str]:
        keys = []
        while True:
            self._skip_spaces()
            if self._text[self._at] in "\"'":
                begin = self._at
                self._string()
                keys.append(self._text[begin + 1 : self._at - 1])
            else:
                match = _BARE.match(self._text, self._at)
                assert match is not None, "a key stands here in valid TOML"
                keys.append(match[0])
                self._at = match.end()
            self._skip_spaces()
            if self._text[self._at] != ".":
                return keys
            self._at += 1

    def _string(self) -> None:
        quote = self._text[self._at]
        end = quote * 3 if self._text.startswith(quote * 3, self._at) else quote
        self._at += len(end)
        while not self._text.startswith(end, self._at):
            self._at += 2 if quote == '"' and self._text[self._at] == "\\" else 1
        self._at += len(end)
        while len(end) == 3 and self._text.startswith(quote, self._at):
            self._at += 1

    def _skip_blank(self) -> None:
        match = _BLANK.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _skip_spaces(self) -> None:
        while self._text[self._at] in " \t":
            self._at += 1

    def _last(self, path: str) -> str:
        return f"{path}[{self._lengths[path] - 1}]" if path in self._lengths else path

    def _note(self, path: str, line: int) -> None:
        self._lines.setdefault(path, line)

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1
