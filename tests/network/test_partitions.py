"""Real processes in network namespaces: a partition goes on on both sides, and they merge when it is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.network.partition import Islands, part_and_meet
from tests.network.switch import Switch
from tests.network.test_namespaces import namespaces_work
from unisono.trace.schema import DeliverRow

pytestmark = pytest.mark.skipif(not namespaces_work(), reason="network namespaces need root and `ip`")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("islands", "settings"),
    [
        pytest.param([[0, 1, 2], [3, 4]], {}, id="3-2"),
        pytest.param([[0], [1], [2], [3], [4]], {}, id="5-way"),
        pytest.param([[0, 1, 2], [3, 4]], {"patience": "500ms", "source_timeout": "1s"}, id="given-up"),
    ],
)
def test_islands_go_on_and_merge(tmp_path: Path, realm: str, islands: Islands, settings: dict[str, str]) -> None:
    with Switch(5) as switch:
        happened = part_and_meet(switch, islands, realm, tmp_path / "run", **settings)
    assert happened.violations == []
    assert len({view.view for view in happened.merged().values()}) == 1
    for island in islands:
        side = {f"p{host}" for host in island}
        for name in sorted(side):
            apart = [view for view in happened.views(name) if {start.source for start in view.start} == side]
            delivered = {
                row.source
                for row in happened.rows[name]
                if isinstance(row, DeliverRow) and row.view in {view.view for view in apart}
            }
            assert delivered == side
