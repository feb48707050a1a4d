"""Saved models, which run their programs with JAX."""

import importlib
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from graphc_serving.arguments import Refusal, admitted
from graphc_serving.casting import castable, converted, described, misfit, remedy
from graphc_serving.kinds import DType, Shape, Shaped, shortened
from graphc_serving.manifest import Input, Manifest, ModelError, Served, read
from graphc_serving.programs import Unreadable
from graphc_serving.reading import Tensors
from graphc_serving.runner import Call, NoProgram, Runner
from graphc_serving.steps import StepError, follow
from graphc_serving.structures import Unlike, flat, structured

Restored = Callable[..., Iterable[object]]  # arrays to the outputs in order
Reopen = Callable[[Manifest, Tensors, object], Restored]
_FORKED = (
    "the model was loaded in the process that this one was forked from: JAX would hang"
    "\n  hint: load it in each process after the fork, if JAX has not run before that, "
    'or start processes with multiprocessing.get_context("spawn")'
)
_LONGEST = 1000  # characters of a message in a file
_MOST_LISTED = 3  # calls that are served, in a message


def load(path: str | os.PathLike[str], *, reopen: Reopen | None = None) -> "Model":
    """Load the model that `Function.export` has written to a file.

    >>> import graphc_serving, tempfile
    >>> import graphc, graphc.tensor as gt  # of the process that exports
    >>> f = graphc.function([x := gt.vector("x", shape=("n",))], gt.sum(x))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     f.export(f"{folder}/model", {"n": [2, 3]})
    ...     model = graphc_serving.load(f"{folder}/model")
    >>> print(model([1.0, 2.0, 3.0]))
    6.0

    The model takes the sizes that it was exported for; where it is padded, all sizes
    that fit into their capacities. For other sizes it asks the function that `reopen`
    makes of the graph in the file, once; `graphc.load(path, graph=True)` gives such a
    `reopen`.

    Nothing in the file is run as Python. Raises ModelError for a file that is damaged,
    malformed, larger than 16 GiB or of a newer version, and where JAX lacks the model's
    device here.
    """
    name = os.fspath(path)
    manifest, tensors = read(name)
    if reopen is not None and manifest.graph is None:
        hint = "export it with graph=True"
        raise ModelError(f"there is no graph in {name}\n  hint: {hint}")
    return Model(manifest, tensors, reopen)


_CALLED_ELSEWHERE = {"predict", "run", "forward", "infer", "apply"}


class Model:
    """A saved model; call it with one argument per parameter, by position or name.

    >>> import graphc_serving, tempfile
    >>> import graphc, graphc.tensor as gt  # of the process that exports
    >>> f = graphc.function([x := gt.vector("x", shape=("n",))], gt.sum(x))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     f.export(f"{folder}/model", {"n": [2, 3]})
    ...     model = graphc_serving.load(f"{folder}/model")
    >>> print(model([1.0, 2.0]))
    3.0

    A model takes the same arguments as the function that was exported.
    """

    def __init__(
        self, manifest: Manifest, tensors: Tensors, reopen: Reopen | None
    ) -> None:
        self._manifest = manifest
        self._tensors = tensors
        self._reopen = reopen
        self._restored: Restored | None = None
        self._process = os.getpid()
        self._jax = importlib.import_module("jax")
        device = _device(self._jax, manifest.platforms)
        if device is None and reopen is None:
            raise _no_device(self._jax, manifest.platforms)
        self._is_foreign = device is None  # then the graph serves all calls
        self._device = self._jax.devices()[0] if device is None else device
        self._runner = Runner(self._jax, manifest, tensors, self._device)
        self._dtypes = [np.dtype(v.dtype) for v in manifest.inputs]
        self._plain = {np.ndarray, type(self._runner.put(np.zeros(())))}
        self._is_flat = all(p.structure == "single" for p in manifest.parameters)

    if not TYPE_CHECKING:  # since type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            way = "; call it: model(x)" if name in _CALLED_ELSEWHERE else ""
            raise AttributeError(f"a model has no attribute {name!r}{way}")

    def __reduce__(self) -> tuple[object, ...]:
        return Model, (self._manifest, dict(self._tensors), self._reopen)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple([v.name for v in self._manifest.inputs])

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms of JAX that the programs are for."""
        return self._manifest.platforms

    @property
    def shapes(self) -> list[tuple[Shape, ...]]:
        """The shapes of inputs that the model serves; capacities if it is padded."""
        return list(dict.fromkeys(one.shapes for one in self._manifest.served))

    @property
    def sizes(self) -> list[dict[str, int]]:
        """For each call that the model serves, the sizes that shapes do not tell."""
        return [dict(one.sizes) for one in self._manifest.served]

    def __repr__(self) -> str:
        m, count = self._manifest, len(self._manifest.served)
        inputs = ", ".join(f"{v.name}: {v.dtype}" for v in m.inputs)
        sizes = f"{count} size{'s' * (count != 1)}"
        return f"<graphc.Model ({inputs}), {sizes} on {', '.join(m.platforms)}>"

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Run the programs for these sizes; raise ModelError where there are none."""
        if os.getpid() != self._process:
            raise ModelError(_FORKED)
        bound = self._bind(args, named)
        m, runner = self._manifest, self._runner
        triples = zip(m.inputs, self._dtypes, bound, strict=True)
        arrays = [self._admit(*triple) for triple in triples]
        if self._is_foreign:
            return self._by_graph(arrays)
        with runner.bits():
            try:
                values = [*arrays, *runner.constants]
                outputs = follow(m.steps, values, m.results, Call(runner, arrays))
                return structured(m.structure, map(runner.placed, outputs))
            except StepError as error:
                raise self._check_error(arrays, str(error)) from None
            except (NoProgram, Unreadable) as error:
                problem = error
        if isinstance(problem, Unreadable):
            return self._by_graph_instead(arrays, problem)
        return self._for_other_sizes(arrays, problem.sizes)

    def _bind(
        self, args: Sequence[object], named: Mapping[str, object]
    ) -> Sequence[object]:
        """The arrays for the inputs, in order."""
        parameters = self._manifest.parameters
        names = [p.name for p in parameters]
        by_name = names[len(args) :]
        if len(args) > len(names) or sorted(by_name) != sorted(named):
            count = f"{len(args)} argument{'s' * (len(args) != 1)}"
            problem = f"{count} and {', '.join(named) or 'no names'}"
            raise self._refusal(problem, f"inputs {', '.join(names) or 'none'}")
        values = [*args, *(named[name] for name in by_name)]
        if self._is_flat:
            return values
        pairs = zip(parameters, values, strict=True)
        try:
            return [x for p, tree in pairs for x in flat(p.structure, tree, p.name)]
        except Unlike as error:
            raise ModelError(f"the arguments do not fit the model: {error}") from None

    def _admit(self, v: Input, dtype: DType, argument: Any) -> Shaped:
        """Convert an argument to an array for an input, or raise ModelError."""
        is_plain = type(argument) in self._plain and argument.dtype == dtype
        value = argument if is_plain else self._cast(v, dtype, argument)
        if is_plain and len(value.shape) == len(v.axes):
            problem = ""
        else:
            problem, _ = misfit(value, v.dtype, v.axes)
        if not problem and self._manifest.padded:
            problem = self._too_short(v, value.shape)
        if problem:
            raise self._misfit(v, argument, problem)
        return value

    def _cast(self, v: Input, dtype: DType, argument: Any) -> Shaped:
        if isinstance(argument, self._jax.core.Tracer):
            hint = "call the model outside of jax.jit, jax.vmap and jax.grad: it is"
            problem = f"input {v.name} is traced by JAX, and a model is compiled"
            raise ModelError(f"{problem}\n  hint: {hint} compiled by itself")
        try:
            value = admitted(argument, dtype, self._manifest.casting)
        except Refusal as refusal:
            raise self._misfit(v, argument, refusal.problem, refusal.hint) from None
        value = converted(value, v.dtype, self._manifest.casting)
        if misfit(value, v.dtype, v.axes)[0]:
            return value
        return value if _is_array(value, dtype) else np.asarray(value, dtype)

    def _too_short(self, v: Input, shape: Shape) -> str:
        """The fault of an array with too few elements along an axis that varies."""
        least = self._manifest.least
        for i, (n, axis) in enumerate(zip(shape, v.axes, strict=True)):
            if n < least and not axis.isdecimal():
                return f"has {n} along axis {i}, where the model takes {least} or more"
        return ""

    def _misfit(
        self, v: Input, argument: object, problem: str, hint: str = ""
    ) -> ModelError:
        kind, sizes = described(argument)
        got = kind if sizes is None else f"{kind}[{', '.join(map(str, sizes))}]"
        if not hint and ("dtype" in problem or "array" in problem):
            hint = _conversion(argument, v.dtype)
        text = f"input {v.name} {problem}\n  got: {got}\n  expected: {v}"
        return ModelError(text + (f"\n  hint: {hint}" if hint else ""))

    def _refusal(self, got: str, expected: str, hint: str = "") -> ModelError:
        lines = ["the arguments do not fit the model", f"  got: {got}"]
        lines += [f"  expected: {expected}", *([f"  hint: {hint}"] if hint else [])]
        return ModelError("\n".join(lines))

    def _check_error(self, arrays: Sequence[Shaped], problem: str) -> ModelError:
        """The error of a check that the model makes."""
        got = f"shapes {tuple([array.shape for array in arrays])}"
        return ModelError(f"{shortened(problem, _LONGEST)}\n  got: {got}")

    def _by_graph_instead(self, arrays: Sequence[Shaped], error: Unreadable) -> object:
        """Compute results by the graph, as JAX no longer reads a program."""
        if self._reopen is None:
            hint = "graphc.load(path, graph=True) compiles the graph in the file"
            if self._manifest.graph is None:
                hint = "export it again, with graph=True for later versions"
            raise Unreadable(f"{error.args[0]}\n  hint: {hint}")
        if self._restored is None:
            reason = f"{error.args[0]}\n  the graph of the model is compiled instead"
            warnings.warn(reason, stacklevel=3)
        return self._by_graph(arrays)

    def _by_graph(self, arrays: Sequence[Shaped]) -> object:
        """Compute results by the graph, which is compiled for all sizes that come."""
        assert self._reopen is not None
        for v, array in zip(self._manifest.inputs, arrays, strict=True):
            problem = self._too_short(v, array.shape)
            if problem:
                raise self._misfit(v, array, problem)
        if self._restored is None:
            self._restored = self._reopen(self._manifest, self._tensors, self._device)
        return structured(self._manifest.structure, iter(self._restored(*arrays)))

    def _for_other_sizes(
        self, arrays: Sequence[Shaped], sizes: Mapping[str, int]
    ) -> object:
        """Compute results for sizes that the model was not exported for, if it can."""
        if self._reopen is not None:
            return self._by_graph(arrays)
        m = self._manifest
        hint = "graphc.load(path, graph=True) compiles for others"
        if m.graph is None:
            hint = "export it for these sizes too, or with graph=True for all"
        shapes = tuple([array.shape for array in arrays])
        known = dict.fromkeys(name for one in m.served for name in one.sizes)
        pairs = zip(m.inputs, arrays, strict=True)
        integers = {v.name: int(np.asarray(a)) for v, a in pairs if v.name in known}
        served = ", ".join(
            dict.fromkeys(_call_text(one) for one in m.served[:_MOST_LISTED])
        )
        served += ", ..." * (len(m.served) > _MOST_LISTED)
        room = "shapes that fit into one of " if m.padded else "one of "
        got = f"shapes {_call_text(Served(shapes, {**integers, **sizes}))}"
        raise self._refusal(got, f"{room}{served}", hint)


def _call_text(one: Served) -> str:
    """The shapes of a call, and the sizes that they do not tell."""
    sizes = ", ".join(f"{shortened(k, 20)} = {n}" for k, n in one.sizes.items())
    return f"{one.shapes}{f' with {sizes}' * bool(sizes)}"


def _conversion(argument: object, dtype: str) -> str:
    """A hint at how an argument of another dtype can be taken."""
    hint = remedy(argument, dtype)
    rules = [r for r in ("safe", "same_kind") if castable(argument, dtype, r)]
    if not rules:
        return hint
    return f'a model of graphc.function(..., casting="{rules[0]}") takes it; or {hint}'


def _is_array(value: object, dtype: DType) -> bool:
    """Whether a value is already an array of this dtype."""
    return getattr(value, "dtype", None) == dtype and hasattr(value, "ndim")


def _device(jax: ModuleType, platforms: Sequence[str]) -> object:
    """The device to run on: JAX's own if programs are for it, else any, or None."""
    there = []
    for platform in platforms:
        try:
            there.append(jax.devices(platform)[0])
        except RuntimeError:
            continue
    preferred = [device for device in there if device == jax.devices()[0]]
    return next(iter([*preferred, *there]), None)


def _no_device(jax: ModuleType, platforms: Sequence[str]) -> ModelError:
    there = ", ".join(sorted({device.platform for device in jax.devices()}))
    exported_for = ", ".join(repr(shortened(platform, 20)) for platform in platforms)
    return ModelError(
        f"the model is for {exported_for}, which JAX does not have here"
        f"\n  got: {there}\n  hint: export it with platforms=[...]"
    )
