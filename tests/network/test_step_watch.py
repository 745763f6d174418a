"""An engine that does not come to an end with a step takes its process along, and not its loop."""

from __future__ import annotations

import pytest

from tests.network.meeting import run
from unisono import UnisonoError, join, step_watch
from unisono.intergroup.sending import Sending


def test_a_step_that_does_not_end_stops_the_process_and_is_named(realm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_watch, "STEP_LIMIT_SECONDS", 0.2)

    async def main() -> None:
        async with join("g", name="ada", realm=realm, storage="memory") as group:
            monkeypatch.setattr(Sending, "flush", lambda self, step: [])
            with pytest.raises(UnisonoError, match=r"the engine of 'ada' does not come to an end.*Speaking\.advance"):
                await group.send(b"for ever")

    run(main())
