"""Export functions of JAX to files with one program per size, compiled exactly."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from graphc.errors import graph_error
from graphc.importers.jax.call.exact import Exact, compile_exactly
from graphc.importers.jax.call.way_out import tell_way_out
from graphc.importers.jax.read.jaxprs import is_key, open_jaxpr
from graphc.importers.jax.sizes.pattern import SizePattern, text_of_sizes
from graphc.importers.jax.trace.arguments import JaxCall, parameter_names
from graphc.importers.jax.trace.choices import Options
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import Spec
from graphc.ir.types import ConcreteArray, NDArray
from graphc.runtime.save.export import Contents
from graphc.runtime.save.exporter import ExportedModule, export_function, kinds_of
from graphc.runtime.save.graph_text import LEAST
from graphc_serving.kinds import DTYPES
from graphc_serving.structures import Parts, Structure

if TYPE_CHECKING:
    from graphc.importers.jax.read.jaxprs import PyTreeDef


@dataclass(frozen=True)
class ExportRequest:
    """A function to export, and the types of its arguments."""

    function: Callable[..., Any]
    call: JaxCall
    specs: list[Spec]
    pattern: SizePattern
    options: Options

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return self.call.names(self.function)

    @property
    def subject(self) -> Subject:
        """The function to export, taking the leaves of its arguments."""
        return Subject(self.function, self.call.without_leaves())

    def at(self, sizes: Mapping[str, int]) -> list[Spec]:
        """The types of the arguments with numbers in place of the named sizes."""
        return [spec.at(sizes) for spec in self.pattern.specs(self.specs)]

    def inputs(self) -> list[list[object]]:
        """The name, dtype and axes of each input, as a file stores them."""
        triples = zip(self.names, self.specs, self.pattern.shapes, strict=True)
        return [[n, s.dtype.name, list(map(str, axes))] for n, s, axes in triples]

    def dress(self, contents: Contents, tree: "PyTreeDef") -> None:
        """Give `contents` the structures of the function's arguments and results."""
        contents.parameters = parameters_of(self.call, self.function)
        contents.structure = structure_of_results(tree)


@dataclass
class SharedConstants:
    """Large arrays that functions capture; equal arrays are kept once."""

    arrays: list[NDArray] = field(default_factory=list)
    _known: dict[Any, int] = field(default_factory=dict)

    def place(self, array: ConcreteArray) -> int | None:
        """Return the position of an array, or None if it is not shared.

        Small arrays are not shared, nor are those of a dtype that a file cannot store.
        """
        if is_key(array.dtype) or np.dtype(array.dtype).name not in DTYPES:
            return None
        if array.nbytes < LEAST:
            return None
        numbers = np.asarray(array)
        key = numbers.dtype.name, numbers.shape, sha256(numbers.tobytes()).digest()
        if key not in self._known:
            self._known[key] = len(self.arrays)
            self.arrays.append(numbers)
        return self._known[key]

    def structs(self) -> list[object]:
        """The types of the shared arrays."""
        return [_struct(Spec(a.shape, a.dtype)) for a in self.arrays]


@dataclass(frozen=True)
class SizedProgram:
    """A function for one call, which takes the leaves and then the shared constants."""

    exact: Exact
    places: list[int | None]

    @classmethod
    def of(cls, one: Exact, constants: SharedConstants) -> "SizedProgram":
        """Return the program of an exact compilation, sharing its large constants."""
        return cls(one, list(map(constants.place, _captured_arrays(one))))

    def __call__(
        self, leaves: Sequence[ConcreteArray], shared: Sequence[ConcreteArray]
    ) -> list[ConcreteArray]:
        """Compute the leaves of the results."""
        pairs = zip(_captured_arrays(self.exact), self.places, strict=True)
        constants = [c if place is None else shared[place] for c, place in pairs]
        results: list[Any] = jax.tree.leaves(
            _with_captured_arrays(self.exact, constants)(leaves)
        )
        return results

    @property
    def tree(self) -> object:
        """The structure of the results."""
        return self.exact.traced.tree


def _captured_arrays(one: Exact) -> Sequence[ConcreteArray]:
    return one.traced.consts if one.rewritten is None else one.captured


def _with_captured_arrays(one: Exact, arrays: Sequence[object]) -> Exact:
    if one.rewritten is not None:
        return replace(one, captured=tuple(arrays))
    inner, _ = open_jaxpr(one.traced.jaxpr)
    return replace(one, traced=replace(one.traced, jaxpr=ClosedJaxpr(inner, arrays)))


def contents_by_size(
    request: ExportRequest, calls: Sequence[Mapping[str, int]], platforms: Sequence[str]
) -> Contents:
    """Return the contents of a file that holds a program for each of the sizes."""
    constants = SharedConstants()
    sized_programs = [
        SizedProgram.of(_compile_at(request, sizes), constants) for sizes in calls
    ]
    programs: dict[str, ExportedModule] = {}
    for sizes, program in zip(calls, sized_programs, strict=True):
        entry = _export_program(request, sizes, program, constants, platforms)
        _require_alike(sizes, (sized_programs[0], program), (entry, *programs.values()))
        programs[str(entry[0])] = entry
    (_, _, _, outputs), _ = next(iter(programs.values()))
    first = len(request.specs) + len(constants.arrays)
    return Contents(
        jax=jax.__version__,
        platforms=platforms,
        wide=True,
        casting="safe",
        inputs=request.inputs(),
        structure=structure_of_results(sized_programs[0].tree),
        served=[[[list(s.shape) for s in request.at(n)], {}] for n in calls],
        programs=list(programs.values()),
        steps=[["run", 0, list(range(first)), []]],
        results=list(range(first, first + len(outputs))),
        arguments=constants.arrays,
        parameters=parameters_of(request.call, request.function),
    )


def _compile_at(request: ExportRequest, sizes: Mapping[str, int]) -> Exact:
    try:
        return compile_exactly(
            request.subject, request.at(sizes), request.names, request.options
        )
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        tell_way_out(error)
        raise


def _export_program(
    request: ExportRequest,
    sizes: Mapping[str, int],
    program: SizedProgram,
    constants: SharedConstants,
    platforms: Sequence[str],
) -> ExportedModule:
    """Export the program for some sizes, as a file holds it."""
    structs, count = list(map(_struct, request.at(sizes))), len(request.specs)
    run = lambda *arrays: program(arrays[:count], arrays[count:])  # noqa: E731
    module = export_function(jax.jit(run), platforms, (*structs, *constants.structs()))
    require_dtypes(module.out_avals)
    kinds = map(kinds_of, (module.in_avals, module.out_avals))
    return [0, [], *kinds], bytes(module.serialize())


def require_dtypes(avals: Sequence[Any]) -> None:
    """Raise GraphError for results whose dtype a file cannot store."""
    for i, aval in enumerate(avals):
        if aval.dtype.name not in DTYPES:
            problem = f"a file cannot hold results of this dtype: number {i}"
            raise graph_error(problem, op="export", got=aval.dtype)


def _struct(spec: Spec) -> object:
    make: Any = jax.ShapeDtypeStruct
    return make(spec.shape, spec.dtype, weak_type=spec.weak)


def _require_alike(
    sizes: Mapping[str, int],
    programs: tuple[SizedProgram, SizedProgram],
    entries: tuple[ExportedModule, ...],
) -> None:
    """Raise GraphError if the results for these sizes differ in type from the first."""
    types = [[(dtype, len(shape)) for _, dtype, shape in e[0][3]] for e in entries]
    if programs[0].tree == programs[1].tree and types[0] == types[-1]:
        return
    shown = text_of_sizes(sizes)
    raise graph_error(
        "a file holds results of one structure, and of one dtype and rank each",
        op="export",
        got=f"different ones for {shown} than for the sizes before",
        hint="export these sizes to a file of their own",
    )


def parameters_of(call: JaxCall, function: Callable[..., object]) -> list[list[object]]:
    """The name and structure of each argument that is not static, in order."""
    count = len(call.leaves)
    args, named = jax.tree.unflatten(call.form, range(count))
    fixed = {where for where, _ in call.statics}
    names = parameter_names(function, len(args))
    parameters = [(names[i], x) for i, x in enumerate(args) if i not in fixed]
    parameters += [(n, named[n]) for n in named if n not in fixed]
    return [
        [name, structure(tree, f"the argument {name}")] for name, tree in parameters
    ]


def structure_of_results(tree: "PyTreeDef") -> Structure:
    """The structure of results that form this tree."""
    numbered = jax.tree.unflatten(tree, range(tree.num_leaves))
    return structure(numbered, "the result")


def structure(tree: "PyTreeDef", what: str) -> Structure:
    """The structure of a tree whose leaves are numbers, as a file stores it.

    Raises GraphError for a container that readers of a file may not know.
    """
    kind = type(tree)
    if kind is int:
        return "single"
    if tree is None:
        return "none"
    if kind in (list, tuple):
        parts = [structure(x, f"{what}[{i}]") for i, x in enumerate(tree)]
        return Parts(kind.__name__, parts)
    if kind is dict and all(type(key) is str for key in tree):
        keys = list(tree)  # in the order of the leaves
        parts = [structure(tree[key], f"{what}[{key!r}]") for key in keys]
        return Parts(keys, parts)
    raise graph_error(
        f"a file cannot hold the structure of {what}",
        op="export",
        got=kind.__name__,
        expected="lists, tuples, dicts whose keys are text, None",
        hint="close over it if it does not change; else pass, or return, its arrays",
    )
