"""One-token mistakes in the rules that may be silently wrong: would the tests notice?

    python -m tests.mutants --count 100 --seed 0

makes so many of them, each in a copy of the tree, and runs the tests that are named for
its module. It prints the change of each mutant that lives: that gets a test, unless it
changes the plan or the speed only, or nothing.
"""

import argparse
import ast
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("graphc", "graphc_serving", "tests", "docs", "examples", "pyproject.toml")
SECONDS = 120
# In this order: what is quick, and likely to fail, goes first.
RULES = ("tests/ops/test_orders.py", "tests/transform/test_padding_rules.py")
PADDING = ("tests/fuzz/test_policies.py", "tests/transform/test_padding.py")
IMPORTED = ("tests/importers/jax/test_table.py", "tests/importers/jax/test_awkward.py")
# The modules that are changed, and the tests that are about each.
TESTS: dict[str, tuple[str, ...]] = {
    "graphc/ops/common/padding.py": (*RULES, *PADDING),
    "graphc/ops/common/monoids.py": (*RULES, *PADDING),
    "graphc/ops/sorting/sort_search.py": RULES,
    "graphc/ops/sorting/partition.py": RULES,
    "graphc/ops/sorting/orders.py": RULES,
    "graphc/ops/reductions/reduce.py": RULES,
    "graphc/ops/reductions/cumulative.py": RULES,
    "graphc/ops/indexing/padding.py": (
        *("tests/transform/test_padding_slices.py", "tests/fuzz/test_sized_slices.py"),
        *RULES,
    ),
    "graphc/ops/linalg/padding.py": RULES,
    "graphc/transform/padding/pad.py": (*RULES, *PADDING),
    "graphc/transform/padding/storage.py": (*RULES, *PADDING),
    "graphc/rewriting/rules/masks.py": (
        *("tests/rewriting/test_near.py", "tests/rewriting/test_masks.py"),
    ),
    "graphc/ir/sizes/proofs.py": (
        *("tests/ir/test_dims.py", "tests/ir/test_dims_ranges.py"),
    ),
    "graphc/ir/sizes/dims.py": ("tests/ir/test_dims.py", "tests/ir/test_sizes.py"),
    "graphc/ir/sizes/ranges.py": ("tests/ir/test_dims_ranges.py",),
    "graphc/importers/jax/read/indexing.py": IMPORTED,
    "graphc/importers/jax/read/reductions.py": IMPORTED,
    "graphc/importers/jax/read/decompositions.py": IMPORTED,
}

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=",
    ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is", ast.In: "not in",
    ast.NotIn: "in",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "+",
}
SWAPPED = {
    "minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min",
    "least": "most", "most": "least", "logical_and": "logical_or",
    "logical_or": "logical_and", "any": "all", "all": "any", "zero": "one",
    "one": "zero", "less": "less_equal", "less_equal": "less", "True": "False",
    "False": "True", "inf": "nan", "nan": "inf", "left": "right",
}


@dataclass(frozen=True)
class Mutant:
    """A module with one of its tokens changed."""

    module: str
    text: str
    line: int

    def difference(self) -> str:
        """What is changed, as a patch without context."""
        before = (ROOT / self.module).read_text().splitlines()
        after = self.text.splitlines()
        lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[3:]
        return "\n".join([f"{self.module}:{self.line}", *lines])


class Source:
    """The text of a module, in which parts are replaced."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.text = (ROOT / module).read_text()
        self.tree = ast.parse(self.text)
        lengths = [len(line.encode()) for line in self.text.splitlines(keepends=True)]
        self._starts = [sum(lengths[:i]) for i in range(len(lengths))]

    def mutants(self) -> list[Mutant]:
        """All of them, in the order of the text."""
        written = self._in_text()
        return [m for node in ast.walk(self.tree) if node not in written
                for m in self._of(node)]

    def _in_text(self) -> set[ast.AST]:
        """Docstrings and messages, and types: no value depends on them."""
        found: set[ast.AST] = set()
        for node in ast.walk(self.tree):
            parts: list[ast.AST | None] = []
            if isinstance(node, ast.arg):
                parts = [node.annotation]
            elif isinstance(node, (ast.FunctionDef, ast.AnnAssign)):
                is_function = isinstance(node, ast.FunctionDef)
                parts = [node.returns if is_function else node.annotation]
            elif isinstance(node, (ast.JoinedStr, ast.Raise, ast.Import)):
                parts = [node]
            for part in parts:
                found.update(ast.walk(part) if part is not None else ())
        return found

    def _of(self, node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            new = COMPARISONS[type(node.ops[0])]
            yield self._between(node.left, node.comparators[0], new)
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            yield self._between(node.left, node.right, ARITHMETIC[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            new = "or" if isinstance(node.op, ast.And) else "and"
            yield self._between(node.values[0], node.values[1], new)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            yield self._replaced(node, f"({self._of_node(node.operand)})")
        elif isinstance(node, (ast.If, ast.IfExp)):
            yield self._replaced(node.test, f"(not ({self._of_node(node.test)}))")
        elif isinstance(node, ast.Constant):
            yield from self._of_constant(node)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield from self._of_name(node)

    def _of_constant(self, node: ast.Constant) -> Iterator[Mutant]:
        if isinstance(node.value, bool) or node.value == "left":
            old, name = self._of_node(node), str(node.value)
            yield self._replaced(node, old.replace(name, SWAPPED[name]))
        elif isinstance(node.value, (int, float)):
            yield self._replaced(node, f"({node.value} + 1)")

    def _of_name(self, node: ast.Name | ast.Attribute) -> Iterator[Mutant]:
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in SWAPPED and isinstance(node.ctx, ast.Load):
            old = self._of_node(node)
            yield self._replaced(node, old[: len(old) - len(name)] + SWAPPED[name])

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr)
        assert node.end_lineno is not None and node.end_col_offset is not None
        first = self._starts[node.lineno - 1] + node.col_offset
        return first, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _of_node(self, node: ast.AST) -> str:
        start, stop = self._span(node)
        return self.text.encode()[start:stop].decode()

    def _between(self, left: ast.expr, right: ast.expr, new: str) -> Mutant:
        """The operator between two operands replaced, brackets around them aside."""
        start, stop = self._span(left)[1], self._span(right)[0]
        middle = self.text.encode()[start:stop].decode()
        core = middle.strip(" ()\n\\")
        return self._mutant(start, stop, middle.replace(core, new, 1), left.lineno)

    def _replaced(self, node: ast.expr, new: str) -> Mutant:
        return self._mutant(*self._span(node), new, node.lineno)

    def _mutant(self, start: int, stop: int, new: str, line: int) -> Mutant:
        raw = self.text.encode()
        text = (raw[:start] + new.encode() + raw[stop:]).decode()
        return Mutant(self.module, text, line)


def compiles(mutant: Mutant) -> bool:
    """Whether the changed text is Python, and other Python than before."""
    try:
        new = ast.dump(ast.parse(mutant.text))
    except SyntaxError:
        return False
    return new != ast.dump(ast.parse((ROOT / mutant.module).read_text()))


def chosen(modules: list[str], count: int, seed: int) -> list[Mutant]:
    """So many mutants, from each module in turn."""
    rng = random.Random(seed)
    waiting = {module: Source(module).mutants() for module in modules}
    for mutants in waiting.values():
        rng.shuffle(mutants)
    found: list[Mutant] = []
    while len(found) < count and any(waiting.values()):
        for mutants in filter(None, waiting.values()):
            mutant = mutants.pop()
            if len(found) < count and compiles(mutant):
                found.append(mutant)
    return found


def failed(tests: tuple[str, ...], tree: Path, seconds: float | None) -> str:
    """Why tests do not pass in a copy of the tree, "" where they do."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    try:
        ran = subprocess.run(
            [*command, "-p", "no:xdist", *tests],
            cwd=tree,
            env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=seconds,
            capture_output=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "too long"
    return "killed" if ran.returncode else ""


def fate(mutant: Mutant, tree: Path) -> str:
    """Killed by a test, or by the time that its tests take; or it lived."""
    path = tree / mutant.module
    path.write_text(mutant.text)
    try:
        return failed(TESTS[mutant.module], tree, SECONDS) or "lived"
    finally:
        shutil.copy(ROOT / mutant.module, path)


def main() -> None:
    """Make mutants, and tell which live."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="leave out those before")
    parser.add_argument("modules", nargs="*", default=list(TESTS))
    how = parser.parse_args()
    fates, made = Counter[str](), chosen(how.modules, how.count, how.seed)[how.first :]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tree / name)
        for tests in dict.fromkeys(TESTS[mutant.module] for mutant in made):
            if failed(tests, tree, None):
                sys.exit(f"these do not pass without a mutant: {' '.join(tests)}")
        for number, mutant in enumerate(made, how.first):
            end = fate(mutant, tree)
            fates[end] += 1
            print(f"{number} {end}: {mutant.difference()}", flush=True)
    print(", ".join(f"{count} {end}" for end, count in fates.items()))


if __name__ == "__main__":
    main()
