"""Holds the control hierarchy to its figures at 20, 200 and 1,000 sites, and lets a third of the coordinators crash.

`make hierarchy` runs it; it takes a few minutes. Sizes and a seed may be given: `python -m tests.campaigns.hierarchy
--seed 3 20 200`.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time

from tests.simulation.hierarchies import accept, accept_growth, crash_a_third, hierarchy, observer, regions
from unisono.simulation.hierarchy import Figures
from unisono.units import SECOND

REGIONS = {20: 4, 60: 5, 200: 8, 1000: 16}
SECONDS = 60
CRASH_AT, HEALED_BY = 40, 100


def show(title: str, figures: Figures, seconds: float) -> None:
    print(f"\n{title} ({seconds:.0f} s of CPU)")
    for name, value in figures.rows():
        print(f"  {name:<40} {value}")


def settle(sites: int, seed: int) -> Figures:
    began = process_time()
    world = hierarchy(sites, regions(REGIONS.get(sites, 8), loss=0.01), seconds=SECONDS, seed=seed, keep_rows=False)
    world.run()
    figures = observer(world).figures()
    show(f"{sites} sites", figures, process_time() - began)
    return figures


def heal(sites: int, seed: int) -> Figures:
    began = process_time()
    world = hierarchy(sites, regions(REGIONS.get(sites, 8), loss=0.01), seconds=HEALED_BY, seed=seed, keep_rows=False)
    crashed = crash_a_third(world, CRASH_AT)
    world.run()
    figures = observer(world).figures()
    show(f"{sites} sites, {len(crashed)} coordinators crashed at {CRASH_AT} s", figures, process_time() - began)
    homeless = [sample for sample in observer(world).samples if sample.at > CRASH_AT * SECOND and sample.homeless]
    if homeless:
        print(f"  {'every site has a coordinator again at':<40} {homeless[-1].at / SECOND + 1:.0f} s")
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sites", type=int, nargs="*", default=[20, 200, 1000])
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    try:
        figures = [settle(sites, chosen.seed) for sites in chosen.sites]
        for one in figures:
            accept(one, SECONDS)
        accept_growth(figures)
        for sites in chosen.sites:
            accept(heal(sites, chosen.seed), HEALED_BY)
    except AssertionError as broken:
        print(f"\nnot as demanded: {broken}")
        return 1
    print("\nas demanded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
