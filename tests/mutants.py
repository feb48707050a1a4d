"""Put one-token mistakes into rules that may be silently wrong: do tests notice?

    python -m tests.mutants --count 100 --seed 0

makes that many mutants, each in a process forked after all modules are loaded, and runs
the tests listed for its module. It prints the change of each mutant that survives; that
change needs a test, unless it alters only the plan or the speed, or nothing.
"""

import argparse
import ast
import difflib
import gc
import importlib
import linecache
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).parents[1]
COPIED = ("graphc", "graphc_serving", "tests", "docs", "examples", "pyproject.toml")
SECONDS = 120  # of CPU time
HANGS = 1800  # seconds of waiting
# In this order: quick tests that are likely to fail come first. Each takes seconds.
RULES = "tests/transform/test_padding_rules.py"
HOSTILE = "tests/transform/test_hostile_padding.py::test_programs"
PADDING = "tests/transform/test_padding.py"
DTYPES = ("float64", "int64")


def samples(*families: str) -> tuple[str, ...]:
    """The tests of families of ops, padded, and of their gradients."""
    padded = f"{RULES}::test_anything_in_the_padding"
    return (
        *(f"{padded}[{family}-{dtype}]" for family in families for dtype in DTYPES),
        *(f"{RULES}::test_gradients[{family}]" for family in families),
    )


def orders(*names: str) -> tuple[str, ...]:
    """The tests of everything about sorting, each for a dtype and a rank."""
    test = "tests/ops/test_orders.py::test_padding_comes_last_for_every_bit_pattern"
    return tuple(f"{test}[{name}]" for name in names)


SORTED = (
    *orders("float32-2", "complex64-2", "bool-2"),
    "tests/ops/test_orders.py::test_places_that_are_not_there",
    f"{RULES}::test_numbers_of_nothing_are_counted_nowhere",
    *samples("search", "sets"),
    "tests/ops/test_vmap.py::test_few_examples[sets-1]",
)
REDUCED = (
    *(*samples("reductions"), *orders("float32-2", "int64-2")),
    "tests/ops/test_gradient_edges.py",
)
PADDED = (
    *(f"{HOSTILE}[{kind}]" for kind in ("first-bound", "wider-bound", "first-pad")),
    f"{PADDING}::test_results_are_those_of_true_sizes[numpy]",
    *samples("reductions"),
    *orders("float64-2"),
    f"{PADDING}::test_everyday_programs[scan_prefix_inside-pad-numpy]",
    f"{PADDING}::test_sizes_that_a_guard_needs_equal_share_a_capacity",
    f"{PADDING}::test_an_op_without_a_rule_is_compiled_for_each_size_alone",
)
IMPORTED = tuple(f"tests/importers/jax/test_{n}.py" for n in ("primitives", "rules"))
MEMORY = (
    "tests/importers/numpy/test_like_numpy.py",
    *(f"tests/importers/numpy/test_{n}.py" for n in ("memory", "arrays", "programs")),
)
SAMPLED = ("tests/importers/jax/test_template.py",)
SAME_STEPS = tuple(
    f"tests/importers/jax/test_associative.py::test_one_program_serves_all_sizes[{n}]"
    for n in ("searches", "products", "in_a_function", "in_order")
) + ("tests/importers/jax/test_associative.py::test_traces_by_others_are_those_of_jax",)
# The modules that are changed, each with its tests.
TESTS: dict[str, tuple[str, ...]] = {
    "graphc/ops/common/padding.py": PADDED,
    "graphc/ops/common/monoids.py": (*orders("bool-2"), *REDUCED),
    "graphc/ops/sorting/sort_search.py": SORTED,
    "graphc/ops/sorting/partition.py": SORTED,
    "graphc/ops/sorting/orders.py": (*SORTED, *orders("float32-1", "complex64-1")),
    "graphc/ops/reductions/reduce.py": REDUCED,
    "graphc/ops/reductions/cumulative.py": REDUCED,
    "graphc/ops/indexing/padding.py": (
        "tests/fuzz/test_sized_slices.py::test_padded_as_by_numpy",
        f"{RULES}::test_places_before_and_behind_an_axis",
        *samples("index"),
    ),
    "graphc/ops/linalg/padding.py": samples("linalg"),
    "graphc/transform/padding/pad.py": PADDED,
    "graphc/transform/padding/storage.py": PADDED,
    "graphc/rewriting/rules/masks.py": ("tests/rewriting/test_masks.py",),
    "graphc/ir/sizes/proofs.py": ("tests/ir/test_dims.py",),
    "graphc/ir/sizes/dims.py": ("tests/ir/test_dims.py", "tests/ir/test_sizes.py"),
    "graphc/ir/sizes/ranges.py": ("tests/ir/test_dims_ranges.py",),
    "graphc/importers/jax/read/indexing.py": IMPORTED,
    "graphc/importers/jax/read/reductions.py": IMPORTED,
    "graphc/importers/jax/read/decompositions.py": IMPORTED,
    "graphc/importers/numpy/traced/in_place.py": MEMORY,
    "graphc/importers/numpy/traced/memory.py": MEMORY,
    "graphc/importers/numpy/traced/numpy_functions.py": MEMORY,
    "graphc/importers/numpy/traced/sharing.py": MEMORY,
    "graphc/importers/numpy/traced/ufuncs.py": MEMORY,
    "graphc/importers/jax/sizes/template.py": SAMPLED,
    "graphc/importers/jax/sizes/samples.py": SAMPLED,
    "graphc/importers/jax/trace/associative.py": SAME_STEPS,
    "graphc/importers/jax/trace/product_slopes.py": SAME_STEPS,
    "graphc/importers/jax/trace/replaced_functions.py": SAME_STEPS,
    "graphc/importers/jax/trace/searches.py": SAME_STEPS,
    "graphc/importers/jax/trace/references.py": (
        "tests/importers/jax/test_references.py",
    ),
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
    """A module in which one token is changed."""

    module: str
    text: str
    line: int

    def difference(self) -> str:
        """The change, as a patch without context."""
        before = (ROOT / self.module).read_text().splitlines()
        after = self.text.splitlines()
        lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[3:]
        return "\n".join([f"{self.module}:{self.line}", *lines])


class Source:
    """The text of a module, whose parts can be replaced."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.text = (ROOT / module).read_text()
        self.tree = ast.parse(self.text)
        lengths = [len(line.encode()) for line in self.text.splitlines(keepends=True)]
        self._starts = [sum(lengths[:i]) for i in range(len(lengths))]

    def mutants(self) -> list[Mutant]:
        """All mutants of the module, in the order of the text."""
        written = self._in_text()
        return [m for node in ast.walk(self.tree) if node not in written
                for m in self._of(node)]

    def _in_text(self) -> set[ast.AST]:
        """The nodes of docstrings, messages and types, on which no value depends."""
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
        """Replace the operator between two operands, but not brackets around it."""
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
    """Whether the changed text is Python, and differs from the old code."""
    try:
        new = ast.dump(ast.parse(mutant.text))
    except SyntaxError:
        return False
    return new != ast.dump(ast.parse((ROOT / mutant.module).read_text()))


def chosen(modules: list[str], count: int, seed: int) -> list[Mutant]:
    """Choose `count` mutants, taking the modules in turn."""
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


class Swap:
    """The functions of a mutant, to replace those that are already loaded.

    The module is compiled twice, as it is and changed, to see which code differs.
    """

    def __init__(self, mutant: Mutant) -> None:
        self._path = str(ROOT / mutant.module)
        self._text = mutant.text
        before = compile((ROOT / mutant.module).read_text(), self._path, "exec")
        after = compile(mutant.text, self._path, "exec")
        self._codes = {before: after}
        _pair(before, after, self._codes)
        self.of_functions = _outermost(before) == _outermost(after)

    def make(self) -> None:
        """Replace the functions in this process, and the text they are printed from."""
        gc.unfreeze()  # frozen objects are in no list
        for function in gc.get_objects():
            if isinstance(function, FunctionType) and function.__code__ in self._codes:
                function.__code__ = self._codes[function.__code__]
        lines = self._text.splitlines(keepends=True)
        linecache.cache[self._path] = (len(self._text), None, lines, self._path)


def _pair(before: CodeType, after: CodeType, pairs: dict[CodeType, CodeType]) -> None:
    """Pair the inner code objects of both versions."""
    inner = [
        [c for c in code.co_consts if isinstance(c, CodeType)]
        for code in (before, after)
    ]
    for old, new in zip(*inner, strict=True):
        pairs[old] = new
        _pair(old, new, pairs)


def _outermost(code: CodeType) -> list[object]:
    """The code that runs when a module is imported, without inner functions."""
    values = [c for c in code.co_consts if not isinstance(c, CodeType)]
    return [code.co_code, code.co_names, values]


def limit_work() -> None:
    """Limit the CPU time of this process."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def run_tests(tests: tuple[str, ...], swap: Swap | None) -> None:
    """Run tests in this process, then exit: with 0 if all pass."""
    limit_work()
    if swap is not None:
        swap.make()
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    os._exit(int(pytest.main([*options, *tests])))


def failed(tests: tuple[str, ...], swap: Swap | None = None) -> str:
    """Why tests fail, or "" if they pass. A fork has all modules loaded."""
    child = os.fork()
    if not child:
        try:
            run_tests(tests, swap)
        finally:
            os._exit(1)
    ended, how = _waited(child)
    if not ended or os.WIFSIGNALED(how):
        return "too long"
    return _told(os.waitstatus_to_exitcode(how), tests)


def _told(status: int, tests: tuple[str, ...]) -> str:
    """Interpret pytest's exit status; exit if there are no such tests."""
    if status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"some of these are no tests: {' '.join(tests)}")
    return "killed" if status else ""


def _waited(child: int) -> tuple[bool, int]:
    """Wait for a process; return whether and how it ended, killing one that hangs."""
    for _ in range(HANGS):
        ended, how = os.waitpid(child, os.WNOHANG)
        if ended:
            return True, how
        time.sleep(1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False, 0


def failed_anew(mutant: Mutant, tests: tuple[str, ...]) -> str:
    """Like `failed`, in a copy, for changes in what a module does when imported."""
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, Path(folder) / name)
        (Path(folder) / mutant.module).write_text(mutant.text)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        ran = subprocess.run(
            [*command, "-p", "no:xdist", *tests],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            preexec_fn=limit_work,
            capture_output=True,
            check=False,
        )
    return "too long" if ran.returncode < 0 else _told(ran.returncode, tests)


def fate(mutant: Mutant) -> str:
    """How a mutant ended: killed by a test, killed by the time limit, or lived."""
    tests, swap = TESTS[mutant.module], Swap(mutant)
    if swap.of_functions:
        return failed(tests, swap) or "lived"
    return failed_anew(mutant, tests) or "lived"


def load(modules: list[str]) -> None:
    """Import modules and all that their tests import, without starting JAX's devices.

    One failing example is enough, so Hypothesis does not shrink it.
    """
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", phases=phases, report_multiple_bugs=False)
    settings.load_profile("mutants")
    files = {t.split("::")[0] for m in modules for t in TESTS[m]}
    for name in ("tests.conftest", *modules, *sorted(files)):
        importlib.import_module(name.removesuffix(".py").replace("/", "."))
    gc.collect()
    gc.freeze()


def main() -> None:
    """Make mutants, and print those that live."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="leave out those before")
    parser.add_argument("--unchecked", action="store_true", help="the tests pass")
    parser.add_argument("modules", nargs="*", default=list(TESTS))
    how = parser.parse_args()
    os.chdir(ROOT)
    fates, made = Counter[str](), chosen(how.modules, how.count, how.seed)[how.first :]
    load(how.modules)
    for tests in dict.fromkeys(TESTS[mutant.module] for mutant in made):
        if not how.unchecked and failed(tests):
            sys.exit(f"these do not pass without a mutant: {' '.join(tests)}")
    for number, mutant in enumerate(made, how.first):
        start = time.monotonic()
        end = fate(mutant)
        fates[end] += 1
        print(round(time.monotonic() - start), end="s ")
        print(f"{number} {end}: {mutant.difference()}", flush=True)
    print(", ".join(f"{count} {end}" for end, count in fates.items()))


if __name__ == "__main__":
    main()
