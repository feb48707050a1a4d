"""Saved models, which run their programs by JAX."""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphc_serving.kinds import Shape, shortened
from graphc_serving.manifest import (
    Array,
    Manifest,
    ModelError,
    NDArray,
    Tensors,
    read,
)
from graphc_serving.runner import Call, NoProgram, Runner
from graphc_serving.steps import StepError, follow

Reopen = Callable[[Manifest, Tensors], Callable[..., Any]]
_LONGEST = 1000  # characters of a message in a file
_NUMBERS = bool, int, float, complex
_KINDS = (("bool",), ("int", "uint"), ("float", "bfloat"), ("complex",))


def load(path: Any, *, reopen: Reopen | None = None) -> "Model":
    """The model that `Function.export` has written to a file.

    It takes the sizes that it was exported for; where it is padded, all that fit into
    their capacities. For other sizes it asks the function that `reopen` makes of the
    graph in the file, once; `graphc.load(path, graph=True)` gives such a `reopen`.

    Nothing in the file is run as Python. Raises ModelError for a file that is damaged,
    malformed, larger than 16 GiB or of a newer version, and where JAX has no such
    device here.
    """
    name = os.fspath(path)
    manifest, tensors = read(name)
    if reopen is not None and manifest.graph is None:
        hint = "export it with graph=True"
        raise ModelError(f"there is no graph in {name}\n  hint: {hint}")
    return Model(manifest, tensors, reopen)


def structured(structure: Any, values: Iterator[Any]) -> Any:
    """Values in order, in the structure that a manifest gives."""
    if structure == "single":
        return next(values)
    kind, parts = structure
    found = [structured(part, values) for part in parts]
    if kind == "list":
        return found
    return tuple(found) if kind == "tuple" else dict(zip(kind, found, strict=True))


class Model:
    """A saved model; call it with one argument per input, by position or name.

    Arrays must have the dtypes of the inputs, Python numbers must fit them.
    """

    def __init__(
        self, manifest: Manifest, tensors: Tensors, reopen: Reopen | None
    ) -> None:
        self._manifest = manifest
        self._tensors = tensors
        self._reopen = reopen
        self._reopened: Callable[..., Any] | None = None
        self._jax = importlib.import_module("jax")
        self._device = _device(self._jax, manifest.platform)
        self._runner = Runner(self._jax, manifest, tensors, self._device)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple([v.name for v in self._manifest.inputs])

    @property
    def shapes(self) -> list[tuple[Shape, ...]]:
        """The shapes of inputs that it was exported for."""
        return list(self._manifest.shapes)

    def __repr__(self) -> str:
        m = self._manifest
        inputs = ", ".join(f"{v.name}: {v.dtype}" for v in m.inputs)
        return f"<graphc.Model ({inputs}), {len(m.shapes)} sizes on {m.platform}>"

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Run the programs for these sizes. Raises ModelError where there are none."""
        given = self._bound(args, named)
        m, runner = self._manifest, self._runner
        arrays = [self._admitted(v, a) for v, a in zip(m.inputs, given, strict=True)]
        with runner.settings():
            try:
                values = [*arrays, *runner.constants]
                found = follow(m.steps, values, m.results, Call(runner))
                return structured(m.structure, map(runner.placed, found))
            except StepError as error:
                raise self._refused_by(arrays, str(error)) from None
            except NoProgram as missing:
                sizes = missing.sizes
        return self._other(arrays, sizes)

    def _bound(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        rest = self.inputs[len(args) :]
        if len(args) > len(self.inputs) or sorted(rest) != sorted(named):
            problem = f"{len(args)} arguments and {', '.join(named) or 'no names'}"
            raise self._refused(problem, f"inputs {', '.join(self.inputs) or 'none'}")
        return [*args, *(named[name] for name in rest)]

    def _admitted(self, v: Array, argument: Any) -> Any:
        if type(argument) in _NUMBERS:
            return self._number(v, argument)
        array = argument if hasattr(argument, "aval") else np.asarray(argument)
        if str(array.dtype) != v.dtype or array.ndim != len(v.shape):
            got = f"input {v.name} is {array.dtype} of rank {array.ndim}"
            raise self._refused(got, f"{v.dtype} of rank {len(v.shape)}")
        return array

    def _number(self, v: Array, number: Any) -> NDArray:
        """A Python number in the dtype of an input of no narrower kind."""
        kind = next(i for i, names in enumerate(_KINDS) if v.dtype.startswith(names))
        try:
            if _NUMBERS.index(type(number)) <= kind and not v.shape:
                return np.asarray(number, v.dtype)
        except OverflowError:
            pass
        got, rank = f"input {v.name} is {number}", len(v.shape)
        raise self._refused(got, f"{v.dtype} of rank {rank}")

    def _refused(self, got: str, expected: str, hint: str = "") -> ModelError:
        lines = ["the arguments do not fit the model", f"  got: {got}"]
        lines += [f"  expected: {expected}", *([f"  hint: {hint}"] if hint else [])]
        return ModelError("\n".join(lines))

    def _refused_by(self, arrays: list[Any], problem: str) -> ModelError:
        """The error of a check that the model makes."""
        got = f"shapes {tuple([array.shape for array in arrays])}"
        return ModelError(f"{shortened(problem, _LONGEST)}\n  got: {got}")

    def _other(self, arrays: list[Any], sizes: Mapping[str, int]) -> Any:
        """The results for sizes that it was not exported for."""
        if self._reopen is not None:
            if self._reopened is None:
                self._reopened = self._reopen(self._manifest, self._tensors)
            return self._reopened(*arrays)
        known = ", ".join(map(str, self.shapes[:3])) + ", ..." * (len(self.shapes) > 3)
        hint = "graphc.load(path, graph=True) compiles for others, if that was saved"
        got = f"shapes {tuple([array.shape for array in arrays])}"
        got += "".join(f", {shortened(k, 20)} = {n}" for k, n in sizes.items())
        padded = any(step.word == "capacities" for step in self._manifest.steps)
        room = "what has room in the capacities of " * padded
        raise self._refused(got, f"{room}one of {known}", hint)


def _device(jax: Any, platform: str) -> Any:
    try:
        return jax.devices(platform)[0]
    except RuntimeError:
        there = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise ModelError(
            f"the model is for {shortened(platform, 20)!r}, which JAX has not here"
            f"\n  got: {there}\n  hint: export it with platform=..."
        ) from None
