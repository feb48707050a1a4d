"""Run one module of tests in this process, with another `jit` for `jax.jit`.

Only import statements of the modules in the folder find the other `jit`: JAX and graphc
keep theirs. `jax_suite.py` starts this, and reads the notes that it writes.
"""

import builtins
import faulthandler
import importlib.util
import json
import re
import sys
import unittest
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial, update_wrapper
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any

import jax
import numpy as np
from absl import flags
from jax._src import api
from jax._src import test_util as jtu

sys.path.insert(0, str(Path(__file__).parents[1]))

import graphc  # noqa: E402

_RAISED = re.compile(r"[\w.]*(Error|Exception)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
RENAMED_IN = "jax", "jax._src", "jax._src.api"


class StandIn(ModuleType):
    """A module in which some names stand for something else."""

    def __init__(self, module: ModuleType, names: dict[str, Any]) -> None:
        vars_of(self).update(module=module, names=names)

    def __getattribute__(self, name: str) -> Any:
        own = vars_of(self)
        names = own["names"]
        return names[name] if name in names else getattr(own["module"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = vars_of(self)
        if name in own["names"]:
            own["names"][name] = value
        else:
            setattr(own["module"], name, value)


def vars_of(item: Any) -> dict[str, Any]:
    return object.__getattribute__(item, "__dict__")


def stand_ins(jit: Any) -> dict[str, ModuleType]:
    """Stand-ins for the modules from which tests take `jit`."""
    inner = StandIn(api, {"jit": jit})
    source = StandIn(sys.modules["jax._src"], {"api": inner})
    outer = StandIn(jax, {"jit": jit, "_src": source})
    return dict(zip(RENAMED_IN, (outer, source, inner), strict=True))


def importing(instead: dict[str, ModuleType]) -> Callable[..., Any]:
    """Return an `__import__` for modules of tests, which finds the stand-ins."""

    def find(name: str, *how: Any, **named: Any) -> Any:
        module = builtins.__import__(name, *how, **named)
        return instead.get(module.__name__, module)

    return find


class Loader(SourceFileLoader):
    """Loads a module whose import statements use another `__import__`."""

    def __init__(self, name: str, path: str, find: Callable[..., Any]) -> None:
        super().__init__(name, path)
        self._find = find

    def exec_module(self, module: ModuleType) -> None:
        own = {**vars(builtins), "__import__": self._find}
        vars(module)["__builtins__"] = own
        super().exec_module(module)


@dataclass
class Finder:
    """Finds modules in a folder."""

    folder: Path
    find: Callable[..., Any]

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        file = self.folder / f"{name}.py"
        if not file.is_file():
            return None
        loader = Loader(name, str(file), self.find)
        return importlib.util.spec_from_file_location(name, file, loader=loader)


class Resized:
    """A jitted function that makes a call at other sizes before its first call."""

    def __init__(self, jitted: Any) -> None:
        self._jitted, self._is_new = jitted, True
        update_wrapper(self, jitted, updated=())

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if self._is_new and is_concrete(args, named):
            self._is_new = False
            self._call_at_other_sizes(args, named)
        return self._jitted(*args, **named)

    def _call_at_other_sizes(self, args: Any, named: Any) -> None:
        """Call the function at the first other sizes that it accepts."""
        for resize in (longer_everywhere, longer_at_first, FirstLonger()):
            try:
                other, others = jax.tree.map(resize, (args, named))
                self._jitted(*other, **others)
            except Exception:
                continue
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jitted, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array of numbers with axes, on one device."""
    if isinstance(leaf, jax.Array):
        numbers = not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended)
        return numbers and leaf.ndim > 0 and len(leaf.sharding.device_set) == 1
    return isinstance(leaf, np.ndarray) and leaf.ndim > 0


def is_concrete(args: Any, named: Any) -> bool:
    """Whether the arguments include arrays, none of them traced or deleted."""
    leaves = jax.tree.leaves((args, named))
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return False
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
    return not any(a.is_deleted() for a in arrays) and any(map(is_array, leaves))


def repeated(leaf: Any, axes: int) -> Any:
    """Append the first element of each of the first `axes` axes once more."""
    found = np.asarray(leaf)
    for axis in range(min(axes, found.ndim)):
        if found.shape[axis]:
            found = np.concatenate([found, found.take([0], axis)], axis)
    return jax.numpy.asarray(found) if isinstance(leaf, jax.Array) else found


def longer_everywhere(leaf: Any) -> Any:
    return repeated(leaf, leaf.ndim) if is_array(leaf) else leaf


def longer_at_first(leaf: Any) -> Any:
    return repeated(leaf, 1) if is_array(leaf) else leaf


@dataclass
class FirstLonger:
    """Makes the first array longer and leaves the others alone."""

    is_done: bool = False

    def __call__(self, leaf: Any) -> Any:
        if self.is_done or not is_array(leaf):
            return leaf
        self.is_done = True
        return repeated(leaf, 1)


def resizing(jit: Any, function: Any = None, **options: Any) -> Any:
    """A `jit` whose functions are called at other sizes first."""
    if function is None:
        return partial(resizing, jit, **options)
    return Resized(jit(function, **options))


def all_tests(suite: Any) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestCase):
            yield item
        else:
            yield from all_tests(item)


def is_named(test: str, names: list[str]) -> bool:
    """Whether a test, its class or its module has one of the names."""
    if not names:
        return True
    return any(fnmatch(test, name) or fnmatch(test, f"{name}.*") for name in names)


def outcome(test: unittest.TestCase) -> dict[str, str]:
    """Run a test; return its state, and why it did not pass."""
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.FallbackWarning)
        unittest.TestSuite([test]).run(result)
    bad = [*result.failures, *result.errors]
    if bad:
        return {"state": "failed", "why": shortened(bad[0][1])}
    if result.skipped or result.expectedFailures:
        return {"state": "skipped", "why": ""}
    passed = result.testsRun and not result.unexpectedSuccesses
    return {"state": "passed" if passed else "failed", "why": ""}


def shortened(text: str) -> str:
    """The line of a traceback that names the exception."""
    lines = [line for line in text.splitlines() if line.strip()]
    raised = [i for i, row in enumerate(lines) if _RAISED.match(row)]
    return " ".join(lines[raised[-1] :] if raised else lines[-1:])[:300]


def run(module: Path, notes: Path, seconds: float, names: list[str]) -> None:
    """Run the tests of a module that have no notes yet."""
    begun = {json.loads(line)["test"] for line in notes.read_text().splitlines()}
    suite = unittest.defaultTestLoader.loadTestsFromModule(
        importlib.import_module(module.stem)
    )
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(sys.argv[:1])
    jax.jit(abs)(1)  # opens a cache on disk, which tests may not do
    with notes.open("a", buffering=1) as file:
        for test in all_tests(suite):
            name = _ADDRESS.sub("", test.id())  # addresses differ by process
            if name in begun or not is_named(name, names):
                continue
            file.write(json.dumps({"test": name, "state": "begun"}) + "\n")
            faulthandler.dump_traceback_later(seconds, exit=True)
            found = outcome(test)
            faulthandler.cancel_dump_traceback_later()
            file.write(json.dumps({"test": name, **found}) + "\n")


def main() -> None:
    """Run one module as the command line says; see `jax_suite.Suite`."""
    module, kind, resized, seconds, notes, *names = sys.argv[1:]
    jit = {"jax": jax.jit, "graphc": graphc.jit}[kind]
    instead = stand_ins(partial(resizing, jit) if int(resized) else jit)
    vars(jtu)["api"] = instead["jax._src.api"]
    folder = Path(module).resolve().parent
    sys.meta_path.insert(0, Finder(folder, importing(instead)))
    run(Path(module), Path(notes), float(seconds), names)


if __name__ == "__main__":
    faulthandler.enable()
    main()
