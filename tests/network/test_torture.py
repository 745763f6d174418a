"""A short torture of real processes, judged by their applications' logs; the checker is tried by spoiling these."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.campaigns.torture.checker import check, judge
from tests.campaigns.torture.driver import drive, read_story
from tests.campaigns.torture.leaves import make_leaves
from tests.campaigns.torture.mutations import MUTATIONS
from tests.campaigns.torture.plan import Kind, make_plan
from tests.campaigns.torture.records import read_log

pytestmark = pytest.mark.slow

SECONDS = 6.0


@pytest.mark.parametrize("kind", ["groups", "sessions"])
def test_a_short_torture_is_as_demanded_and_spoiled_logs_are_not(tmp_path: Path, kind: Kind) -> None:
    drive(make_plan(kind, 1, SECONDS), tmp_path / "run", trace=False)
    verdict = check(tmp_path / "run", timely=False)
    assert verdict.complaints == {}
    assert min(verdict.counts[name] for name in ("deliveries", "views", "journeys", "leaves")) > 0

    logs = {path.stem: read_log(path)[0] for path in sorted((tmp_path / "run").glob("*.log"))}
    tried = 0
    for mutation, name in MUTATIONS.items():
        spoiled = mutation(logs, Random(1))
        if spoiled is not None:
            tried += 1
            assert name in judge(spoiled, read_story(tmp_path / "run"), {}).complaints, mutation.__name__
    assert tried >= len(MUTATIONS) - 2


@pytest.mark.parametrize("seed", range(2))
def test_leaves_beside_a_stopped_sender_return(tmp_path: Path, seed: int) -> None:
    drive(make_leaves(seed), tmp_path / "run", trace=False)
    assert check(tmp_path / "run", timely=False).complaints == {}
