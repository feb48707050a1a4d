"""Functions of `graphc.jit` before their calls: sizes to compile for, and remedies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import jax
import numpy as np

from graphc.errors import (
    NoCompileError,
    describe,
    graph_error,
    shortened,
    user_place,
)
from graphc.importers.jax.call.ranges import AlikeSizes
from graphc.importers.jax.read.jaxprs import is_key
from graphc.importers.jax.sizes.pattern import SizePattern, can_have_values, shapes_of
from graphc.importers.jax.sizes.programs import ManySizes
from graphc.importers.jax.sizes.words import pattern_of_specs
from graphc.importers.jax.trace.arguments import JaxCall
from graphc.importers.jax.trace.choices import NAMING_HINT
from graphc.importers.jax.trace.tracing import Spec
from graphc.runtime.driver.stance import Refused
from graphc.runtime.ranges import Ways, ranges_in, vary_freely, ways_of
from graphc.runtime.save.remedies import dict_text, sizes_of_call
from graphc.transform.planning.forecast import SizesGiven, sizes_of_calls

NamedSizes = Mapping[str, SizesGiven]
MOST_TYPED = 8  # leaves of a call that a message repeats as code
_TYPED = bool, int, float, complex, str, type(None)
_NUMBERS = _TYPED[:4]
_KEYS = str, int


@dataclass
class CallsAhead:
    """The calls to compile for: their types, and the sizes that data will have.

    The calls have the form of the `first` one, and are listed one by one, or are
    `alike` in all but sizes that vary freely.
    """

    first: JaxCall
    calls: list[tuple[JaxCall, list[Spec]]]
    others: NamedSizes
    alike: AlikeSizes | None = None

    @classmethod
    def of(
        cls, call: JaxCall, specs: list[Spec], shapes: object, sizes: NamedSizes
    ) -> "CallsAhead":
        """The calls with these types, at `sizes` given by the names of axes."""
        if not isinstance(sizes, Mapping):
            raise graph_error(
                "these are not sizes of calls",
                op="compile",
                got=shortened(repr(sizes)),
                expected='a dict, such as {"n": [...]}',
            )
        pattern = pattern_of_specs(specs, shapes, call.form)
        known = sizes_of_examples(call, pattern)
        known |= {name: n for name, n in sizes.items() if name in pattern.names}
        others = {name: n for name, n in sizes.items() if name not in pattern.names}
        if not pattern.names:
            return cls(call, [(call, specs)], others)
        named, ranges = pattern.specs(specs), ranges_in(known)
        if vary_freely(known, ranges):
            alike = AlikeSizes(named, ways_of(pattern.names, known, "compile"))
            return cls(call, [], others, alike)
        listed = sizes_of_calls(pattern.names, known, "compile")
        specs_of_calls = [[spec.at(one) for spec in named] for one in listed]
        return cls(
            call, [(_call_with_types(call, one), one) for one in specs_of_calls], others
        )

    def at(self, sizes: Mapping[str, int]) -> tuple[JaxCall, list[Spec]]:
        """The call at these sizes, out of those that combine in all ways."""
        assert self.alike is not None
        specs = SizePattern(self.alike.shapes_at(sizes)).specs(self.alike.named)
        return _call_with_types(self.first, specs), specs

    def require_no_others(self) -> None:
        """Raise GraphError if sizes are given that are no sizes of the arguments."""
        for name in self.others:
            raise graph_error(
                f"{name} is not a size of the arguments",
                op="compile",
                got=f"sizes={shortened(repr(dict(self.others)))}",
                hint=NAMING_HINT,
            )


def _call_with_types(call: JaxCall, specs: Sequence[Spec]) -> JaxCall:
    """The call with arrays of these types; Python numbers stay as they are."""
    pairs = zip(call.leaves, specs, strict=True)
    leaves = [x if isinstance(x, _NUMBERS) else spec.struct for x, spec in pairs]
    return replace(call, leaves=leaves)


def sizes_of_examples(call: JaxCall, pattern: SizePattern) -> dict[str, SizesGiven]:
    """The sizes of the arguments, by the names that words give their axes."""
    sizes: dict[str, SizesGiven] = {}
    formulas: dict[str, int] = {}
    for leaf, names in zip(call.leaves, pattern.shapes, strict=True):
        for name, n in zip(names, np.shape(leaf), strict=True):
            if isinstance(name, str) and isinstance(n, int):
                by_name = sizes if name.isidentifier() else formulas
                by_name.setdefault(name, n)
    known = {name: n for name, n in sizes.items() if isinstance(n, int)}
    if formulas and can_have_values(formulas, known):
        sizes |= known
    return sizes


@dataclass
class SizesAhead:
    """The sizes that one program is to be compiled for."""

    program: ManySizes
    columns: dict[str, list[int]] = field(default_factory=dict)
    several: list[Ways] = field(default_factory=list)
    weak: tuple[int, ...] = ()  # places of JAX arrays whose types are weak

    def add(self, call: JaxCall, specs: Sequence[Spec]) -> None:
        """Add a call like this one to those to compile for."""
        for name, n in self.sizes_of(call, specs).items():
            self.columns.setdefault(name, []).append(n)

    def sizes_of(self, call: JaxCall, specs: Sequence[Spec]) -> dict[str, int]:
        """The sizes that a call has in the plan."""
        pairs = enumerate(zip(call.leaves, specs, strict=True))
        weak = [i for i, (x, s) in pairs if s.weak and not isinstance(x, _NUMBERS)]
        self.weak = tuple(weak)
        plan = self.program.compiled.plan
        beside = self.program.trailing_arguments(shapes_of(specs))
        return sizes_of_call(plan, [*call.leaves, *beside])

    def sizes_at(self, ahead: CallsAhead, sizes: Mapping[str, int]) -> dict[str, int]:
        """Like `sizes_of`, for the call at these sizes."""
        return self.sizes_of(*ahead.at(sizes))

    def compile(self, others: NamedSizes) -> None:
        """Compile for these sizes; where they vary, `dims="auto"` pads the program."""
        compiled = self.program.compiled
        if self.several:
            compiled.compile_all_ways(
                self.several, others, numbers=False, weak=self.weak
            )
            return
        if any(len(set(sizes)) > 1 for sizes in self.columns.values()):
            compiled.vary(self.columns)
        compiled.compile_listed(
            {**self.columns, **others}, numbers=False, weak=self.weak
        )


def remedy_of(
    args: Sequence[object], named: Mapping[str, object], read: Mapping[str, int]
) -> str:
    """Code that compiles a function `f` for these arguments; "" if there is none.

    There is none for many arguments, or for some that code cannot describe. `read` are
    sizes that depend on data.
    """
    if len(jax.tree.leaves((args, dict(named)))) > MOST_TYPED or "sizes" in named:
        return ""
    texts = [*map(_code_of, args)]
    texts += [f"{name}={text}" for name, x in named.items() if (text := _code_of(x))]
    if "" in texts or len(texts) < len(args) + len(named):
        return ""
    if read:
        texts.append(f"sizes={dict_text(read)}")
    return f"f.compile({', '.join(texts)})"


def _code_of(argument: object) -> str:
    """An argument as code, with arrays given by their types; "" if no code is known."""
    if type(argument) in _TYPED:
        return _text_of_plain(argument)
    if type(argument) is list or type(argument) is tuple:
        return _code_of_all(argument)
    if type(argument) is dict:
        texts = [
            (repr(k), _code_of(x)) for k, x in argument.items() if type(k) in _KEYS
        ]
        whole = len(texts) == len(argument) and all(text for _, text in texts)
        inner = ", ".join(f"{k}: {text}" for k, text in texts)
        return f"{{{inner}}}" if whole else ""
    if isinstance(argument, (np.ndarray, np.generic, jax.Array)):
        return _text_of_array(argument)
    return ""


def _text_of_plain(argument: object) -> str:
    if isinstance(argument, float) and not np.isfinite(argument):
        return f'float("{argument}")'
    if isinstance(argument, complex) and not np.isfinite(argument):
        return ""
    return repr(argument)


def _text_of_array(array: "np.ndarray | np.generic | jax.Array") -> str:
    """An array as code that makes its type; "" if no code does."""
    if isinstance(array, jax.Array):
        if is_key(array.dtype):
            key = f'jax.random.key(0, impl="{jax.random.key_impl(array)}")'
            return f"jax.random.split({key}, {array.shape})" if array.shape else key
        if _is_wider(array):
            return ""
    weak = ", weak_type=True" if getattr(array, "weak_type", False) else ""
    return f'jax.ShapeDtypeStruct({array.shape}, "{array.dtype.name}"{weak})'


def _is_wider(leaf: object) -> bool:
    """Whether an array has 64 bits while JAX is set to 32, so it was made elsewhere."""
    if not isinstance(leaf, jax.Array) or is_key(leaf.dtype):
        return False
    return jax.dtypes.canonicalize_dtype(leaf.dtype) != leaf.dtype


def _code_of_all(arguments: Sequence[object]) -> str:
    texts = [*map(_code_of, arguments)]
    if not all(texts):
        return ""
    inner = ", ".join(texts)
    if type(arguments) is list:
        return f"[{inner}]"
    return f"({inner},)" if len(texts) == 1 else f"({inner})"


def refusal_of(
    error: Refused | NoCompileError,
    function: Callable[..., object],
    args: Sequence[object],
    named: Mapping[str, object],
) -> NoCompileError:
    """The error of a call that needs a compilation where none is allowed."""
    read = error.read if isinstance(error, NoCompileError) else {}
    code = remedy_of(args, named, read)
    hint = f"{code} compiles for it ahead of calls"
    if not code:
        hint = "f.compile(...) with these arguments compiles for them ahead of calls"
    if any(map(_is_wider, jax.tree.leaves((args, dict(named))))):
        hint = "call it once with such arguments, where it may compile"
    problem, kind, sizes = _problem(error, function)
    shown = ", ".join(_types_of_first(args, named))
    text = describe(problem, arguments=shown, hint=hint, where=user_place())
    return kind(text, sizes, read, code)


def _problem(
    error: Refused | NoCompileError, function: Callable[..., object]
) -> tuple[str, type[NoCompileError], dict[str, int]]:
    if isinstance(error, NoCompileError):
        problem = error.args[0].split("\n  arguments: ")[0]
        return problem, type(error), error.sizes
    name = getattr(function, "__name__", "the function")
    because = f"{name} is not compiled for these sizes"
    return f"{error.problem}\n  because: {because}", error.limit.error, {}


def _types_of_first(
    args: Sequence[object], named: Mapping[str, object]
) -> Iterator[str]:
    """Yield the types of the first arrays of a call."""
    leaves = jax.tree_util.tree_leaves_with_path((tuple(args), dict(named)))
    for _, leaf in leaves[:MOST_TYPED]:
        dtype = getattr(leaf, "dtype", type(leaf).__name__)
        yield f"{dtype}[{', '.join(map(str, np.shape(leaf)))}]"
    if len(leaves) > MOST_TYPED:
        yield "..."
