"""Named messages: a reader comes late, is sent nothing of what it missed, and asks for the one page that it wants.

Run it with `python examples/pages.py`. An editor keeps a page until every reliable receiver has reported it; the
archive reports rarely here, so that pages can be asked for meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import Any

import unisono

PAGES = {"page/1": "It was a dark night.", "page/2": "A dog barked.", "page/3": "Nobody came."}


async def read(group: unisono.Group, name: str) -> str:
    """Ask the editor for a page by its name, as soon as the editor is heard."""
    async for event in group:
        if isinstance(event, unisono.View):
            for process, reason in event.reasons:
                if process.name == "editor" and reason is unisono.ViewReason.HEARD:
                    group.recover(process, name=name)
        elif isinstance(event, unisono.Message) and event.name == name:
            return event.data.decode()
        elif isinstance(event, unisono.Unrecovered):
            return f"nobody has {event.name} any more"
    return "the group ended"


async def main(**options: Any) -> list[str]:
    found = []
    async with (
        unisono.join("book", name="editor", **options) as editor,
        unisono.join("book", name="archive", report_interval="5s", **options) as archive,
    ):
        while len(archive.members) < 2 or len(editor.members) < 2:
            await asyncio.sleep(0.01)
        await editor.send_many([text.encode() for text in PAGES.values()], PAGES)
        for name in ("page/2", "page/9"):
            reader = {"service": "framed", "role": "receiver", "membership": True, "activation_tries": 4, **options}
            async with unisono.join("book", name="reader", **reader) as group:
                found.append(await read(group, name))
                print(f"{name}: {found[-1]}")
    return found


if __name__ == "__main__":
    asyncio.run(main())
