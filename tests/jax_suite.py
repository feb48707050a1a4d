"""Run tests that are written for `jax.jit` with `graphc.jit` in its place.

    python tests/jax_suite.py FOLDER [names...]

FOLDER holds modules `*_test.py` of unittest or absltest, like JAX's; nothing is
downloaded. A name is that of a module, class or test, like `api_test.JitTest`, and may
be a shell pattern. Each module runs in four processes: under `jax.jit` and under
`graphc.jit`, once as it is and once with each jitted function called at another size
first. A test differs if it passes under `jax.jit` but not under `graphc.jit`. The tests
named in `jax_suite_known.toml` differ for a reason; any other makes the exit status 1.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).parent
KNOWN = HERE / "jax_suite_known.toml"
RUNNER = HERE / "jax_suite_runner.py"
COLUMNS = "jax.jit", "graphc.jit", "known", "new"


@dataclass(frozen=True)
class Way:
    """A way to run a module: the `jit`, and whether another size comes first."""

    jit: str
    resized: bool

    def __str__(self) -> str:
        return f"{self.jit}, {'at another size first' if self.resized else 'as it is'}"


@dataclass(frozen=True)
class Outcome:
    """How a test ended: passed, failed, skipped, or stopped with its process."""

    state: str
    why: str = ""


@dataclass(frozen=True)
class Difference:
    """A test that passes under `jax.jit` but not under `graphc.jit`."""

    test: str
    resized: bool
    why: str


@dataclass(frozen=True)
class Known:
    """Tests that differ for a known reason."""

    tests: tuple[str, ...]
    reason: str

    def has(self, test: str) -> bool:
        return any(fnmatch(test, pattern) for pattern in self.tests)


def known_differences(path: Path) -> list[Known]:
    rows = tomllib.loads(path.read_text()).get("difference", [])
    return [Known(tuple(row["tests"]), row["reason"]) for row in rows]


class Suite:
    """The modules of a folder, each run in its own processes."""

    def __init__(self, folder: Path, names: list[str], seconds: float) -> None:
        self._folder, self._names, self._seconds = folder, names, seconds

    def modules(self) -> Iterator[Path]:
        """Yield the modules that the names refer to."""
        for path in sorted(self._folder.glob("*_test.py")):
            firsts = [name.split(".")[0] for name in self._names] or ["*"]
            if any(fnmatch(path.stem, first) for first in firsts):
                yield path

    def outcomes(self, module: Path, way: Way) -> dict[str, Outcome]:
        """How each test of a module ended. Raises RuntimeError if it has no tests."""
        with tempfile.TemporaryDirectory() as folder:
            notes = Path(folder, "notes")
            notes.touch()
            while True:
                ended = self._process(module, way, notes)
                found, begun = _read(notes)
                if ended.returncode == 0:
                    return found
                if begun is None:
                    raise RuntimeError(f"{module.name}, {way}:\n{ended.stderr[-2000:]}")
                _note(notes, begun, _stopped(ended, self._seconds))

    def _process(
        self, module: Path, way: Way, notes: Path
    ) -> "subprocess.CompletedProcess[str]":
        how = [way.jit, str(int(way.resized)), str(self._seconds)]
        told = [sys.executable, str(RUNNER), str(module), *how, str(notes)]
        own = {**os.environ, "PYTHONHASHSEED": "0"}  # names of tests may depend on it
        command = [*told, *self._names]
        return subprocess.run(command, capture_output=True, text=True, env=own)


def _stopped(ended: "subprocess.CompletedProcess[str]", seconds: float) -> Outcome:
    lines = ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"]
    hangs = any(line.startswith("Timeout (") for line in lines)
    why = f"no end after {seconds:g} s" if hangs else f"it killed Python: {lines[0]}"
    return Outcome("stopped", why)


def _note(notes: Path, test: str, outcome: Outcome) -> None:
    row = {"test": test, "state": outcome.state, "why": outcome.why}
    with notes.open("a") as file:
        file.write(json.dumps(row) + "\n")


def _read(notes: Path) -> tuple[dict[str, Outcome], str | None]:
    """The outcomes in a file of notes, and the test that began but did not end."""
    found, begun = {}, None
    for row in map(json.loads, notes.read_text().splitlines()):
        if row["state"] == "begun":
            begun = row["test"]
        else:
            found[row["test"]], begun = Outcome(row["state"], row["why"]), None
    return found, begun


def differences(
    by_jax: dict[str, Outcome], here: dict[str, Outcome], resized: bool
) -> Iterator[Difference]:
    """Yield the tests that pass only under `jax.jit`."""
    missing = Outcome("failed", "there is no such test here")
    for test, outcome in by_jax.items():
        own = here.get(test, missing)
        if outcome.state == "passed" and own.state != "passed":
            yield Difference(test, resized, own.why or own.state)


def class_of(test: str) -> str:
    """The class of a test, whose parameters (after a space) may contain dots."""
    return test.partition(" ")[0].rpartition(".")[0]


class Report:
    """Counts tests by class: how many pass under each `jit`, and which differ."""

    def __init__(self, known: list[Known]) -> None:
        self._known = known
        self._counts: dict[str, Counter[str]] = {}
        self.new: list[Difference] = []
        self.failed_modules: list[str] = []

    def add(self, by_jax: set[str], differing: Iterable[Difference]) -> None:
        """Add tests that pass under `jax.jit`, and the differences among them."""
        rows = list(differing)
        known = {row.test for row in rows if any(k.has(row.test) for k in self._known)}
        new = {row.test for row in rows} - known
        self.new += [row for row in rows if row.test in new]
        for test in sorted(by_jax):
            counts = self._counts.setdefault(class_of(test), Counter())
            state = "known" if test in known else "new" if test in new else "graphc.jit"
            counts.update(["jax.jit", state])

    def __str__(self) -> str:
        width = max(map(len, [*self._counts, "all"]))
        total: Counter[str] = sum(self._counts.values(), Counter())
        lines = [f"{'passed, by class':{width}}  {'  '.join(COLUMNS)}"]
        for name, counts in (*self._counts.items(), ("all", total)):
            numbers = "  ".join(f"{counts[c]:{len(c)}}" for c in COLUMNS)
            lines.append(f"{name:{width}}  {numbers}")
        for row in self.new:
            when = "at another size first" if row.resized else "as it is"
            lines.append(f"new: {row.test} ({when}): {row.why}")
        return "\n".join([*lines, *self.failed_modules])


def run(suite: Suite, report: Report) -> None:
    """Run all modules in all ways, and add the results to the report."""
    for module in suite.modules():
        passed: set[str] = set()
        differing: list[Difference] = []
        for resized in (False, True):
            try:
                by_jax = suite.outcomes(module, Way("jax", resized))
                here = suite.outcomes(module, Way("graphc", resized))
            except RuntimeError as error:
                report.failed_modules.append(str(error))
                continue
            passed |= {t for t, found in by_jax.items() if found.state == "passed"}
            differing += differences(by_jax, here, resized)
        report.add(passed, differing)


def main() -> int:
    """Run the suite given on the command line; return 1 if a new test differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--known", type=Path, default=KNOWN)
    parser.add_argument("--seconds", type=float, default=120, help="for each test")
    told = parser.parse_args()
    report = Report(known_differences(told.known))
    run(Suite(told.folder, told.names, told.seconds), report)
    print(report)
    return int(bool(report.new or report.failed_modules))


if __name__ == "__main__":
    sys.exit(main())
