"""How the files of a table are cut into what one task reads at once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from pyarrow import parquet

from unisono.pipeline.audits.coded import TableFile

PIECE_ROWS = 500_000
"""A task reads about so many rows at once: more take more memory, fewer more time for each."""


class Part(Struct, frozen=True):
    """Row groups of one file that one task reads together."""

    file: TableFile
    groups: tuple[int, ...]


def pieces(files: Sequence[TableFile]) -> list[list[Part]]:
    """The row groups of all files, cut into pieces for tasks."""
    found: list[list[Part]] = [[]]
    rows = 0
    for file in files:
        metadata = parquet.read_metadata(file.path)
        groups: list[int] = []
        for index in range(metadata.num_row_groups):
            groups.append(index)
            rows += metadata.row_group(index).num_rows
            if rows >= PIECE_ROWS:
                found[-1].append(Part(file, tuple(groups)))
                found.append([])
                rows, groups = 0, []
        if groups:
            found[-1].append(Part(file, tuple(groups)))
    return [piece for piece in found if piece]
