"""`graphc.jit(function, frontend="numpy")`: functions written with NumPy's names."""

from collections.abc import Callable, Mapping
from functools import cached_property

import jax
import jax.core

from graphc.errors import GraphError, NoCompileError
from graphc.importers.jax.call.known_calls import OnLeaves
from graphc.importers.jax.call.sized_function import SizedFunction
from graphc.importers.jax.read.settings import runs_plainly, traces_nothing
from graphc.importers.jax.sizes.pattern import ShapesOfCall, shapes_of
from graphc.importers.jax.trace.arguments import JaxCall
from graphc.importers.jax.trace.in_order import in_order
from graphc.importers.jax.trace.tracing import Spec
from graphc.importers.numpy.arguments import specs_of
from graphc.importers.numpy.export import contents_of_file, numpy_specs
from graphc.importers.numpy.family import NumpyFamily, NumpyProgram
from graphc.importers.numpy.libraries import tell_names_of_numpy
from graphc.importers.numpy.traced.arrays import TracedArray
from graphc.importers.numpy.traced.memory import is_tracing
from graphc.ir.tracebacks import drop_own_frames
from graphc.runtime.driver.stance import Refused


class NumpyFunction(SizedFunction[NumpyFamily]):
    """A function for NumPy that is compiled when it is called; see `jit`."""

    _contents_of_file = staticmethod(contents_of_file)

    def _parts(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._function, (self._arguments, self._shapes, self._options)

    def __call__(self, /, *args: object, **named: object) -> object:
        """Compute the results for these arguments, as the function itself would.

        If JAX traces the arguments, the program runs as plain JAX.
        """
        known = None
        if not named and traces_nothing():  # the keys hold JAX's other settings
            known = self._known.find_by_places(args)
        if known is None and (runs_plainly() or self._is_within(args, named)):
            return self._function(*args, **named)
        try:
            results = self._results(known, args, named)
        except (Refused, NoCompileError) as error:
            raise self._error_of_refusal(error, args, named) from None
        except Exception as error:
            tell_names_of_numpy(error)
            drop_own_frames(error)
            raise
        self._calls += 1
        return results

    def _is_within(self, args: tuple[object, ...], named: Mapping[str, object]) -> bool:
        """Whether a traced function calls this one, which then becomes part of it."""
        if not is_tracing():
            return False
        leaves = jax.tree.leaves(in_order((args, named)))
        return any(isinstance(leaf, TracedArray) for leaf in leaves)

    def _results(
        self,
        known: OnLeaves | None,
        args: tuple[object, ...],
        named: Mapping[str, object],
    ) -> object:
        """Compute the results of a call, by the function for calls like it if known."""
        if known is not None:
            try:
                return known(*args)
            except NoCompileError:
                raise
            except GraphError:  # the slow path below tells why
                self._known.forget(args, named)
        results, run = self._run_new_call(args, named)
        # Dicts keep the order of their keys, which the key of a call does not record.
        may_have_key = self._may_have_keys and not named and traces_nothing()
        if may_have_key and run is not None and jax.tree_util.all_leaves(args):
            self._known.remember(args, named, run)
        return results

    @cached_property
    def _may_have_keys(self) -> bool:
        return not self._arguments.have_statics and self._options.mesh is None

    def _run_new_call(
        self, args: tuple[object, ...], named: Mapping[str, object]
    ) -> tuple[object, OnLeaves | None]:
        """Compute the results of a call; return the function for calls like it, too.

        The function is None if JAX traces the call.
        """
        call = self._arguments.call(args, named)
        specs = specs_of(call, self._function)
        sizes = shapes_of(specs)
        family = self._family(call, specs, sizes)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in call.leaves):
            return family.alone(sizes).in_jax(call, specs), None
        try:
            return self._run_by_family(family, call, specs, sizes)
        except BaseException:
            family.forget(sizes)
            raise

    def _run_by_family(
        self,
        family: NumpyFamily,
        call: JaxCall,
        specs: list[Spec],
        sizes: ShapesOfCall,
    ) -> tuple[object, OnLeaves]:
        """Do what `_run_new_call` does, for a call of this family."""
        program = self._program_at(family, sizes)
        if program is not None:
            try:
                results = program(call, specs)
            except NoCompileError:
                raise
            except GraphError:  # raised again below if the arguments are at fault
                pass
            else:
                results = family.results(sizes, results)
                return results, program.runner(call, specs)
        alone = family.alone(sizes)
        results = family.results(sizes, alone(call, specs))
        if program is not None:
            family.compile_alone_from_now(sizes)
        return results, alone.runner(call, specs)

    def _specs_ahead(self, call: JaxCall) -> list[Spec]:
        return numpy_specs(call, self._function)

    def _compile_exactly(
        self, family: NumpyFamily, call: JaxCall, specs: list[Spec]
    ) -> NumpyProgram:
        return family.alone(shapes_of(specs))

    def _new_family(self, form: JaxCall, specs: list[Spec]) -> NumpyFamily:
        return NumpyFamily(self._function, form, specs, self._shapes, self._options)
