"""A JAX function that `graphc.jit` compiles for many sizes at once."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import jax
from jax.export import is_symbolic_dim

from graphc.errors import GraphError, NoCompileError, graph_error, raise_of_processes
from graphc.importers.jax.call.exact import CompilationTimes
from graphc.importers.jax.call.exact_export import ExportRequest
from graphc.importers.jax.call.export import contents_of_file, jax_specs
from graphc.importers.jax.call.known_calls import OnLeaves
from graphc.importers.jax.call.placement import is_typed_by_mesh, why_left_to_jax
from graphc.importers.jax.call.program import JaxProgram
from graphc.importers.jax.call.report import JitStats, stats_of
from graphc.importers.jax.call.sized_function import SizedFunction
from graphc.importers.jax.call.traced_family import JaxFamily
from graphc.importers.jax.call.unread import leaves_at_other_sizes
from graphc.importers.jax.call.way_out import tell_way_out
from graphc.importers.jax.jit_options import JitOptions
from graphc.importers.jax.read.settings import (
    guards_transfers,
    runs_plainly,
    traces_nothing,
)
from graphc.importers.jax.sizes.pattern import shapes_of
from graphc.importers.jax.trace.arguments import Arguments, JaxCall
from graphc.importers.jax.trace.choices import Options
from graphc.importers.jax.trace.tracing import Spec, is_array
from graphc.ir.called_first import called_first
from graphc.ir.tracebacks import drop_own_frames, hide_own_frames
from graphc.runtime.call.arguments import ArgumentValues
from graphc.runtime.call.dispatch import Route, acquiring
from graphc.runtime.driver import stance
from graphc_serving import private_jax

if TYPE_CHECKING:
    from jax.stages import Lowered, Traced


GUARDED = "a program for many sizes takes sizes from the host, which is disallowed"


def _miss_of(
    jitted: Callable[..., object],
) -> Callable[..., tuple[object, None, bool]]:
    """Return a cache-miss function that runs `jitted`, with nothing for JAX to keep."""
    return lambda *args, **named: (jitted(*args, **named), None, False)


def _has_symbols(leaf: object) -> bool:
    """Whether an argument has sizes that are symbols of `jax.export`."""
    return any(map(is_symbolic_dim, getattr(leaf, "shape", ())))


class SizesVary(Exception):
    """Raised while JAX traces a call that a program for many sizes should serve."""


class JitFunction(SizedFunction[JaxFamily]):
    """A JAX function that is compiled when it is called; see `jit`."""

    def __init__(
        self,
        function: Callable[..., object],
        as_jax: JitOptions,
        shapes: object,
        options: Options,
    ) -> None:
        arguments = Arguments(function, as_jax.static_argnums, as_jax.static_argnames)
        super().__init__(function, arguments, shapes, options)
        planned = self._run_for_trace
        named = wraps(function)(lambda *args, **named: planned(*args, **named))
        self._exact = as_jax.jitted(named)
        self._plain = as_jax.jitted(function)
        for name in ("__name__", "__qualname__"):  # in case the function has none
            vars(self).setdefault(name, getattr(self._plain, name, ""))
        self._as_jax = as_jax
        self._varies = shapes is not None
        self._placements = stance.Placements()
        self._in_a_row = False  # whether JAX dispatched the last call
        self._uncounted = 0  # calls that failed, or that JAX transformed or ran plainly
        self._compilation_times = CompilationTimes()
        self._choose_routes()

    def _parts(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._function, (self._as_jax, self._shapes, self._options)

    def _choose_routes(self) -> None:
        """Let JAX dispatch the calls that are compiled exactly."""
        self._miss = private_jax.cache_miss(self._exact) or _miss_of(self._exact)
        self._miss_plainly = private_jax.cache_miss(self._plain) or _miss_of(
            self._plain
        )
        jax_dispatcher: Any = private_jax.dispatched(
            jax, self._exact, self._run_new_call, self._call
        )
        self._dispatcher = jax_dispatcher or self._exact  # keeps what is compiled
        self._by_jax = Route(jax_dispatcher or self._call)
        self._by_key = Route(self._call_like_before)
        self._acquire = self._by_jax.acquire

    if TYPE_CHECKING:

        def __call__(self, /, *args: object, **named: object) -> Any:
            """Compute the results for these arguments."""

    else:
        __call__ = acquiring("The results, as `jax.jit` of the function gives them.")

    @hide_own_frames
    def _call(self, /, *args: object, **named: object) -> object:
        """Run a call that JAX does not dispatch: it may not compile, or has changed."""
        if runs_plainly():
            self._uncounted += 1
            return self._function(*args, **named)
        return self._run_new_call(*args, **named)[0]

    def _call_like_before(self, /, *args: object, **named: object) -> object:
        """Run a call by the program for many sizes that ran the last one, or by JAX.

        Calls that JAX dispatches have keys here too, so that one of them in between
        does not cause a search in both places. After two of them in a row, JAX gets
        every call first.
        """
        known = None
        if traces_nothing():  # the keys hold JAX's other settings
            known = self._known.find(args, named)
            if known is not None and known[0] is not self._dispatcher:
                run, leaves = known
                self._in_a_row = False
                try:
                    return run(*leaves)
                except FloatingPointError:  # a NaN: JAX finds the user's line
                    pass
                except GraphError as error:
                    self._forget_failed_call(error, args, named)
                    known = None
        if known is None or self._in_a_row:
            self._acquire = self._by_jax.acquire
        self._in_a_row = True
        try:
            results = self._dispatcher(*args, **named)
        except Exception as error:
            drop_own_frames(error)
            raise
        if known is None and traces_nothing() and not self._known.find(args, named):
            self._remember(args, named, self._dispatcher)
            self._acquire = self._by_jax.acquire
        return results

    def _forget_failed_call(
        self, error: GraphError, args: tuple[object, ...], named: Mapping[str, object]
    ) -> None:
        """Send calls like one that failed down the slow path, which tells why.

        Raises the errors that are not the program's fault: a call needs a compilation
        while none is allowed, or processes differ.
        """
        if isinstance(error, NoCompileError):
            raise self._error_of_refusal(error, args, named) from None
        raise_of_processes(error)
        self._known.forget(args, named)

    def _remember(
        self, args: tuple[object, ...], named: Mapping[str, object], run: OnLeaves
    ) -> None:
        """Run calls like this one directly by `run` from now on."""
        if not self._arguments.have_statics and self._known.remember(args, named, run):
            self._acquire = self._by_key.acquire

    def _run_new_call(self, /, *args: object, **named: object) -> Any:
        """Run a call new to JAX; return the results and what JAX may keep of it."""
        if not traces_nothing():
            self._uncounted += 1
            return self._plain(*args, **named), None, False
        known = self._known.find(args, named)
        if known is not None and known[0] is not self._dispatcher:
            self._acquire = self._by_key.acquire  # among calls that JAX dispatches
            return self._call_like_before(*args, **named), None, False
        if known is not None:  # JAX has forgotten what it compiled
            self._known.forget(args, named)
        try:
            with stance.attribute_compilations(self, getattr(self, "__name__", "")):
                return self._run_timed(args, named)
        except (stance.Refused, NoCompileError) as error:
            raise self._error_of_refusal(error, args, named) from None
        except Exception as error:
            tell_way_out(error)
            drop_own_frames(error)
            raise

    def _run_timed(
        self, args: tuple[object, ...], named: Mapping[str, object]
    ) -> object:
        """Run a new call outside of JAX's transformations."""
        leaves = jax.tree.leaves((args, dict(named)))

        def sizes() -> tuple[object, ...]:
            return tuple(getattr(x, "shape", ()) for x in leaves)

        try:
            self._placements.require(self, sizes, leaves)
            with self._compilation_times.time_call(sizes):
                answer = self._run_by_route(args, named)
        except BaseException:
            self._uncounted += 1
            raise
        self._placements.note(sizes, leaves)
        return answer

    def _run_by_route(
        self, args: tuple[object, ...], named: Mapping[str, object]
    ) -> object:
        if not self._varies:
            try:
                return self._miss(*args, **named)
            except SizesVary:
                self._varies = True
        return self._run_by_sizes(args, named)

    def _run_by_sizes(
        self, args: tuple[object, ...], named: Mapping[str, object]
    ) -> object:
        """Run a new call, by a program for many sizes if there is one."""
        try:
            call = self._arguments.call(args, named)
            if any(isinstance(x, jax.ShapeDtypeStruct) for x in call.leaves):
                raise TypeError("the type of an array is no array")
            specs = call.specs()
            family = self._family(call, specs, shapes_of(specs))
        except TypeError:  # an argument is no array: JAX says which
            return self._miss_plainly(*args, **named)
        mesh = self._options.mesh
        left = next(filter(None, [why_left_to_jax(x, mesh) for x in call.leaves]), "")
        if left:
            family.leave_to_jax(left)
            return self._miss_plainly(*args, **named)
        try:
            return self._run_by_family(family, call, specs, args, named)
        except BaseException:
            family.forget(shapes_of(specs))
            raise

    def _run_by_family(
        self,
        family: JaxFamily,
        call: JaxCall,
        specs: list[Spec],
        args: ArgumentValues,
        named: Mapping[str, object],
    ) -> object:
        """Run a call of this family as `_run_by_sizes` does."""
        sizes = shapes_of(specs)
        program = self._program_at(family, sizes)
        if program is not None:
            run = self._run_of_first(family, program, call, specs)
            run = run or program.runner(call, specs)
            try:
                results_of_run = run(*call.leaves)
            except NoCompileError:
                raise
            except FloatingPointError:  # a NaN: JAX finds the user's line
                return self._miss_plainly(*args, **named)
            except GraphError as error:
                raise_of_processes(error)
                family.compile_alone_from_now(sizes)
            else:
                results = family.results(sizes, results_of_run)
                self._remember(args, named, run)
                return results, None, False
        results_of_run, *fast_path = self._miss(*args, **named)
        return family.results(sizes, results_of_run), *fast_path

    def _run_of_first(
        self, family: JaxFamily, program: JaxProgram, call: JaxCall, specs: list[Spec]
    ) -> OnLeaves | None:
        """Return a run of the first program; None if it does not serve this call."""
        first = family.first_for(program, shapes_of(specs))
        if first is None or self._as_jax.donates:
            return None
        unread = leaves_at_other_sizes(call.leaves, specs, first.sizes)
        if unread is None:
            return None

        def run(*leaves: object) -> object:
            first_leaves = [unread.get(i, leaf) for i, leaf in enumerate(leaves)]
            args, named = call.arguments(first_leaves)
            return self._exact(*args, **named)

        return run

    def _run_for_trace(self, /, *args: object, **named: object) -> object:
        """The function for JAX to trace; raises SizesVary if JAX need not trace it.

        While JAX looks for a NaN that it was told to report, it runs the function op by
        op.
        """
        if traces_nothing():
            return self._function(*args, **named)
        call = self._arguments.call(args, named)
        if any(is_typed_by_mesh(x) or _has_symbols(x) for x in call.leaves):
            return self._function(*args, **named)
        specs = call.specs()
        sizes = shapes_of(specs)
        family = self._family(call, specs, sizes)
        if family.wants_program(sizes):
            raise SizesVary
        try:
            stance.note_compilation(self)
            if not all(map(is_array, call.leaves)):
                return self._function(*args, **named)
            traced = self._compilation_times.trace_timed(lambda: family.trace(sizes))
        except BaseException:
            family.forget(sizes)
            raise
        return traced(call.leaves)

    def _new_family(self, form: JaxCall, specs: list[Spec]) -> JaxFamily:
        description = self._function, form, specs, self._shapes, self._options
        guarded = GUARDED if guards_transfers() else ""
        family = JaxFamily(*description, withheld=self._as_jax.reason or guarded)
        family.keeps = self._as_jax.donates
        return family

    _contents_of_file = staticmethod(contents_of_file)

    def _export_request(self, call: JaxCall) -> ExportRequest:
        if self._as_jax.reason:
            raise graph_error(self._as_jax.reason, op="export", hint="leave them out")
        return super()._export_request(call)

    def _specs_ahead(self, call: JaxCall) -> list[Spec]:
        return jax_specs(call, self._function)

    def _compile_exactly(
        self, family: JaxFamily, call: JaxCall, specs: list[Spec]
    ) -> None:
        args, named = call.arguments(call.leaves)
        with self._compilation_times.time_call(lambda: shapes_of(specs)):
            self._exact.lower(*args, **named).compile()

    @called_first
    def stats(self) -> JitStats:
        """Calls and compilations so far, and the reasons for exact compilations."""
        calls = self._by_jax.calls + self._by_key.calls
        return stats_of(calls - self._uncounted, self._families.values())

    def lower(self, /, *args: object, **named: object) -> "Lowered":
        """Lower one exact compilation for these arguments, as in JAX."""
        return self.trace(*args, **named).lower()

    def trace(self, /, *args: object, **named: object) -> "Traced":
        """Trace one exact compilation for these arguments, as in JAX."""
        with stance.lift_limits():
            try:
                return self._exact.trace(*args, **named)
            except SizesVary:
                return self._plain.trace(*args, **named)

    def eval_shape(self, /, *args: object, **named: object) -> Any:
        """The types of the results for these arguments, as in JAX."""
        return self._plain.eval_shape(*args, **named)

    def clear_cache(self) -> None:
        """Forget what was compiled, as in JAX, and the sizes seen so far."""
        self._families.clear()
        self._known.clear()
        self._varies = self._shapes is not None
        for jitted in (self._exact, self._plain, self._dispatcher):
            jitted.clear_cache()
