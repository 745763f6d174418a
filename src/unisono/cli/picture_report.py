"""What the members of a group said, as tables for a person and as JSON for a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from unisono.identity import ProcessId, ViewId
from unisono.probing.picture import Line, Picture, StandingView
from unisono.units import KIB, MIB, SECOND
from unisono.wire.probe_messages import Level, ProbedView

_PIPE_WIDTH = 1000
"""Lines that go to a file or a program are not folded."""
_NAMES_SHOWN = 24

_BUFFERS = (
    ("window", "send window"),
    ("queue", "send queue"),
    ("repair", "kept for repair"),
    ("receive", "receive window"),
    ("untaken", "untaken events"),
)


def console() -> Console:
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def advice(group: str, realm: str, transport: str, wait: int) -> str:
    """What to do when nobody answers."""
    where = f"realm {realm!r}" if realm else "the common realm"
    other = (
        "where they are on other machines, name one of them with --seed"
        if transport == "mesh"
        else "members of a mesh are asked with --transport mesh"
    )
    return (
        f"nobody in group {group!r} of {where} answered within {_span(wait)}. Check that members run, that group and"
        f" realm (--realm, $UNISONO_REALM) are spelled as theirs, and that they are on this interface; {other}."
        " Groups of sessions (membership servers) are not watched this way."
        f" `unisono doctor {group}` says what this network carries."
    )


def show(picture: Picture, group: str, realm: str) -> Group:
    """The picture as a person sees it."""
    tables = (_member_table(picture), _buffer_table(picture)) if picture.lines else ()
    return Group(_summary(picture, group, realm), *_view_lines(picture), *tables)


def _summary(picture: Picture, group: str, realm: str) -> Text:
    answered, views = len(picture.lines), len(picture.views)
    text = Text(f"group {group} in {f'realm {realm}' if realm else 'the common realm'}: ")
    text.append(f"{answered} member{'' if answered == 1 else 's'} answered, ")
    stands = "no agreed view" if not views else "1 view stands" if views == 1 else f"{views} views stand"
    text.append(stands, style="bold red" if picture.split else "")
    return text


def _view_lines(picture: Picture) -> Iterable[Text]:
    for number, view in enumerate(picture.views, 1):
        text = Text(f"view {number}, for {_span(view.age)}: {_names(view.members, view.count)}")
        if view.followers:
            text.append(f"; followed by {_names(view.followers, len(view.followers))}")
        yield text
        if view.elsewhere:
            names = _names(view.elsewhere, len(view.elsewhere))
            yield Text(f"  in it, but with another view: {names}", style="red")
        if view.unheard:
            yield Text(f"  in it, but did not answer: {_names(view.unheard, len(view.unheard))}", style="yellow")
    if picture.apart:
        yield Text(f"in no agreed view: {_names(picture.apart, len(picture.apart))}")
    if picture.absent:
        names = ", ".join(f"{process.name} (missed {missed})" for process, missed in picture.absent)
        yield Text(f"answered before, not now: {names}", style="yellow")


def _member_table(picture: Picture) -> Table:
    table = Table(box=box.SIMPLE)
    rates = any(line.rates is not None for line in picture.lines)
    for name in ("member", "role", "service", "view", "state"):
        table.add_column(name)
    for name in ("sent", "/s", "delivered", "/s", "follows", "followed by"):
        if name != "/s" or rates:
            table.add_column(name, justify="right")
    table.add_column("suspects")
    numbers = {view.id: number for number, view in enumerate(picture.views, 1)}
    for line in picture.lines:
        answer, traffic = line.answer, line.answer.traffic
        sent = [_count(traffic.sent, traffic.sent_bytes)]
        delivered = [_count(traffic.delivered, traffic.delivered_bytes)]
        if rates:
            sent.append("" if line.rates is None else _rate(line.rates.sent, line.rates.sent_bytes))
            delivered.append("" if line.rates is None else _rate(line.rates.delivered, line.rates.delivered_bytes))
        suspects = ", ".join(f"{one.process.name} ({_span(one.silence)})" for one in answer.suspects)
        more = answer.suspected - len(answer.suspects)
        cells = [
            *(line.process.name, "sender" if answer.sends else "receiver", answer.service),
            *(_seen(line, numbers), answer.state, *sent, *delivered, str(answer.follows), str(answer.followers)),
            suspects + (f" and {more} more" if more > 0 else ""),
        ]
        table.add_row(*map(Text, cells))
    return table


def _seen(line: Line, numbers: dict[ViewId, int]) -> str:
    """The agreed view by its number, and what the application sees where that is something else."""
    answer = line.answer
    agreed = "" if answer.agreed is None else str(numbers[answer.agreed.id])
    if answer.same or answer.shown is None:
        return agreed or "-"
    shown = numbers.get(answer.shown.id)
    words = f"sees {shown}" if shown is not None else f"own of {answer.shown.count}"
    return f"{agreed}, {words}" if agreed else words


def _buffer_table(picture: Picture) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("member")
    table.add_column("incarnation")
    table.add_column("here for", justify="right")
    for _, title in _BUFFERS:
        table.add_column(title, justify="right")
    for line in picture.lines:
        levels = [(field, getattr(line.answer.levels, field)) for field, _ in _BUFFERS]
        who = line.process.name, f"{line.process.incarnation:x}", _span(line.answer.age)
        cells = [*who, *(_level(level, events=field == "untaken") for field, level in levels)]
        table.add_row(*map(Text, cells))
    return table


def as_json(picture: Picture, group: str, realm: str) -> dict[str, Any]:
    """The picture as a program reads it: times in seconds, a process as name~incarnation."""
    return {
        "group": group,
        "realm": realm,
        "round": picture.round,
        "answered": len(picture.lines),
        "split": picture.split,
        "views": [_view_json(view) for view in picture.views],
        "apart": _words(picture.apart),
        "absent": [{"process": str(process), "rounds": missed} for process, missed in picture.absent],
        "members": [_line_json(line) for line in picture.lines],
    }


def _view_json(view: StandingView) -> dict[str, Any]:
    return {
        "id": str(view.id),
        "age": view.age / SECOND,
        "count": view.count,
        "members": _words(view.members),
        "present": _words(view.present),
        "elsewhere": _words(view.elsewhere),
        "unheard": _words(view.unheard),
        "followers": _words(view.followers),
    }


def _line_json(line: Line) -> dict[str, Any]:
    answer = line.answer
    return {
        "process": str(line.process),
        "name": line.process.name,
        "incarnation": line.process.incarnation,
        "role": "sender" if answer.sends else "receiver",
        "service": answer.service,
        "state": answer.state,
        "age": answer.age / SECOND,
        "view": _seen_json(answer.agreed),
        "application_sees_it": answer.same,
        "application_view": _seen_json(answer.shown),
        "total": {
            "messages_sent": answer.traffic.sent,
            "bytes_sent": answer.traffic.sent_bytes,
            "messages_delivered": answer.traffic.delivered,
            "bytes_delivered": answer.traffic.delivered_bytes,
            "datagrams_sent": answer.traffic.datagrams,
            "datagram_bytes_sent": answer.traffic.datagram_bytes,
        },
        "a_second": None
        if line.rates is None
        else {
            "messages_sent": line.rates.sent,
            "bytes_sent": line.rates.sent_bytes,
            "messages_delivered": line.rates.delivered,
            "bytes_delivered": line.rates.delivered_bytes,
            "datagrams_sent": line.rates.datagrams,
            "datagram_bytes_sent": line.rates.datagram_bytes,
        },
        "buffers": {
            field: {"used": level.used, "limit": level.limit}
            for field, level in ((field, getattr(answer.levels, field)) for field, _ in _BUFFERS)
        },
        "suspects": [{"process": str(one.process), "silence": one.silence / SECOND} for one in answer.suspects],
        "suspected": answer.suspected,
        "follows": answer.follows,
        "followers": answer.followers,
    }


def _seen_json(view: ProbedView | None) -> dict[str, Any] | None:
    if view is None:
        return None
    return {
        "id": str(view.id),
        "age": view.age / SECOND,
        "count": view.count,
        "members": _words(view.members),
    }


def _words(processes: Iterable[ProcessId]) -> list[str]:
    return [str(process) for process in processes]


def _names(processes: Sequence[ProcessId], count: int) -> str:
    shown = [process.name for process in processes[:_NAMES_SHOWN]]
    return " ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")


def _span(nanoseconds: int) -> str:
    seconds = nanoseconds / SECOND
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _size(size: float) -> str:
    if size < KIB:
        return f"{size:.0f} B"
    if size < MIB:
        return f"{size / KIB:.0f} KiB"
    return f"{size / MIB:.1f} MiB" if size < 100 * MIB else f"{size / MIB:.0f} MiB"


def _count(messages: int, size: int) -> str:
    return f"{messages:,} ({_size(size)})"


def _rate(messages: float, size: float) -> str:
    return f"{messages:,.0f} ({_size(size)})"


def _level(level: Level, events: bool) -> str:
    if events:
        return f"{level.used:,} of {level.limit:,}"
    return f"{_size(level.used)} of {_size(level.limit)}"
