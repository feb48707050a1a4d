"""The files that are written from the code, and the command that writes them."""

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphc.dev.clone import ROOT, missing_parts

DONE = 0
STALE = 1  # --check found a file out of date
UNABLE = 2  # the command line names nothing known, or something needed is missing
EXAMPLES = """examples:
  python -m graphc.dev regenerate               write all files
  python -m graphc.dev regenerate ops stubs     write some of them
  python -m graphc.dev regenerate --check       tell which are out of date

exit codes:
  0  done; with --check: no file is out of date
  1  with --check: a file is out of date
  2  a name is not known, a package is missing, or this is not a clone
"""


class UnableError(Exception):
    """Raised where a file cannot be generated, with a message for whoever asked."""


@dataclass(frozen=True)
class Generated:
    """A file or a folder of files, and the module whose `text()` returns its content.

    For a folder, `text()` returns the texts by file name. The module is imported only
    when it is needed: some modules need PyTensor, and some the samples of the tests.
    """

    module: str
    target: str
    what: str

    def texts(self, root: Path) -> dict[Path, str]:
        """The text that each file should have."""
        text = importlib.import_module(f"graphc.dev.{self.module}").text()
        target = root / self.target
        if isinstance(text, str):
            return {target: text}
        return {target / name: one for name, one in text.items()}


GENERATED = {
    "differences": Generated(
        "differences", "docs/differences.md", "where NumPy and JAX differ (slow)"
    ),
    "help": Generated(
        "help_texts", "graphc/ir/functions/help.txt", "what `help` adds (slow)"
    ),
    "idioms": Generated("idioms", "docs/idioms.md", "what pads well"),
    "ops": Generated("ops", "docs/ops.md", "primitives and functions"),
    "pytensor-jax-mode": Generated(
        "pytensor_jax_mode",
        "docs/pytensor_jax_mode.md",
        "what mode JAX cannot do (slow)",
    ),
    "pytensor-ops": Generated("pytensor_ops", "docs/pytensor_ops.md", "Ops converted"),
    "rewriting": Generated("rewriting", "docs/rewriting.md", "the table of rules"),
    "stubs": Generated("stubs", "graphc/ir/functions", "types for mypy and editors"),
    "troubleshooting": Generated(
        *("troubleshooting", "graphc/command/troubleshooting.md"),
        "what `graphc help` prints",
    ),
}


def command_for(name: str) -> str:
    """The command that writes one file anew, for messages."""
    return f"python -m graphc.dev regenerate {name}"


def stale_files(name: str, root: Path = ROOT) -> list[str]:
    """The files of a name whose text on disk is out of date."""
    return [path.relative_to(root).as_posix() for path, _ in _changes(name, root)]


def _changes(name: str, root: Path) -> Iterator[tuple[Path, str]]:
    for path, text in _texts(name, root).items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield path, text


def _texts(name: str, root: Path) -> dict[Path, str]:
    try:
        return GENERATED[name].texts(root)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("graphc"):
            raise
        raise UnableError(
            f"{name}: the package {error.name} is not installed; "
            "python -m pip install -e '.[test]' installs all that this needs"
        ) from error


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line and return its exit code; see EXAMPLES."""
    typed = _parser().parse_args(arguments)
    try:
        _check_clone(root)
        names = _checked_names(typed.names)
        return _check(names, root) if typed.check else _write(names, root)
    except UnableError as error:
        print(f"regenerate: {error}", file=sys.stderr)
        return UNABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m graphc.dev",
        description="What developers of graphc run in a clone.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    names = [f"  {name:18} {one.target}: {one.what}" for name, one in GENERATED.items()]
    regenerate = commands.add_parser(
        "regenerate",
        help="write files that are made from the code",
        description="Write files that are made from the code: all, or those named.",
        epilog="\n".join(["names:", *names]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    regenerate.add_argument("names", nargs="*", metavar="NAME")
    regenerate.add_argument("--check", action="store_true", help="write nothing")
    return parser


def _check_clone(root: Path) -> None:
    missing = missing_parts(root)
    if missing:
        raise UnableError(
            f"{root} is not a clone of the repository: there is no {missing[0]}; "
            "clone it, and run `python -m pip install -e '.[test]'` there"
        )
    if str(root) not in sys.path:  # for the samples of the tests
        sys.path.insert(0, str(root))


def _checked_names(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in GENERATED:
            known = ", ".join(GENERATED)
            raise UnableError(f"there is no {name!r}; the names are {known}")
    return list(names) or list(GENERATED)


def _check(names: Sequence[str], root: Path) -> int:
    code = DONE
    for name in names:
        for file in stale_files(name, root):
            print(f"{file} is out of date; run: {command_for(name)}", flush=True)
            code = STALE
    return code


def _write(names: Sequence[str], root: Path) -> int:
    for name in names:
        for path, text in _changes(name, root):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(root).as_posix()}", flush=True)
    return DONE
