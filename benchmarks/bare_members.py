"""A member of the common workload without any hook for statistics: the code is compiled as if they were never there.

While unisono is imported, every statement is left out that asks whether there is a trace, writes a row, or keeps what
only rows tell: high-water marks, how long sends waited, when gauges were due. What is left is what the same commit
would be without statistics; run by tracing_cost.py and engine_hooks.py.
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

ASKING = {"tracing", "tracing_messages", "_tracer"}
WRITING = {"record", "mark", "statistic"}
KEEPING = {"tracing", "tracing_messages", "high_water", "queue_high_water", "untaken_high_water", "_received_bytes"}
"""Fields that are kept for the statements above and for gauges, and for nothing else."""
DUE = {"gauged_at", "just_measured"}
"""Variables of a step that only gauges need."""
HOOKED = ("intergroup", "reliable", "runtime", "site")
"""The parts of unisono that have hooks."""
removed = 0


class Remover(ast.NodeTransformer):
    """Takes out the statements that are there for the trace alone; first values of fields stay."""

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        if any(isinstance(part, ast.Attribute) and part.attr in ASKING | KEEPING for part in ast.walk(node.test)):
            return self.without(node, *node.orelse)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        kept_for_rows = all(
            (isinstance(target, ast.Attribute) and target.attr in KEEPING)
            or (isinstance(target, ast.Name) and target.id in DUE)
            for target in node.targets
        )
        return self.without(node) if kept_for_rows and not isinstance(node.value, ast.Constant) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        kept_for_rows = isinstance(node.target, ast.Attribute) and node.target.attr in KEEPING
        return self.without(node) if kept_for_rows else node

    def visit_Expr(self, node: ast.Expr) -> Any:
        call = node.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return node
        name, of = call.func.attr, call.func.value
        writes = name in WRITING and isinstance(of, ast.Name) and of.id == "step"
        adds_up_waiting = name == "note" and isinstance(of, ast.Attribute) and of.attr == "blocked"
        return self.without(node) if writes or adds_up_waiting else node

    def without(self, node: ast.stmt, *instead: ast.stmt) -> list[ast.stmt]:
        """What stands in the place of a statement that is taken out."""
        global removed
        removed += 1
        return list(instead) or [ast.copy_location(ast.Pass(), node)]


class BareLoader(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        tree = Remover().visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class BareFinder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(tuple(f"unisono.{part}" for part in HOOKED)):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = BareLoader(spec.loader.name, spec.loader.path)
        return spec


if __name__ == "__main__":
    sys.meta_path.insert(0, BareFinder())
    from members import member

    assert removed > 30, f"only {removed} statements were taken out; do these hooks have other names now?"
    asyncio.run(member(json.loads(sys.stdin.readline())))
