"""Split arguments of a function, as `jax.jit` would, into static ones and leaves."""

import inspect
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.core
import numpy as np

from graphc.errors import graph_error, shortened
from graphc.importers.jax.read.jaxprs import is_key, words_of
from graphc.importers.jax.read.settings import settings
from graphc.importers.jax.trace.in_order import in_order, keywords_in_order
from graphc.importers.jax.trace.tracing import Spec
from graphc.importers.reachable import MOST_WITHIN
from graphc.ir.types import ConcreteArray
from graphc.runtime.call.arguments import ArgumentValues

Positional = int | Iterable[int] | None
StaticNames = str | Iterable[str] | None
Texts = tuple[str, ...]
StaticNumbers = tuple[int, ...]
_OF_ONE = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY


@dataclass(frozen=True)
class JaxCall:
    """The arguments of one call: leaves that are arrays, and everything else."""

    leaves: list[Any]
    form: Any
    statics: tuple[tuple[int | str, Any], ...]

    def without_leaves(self) -> "JaxCall":
        """The call with None for each leaf, which keeps no array alive."""
        return replace(self, leaves=[None] * len(self.leaves))

    def arguments(
        self, leaves: Iterable[object]
    ) -> tuple[list[object], dict[str, object]]:
        """Positional and keyword arguments, with `leaves` in place of the own ones."""
        args, named = jax.tree.unflatten(self.form, leaves)
        args = list(args)
        for where, static in self.statics:
            if isinstance(where, int):
                args[where] = static
            else:
                named[where] = static
        return args, named

    def names(self, function: Callable[..., object]) -> list[str]:
        """A unique identifier for each leaf: its parameter, and its path in it."""
        paths = self.paths()
        if paths is None:
            return [f"x_{i}" for i in range(len(self.leaves))]
        parameters = _parameters(function)
        names: dict[str, None] = {}
        for (kind, first, *inner_path), i in zip(paths, range(len(paths)), strict=True):
            start = first.key if kind.idx else _name_at(parameters, first.idx)
            name = re.sub(
                r"\W+", "_", f"{start}{jax.tree_util.keystr(tuple(inner_path))}"
            )
            name = name.strip("_") or "x"
            names[f"{name}_{i}" if name in names else name] = None
        return list(names)

    def paths(self) -> list[tuple[Any, ...]] | None:
        """The path of each leaf; None if a user's class does not take other leaves.

        The leaves are objects, as JAX puts into structures itself: classes may take
        numbers for something else than leaves, as those of Distrax do.
        """
        try:
            tree = jax.tree.unflatten(self.form, [object() for _ in self.leaves])
            paths = [path for path, _ in jax.tree.leaves_with_path(in_order(tree))]
        except Exception:  # raised by a class that checks its contents
            return None
        return paths if len(paths) == len(self.leaves) else None

    def specs(self) -> list[Spec]:
        """The types of the leaves. Raises TypeError for a leaf that is not an array."""
        return [Spec.of(leaf) for leaf in self.leaves]

    def kind(self, specs: Iterable[Spec]) -> Hashable:
        """Everything that makes up a call except the sizes of its arrays.

        Types come first, so that `__eq__` never compares objects of different types,
        and 1 is not taken for True.
        """
        types = tuple((len(s.shape), s.dtype, s.weak) for s in specs)
        of_statics = tuple([_types_and_signs(static) for _, static in self.statics])
        in_form = tuple(map(_types_and_signs, self._metadata()))
        return of_statics, in_form, self.form, self.statics, types, settings()

    def _metadata(self) -> list[object]:
        """Keys and static fields: everything that structures hold besides leaves."""
        data: list[object] = []
        self.form.walk(lambda _, of_node: data.append(of_node), id, self.leaves)
        return [of_node for of_node in data if of_node is not None]

    def are_arrays(self, specs: Iterable[Spec]) -> bool:
        """Whether the leaves are arrays of exactly the dtypes JAX will give them."""
        pairs = zip(self.leaves, specs, strict=True)
        return all(
            (type(leaf) is np.ndarray or isinstance(leaf, jax.Array))
            and leaf.dtype == spec.dtype
            and not is_key(leaf.dtype)
            for leaf, spec in pairs
        )


def _types_and_signs(value: object, within: int = MOST_WITHIN) -> Hashable:
    """The types, and the signs of zeros, that tell apart values comparing equal."""
    kind = type(value)
    if isinstance(value, (float, complex, np.generic)):
        return kind, repr(value)
    if not within:
        return (kind,)
    if isinstance(value, (list, tuple)):
        return kind, *(_types_and_signs(item, within - 1) for item in value)
    if isinstance(value, dict):
        items = list(value.items())
        return kind, frozenset((i[0], _types_and_signs(i, within - 1)) for i in items)
    if is_dataclass(value) and not isinstance(value, type):
        held = [getattr(value, f.name) for f in fields(value) if f.compare]
        return kind, *(_types_and_signs(item, within - 1) for item in held)
    return (kind,)


def arrays(leaves: Iterable[object], specs: Iterable[Spec]) -> list[ConcreteArray]:
    """The leaves of a call as arrays of the dtypes that JAX gives them."""
    return [_array(leaf, spec) for leaf, spec in zip(leaves, specs, strict=True)]


def _array(leaf: object, spec: Spec) -> ConcreteArray:
    if not isinstance(leaf, jax.Array):
        return np.asarray(leaf, spec.dtype)
    return words_of(leaf)


def numbers_of(positions: Positional) -> StaticNumbers | None:
    """The positions that an option names, read as by `jax.jit`."""
    if positions is None:
        return None
    try:
        return (operator.index(positions),)  # type: ignore[arg-type]
    except TypeError:
        pass
    try:
        return tuple(map(operator.index, positions))  # type: ignore[arg-type]
    except TypeError:
        raise graph_error(
            "static_argnums are the positions of arguments",
            op="jit",
            got=shortened(repr(positions)),
            hint="static_argnames='k' names them",
        ) from None


def texts_of(names: StaticNames) -> Texts | None:
    """The names that an option lists."""
    if names is None or isinstance(names, str):
        return None if names is None else (names,)
    return tuple(names)


class Arguments:
    """The static arguments of a function, declared as for `jax.jit`.

    If only positions are given, the parameters there are static by name too, and vice
    versa. A position below 0 counts from the last argument of a call or from the last
    positional parameter, depending on the version of JAX. Dicts among the arguments
    have their keys sorted, as in JAX, or in the caller's order if `ordered` is set.
    """

    def __init__(
        self,
        function: Callable[..., object],
        numbers: StaticNumbers | None = None,
        names: Texts | None = None,
        ordered: bool = False,
    ) -> None:
        parameters = _signature(function)
        self._ordered = [p.name for p in parameters] if ordered else None
        if numbers is None and names is not None:
            positions = _positions_by_name(function)
            numbers = tuple(positions[n] for n in names if n in positions)
        elif numbers is not None and names is None:
            below = [n for n in numbers if n < 0 and _counts_parameters()]
            static = {*numbers, *(len(parameters) + n for n in below)}
            positions = _positions_by_name(function)
            names = tuple(n for n, i in positions.items() if i in static)
        self._numbers = _without_negative(function, numbers or ())
        self._names = names or ()

    def _static_at(self, count: int) -> list[int]:
        """The static positions in a call with `count` positional arguments."""
        known = (n % count for n in self._numbers if -count <= n < count)
        return list(dict.fromkeys(known))

    @property
    def have_statics(self) -> bool:
        """Whether some arguments may be static."""
        return bool(self._numbers or self._names)

    def call(self, args: ArgumentValues, named: Mapping[str, object]) -> JaxCall:
        """Split the arguments of a call. Static ones contribute no leaves."""
        numbers = self._static_at(len(args))
        names = [n for n in self._names if n in named]
        statics: list[tuple[int | str, Any]] = [(i, args[i]) for i in numbers]
        statics += [(n, named[n]) for n in names]
        keywords = {n: None if n in names else x for n, x in named.items()}
        positional = tuple(None if i in numbers else x for i, x in enumerate(args))
        structure: Any = positional, keywords
        if self._ordered is not None:
            in_their_order = keywords_in_order(keywords, self._ordered)
            structure = in_order(positional), in_their_order
        leaves, form = jax.tree.flatten(structure)
        return JaxCall(leaves, form, tuple(statics))


@cache
def _counts_parameters() -> bool:
    """Whether `jax.jit` counts positions below 0 from the last parameter."""
    is_traced = []

    def probe(x: object, y: int = 0) -> float:
        is_traced.append(isinstance(x, jax.core.Tracer))
        return 0.0

    jitted: Any = jax.jit(probe, static_argnums=-1)
    jitted.eval_shape(1)
    return is_traced[-1]


def _without_negative(
    function: Callable[..., object], numbers: StaticNumbers
) -> StaticNumbers:
    """Replace positions below 0, if the parameters tell what they refer to."""
    parameters = _parameters(function)
    known = all(p.kind in _OF_ONE for p in parameters) and bool(parameters)
    if not known or min(numbers, default=0) >= 0 or not _counts_parameters():
        return numbers
    return tuple(n % len(parameters) if n < 0 else n for n in numbers)


def _signature(function: Callable[..., object]) -> list[inspect.Parameter]:
    """All parameters of a function; [] if it does not show them."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters of a function that take positional arguments, if it shows them."""
    kinds = (*_OF_ONE, inspect.Parameter.VAR_POSITIONAL)
    return [p for p in _signature(function) if p.kind in kinds]


def parameter_names(function: Callable[..., object], count: int) -> list[str]:
    """The names of the first `count` positional arguments."""
    parameters = _parameters(function)
    return [_name_at(parameters, i) for i in range(count)]


def _positions_by_name(function: Callable[..., object]) -> dict[str, int]:
    """The positions of the parameters of a function, by their names."""
    named = [p.name for p in _parameters(function) if p.kind in _OF_ONE]
    return {name: i for i, name in enumerate(named)}


def _name_at(parameters: list[inspect.Parameter], i: int) -> str:
    """The name of the parameter for a positional argument."""
    if i < len(parameters) and parameters[i].kind in _OF_ONE:
        return parameters[i].name
    return f"{parameters[-1].name if parameters else 'x'}_{i}"
