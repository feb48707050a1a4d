"""Functions that are compiled when called, for the sizes of the call or for many."""

from abc import abstractmethod
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial, update_wrapper
from os import PathLike
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import jax
from jax.export import default_export_platform

from graphc.backends.sharding.agreement import withdraw_from
from graphc.errors import GraphError, NoCompileError, graph_error
from graphc.explain.program_text import ProgramText
from graphc.importers.decorated_function import DecoratedFunction
from graphc.importers.jax.call.ahead import (
    CallsAhead,
    NamedSizes,
    SizesAhead,
    refusal_of,
)
from graphc.importers.jax.call.exact_export import ExportRequest
from graphc.importers.jax.call.export import export_request
from graphc.importers.jax.call.jit_picture import picture_of
from graphc.importers.jax.call.known_calls import KnownCalls
from graphc.importers.jax.call.ranges import AlikeSizes, TriedCalls, ways_of_plan
from graphc.importers.jax.call.report import (
    JitCompilation,
    JitStats,
    explanation_of,
    source_of,
    stats_of,
)
from graphc.importers.jax.sizes.family import SizeFamily
from graphc.importers.jax.sizes.pattern import (
    ShapesOfCall,
    shapes_of,
    small_axes,
)
from graphc.importers.jax.sizes.programs import ManySizes
from graphc.importers.jax.sizes.shared_decisions import decisions_in, name_of
from graphc.importers.jax.trace.arguments import Arguments, JaxCall
from graphc.importers.jax.trace.choices import Options
from graphc.importers.jax.trace.tracing import Spec
from graphc.ir.called_first import called_first
from graphc.ir.graph.nodes import Graph
from graphc.ir.tracebacks import hide_own_frames
from graphc.runtime.cache.whole_files import write_whole
from graphc.runtime.driver.stance import Refused, forbidding_limit, lift_limits
from graphc.runtime.save.export import Contents, file_bytes
from graphc.runtime.save.exporter import platforms_of
from graphc.runtime.variants.decisions import SavedDecisions
from graphc.show.picture import Picture
from graphc.show.showing import Showing
from graphc.transform.planning.forecast import SizesGiven
from graphc.transform.planning.plan import Plan
from graphc_serving.packages import needed

ContentsOf = Callable[
    [ExportRequest, NamedSizes, Sequence[str], bool], tuple[Contents, Graph | None]
]
_SUBSTITUTES = {
    "plan": "; f.plans are those of its programs for many sizes",
    "save": "; f.export(path, ...) writes a model, f.source is the text",
    "forecast": "; f.stats() tells what was compiled, after calls",
    "segment_source": "; f.source is the text",
}
FamilyT = TypeVar("FamilyT", bound=SizeFamily[Any, Any])


@contextmanager
def _hint_on_sizes(args: tuple[object, ...]) -> Generator[None]:
    """Add to errors within how to give sizes, if the last argument looks like sizes."""
    try:
        yield
    except (TypeError, GraphError) as error:
        sizes = args[-1] if args else None
        if isinstance(sizes, Mapping) and all(
            isinstance(size, (int, list, range)) for size in sizes.values()
        ):
            way = f"sizes are given by name, after the arguments: sizes={sizes}"
            error.args = (f"{error.args[0]}\n  hint: {way}", *error.args[1:])
        raise


class SizedFunction(DecoratedFunction, Showing, Generic[FamilyT]):
    """A function that is compiled when it is called.

    Calls that differ only in sizes form one family, and may share a program.
    """

    _contents_of_file: ContentsOf  # returns the contents of an exported file

    def __init__(
        self,
        function: Callable[..., object],
        arguments: Arguments,
        shapes: object,
        options: Options,
    ) -> None:
        update_wrapper(self, function)
        self._function = function
        self._arguments = arguments
        self._shapes = shapes
        self._options = replace(options, name=str(getattr(function, "__name__", "")))
        if options.decisions is not None:
            options.decisions.require_function(name_of(function))
        # Keys: everything but sizes, and the axes of at most one element.
        self._families: dict[tuple[Hashable, object], FamilyT] = {}
        self._calls = 0
        self._known = KnownCalls()

    @abstractmethod
    def _new_family(self, form: JaxCall, specs: list[Spec]) -> FamilyT:
        """Create the family for calls of this form."""

    def _family(self, call: JaxCall, specs: list[Spec], sizes: ShapesOfCall) -> FamilyT:
        kind = call.kind(specs)
        try:
            like = self._family_with_names(kind, sizes)
            apart = self._has_small_apart or like is not None
            key = kind, small_axes(sizes) if apart else ()
            family = self._families.get(key)
        except TypeError as error:
            statics = ", ".join(str(where) for where, _ in call.statics)
            problem = f"static arguments must be hashable ({statics}): {error}"
            raise TypeError(problem) from None
        if family is None:
            siblings = [one for (of, _), one in self._families.items() if of == kind]
            family = self._new_family(call.without_leaves(), specs)
            self._families[key] = family
            if apart:
                family.learn_from_siblings(siblings, sizes, like)
        return family

    @cached_property
    def _has_small_apart(self) -> bool:
        """Whether calls with axes of at most one element form families of their own.

        They do not if `dims` maps the default names n, m, k, which follow the order of
        the axes: next to such an axis, different axes would get these names.
        """
        return not self._has_names_in_order and self._options.mesh is None

    @cached_property
    def _has_names_in_order(self) -> bool:
        """Whether `dims` has policies by name, though `shapes` names no axes."""
        return self._shapes is None and isinstance(self._options.dims, Mapping)

    def _family_with_names(self, kind: Hashable, sizes: ShapesOfCall) -> FamilyT | None:
        """The family of longer axes that gives a call with small axes its names."""
        if not self._has_names_in_order or self._options.mesh is not None:
            return None
        longer = self._families.get((kind, ()))
        return longer if longer is not None and longer.names_small(sizes) else None

    @abstractmethod
    def __call__(self, /, *args: object, **named: object) -> Any:
        """Compute the results for these arguments."""

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> NoReturn:
            elsewhere = _SUBSTITUTES.get(name, "")
            message = f"a function of graphc.jit has no attribute {name!r}{elsewhere}"
            raise AttributeError(message, name=name, obj=self)

    def __get__(self, instance: object, owner: object = None) -> object:
        return self if instance is None else MethodType(self, instance)

    @called_first
    def stats(self) -> JitStats:
        """Calls and compilations so far, and the reasons for exact compilations."""
        return stats_of(self._calls, self._families.values())

    @property
    def decisions(self) -> SavedDecisions:
        """The decisions about sizes so far, to save for other processes; see `jit`."""
        return decisions_in(self._families.values())

    @hide_own_frames
    def explain(self, full: bool = False) -> str:
        """Describe the compiled programs, their sizes, and the reasons."""
        return explanation_of(self._function, self._families.values(), full)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of the programs for many sizes; the one in use comes last."""
        families = self._families.values()
        return tuple([p.compiled.plan for family in families for p in family.programs])

    def _picture(self) -> Picture:
        families = list(self._families.values())
        return picture_of(self._function, families, self.stats().calls)

    def compiles(self, owner: object) -> bool:
        """Whether the owner of a compilation is this function or part of it."""
        return owner is self or any(
            function.compiles(owner)
            for family in self._families.values()
            for function in family.functions()
        )

    def _program_at(self, family: FamilyT, sizes: ShapesOfCall) -> Any:
        """The program for many sizes that serves a call; None for an exact one."""
        if not family.wants_program(sizes):
            return None
        limit = forbidding_limit(self)
        if limit is not None:
            try:
                family.require_ready(sizes, limit)
            except Refused as refused:
                self._withdraw(refused)
                raise
        return family.program_at(sizes)

    def _withdraw(self, refused: Refused) -> None:
        """Tell the other processes of a mesh that a call was refused before it ran."""
        mesh = self._options.mesh
        if mesh is not None and mesh.processes:
            withdraw_from(jax, mesh.processes, refused.problem, ())

    def _error_of_refusal(
        self,
        error: Refused | NoCompileError,
        args: tuple[object, ...],
        named: Mapping[str, object],
    ) -> NoCompileError:
        """The error for a call that needs a compilation while none is allowed."""
        return refusal_of(error, self._function, args, named)

    @hide_own_frames
    def compile(
        self,
        /,
        *args: object,
        sizes: Mapping[str, SizesGiven] | None = None,
        **named: object,
    ) -> list[JitCompilation]:
        """Compile now for calls with such arguments, so that no call has to wait.

        The arguments are as for a call, or their types (`jax.ShapeDtypeStruct`). With
        `sizes`, such as `{"n": range(1, 1000)}`, the function is compiled for all of
        these. Sizes go by the names that `shapes=` gives to axes, or that a type has:
        `jax.ShapeDtypeStruct((n,), ...)` where `n, = jax.export.symbolic_shape("n")`.
        If there are several sizes, one program serves as many of them as possible,
        padded unless `dims` says otherwise. Sizes that depend on data are also given
        here, by their names. Returns what was compiled, as in `stats()`. Raises
        GraphError for other names.
        """
        before = len(self.stats().compilations)
        with lift_limits(), _hint_on_sizes(args):
            call = self._arguments.call(args, named)
            specs = self._specs_ahead(call)
            ahead = CallsAhead.of(call, specs, self._shapes, sizes or {})
            if ahead.alike is None:
                programs = self._programs_ahead(ahead.calls)
            else:
                programs = self._programs_for_ranges(ahead, ahead.alike)
            for one in programs:
                one.compile(ahead.others)
            if not programs:
                ahead.require_no_others()
        return self.stats().compilations[before:]

    def _programs_ahead(
        self, calls: list[tuple[JaxCall, list[Spec]]]
    ) -> Collection[SizesAhead]:
        """Return the programs for calls, with their sizes; JAX compiles its own now."""
        programs: dict[int, SizesAhead] = {}
        families = [self._family(*call, shapes_of(call[1])) for call in calls]
        counts = Counter(map(id, families))
        for family, (_, specs) in zip(families, calls, strict=True):
            if counts[id(family)] > 1:
                family.expect(shapes_of(specs))
        for family, (call, specs) in reversed([*zip(families, calls, strict=True)]):
            program = self._program_at(family, shapes_of(specs))
            program = program or self._compile_exactly(family, call, specs)
            if program is not None:
                new = SizesAhead(program)
                programs.setdefault(id(program), new).add(call, specs)
        return programs.values()

    def _programs_for_ranges(
        self, ahead: CallsAhead, alike: AlikeSizes
    ) -> Collection[SizesAhead]:
        """Return the programs as `_programs_ahead` does, for all of some ranges."""
        for call, specs in map(ahead.at, alike.examples()):
            sizes = shapes_of(specs)
            self._family(call, specs, sizes).expect(sizes, beside=True)
        programs: dict[int, SizesAhead] = {}
        alone: list[dict[str, int]] = []
        tried = TriedCalls(
            alike, partial(self._program_at_named_sizes, ahead, self._program_for_call)
        )
        for program, ways in tried.sizes_with_programs():
            if program is None:
                alone.append({name: n for name, (n,) in ways.items()})
                continue
            one = programs.setdefault(id(program), SizesAhead(program))
            one.several += ways_of_plan(
                alike, program, ways, partial(one.sizes_at, ahead)
            )
        exactly = partial(self._program_at_named_sizes, ahead, self._compile_exactly)
        for by_name in alone:
            program = tried.attempt(exactly, by_name)
            if program is not None:
                one = programs[id(program)] = SizesAhead(program)
                one.add(*ahead.at(by_name))
        if not programs:
            tried.require_one(alone)
        return programs.values()

    def _program_at_named_sizes(
        self,
        ahead: CallsAhead,
        program_of: Callable[[FamilyT, JaxCall, list[Spec]], ManySizes | None],
        sizes: Mapping[str, int],
    ) -> ManySizes | None:
        """The program for a call of these named sizes; None if it is compiled alone."""
        call, specs = ahead.at(sizes)
        family = self._family(call, specs, shapes_of(specs))
        try:
            return program_of(family, call, specs)
        except BaseException:
            family.forget(shapes_of(specs))
            raise

    def _program_for_call(
        self, family: FamilyT, call: JaxCall, specs: list[Spec]
    ) -> ManySizes | None:
        return self._program_at(family, shapes_of(specs))

    @abstractmethod
    def _specs_ahead(self, call: JaxCall) -> list[Spec]:
        """The types of a call's leaves, where a leaf may itself be a type."""

    @abstractmethod
    def _compile_exactly(
        self, family: FamilyT, call: JaxCall, specs: list[Spec]
    ) -> Any:
        """The program for a call of these sizes alone; None if JAX has compiled it."""

    def _export_request(self, call: JaxCall) -> ExportRequest:
        """Return the function and its types to export; raises GraphError if refused."""
        if self._options.backend != "jax":
            hint = 'leave backend="numpy" out'
            problem = "a NumPy program cannot be exported"
            raise graph_error(problem, op="export", hint=hint)
        if self._options.mesh is not None:
            problem = "a program whose sizes are sharded cannot be exported yet"
            hint = "export it without Shard, for one device"
            raise graph_error(problem, op="export", hint=hint)
        specs = self._specs_ahead(call)
        return export_request(self._function, call, specs, self._shapes, self._options)

    @hide_own_frames
    def export(
        self,
        path: str | PathLike[str],
        /,
        *args: object,
        sizes: Mapping[str, SizesGiven] | None = None,
        graph: bool = False,
        platform: str | None = None,
        platforms: Sequence[str] | None = None,
        **named: object,
    ) -> None:
        """Write a model to a file, which `graphc.load` and `graphc_serving.load` read.

        After the path come arguments of the function, as for a call: arrays, numbers,
        or types of arrays (`jax.ShapeDtypeStruct`). Static arguments are fixed to the
        values given and are not arguments of the model; the others keep their places,
        names and structures. The model serves the sizes of these arguments, or those in
        `sizes`, such as `{"n": [8, 16]}`, by the names that `shapes=` gives to axes, or
        that a type has: `jax.ShapeDtypeStruct((n,), ...)` where `n, =
        jax.export.symbolic_shape("n")`.

        Each size has a program of its own, as the function is compiled for it. With
        `dims="pad"` or another policy, one program serves all sizes that it has room
        for. With `graph`, the file also holds the graph, for other sizes. Both require
        a function that does not decide by a size. `platform` and `platforms` are as for
        `graphc.function(...).export`. Raises GraphError for what a file cannot hold:
        results whose structure depends on sizes, arguments and results in containers
        other than lists, tuples and dicts, keys, and effects.
        """
        needed("export")
        default_platform = default_export_platform()
        on = platforms_of(platform, platforms, default_platform)
        with _hint_on_sizes(args):
            try:
                asking = self._export_request(self._arguments.call(args, named))
                contents, whole = self._contents_of_file(asking, sizes or {}, on, graph)
            except TypeError as error:
                if not args and not named:
                    hint = "; arguments follow the path, as in f.export(path, x)"
                    error.args = (f"{error}{hint}",)
                raise
        write_whole(path, file_bytes(contents, whole if graph else None))

    @property
    def source(self) -> ProgramText:
        """The texts of the compiled programs: of graphs, or of jaxprs."""
        return source_of(self._families.values())

    def __repr__(self) -> str:
        return f"<graphc.jit of {self._function!r}>"
