"""One broken property, and the names that a report gives to processes, messages and moments."""

from __future__ import annotations

from msgspec import Struct

from unisono.trace.schema import Row


class Violation(Struct, frozen=True):
    """What is wrong and where: the row at `position` of that process, or process "" when it is the whole run.

    `message` is the application message concerned, as in "alice~1f/7", where there is one.
    """

    property: str
    group: str
    process: str
    incarnation: int
    position: int
    message: str | None
    text: str

    def place(self) -> tuple[str, str, str, int, int, str | None]:
        """All but the text: what two checkers of one property must agree on."""
        return (self.property, self.group, self.process, self.incarnation, self.position, self.message)


def process_name(name: str, incarnation: int) -> str:
    """One life of a process in words, as in "alice~1f"."""
    return f"{name}~{incarnation:x}"


def message_name(source: str, incarnation: int, number: int) -> str:
    """One application message in words, as in "alice~1f/7"."""
    return f"{source}~{incarnation:x}/{number}"


def moment(row: Row) -> int:
    """When a row was written: the global time where it is known, else the local clock."""
    return row.at if row.truth is None else row.truth
